//! The abilities of a pair of paths: sharing blocks, and copying inside the kernel.

use std::fs::File;
use std::path::Path;

use gush::{Choice, Errno, MethodName, Mover};
use gush_text::os_text;

use super::PairFindings;
use super::asked_path::{AskedPath, Found};
use super::finding::{Finding, words};

/// Enough to be a whole number of blocks everywhere.
const MOST_BYTES: u64 = 64 << 10;

/// The consequence where nothing is known.
const UNTRIED: &str =
    "it is tried when something is copied; gush uses another method if it is refused";

/// A method that depends on both paths.
struct PairTrial {
    topic: &'static str,
    method: MethodName,
    works: &'static str,
    with: &'static str,
    without: &'static str,
}

const TRIALS: [PairTrial; 2] = [
    PairTrial {
        topic: "reflink",
        method: MethodName::Reflink,
        works: "a copy shares the blocks of its source",
        with: "copies of any size are made at once, and take no space (cp --reflink)",
        without: "copies take time and space; cp --reflink=always is refused",
    },
    PairTrial {
        topic: "copy-file-range",
        method: MethodName::CopyFileRange,
        works: "copy_file_range works",
        with: "copies are made inside the kernel, or inside the server",
        without: "gush reads and writes instead, or splices",
    },
];

/// From each path that holds files and lets this user in to each other one.
pub(super) fn examine(asked: &[AskedPath]) -> Vec<PairFindings> {
    let mut pairs = Vec::new();
    for (index, from) in asked.iter().enumerate() {
        for (other, to) in asked.iter().enumerate() {
            let (Ok(source), Ok(target)) = (&from.found, &to.found) else { continue };
            let are_open = from.is_usable() && to.is_usable();
            if index == other || !are_open || !from.holds_files() || !to.holds_files() {
                continue;
            }
            pairs.push(PairFindings {
                from: from.path.display().to_string(),
                to: to.path.display().to_string(),
                findings: between((&from.path, source), target),
            });
        }
    }
    pairs
}

/// From a path to itself.
pub(super) fn within(path: &Path, found: &Found) -> Vec<Finding> {
    between((path, found), found)
}

fn between((path, source): (&Path, &Found), target: &Found) -> Vec<Finding> {
    TRIALS.iter().map(|trial| trial.between(path, source, target)).collect()
}

impl PairTrial {
    fn between(&self, path: &Path, source: &Found, target: &Found) -> Finding {
        let ends = source.source(path).and_then(|file| {
            let scratch = target.scratch();
            scratch
                .map(|to| (file, to))
                .map_err(|error| format!("no file can be made there: {}", os_text(&error)))
        });
        let (file, to) = match ends {
            Ok(ends) => ends,
            Err(why) => {
                return Finding::unknown(self.topic, format!("it cannot be tried: {why}"), UNTRIED);
            }
        };
        match self.attempt(&file, &to) {
            Ok(()) => Finding::fine(self.topic, self.works, self.with),
            Err((errno, why)) => self.refused(errno, &why),
        }
    }

    /// By the kernel's answer, or else by a rule of the engine.
    fn refused(&self, errno: Option<Errno>, why: &str) -> Finding {
        // Without room for the trial the kernel did not say whether the method serves.
        if let Some(Errno::NOSPC | Errno::DQUOT) = errno {
            return Finding::unknown(self.topic, format!("it cannot be tried: {why}"), UNTRIED);
        }
        let finding = Finding::absent(self.topic, format!("it is refused: {why}"), self.without);
        match errno {
            Some(Errno::OPNOTSUPP | Errno::XDEV) if self.method == MethodName::Reflink => finding
                .remedy("keep both on one file system that shares blocks: xfs, btrfs, bcachefs"),
            Some(Errno::XDEV) => finding.remedy("keep both on one file system"),
            _ => finding,
        }
    }

    fn attempt(&self, from: &File, to: &File) -> Result<(), (Option<Errno>, String)> {
        let bytes = from.metadata().map_or(0, |about| about.len()).min(MOST_BYTES);
        let moved = Mover::new(from, to)
            .method(Choice::Only(self.method))
            .source_offset_bytes(0)
            .target_offset_bytes(0)
            .length_bytes(bytes)
            .run();
        moved.map(drop).map_err(|error| {
            let errno = error.io_error().and_then(Errno::from_io_error);
            (errno, errno.map_or_else(|| error.to_string(), words))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Condition;
    use super::*;

    #[test]
    fn a_lack_of_room_is_no_refusal_of_a_method() {
        for trial in &TRIALS {
            for errno in [Errno::NOSPC, Errno::DQUOT] {
                let found = trial.refused(Some(errno), "");
                assert_eq!(found.state, Condition::Unknown, "{found:?}");
                assert!(found.fact.starts_with("it cannot be tried: "), "{found:?}");
            }
            assert_eq!(trial.refused(Some(Errno::XDEV), "").state, Condition::Absent);
        }
    }
}
