//! The request for a move.

use super::{Choice, Holes};
use crate::cancel::Cancel;
use crate::inspectors::InspectFn;
use crate::method::MethodName;
use crate::plan::Refusals;
use crate::rate::Rate;
use crate::tuning::Tuning;
use crate::wait::Wait;

/// The user's request, as [`super::Mover`] documents it.
#[derive(Clone, Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) choice: Choice,
    pub(super) excluded: &'a [MethodName],
    pub(super) isolated: bool,
    pub(super) length_bytes: Option<u64>,
    pub(super) source_offset: Option<u64>,
    pub(super) target_offset: Option<u64>,
    pub(super) replace: bool,
    pub(super) holes: Holes,
    pub(super) threads: usize,
    pub(super) tuning: Tuning,
    pub(super) wait: Wait,
    pub(super) rate: Option<Rate>,
    pub(super) cancel: Option<&'a Cancel>,
    pub(super) digest: bool,
    pub(super) inspector: Option<InspectFn>,
    pub(super) refusals: Option<&'a Refusals>,
}

impl Request<'_> {
    /// Was this method named? Then it is used or refused, never replaced (invariant 6).
    pub(super) fn names(&self, method: MethodName) -> bool {
        self.choice == Choice::Only(method)
    }

    /// Is somebody to see every byte?
    pub(super) fn shows_bytes(&self) -> bool {
        self.digest || self.inspector.is_some()
    }

    /// May the rate be limited, now or later?
    pub(super) fn is_limited(&self) -> bool {
        self.rate.is_some()
    }
}
