//! No call may hold a move at a terminal (invariant 7).
//!
//! A terminal without O_NONBLOCK that polls writable still holds a splice or a write until all
//! bytes are accepted. The flag belongs to everybody who shares the open file, so the terminal is
//! opened once more, non-blocking. A terminal that cannot be opened takes less at once
//! (`terminal.rs`).

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;

use crate::endpoint::{Endpoint, Kind};
use crate::sys;

/// The target once more, where the given one could hold a call and another can be had.
pub(super) fn twin_of(target: &Endpoint<'_>) -> Option<OwnedFd> {
    let is_held = target.kind() == Kind::Terminal
        && !target.is_nonblocking()
        // A description of its own could be writable where the given one is not.
        && target.is_open_for_writing()
        // To open the master of a pseudo-terminal makes another pair (ptmx(4)).
        && !target.state().is_master();
    is_held.then(|| sys::file::reopen(target.fd(), OFlags::WRONLY | OFlags::NONBLOCK).ok())?
}
