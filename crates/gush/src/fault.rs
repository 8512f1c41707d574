//! A system call that failed: which, on which side, with which answer.

use rustix::io::Errno;

use crate::port::Side;
use crate::sys::Call;

/// A system call that failed, and the side it failed on; a [`Flow`](crate::flow::Flow) fails with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The call.
    pub call: Call,
    /// The side whose descriptor the error concerns, as far as the call tells.
    pub side: Side,
    /// What the kernel answered.
    pub errno: Errno,
}
