//! The settings of a link.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gush::{Choice, Rate};
use gush_net::{ByteCounts, Direction, RelayOptions};

use crate::address::options::SHAPES;
use crate::address::{Address, Opt};
use crate::ends;
use crate::handover;
use crate::open::{End, OpenOptions, fits};
use crate::proxy::Version;
use crate::record::{Failure, Record};
use crate::roles::Roles;
use crate::tee::Tee;

/// The default of [`Settings::drain`].
const DRAIN: Duration = Duration::from_secs(30);

/// The behaviour of a link. The default relays both ways without limits.
///
/// ```
/// use std::time::Duration;
/// use gush_link::Settings;
/// let settings = Settings { idle: Some(Duration::from_secs(60)), ..Settings::default() };
/// assert!(!settings.one_way);
/// ```
#[derive(Clone, Default)]
pub struct Settings {
    /// Moves bytes from the first address to the second only.
    pub one_way: bool,
    /// Opens the second address before the first.
    pub reversed: bool,
    /// The link is part of another command, so messages advise no options of `gush link`.
    pub is_part: bool,
    /// Ends a connection when nothing has moved for so long.
    pub idle: Option<Duration>,
    /// Ends a connection when one end has ended and nothing has moved for so long.
    pub linger: Option<Duration>,
    /// Ends a connection that fails as one that finishes: its peers see an end of data and not a
    /// reset. No time limit ends a connection while bytes wait for a reader, and `idle` is no
    /// failure. A program of `shell:` that is not waited for is left alone, and one of `exec:` gets
    /// SIGTERM, but is never killed.
    pub graceful: bool,
    /// How long clients may go on once the link drains, before they are cut; 30 s by default.
    /// Programs that have not ended after SIGTERM by then are killed.
    pub drain: Option<Duration>,
    /// Limits each direction of each connection to so many bytes a second.
    pub limit: Option<Rate>,
    /// The method that moves the bytes.
    pub method: Choice,
    /// Hands no page of a file to a socket or pipe by reference.
    pub isolated: bool,
    /// The most bytes of a datagram made of a piece of a stream; 8192 by default.
    pub message_bytes: Option<usize>,
    /// Reads a PROXY header, with the client's real address, from each client.
    pub accept_proxy: bool,
    /// Begins each connection to the other address with a PROXY header.
    pub send_proxy: Option<Version>,
    /// Gets a copy of the bytes from the first address to the second. 1 MiB waits for a slow
    /// reader, and then the connections wait; a reader that takes nothing for 10 s gets no more.
    pub tee: Option<Arc<Tee>>,
    /// Gets a copy of the bytes from the second address to the first: none with `one_way`.
    pub tee_back: Option<Arc<Tee>>,
    /// Takes over from the link that has this Unix socket, if there is one, and hands over to the
    /// next process that asks there. For a link that serves many clients.
    pub handover: Option<PathBuf>,
    /// Serves the metrics over HTTP at `HOST:PORT`.
    pub metrics: Option<String>,
    /// The most threads; one a processor by default.
    pub threads: Option<usize>,
    /// Makes an observer of the bytes of each connection. The bytes then pass through memory.
    pub observe: Option<Observe>,
    /// Gets the record of every ended connection.
    pub on_end: Option<OnEnd>,
}

/// Makes the observer of the connection with a number ([`Record::id`]). The observer sees each byte
/// once it is delivered, in order. The connection waits for the observer.
pub type Observe = Arc<dyn Fn(u64) -> Observer + Send + Sync>;

/// Sees the bytes of one connection.
pub type Observer = Box<dyn Fn(Direction, &[u8]) + Send + Sync>;

/// A function called with the record of every ended connection.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use gush_link::{Ending, Link, Settings, Stop};
///
/// let endings = Arc::new(Mutex::new(Vec::new()));
/// let seen = Arc::clone(&endings);
/// let on_end = Arc::new(move |record: &gush_link::Record| seen.lock().unwrap().push(record.ending));
/// let settings = Settings { on_end: Some(on_end), ..Settings::default() };
/// Link::new("null:".parse()?, "null:".parse()?, settings)?.run(&Stop::new())?;
/// assert_eq!(*endings.lock().unwrap(), [Ending::Closed]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OnEnd = Arc<dyn Fn(&Record) + Send + Sync>;

impl Settings {
    /// The option of `gush link` that would help, in brackets after a message.
    pub(crate) fn advice(&self, option: &str) -> String {
        if self.is_part { String::new() } else { format!(" ({option})") }
    }

    /// Refuses settings that contradict the addresses or each other.
    pub(crate) fn check(&self, roles: &Roles) -> Result<(), Failure> {
        if self.accept_proxy && !roles.server().is_some_and(|server| server.kind().listens()) {
            let why = "accepting a PROXY header takes an address that listens: clients send it";
            return Err(Failure::new(why, None));
        }
        let accepted = roles.server().filter(|_| self.accept_proxy);
        // The first of two that do not listen is the client.
        let other = self.send_proxy.map(|_| roles.other().unwrap_or(&roles.second));
        if self.send_proxy.is_some()
            && let Some(other) = roles.other().filter(|other| other.options().is_on(Opt::Shared))
        {
            let why =
                format!("{other}: all clients share it: no PROXY header can name one of them");
            return Err(Failure::new(why, None));
        }
        let is_written = !self.one_way || !roles.are_flipped();
        let sent = other.and_then(|other| datagrams(other, is_written));
        if let Some(end) = accepted.filter(|end| end.kind().row().is_datagrams).or(sent) {
            let why = format!(
                "{}: a PROXY header begins a stream, but these are datagrams: the receiver would take the header for one",
                end.locator()
            );
            return Err(Failure::new(why, None));
        }
        let written = [(!self.one_way).then_some(&roles.first), Some(&roles.second)];
        let ends = written.into_iter().flatten().filter_map(|address| datagrams(address, true));
        for end in ends {
            let most_bytes = end.kind().row().datagram_bytes;
            if self.message_bytes.is_some_and(|bytes| bytes > most_bytes) {
                let advice = self.advice(&format!("-b {most_bytes}"));
                let why = format!(
                    "{}: a datagram there has at most {most_bytes} bytes{advice}",
                    end.locator()
                );
                return Err(Failure::new(why, None));
            }
        }
        for (address, is_first) in [(&roles.first, true), (&roles.second, false)] {
            fits(address, &self.how(is_first)).map_err(|error| ends::open_failure(&error))?;
        }
        self.check_becoming(roles)?;
        handover::check(self, roles)
    }

    /// Refuses `nofork` where this process cannot become the program: others need it, or the other
    /// address is more than descriptors.
    fn check_becoming(&self, roles: &Roles) -> Result<(), Failure> {
        let becomes = |part: &&Address| part.options().is_on(Opt::NoFork);
        let (before, last) = match self.reversed {
            true => (&roles.second, &roles.first),
            false => (&roles.first, &roles.second),
        };
        let Some(program) = [before, last].into_iter().flat_map(Address::parts).find(becomes)
        else {
            return Ok(());
        };
        let is_converted = |part: &Address| {
            let kind = part.kind();
            let is_shaped = SHAPES.iter().any(|&option| part.options().has(option));
            kind.row().is_datagrams || kind.name().starts_with("tls") || is_shaped
        };
        let why = if program != last {
            "nofork is for the second address, which is opened last"
        } else if roles.forks() {
            "nofork is for a link's only connection: this process becomes the program"
        } else if self.send_proxy.is_some() || before.parts().into_iter().any(is_converted) {
            "with nofork the program has the other address as it is: without TLS, datagrams, a \
             PROXY header and options that change the data"
        } else {
            return Ok(());
        };
        Err(Failure::new(format!("{program}: {why}"), None))
    }

    /// Refuses ends whose connection would read its own output.
    pub(crate) fn check_ends(&self, first: &End, second: &End) -> Result<(), Failure> {
        let (a, b) = (&first.conduit, &second.conduit);
        let back = (!self.one_way).then(|| (b.read_fd(), a.write_fd()));
        for (source, target) in [Some((a.read_fd(), b.write_fd())), back].into_iter().flatten() {
            if ends::is_same_file(source, target) {
                let why = format!(
                    "{}: input is output: the link would read its own output endlessly",
                    second.peer
                );
                return Err(Failure::new(why, None));
            }
        }
        let copies = [(&self.tee, a.read_fd(), first), (&self.tee_back, b.read_fd(), second)];
        for (tee, source, end) in copies {
            if tee.as_ref().is_some_and(|tee| ends::is_same_file(source, Some(tee.fd()))) {
                let why = format!("{}: the copy would be written into its own source", end.peer);
                return Err(Failure::new(why, None));
            }
        }
        Ok(())
    }

    /// The directions in which the first or the second address is opened.
    pub(crate) fn how(&self, first: bool) -> OpenOptions {
        let how = OpenOptions::default().graceful(self.graceful);
        match (self.one_way, first) {
            (false, _) => how,
            (true, true) => how.read_only(),
            (true, false) => how.write_only(),
        }
    }

    /// The options of one connection's relay.
    pub(crate) fn relay(&self, id: u64, counts: Arc<ByteCounts>) -> RelayOptions {
        let options = RelayOptions {
            counts,
            method: self.method,
            watch_errors: true,
            idle: self.idle,
            linger: self.linger,
            patient: self.graceful,
            limit: self.limit.clone(),
            message_bytes: self.message_bytes,
            isolated: self.isolated,
            ..RelayOptions::new()
        };
        let observer = self.observe.as_ref().map(|observe| observe(id));
        let tees = [self.tee.clone(), self.tee_back.clone()];
        if observer.is_none() && tees.iter().all(Option::is_none) {
            return options;
        }
        let full = tees.clone();
        let hold =
            move |way: Direction| full[way as usize].as_ref().is_some_and(|tee| tee.is_full());
        let observe = move |way: Direction, bytes: &[u8]| {
            if let Some(tee) = &tees[way as usize] {
                tee.write(bytes);
            }
            if let Some(observer) = &observer {
                observer(way, bytes);
            }
        };
        RelayOptions { hold: Some(Arc::new(hold)), observe: Some(Arc::new(observe)), ..options }
    }

    /// How long clients and programs may go on once the link drains.
    pub(crate) fn drain_limit(&self) -> Duration {
        self.drain.unwrap_or(DRAIN)
    }

    /// The most threads for clients.
    pub(crate) fn most_threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(processors).max(1)
    }
}

/// The datagrams that are read or written there, if it is an address of datagrams.
fn datagrams(address: &Address, is_written: bool) -> Option<&Address> {
    address.side(is_written).into_iter().find(|part| part.kind().row().is_datagrams)
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}
