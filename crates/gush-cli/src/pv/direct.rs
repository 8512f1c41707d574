//! `-K`: O_DIRECT on a descriptor while this process uses it.
//!
//! The flag is set on the open file itself, as pv does, although other processes may share it: a
//! second open file description would have a separate position, and overwrite what others write. It
//! is cleared again unless the process is killed by SIGKILL.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use gush::{Endpoint, Kind, Unpoisoned};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::fcntl_dupfd_cloexec;

/// Open files with O_DIRECT, and their earlier flags.
static SET: Mutex<Vec<(OwnedFd, OFlags)>> = Mutex::new(Vec::new());

/// Restores the earlier flags of an open file on drop.
#[derive(Debug)]
pub struct Direct(Option<RawFd>);

impl Direct {
    /// No effect if the file system does not support O_DIRECT, or `fd` is not a file or block
    /// device.
    pub fn set(fd: &impl AsFd) -> Self {
        // On a pipe the flag means packet mode (pipe(2)).
        let is_file =
            Endpoint::of(fd).is_ok_and(|end| matches!(end.kind(), Kind::File | Kind::Block));
        let before = fcntl_getfl(fd).ok().filter(|flags| !flags.contains(OFlags::DIRECT));
        let (true, Some(before)) = (is_file, before) else { return Self(None) };
        // A duplicate, since the transfer may have closed its descriptor by the end.
        let Ok(copy) = fcntl_dupfd_cloexec(fd, 3) else { return Self(None) };
        let number = copy.as_raw_fd();
        // Locked while the flag is set, so that a signal handler clears it or finds none.
        let mut all = SET.lock().unpoisoned();
        if fcntl_setfl(&copy, before | OFlags::DIRECT).is_err() {
            return Self(None);
        }
        all.push((copy, before));
        Self(Some(number))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        SET.lock()
            .unpoisoned()
            .extract_if(.., |(fd, _)| Some(fd.as_raw_fd()) == self.0)
            .for_each(restore);
    }
}

pub fn restore_all() {
    SET.lock().unpoisoned().drain(..).for_each(restore);
}

fn restore((fd, flags): (OwnedFd, OFlags)) {
    // On failure the open file keeps O_DIRECT, and nothing can be done about it.
    let _ = fcntl_setfl(fd, flags);
}
