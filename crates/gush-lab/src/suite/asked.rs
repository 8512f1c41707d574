//! The options of a suite, and the values given.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use gush_text::{memory_bytes, some_bytes, suggestion};

use crate::Error;

pub(super) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

pub(super) fn text(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).value_name(value_name)
}

/// A size of at least one byte.
pub(super) fn size(name: &'static str, help: &'static str) -> Arg {
    text(name, "SIZE", help).value_parser(some_bytes)
}

/// A size of at least one byte, and no larger than memory can be.
pub(super) fn memory(name: &'static str, help: &'static str) -> Arg {
    let bytes = |text: &str| memory_bytes(text).map(|bytes| bytes as u64);
    text(name, "SIZE", help).value_parser(ValueParser::new(bytes))
}

/// An option that takes a list.
pub(super) fn several(option: Arg) -> Arg {
    option.value_delimiter(',').action(ArgAction::Append)
}

/// An option that takes one of `names`.
pub(super) fn one_of(option: Arg, names: impl IntoIterator<Item = &'static str>) -> Arg {
    option.value_parser(PossibleValuesParser::new(names))
}

/// The directory to make files in.
pub(super) const DIR: &str = "dir";

pub(super) fn dir(help: &'static str) -> Arg {
    let option = text(DIR, "DIR", help).default_value(".");
    option.value_parser(ValueParser::path_buf()).value_hint(ValueHint::DirPath)
}

pub(super) fn path(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).help(help).required(true).value_parser(ValueParser::path_buf())
}

/// The values given to a suite.
#[derive(Clone, Debug)]
pub struct Asked {
    /// This program, which cases start again.
    pub program: PathBuf,
    /// The names after `--only`; none for all cases.
    pub only: Vec<String>,
    /// A tour asks: the terminal has room for a few lines.
    pub is_brief: bool,
    pub(super) given: ArgMatches,
}

impl Asked {
    pub fn new(program: impl Into<PathBuf>, given: ArgMatches) -> Self {
        Self { program: program.into(), only: Vec::new(), is_brief: false, given }
    }

    /// The values that `words` have for `options`.
    pub fn read(
        program: impl Into<PathBuf>,
        options: Vec<Arg>,
        words: &[&OsStr],
    ) -> Result<Self, Error> {
        let command = Command::new("suite").args(options).no_binary_name(true);
        let given = command.try_get_matches_from(words);
        given
            .map(|given| Self::new(program, given))
            .map_err(|error| Error::refused(error.to_string()))
    }

    pub fn is(&self, flag: &str) -> bool {
        self.given.get_flag(flag)
    }

    /// All values of an option.
    pub fn all<T: Clone + Send + Sync + 'static>(&self, name: &str) -> Vec<T> {
        self.given.get_many(name).map_or_else(Vec::new, |values| values.cloned().collect())
    }

    pub fn size(&self, name: &str) -> Option<u64> {
        self.given.get_one(name).copied()
    }

    pub fn word(&self, name: &str) -> &str {
        self.given.get_one(name).map_or("", String::as_str)
    }

    /// The one of `all` that `--way` names.
    pub(super) fn way<T>(
        &self,
        all: impl IntoIterator<Item = T> + Clone,
        name_of: fn(&T) -> &'static str,
    ) -> Result<T, Error> {
        if let Some(name) = self.given.get_one::<String>("way") {
            return Error::named("way", name, all, name_of);
        }
        let names = all.into_iter().map(|way| name_of(&way));
        Err(Error::refused(format!("--way is missing{}", suggestion("", names))))
    }

    /// The path that is required, or has a default.
    pub fn path(&self, name: &str) -> &Path {
        self.given.get_one::<PathBuf>(name).map_or(Path::new("."), PathBuf::as_path)
    }
}
