//! Enlarges the pipes at both ends of a transfer, and restores their size.

use std::os::fd::AsFd;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

/// A pipe whose size is restored on drop, unless it holds more bytes than that.
#[derive(Debug)]
pub struct Enlarged<Fd: AsFd> {
    fd: Fd,
    bytes: usize,
}

/// Enlarges a pipe until the value is dropped; none if `fd` is not a pipe.
pub fn enlarge<Fd: AsFd>(fd: Fd) -> Option<Enlarged<Fd>> {
    let bytes = fcntl_getpipe_size(&fd).ok()?;
    // If refused, the pipe keeps its size.
    let _ = gush::pipe::enlarge(&fd);
    Some(Enlarged { fd, bytes })
}

impl<Fd: AsFd> Drop for Enlarged<Fd> {
    fn drop(&mut self) {
        if fcntl_getpipe_size(&self.fd) != Ok(self.bytes) {
            // A pipe with more bytes than that refuses with EBUSY (fcntl(2)).
            let _ = fcntl_setpipe_size(&self.fd, self.bytes);
        }
    }
}
