//! State that the contenders of a comparison share, and the output that all of them have to write.

use std::cell::{OnceCell, RefCell};

use super::template::names;
use super::workplace::Workplace;
use super::{Comparison, Content, Entry};
use crate::Error;

/// State that all contenders of a comparison share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The suite's name in the stored run.
    pub(super) suite: String,
    pub(super) rules: Comparison,
    pub(super) shell: Option<Vec<String>>,
    pub(super) workplace: Workplace,
    /// The right output: as requested, or else the first.
    pub(super) expected: RefCell<Option<Expected>>,
    pub(super) changed_by: OnceCell<String>,
}

impl Shared {
    /// Do other commands run between the runs of a contender?
    pub(super) fn has_others(&self) -> bool {
        let Comparison { prepare, conclude, entries, .. } = &self.rules;
        let own = |entry: &Entry| entry.prepare.is_some() || entry.conclude.is_some();
        prepare.is_some() || conclude.is_some() || entries.len() > 1 || entries.iter().any(own)
    }

    /// Whether a hook names the input, and so may recreate it.
    pub(super) fn names_input(&self) -> bool {
        let Comparison { setup, prepare, conclude, cleanup, entries, .. } = &self.rules;
        let own = entries.iter().flat_map(|entry| [&entry.prepare, &entry.conclude]).flatten();
        let all = [setup, prepare, conclude, cleanup].into_iter().flatten().chain(own);
        all.into_iter().any(|text| names(text, "in"))
    }

    /// The `content` of the contender `label`, if it equals the expected content; the first one is
    /// the expected one.
    pub(super) fn judge(&self, label: &str, content: Content) -> Result<Content, Error> {
        let mut expected = self.expected.borrow_mut();
        match &*expected {
            None => {
                *expected = Some(Expected { from: label.to_owned(), content: content.clone() });
            }
            Some(Expected { content: right, .. }) if *right == content => {}
            Some(Expected { from, .. }) if from == label => {
                return Err(Error::refused(
                    "its output changes from run to run (--no-compare measures it nevertheless)",
                ));
            }
            Some(Expected { from, content: right }) => {
                let how = if right.bytes == content.bytes {
                    format!("{} bytes, and not the same", content.bytes)
                } else {
                    format!("{} bytes instead of {}", content.bytes, right.bytes)
                };
                return Err(Error::refused(format!(
                    "wrong output: it differs from that of {from}: {how} (--no-compare measures it nevertheless)"
                )));
            }
        }
        Ok(content)
    }
}

/// An output that all others have to equal.
#[derive(Debug)]
pub(super) struct Expected {
    /// Whose output, or which file.
    pub(super) from: String,
    pub(super) content: Content,
}
