//! The pipes around a transfer: enlarged, and made as small again as they were.

use std::os::fd::AsFd;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

/// A pipe's size, given back on drop. A pipe that holds more bytes than the old size keeps the new size.
#[derive(Debug)]
pub struct Kept<Fd: AsFd> {
    fd: Fd,
    bytes: usize,
}

/// Enlarges a pipe, whichever way the bytes go, and keeps the present size; none for anything else.
pub fn boost<Fd: AsFd>(fd: Fd) -> Option<Kept<Fd>> {
    let bytes = fcntl_getpipe_size(&fd).ok()?;
    // Refused, the pipe stays as large as it is.
    let _ = gush::pipe::enlarge(&fd);
    Some(Kept { fd, bytes })
}

impl<Fd: AsFd> Drop for Kept<Fd> {
    fn drop(&mut self) {
        if fcntl_getpipe_size(&self.fd) != Ok(self.bytes) {
            // A pipe with more bytes than the old size holds refuses (EBUSY, fcntl(2)), and keeps the new size.
            let _ = fcntl_setpipe_size(&self.fd, self.bytes);
        }
    }
}
