//! The kinds of addresses: a table, and what is asked of it.

mod row;

pub(crate) use row::Form;
use row::KINDS;
pub use row::{Kind, Locator};

use crate::address::Opt;
use crate::address::options::SHAPES;

impl Kind {
    /// Every kind, in the order in which help texts show them.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().copied()
    }

    /// The keyword.
    #[must_use]
    pub fn name(self) -> &'static str {
        let grammar = self.row().grammar;
        grammar.split_once(':').map_or(grammar, |(name, _)| name)
    }

    /// The written form, without options.
    #[must_use]
    pub fn grammar(self) -> &'static str {
        self.row().grammar
    }

    /// The description, in a few words.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.row().help
    }

    /// May an end of this kind be a socket of datagrams?
    #[must_use]
    pub fn takes_datagrams(self) -> bool {
        self.row().is_datagrams || self == Self::UnixClient
    }

    /// Can nothing be written to an end of this kind?
    #[must_use]
    pub fn only_receives(self) -> bool {
        self.row().only_receives
    }

    /// Does the kind wait for peers, so that a link can serve more than one?
    #[must_use]
    pub fn listens(self) -> bool {
        self.row().listens
    }

    /// Does the kind take the option?
    ///
    /// ```
    /// use gush_link::address::{Kind, Opt};
    /// assert!(Kind::TcpListen.takes(Opt::Fork) && !Kind::File.takes(Opt::Fork));
    /// ```
    #[must_use]
    pub fn takes(self, option: Opt) -> bool {
        let row = self.row();
        // A kind without a keyword consists of others, which take these options themselves.
        let shapes = if row.keywords.is_empty() { &[] } else { SHAPES };
        row.options.iter().chain([&shapes]).any(|group| group.contains(&option))
    }
}

/// The kind that a keyword names.
pub(crate) fn keyword(word: &str) -> Option<(Kind, Form)> {
    Kind::all().find_map(|kind| {
        let mut forms = kind.row().keywords.iter();
        // socat's documentation writes keywords in upper case.
        let is_word = |name: &&str| name.eq_ignore_ascii_case(word);
        forms.find(|(_, names)| names.iter().any(is_word)).map(|&(form, _)| (kind, form))
    })
}

/// Every keyword, with the kind that it names.
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, Kind)> {
    Kind::all().flat_map(|kind| {
        let names = kind.row().keywords.iter().flat_map(|(_, names)| *names);
        names.map(move |name| (*name, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_names_two_kinds() {
        let mut all: Vec<_> = keywords().map(|(name, _)| name).collect();
        all.sort();
        assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
    }

    #[test]
    fn every_kind_with_a_keyword_has_its_name_as_one() {
        let wordless = [Kind::Path, Kind::Joined, Kind::FirstOf];
        for kind in Kind::all().filter(|kind| !wordless.contains(kind)) {
            assert_eq!(keyword(kind.name()).map(|(kind, _)| kind), Some(kind), "{kind:?}");
            assert!(kind.grammar().starts_with(kind.name()) && !kind.help().is_empty(), "{kind:?}");
        }
    }
}
