//! Waiting for a descriptor that no relay has registered yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the current runtime until the answer is dropped.
///
/// tokio's newer `register` is `unsafe` because some types answer one descriptor now and another later. Those that
/// are given here, owned and borrowed descriptors, cannot, so the safe function that it replaces is sound.
#[allow(deprecated)]
pub(crate) fn watch<F: AsFd + AsRawFd>(fd: F, interest: Interest) -> io::Result<AsyncFd<F>> {
    AsyncFd::with_interest(fd, interest)
}
