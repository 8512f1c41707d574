//! The effects of SIGTERM, SIGINT, SIGQUIT, SIGHUP and SIGUSR1 on a link.

use std::sync::mpsc::{self, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{process, thread};

use gush_link::Stop;
use gush_process::{Signals, Termination, Then};
use tracing::{error, info, warn};

use super::messages::Messages;

/// How long an ending link may take to reset its peers and write records, before the process dies:
/// then TCP peers see an end of data instead of a reset.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Notifies the signals' thread when the link has ended.
#[derive(Debug)]
pub struct Watch {
    ended: mpsc::Sender<()>,
    stop: Stop,
    /// Of which the link drains.
    first: Arc<OnceLock<Termination>>,
}

/// Lets SIGTERM drain a link that `forks`; a second one and the other ending signals end any link,
/// unless a program takes them (`sigint`). With `exits` the process has the exit status that a
/// shell gives to a death by the signal.
/// `report` is called at SIGUSR1.
///
/// # Errors
/// `EAGAIN` when no thread can be started.
pub fn watch(
    stop: &Stop,
    forks: bool,
    exits: bool,
    messages: Messages,
    report: impl FnMut() + Send + 'static,
) -> Result<Watch, gush::Errno> {
    let (ended, is_ended) = channel();
    let first = Arc::default();
    let watch = Watch { ended, stop: stop.clone(), first: Arc::clone(&first) };
    let stop = stop.clone();
    // By a signal that was passed on alone: the first SIGTERM still waits for clients.
    let mut drains_for_program = false;
    let respond = move |signal| {
        let is_first = !stop.is_wanted();
        let is_passed = gush_link::open::pass_on(signal);
        let may_drain = is_first || std::mem::take(&mut drains_for_program);
        drains_for_program = is_passed && may_drain;
        let drains = is_passed || signal == Termination::Terminate && may_drain;
        // A link without `fork` has a single connection, and nothing to drain.
        if drains && forks {
            info!("draining: no new clients, those that are connected finish");
            first.get_or_init(|| signal);
            stop.drain();
        }
        if is_passed || drains && forks {
            return Then::GoOn;
        }
        if exits {
            report_exit(signal);
        }
        stop.end();
        // Ended or not, the process dies.
        let _ = is_ended.recv_timeout(EXIT_TIMEOUT);
        messages.wait_a_second();
        if exits {
            process::exit(status(signal).into());
        }
        Then::Die
    };
    Signals::new(respond).reports(report).watch()?;
    Ok(watch)
}

/// In socat's words, which scripts look for.
pub fn report_exit(signal: Termination) {
    let number = status(signal) - 128;
    match signal {
        Termination::Quit => error!("exiting on signal {number}"),
        Termination::Terminate => warn!("exiting on signal {number}"),
        _ => info!("exiting on signal {number}"),
    }
}

/// As socat's, which handles the signals and exits.
pub fn status(signal: Termination) -> u8 {
    128 + match signal {
        Termination::HangUp => 1,
        Termination::Interrupt => 2,
        Termination::Quit => 3,
        Termination::Terminate => 15,
    }
}

impl Watch {
    /// If a signal ended the link, the process dies of it here, after all records are written.
    /// Returns the signal that has drained the link.
    pub fn finish(self) -> Option<Termination> {
        let by_signal = self.stop.is_ending();
        // The signals' thread waits for this.
        drop(self.ended);
        if by_signal {
            // That thread ends the process.
            loop {
                thread::park();
            }
        }
        // Not by what that thread notes afterwards: without clients the link ends at once.
        self.first.get().copied()
    }
}
