//! The required outcome, from the rules of the protocols and of `gush link`, never from the
//! program's behaviour.
//!
//! 1. An end of data is passed on as an end, after every byte sent before it.
//! 2. A failure is passed on in the strongest way that the kind of the other side has: a reset of
//!    TCP, SIGTERM before the input of a program is closed, an end elsewhere. Files and datagrams
//!    see nothing.
//! 3. The exit status is 0 after proper ends, 1 after failures, and death by the signal that ended
//!    the link.
//! 4. A program has failed when its exit status is not 0. A program that exits with 0 had all the
//!    input it wanted.
//! 5. A silence is an error (`-T`), except where a datagram socket is concerned, which has no end,
//!    and a proper end after one side's end (`-t`), unless bytes are stuck.
//! 6. Bytes for a peer that has gone are a failure where the kernel reports it: sockets and pipes.

use crate::kinds::{Abilities, Kind};
use crate::script::Saw;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Learned {
    End,
    Failure,
    /// The peer has gone itself, or nobody looks.
    Nothing,
    /// The end; nobody waits for a program after the end.
    EndThenOver,
    /// The end, and then a failure, which may overtake the end.
    EndThenFailure,
    /// A failure that a program may have no time to report: SIGTERM came as the program began, or
    /// the link ends and kills a program that does not end at once.
    FailureInHaste,
}

impl Learned {
    /// The signs that a peer of a kind may have seen then; `None` allows all.
    pub fn seen_by(self, peer: &Abilities) -> Option<Vec<Saw>> {
        match self {
            Learned::End => Some(vec![peer.of_end]),
            Learned::Failure => Some(vec![peer.of_failure]),
            // The end of a terminal is a hang-up (tty(4)).
            Learned::EndThenOver if peer.kind == Kind::Terminal => {
                Some(vec![Saw::End, Saw::Terminated, Saw::Death])
            }
            Learned::EndThenOver if peer.is_program => Some(vec![Saw::End, Saw::Terminated]),
            Learned::FailureInHaste if peer.is_program => Some(vec![peer.of_failure, Saw::Death]),
            Learned::FailureInHaste => Some(vec![peer.of_failure]),
            Learned::EndThenOver => Some(vec![peer.of_end]),
            Learned::EndThenFailure => Some(vec![peer.of_end, peer.of_failure]),
            Learned::Nothing => None,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Learned::End | Learned::EndThenOver => "end",
            Learned::EndThenFailure => "end, then failure",
            Learned::Failure | Learned::FailureInHaste => "failure",
            Learned::Nothing => "",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Code(i32),
    /// SIGTERM, or SIGPIPE.
    Death(&'static str),
}

impl Status {
    pub fn words(self) -> String {
        match self {
            Status::Code(code) => code.to_string(),
            Status::Death(signal) => signal.to_owned(),
        }
    }
}

/// The part of one side's bytes that reaches the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrives {
    All,
    /// Nothing twice, nothing out of order, and no more than that.
    Prefix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// The part of the ending side's bytes that arrives.
    pub arrives: Arrives,
    pub other_learns: Learned,
    pub ender_learns: Learned,
    pub status: Status,
    pub ended: &'static str,
}

/// Both sides have ended properly.
pub const CLOSED: Outcome = Outcome {
    arrives: Arrives::All,
    other_learns: Learned::End,
    ender_learns: Learned::Nothing,
    status: Status::Code(0),
    ended: "closed",
};

/// The bytes sent before have arrived, and both sides learn of the failure.
pub const FAILED: Outcome = Outcome {
    other_learns: Learned::Failure,
    ender_learns: Learned::Failure,
    status: Status::Code(1),
    ended: "relay-failed",
    ..CLOSED
};

/// The side that ended is gone, and sees nothing.
pub const LEFT_FAILED: Outcome = Outcome { ender_learns: Learned::Nothing, ..FAILED };

/// Rules 1 and 5: towards datagrams no end is passed on, and answers are waited for until a
/// silence.
pub fn ends_properly(ender_learns: Learned, other: &Abilities) -> Outcome {
    match other.kind {
        Kind::Udp => Outcome { ended: "lingered", ender_learns, ..CLOSED },
        _ => Outcome { ender_learns, ..CLOSED },
    }
}
