//! What a user may say about a link.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gush::{Choice, Rate};

use super::ends;
use super::record::{Failure, Record};
use super::roles::Roles;
use super::tee::Tee;
use crate::address::Kind;
use crate::open::{End, How};
use crate::proxy::Version;
use crate::{Counts, Options};

/// How a link behaves. The default relays both ways without limits.
///
/// ```
/// use std::time::Duration;
/// use gush_net::link::Settings;
/// let settings = Settings { idle: Some(Duration::from_secs(60)), ..Settings::default() };
/// assert!(!settings.one_way);
/// ```
#[derive(Clone, Default)]
pub struct Settings {
    /// Only from the first address to the second.
    pub one_way: bool,
    /// Ends a connection when nothing has moved for so long.
    pub idle: Option<Duration>,
    /// Ends a connection when one end has ended and nothing has moved for so long.
    pub linger: Option<Duration>,
    /// How long clients may go on when the link drains before they are cut; half a minute if it is not said.
    pub drain: Option<Duration>,
    /// Limits each direction of each connection to so many bytes a second.
    pub limit: Option<Rate>,
    /// The method that moves the bytes.
    pub method: Choice,
    /// Hands no page of a file to a socket or pipe by reference.
    pub isolated: bool,
    /// Pieces up to so many bytes are short: read and written rather than spliced
    /// ([`Options::short_message_bytes`]).
    pub short_message_bytes: Option<usize>,
    /// Reads a PROXY header from each client, which says where it really comes from.
    pub accept_proxy: bool,
    /// Begins each connection to the other address with a PROXY header.
    pub send_proxy: Option<Version>,
    /// Gets a copy of what goes from the first address to the second.
    pub tee: Option<Arc<Tee>>,
    /// Gets a copy of what comes back.
    pub tee_back: Option<Arc<Tee>>,
    /// `HOST:PORT` where the metrics can be had over HTTP.
    pub metrics: Option<String>,
    /// Threads at most; one a processor if it is not said.
    pub threads: Option<usize>,
    /// Is told of every connection that has ended.
    pub on_end: Option<OnEnd>,
}

/// What is told of every connection that has ended.
pub type OnEnd = Arc<dyn Fn(&Record) + Send + Sync>;

impl Settings {
    /// Refuses what cannot be followed.
    pub(super) fn check(&self, roles: &Roles) -> Result<(), Failure> {
        if self.accept_proxy && roles.server.is_none() {
            let why = "accepting a PROXY header takes an address that listens: clients send it";
            return Err(Failure::new(why, None));
        }
        let ends = [&roles.server, &roles.first, &roles.second].into_iter().flatten();
        let is_datagrams = |kind| matches!(kind, Kind::Udp | Kind::UdpListen);
        if let Some(end) = ends.clone().find(|end| is_datagrams(end.kind()))
            && (self.accept_proxy && end.kind().listens()
                || self.send_proxy.is_some() && !end.kind().listens())
        {
            let why = format!(
                "{}: a PROXY header begins a stream, and these are datagrams: its receiver would take it for one",
                end.target()
            );
            return Err(Failure::new(why, None));
        }
        if self.one_way && self.tee_back.is_some() {
            let why = "one way only, there is nothing that comes back to be copied";
            return Err(Failure::new(why, None));
        }
        Ok(())
    }

    /// Refuses what would read for ever what it writes.
    pub(super) fn check_ends(&self, first: &End, second: &End) -> Result<(), Failure> {
        let (a, b) = (&first.conduit, &second.conduit);
        let back = (!self.one_way).then(|| (b.read_fd(), a.write_fd()));
        for (source, target) in [Some((a.read_fd(), b.write_fd())), back].into_iter().flatten() {
            if ends::is_same_file(source, target) {
                let why = format!("{}: input is output: it would read what it writes", second.peer);
                return Err(Failure::new(why, None));
            }
        }
        let copies = [(&self.tee, a.read_fd(), first), (&self.tee_back, b.read_fd(), second)];
        for (tee, source, end) in copies {
            if tee.as_ref().is_some_and(|tee| ends::is_same_file(source, Some(tee.fd()))) {
                let why =
                    format!("{}: the copy would go into the file that it is a copy of", end.peer);
                return Err(Failure::new(why, None));
            }
        }
        Ok(())
    }

    /// What an address is opened for: the first one, or the second.
    pub(super) fn how(&self, first: bool) -> How {
        match (self.one_way, first) {
            (false, _) => How::default(),
            (true, true) => How::default().read_only(),
            (true, false) => How::default().write_only(),
        }
    }

    /// What the relay of one connection is told.
    pub(super) fn relay(&self, counts: Arc<Counts>) -> Options {
        let mut options = Options::new().counting(counts).method(self.method).sees_failures();
        if let Some(idle) = self.idle {
            options = options.idle(idle);
        }
        if let Some(linger) = self.linger {
            options = options.linger(linger);
        }
        if let Some(limit) = self.limit {
            options = options.limit(limit);
        }
        if self.isolated {
            options = options.isolated();
        }
        if let Some(bytes) = self.short_message_bytes {
            options = options.short_message_bytes(bytes);
        }
        match (&self.tee, &self.tee_back) {
            (None, None) => options,
            (forward, back) => {
                let tees = [forward.clone(), back.clone()];
                options.observe(move |way, bytes| {
                    if let Some(tee) = &tees[way as usize] {
                        tee.write(bytes);
                    }
                })
            }
        }
    }

    /// How many threads may serve clients.
    pub(super) fn most_threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(processors).max(1)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("one_way", &self.one_way)
            .field("idle", &self.idle)
            .field("linger", &self.linger)
            .field("drain", &self.drain)
            .field("limit", &self.limit)
            .field("method", &self.method)
            .field("accept_proxy", &self.accept_proxy)
            .field("send_proxy", &self.send_proxy)
            .field("metrics", &self.metrics)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
