//! One thing that was found out.

use gush::{Errno, errno_name};
use gush_text::errno_text;
use serde::Serialize;

/// The state of a fact for moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// As good as possible.
    Fine,
    /// Usable, with less than there could be.
    Limited,
    /// Unusable.
    Absent,
    /// Not found out.
    Unknown,
}

/// A fact, the consequence, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject: a name that stays the same.
    pub topic: &'static str,
    /// How good that is.
    pub state: Condition,
    pub fact: String,
    /// The consequence for moving bytes.
    pub consequence: String,
    /// The remedy; none where nothing need or can be done.
    pub remedy: Option<String>,
}

macro_rules! constructors {
    ($($name:ident: $state:ident),+) => {$(
        pub(super) fn $name(
            topic: &'static str,
            fact: impl Into<String>,
            consequence: impl Into<String>,
        ) -> Self {
            let (fact, consequence) = (fact.into(), consequence.into());
            Self { topic, state: Condition::$state, fact, consequence, remedy: None }
        }
    )+};
}

impl Finding {
    constructors!(fine: Fine, limited: Limited, absent: Absent, unknown: Unknown);

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// An error as people read it: the words and the errno's name.
pub(super) fn words(errno: Errno) -> String {
    format!("{} ({})", errno_text(errno), errno_name(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_words_and_a_name() {
        assert_eq!(words(Errno::PERM), "Operation not permitted (EPERM)");
    }
}
