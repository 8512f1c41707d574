//! The effects of SIGTERM, SIGINT and SIGHUP on a link.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use gush_link::Stop;
use gush_process::{Termination, Then, on_each_termination};
use tracing::info;

use super::messages::Messages;

/// How long a link told to end may take to reset its peers and give an account: a few milliseconds, on a machine
/// that is not overloaded. The process dies after that time in any case, and then TCP peers see an end instead of a reset.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Tells the signals' thread that the link has ended.
#[derive(Debug)]
pub struct Watch {
    ended: Sender<()>,
    stop: Stop,
}

/// Lets SIGTERM drain a link that `forks`; a second one, SIGINT and SIGHUP end any link.
///
/// # Errors
/// `EAGAIN` when no thread can be started.
pub fn watch(stop: &Stop, forks: bool, messages: Messages) -> Result<Watch, gush::Errno> {
    let (ended, is_ended) = channel();
    let watch = Watch { ended, stop: stop.clone() };
    let stop = stop.clone();
    on_each_termination(move |signal| {
        let then = respond(signal, &stop, forks, &is_ended);
        if then == Then::Die {
            messages.wait_a_second();
        }
        then
    })?;
    Ok(watch)
}

fn respond(signal: Termination, stop: &Stop, forks: bool, is_ended: &Receiver<()>) -> Then {
    // Draining serves those that are connected; a link without `fork` has one peer, and nothing to drain.
    if signal == Termination::Terminate && forks && !stop.is_wanted() {
        info!("draining: no new clients, those that are connected finish");
        stop.drain();
        return Then::GoOn;
    }
    stop.end();
    // Ended, or too late: it is over either way.
    let _ = is_ended.recv_timeout(LAST_WORDS);
    Then::Die
}

impl Watch {
    /// The link has ended, and all accounts are told: if a signal ended the link, the process dies of that signal here.
    pub fn finish(self) {
        let by_signal = self.stop.is_ending();
        // The other thread waits for this: the main thread has said all it had to say.
        drop(self.ended);
        if by_signal {
            // The thread that got the signal is at it.
            loop {
                thread::park();
            }
        }
    }
}
