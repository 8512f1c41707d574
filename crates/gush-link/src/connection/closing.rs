//! The phases after the relay.

use std::task::{Context, Waker};
use std::time::Duration;

use gush_net::{Conduit, EndReason, Error, LingerError, LingerTimeouts, Totals};
use gush_text::{os_text, with_unit};
use tracing::{info, warn};

use super::relay::{Directions, RelayEnd, Relayed};
use super::{Connection, ConnectionResult, Phase, or_abort};
use crate::address::Opt;
use crate::open::{End, Keeper};
use crate::programs::{self, Finish};
use crate::record::{Ending, Failure};
use crate::session::Name;

/// How long bytes delivered before a failure may take to arrive, before their socket is reset.
const LAST_BYTES: Duration = Duration::from_secs(1);
const WAITS_LONGER: &str = "-t TIME waits longer";

impl Connection<'_> {
    /// Lingers until all data has arrived, and waits for programs.
    pub(super) async fn close(
        &self,
        mut first: Box<End>,
        mut second: Box<End>,
        relayed: Relayed,
    ) -> ConnectionResult {
        let Relayed { directions, has_datagrams, end } = relayed;
        let (ending, timeouts) = match or_abort!(self, end, first, second) {
            RelayEnd::Stopped(ending) => (ending, LingerTimeouts::none()),
            RelayEnd::Failed(error) => {
                let result = self.relay_failed(&error, &mut first, &mut second).await;
                return self.aborted(result, [first, second]);
            }
            RelayEnd::Ended(totals) => {
                if let Some(failure) = self.stalled(&totals, has_datagrams) {
                    let result = ConnectionResult::failed(totals.ended.into(), failure);
                    return self.aborted(result, [first, second]);
                }
                match totals.ended {
                    EndReason::Closed => {
                        (Ending::Closed, LingerTimeouts::of(self.shared.settings.linger))
                    }
                    // A limit has passed: what peers may still send is not waited for.
                    ended => (ended.into(), LingerTimeouts::none()),
                }
            }
        };
        let lingered = self.linger(&mut first, &mut second, directions, ending, timeouts).await;
        let settings = &self.shared.settings;
        // A peer that has ended its own data may close without reading ours, as many servers do.
        let may_close = !settings.one_way && ending == Ending::Closed;
        let is_late =
            |result: &ConnectionResult| settings.graceful && result.ending == Ending::RelayFailed;
        let warned = |result: ConnectionResult| {
            result.failure.iter().for_each(|failure| warn!(id = self.id, "{failure}"));
            ConnectionResult::of(ending)
        };
        let lingered = match lingered {
            // All was written, and the kernel goes on sending.
            Ok(late) if is_late(&late) => Ok(warned(late)),
            Err(closed) if may_close && is_late(&closed) => Ok(warned(closed)),
            lingered => lingered,
        };
        let result = or_abort!(self, lingered, first, second);
        let unsent = self.unsent(&first, &second);
        let failed_by = |result: ConnectionResult| match (result.failure.is_none(), unsent) {
            (true, Some(failure)) => ConnectionResult::failed(Ending::RelayFailed, failure),
            _ => result,
        };
        if result.ending == Ending::Closed {
            return failed_by(self.programs(first, second).await);
        }
        // Before the conduits: closing a terminal hangs its program up, and discards what it has
        // not read yet.
        (first.keeper, second.keeper) = (Keeper::default(), Keeper::default());
        failed_by(result)
    }

    /// The failure of datagrams that this machine could not send.
    fn unsent(&self, first: &End, second: &End) -> Option<Failure> {
        let (first_name, second_name) = self.names();
        let ends = [(first, first_name), (second, second_name)];
        let (end, name) = ends.into_iter().find(|(end, _)| end.keeper.unsent() > 0)?;
        let why = match end.keeper.unsent() {
            1 => format!("{name}: 1 datagram could not be sent"),
            count => format!("{name}: {count} datagrams could not be sent"),
        };
        Some(Failure::new(why, None))
    }

    /// The cause of a relay's failure. Waits for the bytes delivered before, which a reset would
    /// overtake.
    async fn relay_failed(
        &self,
        error: &Error,
        first: &mut End,
        second: &mut End,
    ) -> ConnectionResult {
        let (first_name, second_name) = self.names();
        let failed = match error.end() {
            Some(gush_net::End::A) => Some((&mut first.keeper, first_name)),
            Some(gush_net::End::B) => Some((&mut second.keeper, second_name)),
            None => None,
        };
        let program = match failed {
            Some((keeper, name)) => programs::finish_of(keeper, name, Some(LAST_BYTES)).await,
            None => Finish::Well,
        };
        // Programs are ended first: their input has no proper end.
        (first.keeper, second.keeper) = (Keeper::default(), Keeper::default());
        let settings = &self.shared.settings;
        let unsent = LingerTimeouts::of(settings.linger).unsent;
        let arrives = async |conduit: &mut Conduit| match settings.graceful {
            // Bytes that are left unread would make close(2) reset the connection.
            true => drop(
                conduit.linger(false, LingerTimeouts { unsent, ..LingerTimeouts::none() }).await,
            ),
            false => conduit.arrived(LAST_BYTES).await,
        };
        let arrived =
            async { tokio::join!(arrives(&mut first.conduit), arrives(&mut second.conduit)) };
        // The connection has failed, whether or not they arrive.
        let _ = self.phase(Phase::Linger, None, arrived).await;
        match program {
            Finish::Failed(failure) => ConnectionResult::failed(Ending::ProgramFailed, failure),
            Finish::Well | Finish::Late(_) => {
                let origins = [first.origin, second.origin];
                let failure = self.shared.relay_failure(error, self.names, origins);
                if self.shared.is_cool(error) {
                    info!(id = self.id, "{failure}");
                    return ConnectionResult::of(Ending::Closed);
                }
                ConnectionResult::failed(Ending::RelayFailed, failure)
            }
        }
    }

    /// The failure of a relay that a time limit has ended. Datagrams have no end of data, so that
    /// silence is their proper end, as it is of all data with `graceful`.
    fn stalled(&self, totals: &Totals, has_datagrams: bool) -> Option<Failure> {
        if self.shared.settings.graceful {
            return None;
        }
        let lost_bytes = totals.forward.in_flight_bytes + totals.back.in_flight_bytes;
        let limit = match totals.ended {
            EndReason::Idle if totals.stuck || !has_datagrams => self.shared.settings.idle,
            EndReason::Lingered if totals.stuck => self.shared.settings.linger,
            _ => return None,
        };
        let (first, second) = self.names();
        let mut why = format!("{first} to {second}: nothing moved");
        if let Some(limit) = limit {
            why += &format!(" for {}", with_unit(limit));
        }
        if lost_bytes > 0 {
            why += &format!("; {lost_bytes} bytes read but not delivered");
        } else if totals.stuck {
            why += "; bytes that wait at their source were not taken";
        }
        Some(Failure::new(why, None))
    }

    /// Waits until all that was sent has arrived, at both ends at once, then sends the end of data
    /// where it was not sent. A peer that acknowledges too late is not reset: the kernel goes on
    /// sending.
    async fn linger(
        &self,
        first: &mut End,
        second: &mut End,
        directions: Directions,
        ending: Ending,
        timeouts: LingerTimeouts,
    ) -> Result<ConnectionResult, ConnectionResult> {
        let Directions { forward, back } = directions;
        let needs_linger =
            |end: &Conduit, is_written, is_read| is_written && end.needs_linger(is_read);
        // Most short connections: there is nothing to wait for.
        let is_over = ending == Ending::Closed
            && (first.keeper.is_empty() && second.keeper.is_empty())
            && !needs_linger(&first.conduit, back, forward)
            && !needs_linger(&second.conduit, forward, back);
        if is_over {
            send_eof([first, second]);
            return Ok(ConnectionResult::of(ending));
        }
        let linger = async |end: &mut Conduit, at, is_written, is_read| {
            // A peer that does not see the end does not end itself. It may reset the connection,
            // which is no failure with `graceful`.
            let is_done = self.shared.settings.graceful && self.shared.says(at, Opt::ShutNone);
            let quiet = if is_done { Duration::ZERO } else { timeouts.quiet };
            match is_written {
                true => end.linger(is_read, LingerTimeouts { quiet, ..timeouts }).await,
                false => Ok(()),
            }
        };
        let read_timeouts = match self.shared.settings.linger {
            // The limit that has passed is not the user's.
            None if ending == Ending::Lingered => LingerTimeouts::of(None),
            _ => timeouts,
        };
        let read_limit = read_timeouts.unsent;
        let (a_read, b_read) =
            (first.keeper.is_read(read_limit), second.keeper.is_read(read_limit));
        let a = linger(&mut first.conduit, gush_net::End::A, back, forward);
        let b = linger(&mut second.conduit, gush_net::End::B, forward, back);
        let work = async { tokio::join!(a, b, a_read, b_read) };
        let (a, b, a_read, b_read) = self.phase(Phase::Linger, None, work).await?;
        let (first_name, second_name) = self.names();
        let advice = self.shared.settings.advice(WAITS_LONGER);
        for (read, name) in [(a_read, first_name), (b_read, second_name)] {
            if let Err(bytes) = read {
                // Closing the terminal discards them, so the sender's connection is reset.
                let why =
                    format!("{name}: {bytes} bytes or more were not read there in time{advice}");
                let failure = Failure::new(why, None);
                return Err(ConnectionResult::failed(Ending::RelayFailed, failure));
            }
        }
        let mut result = ConnectionResult::of(ending);
        for (lingered, name) in [(a, first_name), (b, second_name)] {
            let failure = match lingered {
                Ok(()) => continue,
                Err(LingerError::Failed(error)) => {
                    let why = os_text(&error);
                    let why = format!(
                        "{name}: after the last byte: {why} (it may not have read all bytes)"
                    );
                    let failure = Failure::new(why, error.raw_os_error());
                    return Err(ConnectionResult::failed(Ending::RelayFailed, failure));
                }
                Err(late) => Failure::new(format!("{name}: {late}{advice}"), None),
            };
            result = ConnectionResult::failed(Ending::RelayFailed, failure);
            break;
        }
        send_eof([first, second]);
        Ok(result)
    }

    /// Waits until the programs of both ends have exited, with one limit for both. The first that
    /// fails ends the other.
    async fn programs(&self, mut first: Box<End>, mut second: Box<End>) -> ConnectionResult {
        if first.keeper.process().is_none() && second.keeper.process().is_none() {
            return ConnectionResult::of(Ending::Closed);
        }
        // A lock file is for the programs of both.
        let _made = [&mut first, &mut second].map(|end| end.keeper.take_made());
        let (first_name, second_name) = self.names();
        // In one direction the output of the second end's program is never read.
        let second_limit = (!self.shared.settings.one_way).then_some(LAST_BYTES);
        let finished = async {
            tokio::try_join!(
                self.program(first, first_name, Some(LAST_BYTES)),
                self.program(second, second_name, second_limit)
            )
        };
        let late = match self.phase(Phase::Program, None, finished).await {
            Err(result) => return result,
            Ok(Err(failure)) => return ConnectionResult::failed(Ending::ProgramFailed, failure),
            Ok(Ok((first_late, second_late))) => first_late.into_iter().chain(second_late),
        };
        // The linger limit ends a running program without an error, the idle limit with one.
        let mut result = ConnectionResult::of(Ending::Closed);
        for failure in late {
            match (self.shared.settings.linger, result.ending) {
                (None, Ending::Closed) if !self.shared.settings.graceful => {
                    result = ConnectionResult::failed(Ending::Idle, failure);
                }
                (Some(_), _) => {
                    warn!(id = self.id, "{failure}");
                    result = ConnectionResult::of(Ending::Lingered);
                }
                _ => warn!(id = self.id, "{failure}"),
            }
        }
        result
    }

    /// Waits until the program of an end has exited, and reports what it left unread. Returns the
    /// failure of a program that still runs at the limit. A terminal's output is dropped for
    /// `output_limit`.
    ///
    /// # Errors
    /// The failure of the program.
    async fn program(
        &self,
        end: Box<End>,
        name: &Name,
        output_limit: Option<Duration>,
    ) -> Result<Option<Failure>, Failure> {
        // Any other conduit is closed here, which ends the program's input. Closing the master of a
        // terminal is a hang-up (tty(4), SIGHUP), and discards what the program has not read yet.
        let End { conduit, mut keeper, .. } = *end;
        let terminal = Some(conduit).filter(|conduit| conduit.facts().hangs_up);
        let settings = &self.shared.settings;
        let limit = settings.linger.or(settings.idle);
        if settings.graceful && settings.one_way {
            terminal.iter().for_each(|terminal| keeper.ends_once_read(terminal));
        }
        match programs::finish_during(terminal, output_limit, &mut keeper, name, limit).await {
            Finish::Well => {
                if let Some(unread) = programs::unread(&mut keeper, name) {
                    match self.shared.forks {
                        // Of many clients it may be the usual end.
                        true => info!(id = self.id, "{unread}"),
                        false => warn!("{unread}"),
                    }
                }
                Ok(None)
            }
            Finish::Failed(failure) => Err(failure),
            Finish::Late(failure) => Ok(Some(failure)),
        }
    }
}

/// Sends the end of data to TLS peers that have not got it: after a limit, in one direction, with
/// `shut-none`. A peer that takes nothing is not waited for.
pub(super) fn send_eof<'e>(ends: impl IntoIterator<Item = &'e mut End>) {
    for end in ends {
        let _ = end.conduit.poll_close(&mut Context::from_waker(Waker::noop()));
    }
}
