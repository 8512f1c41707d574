//! `-K`: a descriptor past the page cache, as long as this process uses the descriptor.

use std::os::fd::{AsFd, OwnedFd};

use gush::{Endpoint, Kind};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::fcntl_dupfd_cloexec;

/// An open file with O_DIRECT, whose earlier flags are restored: other processes may share the open file.
#[derive(Debug)]
pub struct Direct(Option<(OwnedFd, OFlags)>);

impl Direct {
    /// Where the file system has no such access, or no file is there, nothing changes.
    pub fn set(fd: &impl AsFd) -> Self {
        // On a pipe the flag keeps the limits of writes, which nobody has asked for (pipe(2)).
        let is_file =
            Endpoint::of(fd).is_ok_and(|end| matches!(end.kind(), Kind::File | Kind::Block));
        let before = fcntl_getfl(fd).ok().filter(|flags| !flags.contains(OFlags::DIRECT));
        let changed =
            before.filter(|flags| is_file && fcntl_setfl(fd, *flags | OFlags::DIRECT).is_ok());
        // A copy, since the transfer may have closed its own descriptor by the end.
        Self(changed.and_then(|flags| Some((fcntl_dupfd_cloexec(fd, 3).ok()?, flags))))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if let Some((fd, flags)) = &self.0 {
            // No one is left to be told of a failure: the open file then keeps O_DIRECT.
            let _ = fcntl_setfl(fd, *flags);
        }
    }
}
