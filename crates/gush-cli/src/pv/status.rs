//! pv's exit status: a sum of bits.

use std::fmt::Display;
use std::process::ExitCode;

use crate::console::Console;

/// The failures so far, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// Something with -P or -R.
    pub const OTHER: Self = Self(1);
    pub const UNOPENED: Self = Self(2);
    pub const SAME_FILE: Self = Self(4);
    pub const UNCLOSED: Self = Self(8);
    pub const TRANSFER: Self = Self(16);
    pub const SIGNAL: Self = Self(32);
    /// A wrong command line, or no memory.
    pub const MISUSE: Self = Self(64);

    /// This status, once its cause is reported.
    pub fn report(self, console: &Console, what: impl Display) -> Self {
        console.say(what);
        self
    }

    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        status.0.into()
    }
}

impl From<Status> for i32 {
    fn from(status: Status) -> Self {
        status.0.into()
    }
}
