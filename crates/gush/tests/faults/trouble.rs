//! The answers to a call in place of the kernel's answer.

use std::fmt;

use gush::faults::Injection;
use gush::{Call, Errno};

/// The answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Fails(Errno),
    Short(usize),
    FalseZero,
}

impl Trouble {
    pub fn injection(self) -> Injection {
        match self {
            Trouble::Fails(errno) => Injection::Fail(errno),
            Trouble::Short(bytes) => Injection::Short(bytes),
            Trouble::FalseZero => Injection::Zero,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Trouble::Fails(errno) => f.write_str(&gush::errno_name(errno)),
            Trouble::Short(bytes) => write!(f, "{bytes} bytes"),
            Trouble::FalseZero => f.write_str("0"),
        }
    }
}

/// Calls whose 0 is the end.
pub fn is_read(call: Call) -> bool {
    matches!(call, Call::Read | Call::Pread | Call::Preadv2 | Call::Recv | Call::UringRead)
}

/// Calls that move bytes.
pub fn is_data(call: Call) -> bool {
    is_read(call)
        || matches!(
            call,
            Call::Write
                | Call::Pwrite
                | Call::Pwritev2
                | Call::Send
                | Call::Splice
                | Call::Tee
                | Call::Vmsplice
                | Call::Sendfile
                | Call::CopyFileRange
                | Call::UringWrite
                | Call::Memcpy
        )
}
