//! A watched move must not be held by a call (invariant 7), and no move by a terminal.
//!
//! `SPLICE_F_NONBLOCK` concerns the pipe end only: a blocking socket or terminal that polls writable
//! still holds a splice, a sendfile or a write until all bytes are accepted. While an observer watches,
//! the socket is therefore made non-blocking, and a terminal is opened once more, non-blocking, so that
//! no other holder of the terminal sees the flag. A terminal that cannot be opened takes less at once (`terminal.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use crate::endpoint::{Endpoint, Kind};
use crate::sys;

/// A target that answers EAGAIN instead of holding the caller; restored when dropped.
pub(super) struct Unheld<'a> {
    given: BorrowedFd<'a>,
    twin: Option<OwnedFd>,
    /// The flags to give back.
    flags_before: Option<OFlags>,
}

impl<'a> Unheld<'a> {
    /// A flag that cannot be set is left: the move then works, and the observer may be asked late.
    pub(super) fn new(given: BorrowedFd<'a>) -> Self {
        let mut unheld = Self { given, twin: None, flags_before: None };
        let Ok(endpoint) = Endpoint::of_borrowed(given) else { return unheld };
        match endpoint.kind() {
            // It waits for nobody already, and the flag is not ours to take back.
            _ if endpoint.is_nonblocking() => {}
            Kind::Stream | Kind::Datagram => unheld.flags_before = make_nonblocking(given),
            // To open the master of a pseudo-terminal makes another pair (ptmx(4)).
            Kind::Terminal if sys::file::is_terminal_master(given) => {}
            // A description of its own could be writable where the given one is not.
            Kind::Terminal if endpoint.is_open_for_writing() => {
                unheld.twin = sys::file::reopen(given, OFlags::WRONLY | OFlags::NONBLOCK).ok();
            }
            _ => {}
        }
        unheld
    }

    pub(super) fn target(&self) -> BorrowedFd<'_> {
        self.twin.as_ref().map_or(self.given, AsFd::as_fd)
    }
}

fn make_nonblocking(fd: BorrowedFd<'_>) -> Option<OFlags> {
    let before = sys::file::flags(fd).ok()?;
    // MSG_DONTWAIT would do for send(2) and not for a splice, which has no flag for the socket.
    sys::file::set_flags(fd, before | OFlags::NONBLOCK).ok().map(|()| before)
}

impl Drop for Unheld<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.flags_before {
            // Nothing can be done about a refusal, and nobody could be told.
            let _ = sys::file::set_flags(self.given, before);
        }
    }
}
