//! The outcome of trying a method on a pair, and the cost.

use std::fmt;

use crate::model::Measured;

/// The outcome of trying a method on a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The right bytes arrived, or, where they cannot be read (`/dev/null`), the right number.
    Works {
        /// How many.
        bytes: u64,
    },
    /// The kernel refused.
    Errno {
        /// The name of the engine's error, such as `EINVAL`.
        errno: String,
        /// The call that answered so.
        call: String,
        /// Bytes that had arrived before.
        after_bytes: u64,
    },
    /// The engine refused by a rule of its own, before the kernel was asked.
    Refused {
        /// The rule.
        why: String,
    },
    /// The call answers 0, as at the end, although there are bytes to be read.
    FalseEnd,
    /// The move ended well, and the wrong bytes arrived.
    Wrong {
        /// The difference, or the error.
        why: String,
    },
    /// The move did not end.
    Hangs {
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// The ends cannot be had here.
    Absent { why: String },
}

/// An outcome, and the cost where the move works.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub outcome: Outcome,
    /// From the beginning until the far end had all bytes; the processor seconds are the mover's,
    /// without feeding and draining.
    pub cost: Option<Measured>,
}

impl From<Outcome> for Attempt {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, cost: None }
    }
}

impl Outcome {
    /// In a word: the errno's name, or `refused`, `false-end`, `wrong`, `hangs`, `absent`;
    /// empty for a move that works.
    pub fn word(&self) -> &str {
        match self {
            Outcome::Works { .. } => "",
            Outcome::Errno { errno, .. } => errno,
            Outcome::Refused { .. } => "refused",
            Outcome::FalseEnd => "false-end",
            Outcome::Wrong { .. } => "wrong",
            Outcome::Hangs { .. } => "hangs",
            Outcome::Absent { .. } => "absent",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Works { bytes } => write!(f, "{bytes} bytes arrived"),
            Outcome::Errno { errno, call, after_bytes: 0 } => write!(f, "{call}: {errno}"),
            Outcome::Errno { errno, call, after_bytes } => {
                write!(f, "{call}: {errno} after {after_bytes} bytes")
            }
            Outcome::FalseEnd => f.write_str("returns 0, as at the end, although there are bytes"),
            Outcome::Refused { why } | Outcome::Wrong { why } | Outcome::Absent { why } => {
                f.write_str(why)
            }
            Outcome::Hangs { seconds } => write!(f, "did not end within {seconds} s"),
        }
    }
}
