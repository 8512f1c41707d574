//! The relay of a connection.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gush::Rate;
use gush_net::{Conduit, Direction, Error, Passed, Relay, Totals, within};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{Connection, ConnectionResult, Phase};
use crate::ends;
use crate::handover::{Entry, Request};
use crate::open::End;
use crate::programs;
use crate::record::Ending;

/// How long answers are waited for once one side has ended, without a linger limit, where the other
/// side cannot be notified of the end and does not end itself: datagrams, terminal devices, shared
/// ends.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// The largest datagram of UDP, nearly (udp(7)).
const DATAGRAM_BYTES: f64 = 65_536.0;

/// A relay that has ended.
pub(super) struct Relayed {
    pub directions: Directions,
    pub has_datagrams: bool,
    pub end: Result<RelayEnd, ConnectionResult>,
}

pub(super) enum RelayEnd {
    /// Both directions have ended, or a limit has passed.
    Ended(Totals),
    Failed(Error),
    /// Stopped, because datagrams rest or a sender is evicted.
    Stopped(Ending),
}

impl Relayed {
    pub fn passed(&self) -> Option<(Passed, Passed)> {
        match &self.end {
            Ok(RelayEnd::Ended(totals)) => Some((totals.forward.clone(), totals.back.clone())),
            Ok(RelayEnd::Failed(error)) => {
                Some(Direction::ALL.map(|direction| error.passed(direction).clone()).into())
            }
            Ok(RelayEnd::Stopped(_)) | Err(_) => None,
        }
    }
}

/// A connection that is relayed.
pub(crate) struct Relaying {
    pub first: Box<End>,
    pub second: Box<End>,
    pub relay: Relay,
    pub directions: Directions,
    pub has_datagrams: bool,
}

impl Relaying {
    /// Does another process have the descriptors, too?
    pub fn set_shared(&self, is_shared: bool) {
        self.first.conduit.set_shared(is_shared);
        self.second.conduit.set_shared(is_shared);
    }

    fn ended(self, end: Result<RelayEnd, ConnectionResult>) -> (Box<End>, Box<End>, Relayed) {
        let Self { first, second, directions, has_datagrams, .. } = self;
        (first, second, Relayed { directions, has_datagrams, end })
    }
}

/// The directions that two ends have between them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Directions {
    pub forward: bool,
    pub back: bool,
}

/// Why a relay is paused.
enum Pause {
    End(RelayEnd),
    /// To move to another process.
    Asked(Request),
}

impl Directions {
    fn between(a: &Conduit, b: &Conduit) -> Self {
        Self { forward: a.reads() && b.writes(), back: b.reads() && a.writes() }
    }
}

impl Connection<'_> {
    /// A relay between two ends, in the order of the addresses.
    pub(super) fn begin_relay(&self, mut first: Box<End>, mut second: Box<End>) -> Box<Relaying> {
        let settings = &self.shared.settings;
        let (a, b) = self.shared.in_order(&self.shared.client, self.shared.other.address());
        // Before options shape the data: one may give datagrams an end, but only for one side.
        let has_datagrams = first.is_endless() || second.is_endless();
        let has_devices = ends::is_terminal_device(&first) || ends::is_terminal_device(&second);
        let is_shared = first.origin.is_shared || second.origin.is_shared;
        let has_answers =
            (has_devices || is_shared) && !ends::is_empty(&first) && !ends::is_empty(&second);
        let cut = settings.message_bytes.filter(|_| settings.graceful);
        first = first.shaped(a.options(), cut);
        second = second.shaped(b.options(), cut);
        if settings.one_way {
            // The bytes of the other direction are not even taken from their socket.
            first.conduit = first.conduit.read_only();
            second.conduit = second.conduit.write_only();
        }
        let mut options = settings.relay(self.id, Arc::clone(self.counts));
        if (has_datagrams || has_answers) && settings.linger.is_none() {
            options.linger = Some(LAST_ANSWERS);
        }
        options.close_sends_last_fin = first.keeper.is_empty() && second.keeper.is_empty();
        // An end of data that a terminal cannot see matters only if nothing else ends the link.
        let ends_by_itself = has_devices || settings.graceful && settings.one_way;
        if !ends_by_itself {
            options.on_unsent_eof = Some(match settings.is_part {
                true => |_| warn_of_unsent_eof(""),
                false => |_| warn_of_unsent_eof("-t TIME ends the link, and "),
            });
        }
        let directions = Directions::between(&first.conduit, &second.conduit);
        let relay = Relay::new(&options);
        Box::new(Relaying { first, second, relay, directions, has_datagrams })
    }

    /// Relays until the end; `None` for a connection that has moved to another process.
    pub(super) async fn relay(
        &self,
        mut relaying: Box<Relaying>,
    ) -> Option<(Box<End>, Box<End>, Relayed)> {
        let mut movable = self.shared.relays.as_ref().and_then(|relays| {
            let Relaying { first, second, .. } = &*relaying;
            // A program belongs to the process that has started it.
            let owns_nothing = first.keeper.is_empty() && second.keeper.is_empty();
            owns_nothing.then(|| relays.enter(self.id))
        });
        loop {
            let Relaying { first, second, relay, has_datagrams, .. } = &mut *relaying;
            let evicted = [first.keeper.makes_room(), second.keeper.makes_room()];
            let stopped = self.stopped(*has_datagrams, evicted);
            let asked = poll_fn(|cx| Entry::poll_asked(movable.as_mut(), cx));
            let work = async {
                tokio::select! {
                    biased;
                    // First: all others wait until this one has stopped.
                    request = asked => Pause::Asked(request),
                    relayed = programs::relayed(relay, first, second, &self.shared.settings) => Pause::End(match relayed {
                        Ok(totals) => RelayEnd::Ended(totals),
                        Err(error) => RelayEnd::Failed(error),
                    }),
                    ending = stopped => Pause::End(RelayEnd::Stopped(ending)),
                }
            };
            let request = match self.phase(Phase::Relay, None, work).await {
                Ok(Pause::Asked(request)) => request,
                Ok(Pause::End(end)) => return Some(relaying.ended(Ok(end))),
                Err(result) => return Some(relaying.ended(Err(result))),
            };
            let offered = request.offer(self.id, self.names.clone(), self.began, relaying);
            relaying = Box::pin(offered).await?;
        }
    }

    /// Resolves when a relay of datagrams ends without an end of its bytes. Takes no memory for
    /// others.
    fn stopped<'s>(
        &'s self,
        has_datagrams: bool,
        evicted: [Option<impl Future<Output = ()> + Send + 's>; 2],
    ) -> Pin<Box<dyn Future<Output = Ending> + Send + 's>> {
        if !has_datagrams && evicted.iter().all(Option::is_none) {
            return Box::pin(pending());
        }
        let idle = has_datagrams.then(|| self.datagrams_idle());
        let [first, second] = evicted;
        Box::pin(async move {
            tokio::select! {
                biased;
                () = resolved(idle) => Ending::Idle,
                () = resolved(first) => Ending::MadeRoom,
                () = resolved(second) => Ending::MadeRoom,
            }
        })
    }

    /// Resolves when the link drains and nothing has moved for [`LAST_ANSWERS`]: datagrams have no
    /// end, so silence stands for one.
    async fn datagrams_idle(&self) {
        self.shared.stop.draining().await;
        let settings = &self.shared.settings;
        // The link's own pauses are no silence: those of the rate limit, and of a full copy.
        let pause = |rate: u64| Duration::from_secs_f64(DATAGRAM_BYTES / rate as f64);
        let silence = LAST_ANSWERS
            + settings.limit.as_ref().and_then(Rate::get).map(pause).unwrap_or_default();
        let copies = [&settings.tee, &settings.tee_back];
        let has_full_copy = || copies.into_iter().flatten().any(|copy| copy.is_full());
        let moved = || Direction::ALL.map(|direction| self.counts.delivered_bytes(direction));
        let (mut before, mut was_full) = (moved(), has_full_copy());
        loop {
            // Not a sleep: what came while the process was stopped is relayed first.
            let _ = within(silence, pending::<()>()).await;
            let (now, is_full) = (moved(), has_full_copy());
            let in_flight = |&direction: &Direction| self.counts.in_flight_bytes(direction) > 0;
            if now == before && !Direction::ALL.iter().any(in_flight) && !is_full && !was_full {
                return;
            }
            (before, was_full) = (now, is_full);
        }
    }
}

/// Never resolves without a future.
async fn resolved(future: Option<impl Future<Output = ()>>) {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

fn warn_of_unsent_eof(advice: &str) {
    warn!(
        "the program cannot see the end of its input, as its terminal is raw; {advice}without pty it \
         can"
    );
}
