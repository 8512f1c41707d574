//! Which methods a move may use, and on how many threads.

use super::ends::Ends;
use super::request::Request;
use super::{Choice, Holes};
use crate::endpoint::Kind;
use crate::method::{MethodName, Refusal};
use crate::plan::{self, PlanRow};

/// The knowledge by which a method is chosen.
pub(super) struct Choosing<'m, 'a> {
    pub(super) request: &'m Request<'a>,
    pub(super) ends: &'m Ends<'a>,
    pub(super) makes_holes: bool,
    /// Somebody looks, or may end the move: no call may hold it.
    pub(super) is_watched: bool,
    /// Both sides have offsets, so that ranges may be moved apart from each other.
    pub(super) has_ranges: bool,
    /// Bytes left, by the source's size.
    pub(super) left_bytes: u64,
}

impl Choosing<'_, '_> {
    /// The named method alone, or the plan's.
    pub(super) fn candidates(&self) -> &'static [MethodName] {
        match self.request.choice {
            Choice::Only(name) => {
                // A slice of the static list, so that a named method costs no allocation.
                let at = MethodName::ALL.iter().position(|&known| known == name).unwrap_or(0);
                &MethodName::ALL[at..=at]
            }
            Choice::Auto => self.row().methods,
        }
    }

    /// The verdict of options, remembered refusals and the method's own nature, before any try.
    pub(super) fn may_use(&self, name: MethodName) -> Result<(), Refusal> {
        let (request, Ends { source, target }) = (self.request, self.ends);
        let traits = name.method().traits();
        let named = request.names(name);
        let sharing = traits.shares_source
            && matches!(source.kind(), Kind::File | Kind::Block)
            // Into a file splice(2) copies before it returns, so nothing is shared.
            && target.kind() != Kind::File;
        let why = if request.excluded.contains(&name) {
            Refusal::EXCLUDED
        } else if request.isolated && sharing {
            "it shares the source's pages, and isolation was asked for"
        } else if self.makes_holes && name != MethodName::ReadWrite {
            "only read-write sees which blocks are zero, and holes are to be made of them"
        } else if request.holes == Holes::Fill && self.may_leave_holes(name) {
            "it can leave holes, and every byte must be written"
        } else if self.is_watched
            && target.holds_splices()
            && matches!(name, MethodName::Sendfile | MethodName::Splice | MethodName::Vmsplice)
        {
            Refusal::HELD_BY_SOCKET
        } else if !named && request.shows_bytes() && !traits.sees_bytes {
            "it bypasses user space, so the bytes cannot be inspected"
        } else if !named
            && let Some(memory) = request.refusals
            && memory.knows(name, source, target)
        {
            "refused before, between the same two file systems"
        } else {
            return Ok(());
        };
        Err(Refusal::because(name, why))
    }

    /// Sharing blocks keeps holes; so does copy_file_range where blocks are shared.
    fn may_leave_holes(&self, name: MethodName) -> bool {
        matches!(name, MethodName::Reflink | MethodName::CopyFileRange)
            && self.ends.source.kind() == Kind::File
    }

    /// How several threads may share what `name` is to move; none where one thread moves it.
    pub(super) fn sharing(&self, name: MethodName) -> Option<Sharing> {
        let request = self.request;
        // A hash and an inspector need the bytes in order, and a rate serves one thread.
        let in_order = request.shows_bytes() || request.is_limited();
        let is_large = self.left_bytes >= plan::PARALLEL_BYTES;
        let is_whole = name.method().traits().whole;
        if in_order || !is_large || is_whole || !self.has_ranges || self.makes_holes {
            return None;
        }
        let by = match request.choice {
            Choice::Only(name) => name,
            Choice::Auto => {
                let by = self.row().on_threads;
                by.filter(|by| !request.excluded.contains(by)).unwrap_or(name)
            }
        };
        let traits = by.method().traits();
        match request.threads {
            0 => traits.gains_from_threads.then_some(Sharing { by, threads: None }),
            1 => None,
            threads => traits.parallel.then_some(Sharing { by, threads: Some(threads) }),
        }
    }

    fn row(&self) -> &'static PlanRow {
        plan::row_for(&self.ends.source, &self.ends.target, self.left_bytes)
    }
}

/// How several threads share one file.
pub(super) struct Sharing {
    pub(super) by: MethodName,
    /// As many as the user asked for; none where measurements decide.
    pub(super) threads: Option<usize>,
}
