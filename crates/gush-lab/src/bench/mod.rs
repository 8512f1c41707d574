//! Any command as a contender: `gush lab run 'cp {in} {out}' 'gush cp {in} {out}'`.
//!
//! | file | content |
//! |---|---|
//! | `template`, `parameter` | `{in}`, `{out}` and the user's names in a command; their values |
//! | `start` | which commands need a shell; processes of both kinds |
//! | `workplace`, `content` | the input and the outputs; the digest of an output |
//! | `printed`, `counters` | figures that a command prints; the processor's counters |
//! | `comparison` | what is compared and how: from options, TOML or code |
//! | `check`, `prepare` | contradictions, reported first; inputs, contenders and their agreement |
//! | `contender`, `label` | one command as a [`Case`](crate::case::Case): prepared, timed; its name |
//! | `shared` | state that all contenders share: the expected output, who changed the input |
//! | `pace` | how many rounds, and about how long they take |
//! | `summary` | which is faster than which, how surely, and which are out |
//! | `show`, `export` | the summary as a table; as Markdown, CSV and JSON as hyperfine writes them |
//!
//! Rounds are interleaved: each takes every contender once, in shuffled order, so that a machine
//! that slows down slows all of them. The clock of a sample runs from before the process is started
//! until the process ends; everything around it (removing the old output, `prepare`, comparing the
//! new output) stands outside.
//!
//! Facts of a sample: `command`, `parameter NAME`, `printed NAME`, `status` or `signal` of a
//! failure, `output` (digest), `peak_bytes` or `peak_at_most_bytes`, `minor_faults`,
//! `major_faults`, `switches`, `preemptions`, `cpu_cycles`, `instructions`, `cache_misses`.

mod check;
mod comparison;
mod contender;
mod content;
mod counters;
pub mod export;
mod label;
mod pace;
mod parameter;
mod prepare;
mod printed;
mod shared;
pub mod show;
mod start;
mod summary;
pub mod template;
mod workplace;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::str::FromStr;

pub use contender::absence;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Error;

pub use comparison::{Aim, Comparison, Entry};
pub use content::Content;
pub(crate) use content::special_kind;
pub use pace::{Pace, Paced};
pub use parameter::Parameter;
pub use prepare::Prepared;
pub use start::{Shell, found, needs_shell};
pub use summary::{Summary, of as summaries, regressions, sentences};
pub use workplace::Input;

/// Where the standard output of the commands goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// To /dev/null, with standard error kept for the message of a failure.
    #[default]
    Null,
    /// Into a pipe, which is read and dropped: for programs that do less when they see /dev/null.
    Pipe,
    /// Into a file, which is compared as `{out}` is.
    Check,
    /// To this program's own, with standard error.
    Inherit,
    /// Into this file, which each run makes anew.
    File(PathBuf),
}

/// The word of `--output`, or a path with a slash, as with hyperfine.
impl FromStr for Output {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "null" => Ok(Self::Null),
            "pipe" => Ok(Self::Pipe),
            "check" => Ok(Self::Check),
            "inherit" => Ok(Self::Inherit),
            path if path.contains('/') => Ok(Self::File(path.into())),
            word => Err(Error::refused(format!(
                "'{word}' is none of null, pipe, check and inherit (./{word} is a file)"
            ))),
        }
    }
}

impl Output {
    /// The text that this replaces.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Pipe => "pipe".to_owned(),
            Self::Check => "check".to_owned(),
            Self::Inherit => "inherit".to_owned(),
            Self::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

/// A value that a file writes as an option does.
fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err = Error>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error: Error| D::Error::custom(error.to_string()))
}

/// The failures despite which a command is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "bool")]
pub enum Ignored {
    /// None: a command that fails is left out.
    #[default]
    None,
    All,
    /// These exit statuses; 128 plus the number of a signal means that the signal ended it.
    Statuses(Vec<i32>),
}

impl From<bool> for Ignored {
    fn from(all: bool) -> Self {
        if all { Self::All } else { Self::None }
    }
}

/// `all-non-zero`, or exit statuses with commas between, as with hyperfine.
impl FromStr for Ignored {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "all-non-zero" {
            return Ok(Self::All);
        }
        let statuses = text.split(',').map(|status| status.trim().parse());
        let statuses = statuses.collect::<Result<_, _>>();
        statuses.map(Self::Statuses).map_err(|_| {
            Error::refused(format!(
                "'{text}' is not a list of exit statuses: 1,2 (or all-non-zero)"
            ))
        })
    }
}

impl Ignored {
    /// Is an end by `status` ignored?
    fn has(&self, status: ExitStatus) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Statuses(statuses) => statuses.contains(&shell_status(status)),
        }
    }

    /// For the identity of a case.
    fn to_json(&self) -> Value {
        match self {
            Self::None => false.into(),
            Self::All => true.into(),
            Self::Statuses(statuses) => {
                let statuses: Vec<String> = statuses.iter().map(i32::to_string).collect();
                statuses.join(",").into()
            }
        }
    }
}

/// The status as shells count: 128 and the number of the signal, after an end by a signal.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
