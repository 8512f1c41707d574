//! Locks of the kernel: `lock=`.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gush_net::Conduit;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::error::OpenError;
use crate::address::{Lock, Opt, Options};

/// The pause before another look at a file that another process has locked.
const LOOK: Duration = Duration::from_millis(50);

/// Locks the file of the end, as `options` say. The lock goes with the descriptor.
pub(super) async fn take(conduit: &Conduit, options: &Options) -> Result<(), OpenError> {
    let Some(lock) = options.text(Opt::Lock).and_then(Lock::named) else { return Ok(()) };
    let mut says = true;
    // The locks of a descriptor do not exclude each other.
    while let Err(errno) = [conduit.read_fd(), conduit.write_fd()]
        .into_iter()
        .flatten()
        .try_for_each(|fd| try_to_take(lock, fd))
    {
        let is_taken = matches!(errno, Errno::AGAIN | Errno::ACCESS);
        if !is_taken || !lock.waits {
            let error = OpenError::new("lock", errno).passing(false);
            return Err(match errno {
                Errno::AGAIN | Errno::ACCESS => {
                    error.hinted("another process has locked it; wait- waits for that")
                }
                Errno::BADF => error.hinted("a lock to write takes a file that is written to"),
                _ => error,
            });
        }
        if std::mem::take(&mut says) {
            tracing::info!("waiting for a lock");
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn try_to_take(lock: Lock, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    if lock.is_flock {
        let operation = match lock.is_shared {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        return rustix::fs::flock(fd, operation);
    }
    let kind = if lock.is_shared { libc::F_RDLCK } else { libc::F_WRLCK };
    let whole = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // Of the description, which other processes see like F_SETLK: that would end as soon as this
    // process closes any descriptor of the file (fcntl(2)).
    fcntl(fd, FcntlArg::F_OFD_SETLK(&whole))
        .map(drop)
        .map_err(|errno| Errno::from_io_error(&io::Error::from(errno)).unwrap_or(Errno::IO))
}
