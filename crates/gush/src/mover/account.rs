//! The account of a move, for the report: methods, calls, refusals.

use crate::method::{MethodName, Refusal};
use crate::report::MethodUse;
use crate::sys::CallCounts;

/// The methods used, in order, and the refusals.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) uses: Vec<MethodUse>,
    pub(super) refusals: Vec<Refusal>,
    /// Did every method so far show all bytes to the digest?
    pub(super) all_seen: bool,
}

impl Account {
    pub(super) fn new() -> Self {
        Self { uses: Vec::new(), refusals: Vec::new(), all_seen: true }
    }

    pub(super) fn has_refused(&self, name: MethodName) -> bool {
        self.refusals.iter().any(|refusal| refusal.method == name)
    }

    /// Has a method moved anything?
    pub(super) fn has_used(&self, name: MethodName) -> bool {
        self.uses.iter().any(|used| used.name == name && used.bytes > 0)
    }

    /// Adds one use of a method; a further use of the last one is added to that.
    pub(super) fn record(&mut self, used: MethodUse) {
        if used.bytes == 0 && used.steps == 0 {
            return;
        }
        // Several threads see the bytes out of order, and a hash of such bytes means nothing.
        self.all_seen &= used.bytes == 0 || used.threads == 1 && used.name.sees_bytes();
        // A sparse file is moved piece by piece: a line for each would hide the story.
        if let Some(last) = self.uses.last_mut().filter(|last| last.name == used.name) {
            last.bytes += used.bytes;
            last.steps += used.steps;
            last.threads = last.threads.max(used.threads);
            last.calls.add(&used.calls);
        } else {
            self.uses.push(used);
        }
    }
}

/// How many calls this thread makes from here on.
pub(super) struct Tally(CallCounts);

impl Tally {
    pub(super) fn begin() -> Self {
        Self(CallCounts::of_this_thread())
    }

    pub(super) fn calls(&self) -> CallCounts {
        CallCounts::of_this_thread().since(&self.0)
    }
}
