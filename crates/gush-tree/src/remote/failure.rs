//! An error as a message between the two sides: the sentence that the user reads, and what programs
//! read of it.

use std::io;

use crate::error::Error;

/// Why something failed on the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Failure {
    /// The whole message; empty where the user knows it already.
    pub text: String,
    /// The operation that failed, without path and OS error; empty if the message is all there is.
    pub what: String,
    /// The error number, if a system call failed.
    pub errno: Option<i32>,
    /// The bytes that had arrived, if data had begun to move.
    pub delivered_bytes: Option<u64>,
    /// What the user can do, which is also in the message.
    pub hint: Option<String>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            text: error.to_string(),
            what: error.what(),
            errno: error.io_error().and_then(io::Error::raw_os_error),
            delivered_bytes: error.delivered_bytes(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}
