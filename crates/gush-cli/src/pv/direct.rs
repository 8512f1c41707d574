//! `-K`: a descriptor past the page cache, as long as this process uses the descriptor.
//!
//! The flag is set on the open file itself, as pv does, although other processes may share it: a
//! second open file would have a position of its own, and what others write meanwhile would be
//! overwritten. Every end but SIGKILL takes it back.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gush::{Endpoint, Kind};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::fcntl_dupfd_cloexec;

/// Open files with O_DIRECT, and their earlier flags.
static SET: Mutex<Vec<(OwnedFd, OFlags)>> = Mutex::new(Vec::new());

fn set() -> MutexGuard<'static, Vec<(OwnedFd, OFlags)>> {
    SET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open file with O_DIRECT, whose earlier flags are restored.
#[derive(Debug)]
pub struct Direct(Option<RawFd>);

impl Direct {
    /// Where the file system has no such access, or no file is there, nothing changes.
    pub fn set(fd: &impl AsFd) -> Self {
        // On a pipe the flag keeps the limits of writes, which nobody has asked for (pipe(2)).
        let is_file =
            Endpoint::of(fd).is_ok_and(|end| matches!(end.kind(), Kind::File | Kind::Block));
        let before = fcntl_getfl(fd).ok().filter(|flags| !flags.contains(OFlags::DIRECT));
        let (true, Some(before)) = (is_file, before) else { return Self(None) };
        // A copy, since the transfer may have closed its own descriptor by the end.
        let Ok(copy) = fcntl_dupfd_cloexec(fd, 3) else { return Self(None) };
        let number = copy.as_raw_fd();
        // Held while the flag is set: a signal that comes now takes it back, or finds none.
        let mut all = set();
        if fcntl_setfl(&copy, before | OFlags::DIRECT).is_err() {
            return Self(None);
        }
        all.push((copy, before));
        Self(Some(number))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        set().extract_if(.., |(fd, _)| Some(fd.as_raw_fd()) == self.0).for_each(restore);
    }
}

/// Before the process dies of a signal.
pub fn restore_all() {
    set().drain(..).for_each(restore);
}

fn restore((fd, flags): (OwnedFd, OFlags)) {
    // No one is left to be told of a failure: the open file then keeps O_DIRECT.
    let _ = fcntl_setfl(fd, flags);
}
