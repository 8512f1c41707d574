//! An interrupted run keeps its samples: the first signal ends the measuring, the second the
//! program.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::children;
use crate::procfs;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The signal that came; 0 before. Stored by the handler itself, so that it is never late.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

const HEEDED: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// Does this process ignore the signal, as after nohup(1)? (proc_pid_status(5), "SigIgn")
fn is_ignored(signal: i32) -> bool {
    let mask = procfs::field("/proc/self/status", "SigIgn");
    let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// From now on the first of these signals ends the children and sets [`requested`]. An ignored
/// signal stays ignored.
///
/// A second one ends the program as the default action would. Handlers rather than blocked signals,
/// because children would inherit the latter.
pub fn watch() -> io::Result<()> {
    // Under nohup(1) a hang-up must not end the run.
    let heeded = || HEEDED.into_iter().filter(|signal| !is_ignored(*signal));
    for signal in heeded() {
        flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize)?;
    }
    let mut signals = Signals::new(heeded())?;
    let wait = move || {
        for signal in signals.forever() {
            if REQUESTED.swap(true, Ordering::SeqCst) {
                // Fails only for signals that are not these.
                let _ = emulate_default_handler(signal);
            }
            children::end_all();
        }
    };
    thread::Builder::new().name("lab-signals".into()).spawn(wait).map(drop)
}

/// Ends the measuring as a signal would, because nobody wants the samples any more.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// Has the run begun to end, so that another signal ends the program? [`requested`] may be true a
/// moment earlier.
pub(crate) fn is_ending() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// The number of the signal that asked the run to end, if a signal did.
pub fn signal() -> Option<u8> {
    u8::try_from(SIGNAL.load(Ordering::SeqCst)).ok().filter(|&signal| signal != 0)
}

/// Was the run asked to end? A case that loops by itself looks here.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst) || signal().is_some()
}
