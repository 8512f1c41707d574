//! Programs as ends of a relay: an exited program gets no more bytes, and its exit status counts.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use gush_net::Conduit;
use gush_net::{Direction, Error, Relay, Totals, within};
use gush_text::with_unit;
use rustix::event::PollFlags;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::connection::LAST_ANSWERS;
use crate::open::input::{Input, Unread};
use crate::open::{End, Keeper};
use crate::record::Failure;
use crate::session::Name;
use crate::settings::Settings;

/// How long a program may take to exit once its output is closed. Afterwards the end of data is
/// passed on without a status.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// How the work of an end's program ended.
pub(crate) enum Finish {
    /// There is no program, or it succeeded, or its status does not count.
    Well,
    /// By an exit status other than 0, or a signal.
    Failed(Failure),
    /// The program was still at work at the limit.
    Late(Failure),
}

/// Waits until the program of an end has exited, if there is one: the exit status counts.
pub(crate) async fn finish_of(keeper: &mut Keeper, name: &Name, limit: Option<Duration>) -> Finish {
    if keeper.process().is_none() {
        return Finish::Well;
    }
    let finished = match limit {
        None => keeper.finished().await,
        Some(limit) => match within(limit, keeper.finished()).await {
            Ok(finished) => finished,
            Err(_) => {
                let limit = with_unit(limit);
                let fate = if keeper.leaves_program() { "is left alone" } else { "was ended" };
                let why = format!("{name}: the program still ran after {limit}, and {fate}");
                return Finish::Late(Failure::new(why, None));
            }
        },
    };
    let why = match finished {
        Ok(Some(status)) if !status.success() => format!("the program ended: {status}"),
        Ok(_) => return Finish::Well,
        Err(error) => format!("the program cannot be waited for: {error}"),
    };
    Finish::Failed(Failure::new(format!("{name}: {why}"), None))
}

/// As [`finish_of`], while the program's output on a terminal is dropped. A program that still
/// writes after `output_limit` is hung up, as a writer to a closed pipe gets SIGPIPE. One that gets
/// no end of data (`shut-none`) is ended after it has read all, and its status does not count.
pub(crate) async fn finish_during(
    terminal: Option<Conduit>,
    output_limit: Option<Duration>,
    keeper: &mut Keeper,
    name: &Name,
    limit: Option<Duration>,
) -> Finish {
    let hung_up = async {
        if let Some(mut terminal) = terminal {
            terminal.discard(output_limit).await;
        }
        pending().await
    };
    let has_read = keeper.has_read(EXIT_WAIT);
    let finish = pin!(finish_of(keeper, name, limit));
    tokio::select! {
        biased;
        finish = finish => finish,
        () = has_read => Finish::Well,
        finish = hung_up => finish,
    }
}

/// Relays until the end.
pub(crate) async fn relayed(
    relay: &mut Relay,
    first: &mut End,
    second: &mut End,
    settings: &Settings,
) -> Result<Totals, Error> {
    // Most connections are between sockets, and have no memory for programs.
    if [&first.keeper, &second.keeper].iter().all(|keeper| keeper.process().is_none()) {
        return relay.run(&mut first.conduit, &mut second.conduit).await;
    }
    Box::pin(relayed_with_programs(relay, [first, second], settings)).await
}

/// Relays until the end. An exited program gets no more bytes, and the end of its output is a
/// proper one only with exit status 0. With `graceful` bytes that still come for it are a failure.
async fn relayed_with_programs(
    relay: &mut Relay,
    mut ends: [&mut End; 2],
    settings: &Settings,
) -> Result<Totals, Error> {
    // Has the end a program that has not exited yet?
    let mut runs = ends.each_ref().map(|end| end.keeper.process().is_some());
    let exits = [(); 2].map(|()| watch::Sender::new(None::<bool>));
    for at in 0..2 {
        if runs[at] {
            ends[at].keeper.input = Input::of(&ends[at].conduit).map(Arc::new);
        }
    }
    for at in 0..2 {
        // A program whose data was cut need not have ended.
        let exit = (runs[at] && !ends[at].origin.is_cut).then(|| exits[at].subscribe());
        let input = ends[1 - at].keeper.input.clone();
        if exit.is_none() && input.is_none() {
            continue;
        }
        relay.verify_eof(to(at).opposite(), async move {
            let is_proper = match exit {
                Some(mut exit) => {
                    let exited = within(EXIT_WAIT, exit.wait_for(Option::is_some)).await;
                    // A program that goes on without its output is judged by its exit later.
                    let exited = exited.ok().and_then(Result::ok);
                    exited.is_none_or(|succeeded| *succeeded != Some(false))
                }
                None => true,
            };
            if let Some(input) = input.filter(|_| is_proper) {
                input.ends();
            }
            is_proper
        });
    }
    // Was the direction to an exited program given up already?
    let mut given_up = [false; 2];
    // When it will be, with `graceful`.
    let mut waits_until = [None::<Instant>; 2];
    loop {
        let next = (0..2).filter_map(|at| Some((waits_until[at]?, at))).min();
        let waited = async {
            let Some((until, at)) = next else { return pending().await };
            sleep_until(until).await;
            at
        };
        let [End { conduit: a, keeper: a_keeper, .. }, End { conduit: b, keeper: b_keeper, .. }] =
            &mut ends;
        let (at, exited) = tokio::select! {
            // Bytes first: an exit must not overtake the output that came before it.
            biased;
            relayed = relay.run(a, b) => {
                let Err(error) = relayed else { return relayed };
                let gone = gone_program(&error).filter(|_| !settings.graceful);
                let Some(at) = gone.filter(|at| ends[*at].keeper.process().is_some()) else {
                    return Err(error);
                };
                let exited = within(EXIT_WAIT, ends[at].keeper.finished()).await;
                // The program's failure is the cause, which the caller finds.
                if exited.as_ref().is_ok_and(|exited| !has_succeeded(exited)) {
                    return Err(error);
                }
                if std::mem::replace(&mut given_up[at], true) {
                    // It has left input unread, which resets its output.
                    relay.end(to(at).opposite());
                }
                match exited {
                    Ok(exited) => (at, exited),
                    Err(_) => {
                        abandon(relay, ends[at], at);
                        continue;
                    }
                }
            }
            exited = a_keeper.finished(), if runs[0] => (0, exited),
            exited = b_keeper.finished(), if runs[1] => (1, exited),
            at = waited => {
                waits_until[at] = None;
                abandon(relay, ends[at], at);
                continue;
            }
        };
        runs[at] = false;
        given_up[at] = true;
        exits[at].send_replace(Some(has_succeeded(&exited)));
        // A process that the program started may still read its input.
        if !is_left(&ends[at].conduit) {
            continue;
        }
        // In one direction only the source ends the link, and a linger limit is the relay's. A
        // terminal takes bytes after its reader has gone.
        let fails = settings.graceful && !ends[at].conduit.facts().hangs_up;
        match settings.one_way || settings.linger.is_some() {
            _ if !fails => abandon(relay, ends[at], at),
            false => waits_until[at] = Some(Instant::now() + LAST_ANSWERS),
            true => {}
        }
    }
}

/// This end no longer has a reader.
fn abandon(relay: &mut Relay, end: &End, at: usize) {
    if let Some(input) = &end.keeper.input {
        input.is_left(&end.conduit);
    }
    relay.abandon(to(at));
}

/// How much of its input a program that has exited has left unread, as a sentence.
pub(crate) fn unread(keeper: &mut Keeper, name: &Name) -> Option<String> {
    // The relay, which had the other reference, has ended.
    let bytes = match Arc::into_inner(keeper.input.take()?)?.unread()? {
        Unread::Exactly(bytes) => format!("{bytes} bytes"),
        Unread::AtLeast(bytes) => format!("{bytes} bytes or more"),
    };
    Some(format!("{name}: the program left {bytes} of its input unread"))
}

const END: [gush_net::End; 2] = [gush_net::End::A, gush_net::End::B];

/// The direction that leads to an end.
fn to(end: usize) -> Direction {
    [Direction::Back, Direction::Forward][end]
}

/// Has no process the other side, which a program may have left to its child?
fn is_left(conduit: &Conduit) -> bool {
    let Some(fd) = conduit.write_fd() else { return false };
    let gone = PollFlags::HUP | PollFlags::ERR;
    gush::poll_now(&fd, PollFlags::empty()).is_ok_and(|events| events.intersects(gone))
}

fn has_succeeded(exited: &io::Result<Option<ExitStatus>>) -> bool {
    matches!(exited, Ok(None)) || matches!(exited, Ok(Some(status)) if status.success())
}

/// The end whose reader is gone, by the error of the relay. The exit status says whether a program
/// there has failed.
fn gone_program(error: &Error) -> Option<usize> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let kind = error.io_error()?.kind();
    let at = END.iter().position(|end| error.end() == Some(*end))?;
    matches!(kind, BrokenPipe | ConnectionReset).then_some(at)
}
