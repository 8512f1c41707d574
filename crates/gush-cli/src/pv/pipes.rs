//! The pipes at standard input and output: made as small again as they were.

use std::os::fd::BorrowedFd;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::stdio::{stdin, stdout};

/// The sizes to give back. A pipe that holds more bytes than the old size keeps the new size.
#[derive(Debug)]
pub struct Pipes([(BorrowedFd<'static>, Option<usize>); 2]);

impl Pipes {
    pub fn as_they_are() -> Self {
        Self([stdin(), stdout()].map(|fd| (fd, fcntl_getpipe_size(fd).ok())))
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        for (fd, size) in self.0 {
            if let Some(bytes) = size
                && fcntl_getpipe_size(fd) != Ok(bytes)
            {
                // A pipe with more bytes than the old size holds refuses (EBUSY, fcntl(2)), and keeps the new size.
                let _ = fcntl_setpipe_size(fd, bytes);
            }
        }
    }
}
