//! The options of a suite as data, and the values given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An option or operand.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The option's name, without dashes.
    pub name: &'static str,
    /// The value that the option takes.
    pub takes: Takes,
    /// The purpose, as the help says.
    pub help: &'static str,
}

/// The value of an option; a text in it is the name in the help.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// None: the option is given or not.
    Nothing,
    /// A size of at least one byte.
    Size,
    /// Such a size, no larger than memory can be.
    Memory,
    /// Several of these; and another name of the option.
    Sizes(&'static str),
    /// The directory to make files in, by default this one.
    Dir,
    /// A word, and those that there are.
    Word(&'static str, fn() -> Vec<&'static str>),
    /// Some words, and those that there are.
    Words(&'static str, fn() -> Vec<&'static str>),
    Text(&'static str),
    /// Some texts.
    Texts(&'static str),
    /// No option, but an operand: a path.
    Operand,
}

impl Taken {
    /// An option of this name that takes this.
    pub const fn new(name: &'static str, takes: Takes, help: &'static str) -> Self {
        Self { name, takes, help }
    }
}

/// A value that was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// The option was there.
    Yes,
    /// Sizes in bytes.
    Sizes(Vec<u64>),
    Words(Vec<String>),
    Path(PathBuf),
}

/// The options given to a suite.
#[derive(Clone, Debug)]
pub struct Asked {
    /// This program, which cases start again.
    pub program: PathBuf,
    /// The names after `--only`; none for all cases.
    pub only: Vec<String>,
    /// A tour asks: the terminal has room for a few lines.
    pub is_brief: bool,
    given: BTreeMap<&'static str, Given>,
}

impl Asked {
    /// Nothing so far, of cases that start `program`.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        let (only, given) = (Vec::new(), BTreeMap::new());
        Self { program: program.into(), only, is_brief: false, given }
    }

    /// Notes that the option `name` was given.
    pub fn give(&mut self, name: &'static str, given: Given) {
        self.given.insert(name, given);
    }

    /// Was the option `name` given?
    pub fn is(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The sizes given with the option `name`, in bytes.
    pub fn sizes(&self, name: &str) -> &[u64] {
        match self.given.get(name) {
            Some(Given::Sizes(sizes)) => sizes,
            _ => &[],
        }
    }

    /// The first of them.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes(name).first().copied()
    }

    /// The words given with the option `name`.
    pub fn words(&self, name: &str) -> &[String] {
        match self.given.get(name) {
            Some(Given::Words(words)) => words,
            _ => &[],
        }
    }

    /// The first of them.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words(name).first().map(String::as_str)
    }

    /// The path given as the option or operand `name`; by default the working directory.
    pub fn path(&self, name: &str) -> &Path {
        match self.given.get(name) {
            Some(Given::Path(path)) => path,
            _ => Path::new("."),
        }
    }
}
