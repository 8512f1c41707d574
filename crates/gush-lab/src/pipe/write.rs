//! The writer: checks the output, sizes the pipe, and writes until the reader is gone.

use std::os::fd::{AsFd, BorrowedFd};

use gush::{Errno, Kernel, Vmsplice};
use nix::sys::signal::{SigSet, Signal};

use super::options::{Technique, WriteOptions};
use super::{ends, techniques};
use crate::Error;

const NAME: &str = "standard output";
/// The largest pipe without privilege (`/proc/sys/fs/pipe-max-size`): the fewer turns at the pipe's
/// lock, the faster.
const LARGE_PIPE_BYTES: usize = 1 << 20;

/// Writes into `to` until the reader is gone or all bytes are written. Returns their number.
/// SIGPIPE stays blocked in the calling thread.
///
/// Notices that are no failures go to `say`: a refused size, a technique that is not sound.
pub fn write(
    options: &WriteOptions,
    to: &impl AsFd,
    say: &mut dyn FnMut(&str),
) -> Result<u64, Error> {
    options.check()?;
    let to = to.as_fd();
    prepare(options, to, say)?;
    // The reader's leaving is the usual end here, and must not kill before the last words.
    block_pipe_signal();
    let mut sent_bytes = 0;
    match techniques::run(options, to, &mut sent_bytes) {
        Err(Error::Failed { source, .. })
            if source.raw_os_error() == Some(Errno::PIPE.raw_os_error()) =>
        {
            Ok(sent_bytes)
        }
        answer => answer.map(|()| sent_bytes),
    }
}

fn prepare(
    options: &WriteOptions,
    to: BorrowedFd<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let technique = options.technique();
    if !ends::is_pipe(to, NAME)? {
        if rustix::termios::isatty(to) {
            return Err(Error::refused(
                "standard output is a terminal: connect the two, gush pipe write | gush pipe read",
            ));
        }
        if technique != Technique::Write {
            return Err(ends::no_pipe(NAME, &format!("{technique} needs one")));
        }
        if options.shared.pipe_size.is_some() {
            return Err(ends::no_pipe(NAME, "--pipe-size is the size of one"));
        }
        if options.bytes.is_none() && !is_socket(to) {
            return Err(ends::no_pipe(NAME, "without --bytes it would be written to endlessly"));
        }
        return Ok(());
    }
    let wanted_bytes = match technique {
        Technique::Write => options.shared.pipe_size,
        // Half the buffer: then the other half is out of the pipe, as the published program counts
        // on.
        Technique::Vmsplice => Some(options.buffer_bytes() / 2),
        _ => options.shared.pipe_size.or(Some(LARGE_PIPE_BYTES)),
    };
    if let Some(wanted_bytes) = wanted_bytes {
        let bytes = ends::size(to, wanted_bytes, say)?;
        if technique == Technique::Vmsplice && bytes > wanted_bytes {
            return Err(Error::refused(format!(
                "the pipe has {bytes} bytes, and with vmsplice may have no more than half the buffer: a --buffer-size of {} would do",
                2 * bytes
            )));
        }
    }
    if matches!(technique, Technique::Vmsplice | Technique::Fresh) {
        match Kernel::get().vmsplice() {
            Vmsplice::ZeroCopy => {}
            Vmsplice::Copies => say("this kernel copies on vmsplice: safe, but without the gain"),
            Vmsplice::Absent(errno) => {
                let what = format!(
                    "vmsplice is denied or missing here, and {technique} needs it: use --technique socket or write"
                );
                return Err(Error::failed(what, errno));
            }
        }
    }
    if !technique.is_sound() {
        say(
            "warning: vmsplice writes its buffers again while a reader may still hold their pages: a reader that splices or tees them onward sees bytes change (gush pipe read --hold shows it); --technique fresh does not",
        );
    }
    Ok(())
}

fn is_socket(fd: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_type(fd).is_ok()
}

/// From now on a write without a reader answers EPIPE in this thread, and raises no signal.
///
/// Blocked for good: a signal that is pending would end the process as soon as the signal were
/// unblocked.
fn block_pipe_signal() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGPIPE);
    // Refused only for a wrong argument.
    let _ = set.thread_block();
}
