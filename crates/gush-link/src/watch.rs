//! Waits for a descriptor that no relay has registered yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the current runtime until the answer is dropped.
///
/// tokio's newer `register` is `unsafe` because a type may return a different descriptor later.
/// Owned and borrowed descriptors cannot, so the deprecated safe function is sound for them.
#[allow(deprecated)]
pub(crate) fn watch<F: AsFd + AsRawFd>(fd: F, interest: Interest) -> io::Result<AsyncFd<F>> {
    AsyncFd::with_interest(fd, interest)
}
