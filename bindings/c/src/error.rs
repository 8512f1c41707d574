//! The outcome of a call, as C reads it.

use std::ffi::{c_char, c_int};

use engine::{Call, Errno};

/// The outcome of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All went well.
    Ok = 0,
    /// A system call failed: `os_errno` and `operation` say which and why.
    Failed = 1,
    /// The method asked for by name cannot serve these descriptors. Nothing has moved.
    Refused = 2,
    /// `on_progress` answered false.
    Stopped = 3,
    /// An argument is wrong: a null pointer, a negative descriptor, an unknown method, overlapping
    /// ranges of one file, an offset in a pipe. Nothing has moved.
    Invalid = 4,
    /// A fault of gush itself. Free the handle, and report the fault.
    Panicked = 5,
}

/// The side of a move that an error is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Neither, or both.
    None = 0,
    /// The descriptor that is read.
    Source = 1,
    /// The descriptor that is written.
    Target = 2,
}

/// Why a call failed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Error {
    /// The same value that the function returned.
    pub status: Status,
    /// The errno of the failed system call, 0 if none failed.
    pub os_errno: c_int,
    /// The side that the error is about.
    pub side: Side,
    /// The bytes that had arrived at the target.
    pub delivered_bytes: u64,
    /// The bytes that were taken from a pipe or socket, and are lost because the target took no
    /// more.
    pub in_flight_bytes: u64,
    /// The name of the failed system call, "" if there is none. Ends with a null byte.
    pub operation: [c_char; 32],
    /// One sentence for the user, in English. Ends with a null byte.
    pub message: [c_char; 256],
}

/// Copies as much of a text as there is room for, without half a character, and with a null byte at
/// the end.
pub(crate) fn text_of<const ROOM: usize>(text: &str) -> [c_char; ROOM] {
    let mut room = [0; ROOM];
    let mut end = text.len().min(ROOM - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, &byte) in room.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = byte as c_char;
    }
    room
}

impl Error {
    fn new(status: Status, message: &str) -> Self {
        Self {
            status,
            os_errno: 0,
            side: Side::None,
            delivered_bytes: 0,
            in_flight_bytes: 0,
            operation: text_of(""),
            message: text_of(message),
        }
    }

    /// The state of an error where there is none.
    pub(crate) fn none() -> Self {
        Self::new(Status::Ok, "")
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(Status::Invalid, message)
    }

    pub(crate) fn panicked() -> Self {
        Self::new(Status::Panicked, "gush panicked: this is a fault of gush")
    }

    /// A call on the target of a writer or a reservoir failed.
    pub(crate) fn writing(call: Call, errno: Errno) -> Self {
        let why = std::io::Error::from(errno);
        Self {
            os_errno: errno.raw_os_error(),
            side: Side::Target,
            operation: text_of(call.name()),
            ..Self::new(Status::Failed, &format!("{call} failed on the target: {why}"))
        }
    }

    /// A call of a writer failed before, and the stream is cut there.
    pub(crate) fn cut(call: Call) -> Self {
        let message = format!("nothing can be written after the failed {call}: free the writer");
        Self {
            os_errno: Errno::IO.raw_os_error(),
            side: Side::Target,
            ..Self::new(Status::Failed, &message)
        }
    }

    /// There was no memory for a buffer of a writer.
    pub(crate) fn buffering(errno: Errno) -> Self {
        let why = std::io::Error::from(errno);
        Self {
            os_errno: errno.raw_os_error(),
            operation: text_of("mmap"),
            ..Self::new(Status::Failed, &format!("cannot map memory for the buffer: {why}"))
        }
    }

    /// The pipe of a reservoir could not be made, given its size, or filled.
    pub(crate) fn reserving(errno: Errno) -> Self {
        let why = std::io::Error::from(errno);
        let message = format!("cannot make and fill the pipe of the reservoir: {why}");
        Self { os_errno: errno.raw_os_error(), ..Self::new(Status::Failed, &message) }
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        let status = if error.is_stopped() {
            Status::Stopped
        } else if error.is_refused() {
            Status::Refused
        } else if error.call().is_none() {
            Status::Invalid
        } else {
            Status::Failed
        };
        let side = match error.side() {
            None => Side::None,
            Some(engine::Side::Source) => Side::Source,
            Some(engine::Side::Target) => Side::Target,
        };
        let operation = error.call().map(|call| call.to_string()).unwrap_or_default();
        Self {
            status,
            os_errno: error.errno().map_or(0, Errno::raw_os_error),
            side,
            delivered_bytes: error.delivered_bytes(),
            in_flight_bytes: error.in_flight_bytes(),
            operation: text_of(&operation),
            message: text_of(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn a_long_text_loses_whole_characters_and_keeps_the_null_byte() {
        let room: [std::ffi::c_char; 6] = text_of("abcdé");
        assert_eq!(room.map(|byte| byte as u8), *b"abcd\0\0");
        let room: [std::ffi::c_char; 7] = text_of("abcdé");
        assert_eq!(room.map(|byte| byte as u8), *b"abcd\xc3\xa9\0");
    }
}
