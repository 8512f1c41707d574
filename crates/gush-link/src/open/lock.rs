//! Locks of the kernel: `lock=`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::End;
use super::error::OpenError;
use super::keeper::Borrowed;
use crate::address::{Lock, Opt, OptionSet};

/// The pause before another look at a file that another process has locked.
const LOOK: Duration = Duration::from_millis(50);

/// Locks the file of the end, as `options` say. The lock goes with the end.
pub(super) async fn take(end: &mut End, options: &OptionSet) -> Result<(), OpenError> {
    let Some(lock) = options.text(Opt::Lock).and_then(Lock::named) else { return Ok(()) };
    let (read, written) = (end.conduit.read_fd(), end.conduit.write_fd());
    let mut fds: Vec<BorrowedFd<'_>> = [read, written].into_iter().flatten().collect();
    // flock(2) locks what is inherited for all that have it, as flock(1) does.
    let is_for_all = !end.origin.is_inherited || lock.is_flock;
    if !is_for_all {
        let before = if lock.is_shared { [read, written] } else { [written, read] };
        let own = own(&before).map_err(|errno| OpenError::new("lock", errno).passing(false))?;
        end.keeper.put_back.extend(own.into_iter().map(Borrowed::Lock));
        fds = end.keeper.put_back.iter().filter_map(Borrowed::lock).collect();
    }
    let mut says = true;
    // The locks of a descriptor do not exclude each other.
    while let Err(errno) = fds.iter().try_for_each(|fd| try_to_take(lock, *fd)) {
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

/// Descriptors of inherited files, each opened anew once: a lock of an inherited descriptor would
/// outlive this process, and exclude nobody else who has inherited it.
fn own(inherited: &[Option<BorrowedFd<'_>>]) -> Result<Vec<OwnedFd>, Errno> {
    let (mut own, mut seen) = (Vec::new(), Vec::new());
    for fd in inherited.iter().flatten() {
        let found = fstat(fd)?;
        if seen.contains(&(found.st_dev, found.st_ino)) {
            continue;
        }
        seen.push((found.st_dev, found.st_ino));
        own.push(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                let flags = fcntl_getfl(fd)? & OFlags::RWMODE | OFlags::CLOEXEC;
                rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())?
            }
            // Another end of a pipe would change when it ends.
            _ => fcntl_dupfd_cloexec(fd, 3)?,
        });
    }
    Ok(own)
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
