//! The words of a flow: the due call, the meaning of an answer, the end.

use std::fmt;

use rustix::io::Errno;

use super::Op;
use crate::fault::Fault;
use crate::method::{MethodName, Refusal};
use crate::port::Side;

/// The driver's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make this call, and let the flow learn the answer.
    Do(Op),
    /// Wait until the side can go on; then ask again. Asking early is harmless.
    Wait(Side),
    /// Nothing is in flight, and nothing may be taken now.
    Throttled,
    /// Everything taken is delivered, and no more comes.
    Ended(Completion),
    /// The bytes cannot move.
    Failed(Box<Failure>),
}

/// Why no more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A `read` answered 0.
    Eof,
    /// As many bytes were taken as the terms allow.
    Limit,
}

/// Why a flow failed. A driver makes a [`gush::Error`](crate::Error) of the failure, and adds the
/// counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A call failed.
    Fault(Fault),
    /// The method asked for by name cannot go on here.
    Refused(Refusal),
    /// The method asked for by name reports the end, and a `read` finds more bytes.
    FalseEnd(Refusal),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Fault(fault) => fault.fmt(f),
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::FalseEnd(Refusal { method, .. }) => {
                write!(f, "{method} reported the end of a source that has more bytes")
            }
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Fault(fault) => fault.source(),
            Failure::Refused(refusal) => refusal.source(),
            Failure::FalseEnd(_) => None,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Fault(fault)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

impl Failure {
    /// The kernel's answer, where the failure is the kernel's.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Failure::Fault(fault) => Some(fault.errno),
            Failure::Refused(refusal) | Failure::FalseEnd(refusal) => refusal.errno,
        }
    }
}

/// The meaning of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes taken from the source.
    pub taken_bytes: u64,
    /// Bytes delivered to the target.
    pub delivered_bytes: u64,
    /// The method by which they moved.
    pub method: Option<MethodName>,
    /// The refused route, if the answer was a refusal.
    pub refusal: Option<Box<Refusal>>,
}

/// Is shown the bytes, each once, when delivered: a digest, a count of lines.
pub trait Inspector {
    /// The next delivered bytes. Only a flow [through memory](super::Terms::through_memory) shows
    /// all.
    fn bytes(&mut self, _bytes: &[u8]) {}

    /// So many zeros, which became a hole of the target.
    fn gap(&mut self, _zeros_bytes: u64) {}
}

/// Nothing is inspected.
impl Inspector for () {}
