//! Whether a write to standard error would wait for its reader.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe that is ready takes without a wait: PIPE_BUF (pipe(7)).
pub const AT_ONCE_BYTES: usize = 4096;

/// Does `target` take [`AT_ONCE_BYTES`] now, or within `patience`? A closed one does: its writes fail at once.
pub fn takes_bytes(target: &impl AsFd, patience: Duration) -> bool {
    let patience = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    poll(&mut [PollFd::new(target, PollFlags::OUT)], Some(&patience)) != Ok(0)
}
