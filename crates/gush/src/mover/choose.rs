//! Which methods a move may use, and on how many threads.

use std::borrow::Cow;

use super::job::Job;
use super::{Choice, Holes};
use crate::endpoint::Kind;
use crate::kernel::Kernel;
use crate::method::{MethodName, Refusal};
use crate::plan;
use crate::profile::Rule;
use crate::wait::Wait;

impl Job<'_> {
    /// The named method alone, or the plan's.
    pub(super) fn candidates(&self) -> Cow<'static, [MethodName]> {
        match self.options.choice {
            Choice::Only(name) => {
                let at = MethodName::ALL.iter().position(|&known| known == name).unwrap_or(0);
                Cow::Borrowed(&MethodName::ALL[at..=at])
            }
            Choice::Auto => {
                let left_bytes = self.known_left_bytes(None);
                let threads = self.threads(left_bytes);
                let preferred = self.rule.map_or(&[][..], Rule::methods);
                plan::methods_for(&self.source, &self.target, left_bytes, threads, preferred)
            }
        }
    }

    /// The profile speaks only where the choice is left to the plan.
    pub(super) fn ask_profile(&mut self) {
        if let (Choice::Auto, Some(profile)) = (self.options.choice, self.options.profile) {
            let expected_bytes = self.known_left_bytes(None);
            self.rule = profile.rule_for(&self.source, &self.target, expected_bytes);
        }
    }

    /// What the profile had to say, for `--explain`.
    pub(super) fn profile_account(&self) -> Vec<String> {
        let (Choice::Auto, Some(profile)) = (self.options.choice, self.options.profile) else {
            return Vec::new();
        };
        let rule = match self.rule {
            Some(rule) => Some(rule.to_string()),
            None if profile.is_empty() => None,
            None => Some("no rule for this pair and size: the table picks".to_owned()),
        };
        profile.notes().iter().cloned().chain(rule).collect()
    }

    /// How to wait: as the user said, or as was measured, or asleep.
    pub(super) fn waiting(&self) -> Wait {
        let measured = || self.rule.and_then(Rule::spin).map(Wait::Hybrid);
        self.options.wait.or_else(measured).unwrap_or_default()
    }

    /// What the options, the memory of refusals and the method's own nature say before it is tried.
    pub(super) fn may_use(&self, name: MethodName) -> Result<(), Refusal> {
        let traits = name.method().traits();
        let named = self.options.choice == Choice::Only(name);
        let sharing = traits.shares_source
            && matches!(self.source.kind(), Kind::File | Kind::Block)
            && self.target.kind() != Kind::File;
        let why = if self.options.excluded.contains(&name) {
            "excluded by an option"
        } else if self.options.isolated && sharing {
            "it shares the source's pages, and isolation was asked for"
        } else if self.options.tuning.make_holes && name != MethodName::ReadWrite {
            "only read-write sees which blocks are zero, and holes are to be made of them"
        } else if self.options.holes == Holes::Fill && self.may_leave_holes(name) {
            "it can leave holes, and every byte is to be written"
        } else if !named && self.options.digest && !traits.sees_bytes {
            "the bytes are to be hashed, and it does not see them"
        } else if !named
            && let Some(memory) = self.options.refusals
            && memory.knows(name, &self.source, &self.target)
        {
            "refused before, between the same two file systems"
        } else {
            return Ok(());
        };
        Err(Refusal::because(name, why))
    }

    /// Sharing blocks keeps holes; so does copy_file_range where it shares blocks.
    pub(super) fn may_leave_holes(&self, name: MethodName) -> bool {
        matches!(name, MethodName::Reflink | MethodName::CopyFileRange)
            && self.source.kind() == Kind::File
    }

    /// How many threads may share what is left; processors are only counted for a file worth it.
    pub(super) fn threads(&self, left_bytes: u64) -> usize {
        if !self.may_share_work || left_bytes < plan::PARALLEL_BYTES {
            return 1;
        }
        match (self.options.threads, self.rule.and_then(Rule::threads)) {
            (0, None) => Kernel::get().processors().min(4),
            (0, Some(measured)) => Kernel::get().processors().min(measured),
            (threads, _) => threads,
        }
    }

    /// One thread, unless the method's ranges are independent and there are enough of them.
    pub(super) fn threads_for(&self, name: MethodName, goal: Option<u64>) -> usize {
        let traits = name.method().traits();
        let apart = self.source_base.is_some() && self.target_base.is_some();
        let measured = self.rule.and_then(|rule| rule.threads_for(name)).unwrap_or(0);
        let wanted = traits.gains_from_threads || self.options.threads.max(measured) > 1;
        if traits.parallel && wanted && apart && !self.options.tuning.make_holes {
            self.threads(self.known_left_bytes(goal))
        } else {
            1
        }
    }
}
