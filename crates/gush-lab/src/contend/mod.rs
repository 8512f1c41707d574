//! Any command as a contender: `gush lab run 'cp {in} {out}' 'gush cp {in} {out}'`.
//!
//! | room | holds |
//! |---|---|
//! | `template`, `parameter` | `{in}`, `{out}` and the user's own names in a command; their values |
//! | `start` | which commands need a shell; processes of both kinds |
//! | `place`, `content` | the input and the outputs; the digest of an output |
//! | `printed` | figures that a command prints itself |
//! | `check`, `contest` | contradictions, told before anything starts; the comparison made ready, and its agreement |
//! | `contender`, `label` | one command as a [`Case`](crate::case::Case): prepared, timed, counted; its name |
//! | `ring` | the output that all contenders have to write, and who changed the input |
//! | `pace` | how many rounds, and about how long they take |
//! | `standing` | who is faster than whom, how surely, and who is out |
//! | `file` | comparisons written down as TOML, with their aims |
//! | `show`, `export` | the standing for people; for Markdown, CSV and JSON as hyperfine writes them |
//!
//! Rounds are interleaved: each takes every contender once, in shuffled order, so that a machine that slows down slows
//! all of them. The clock of a sample runs from before the process is started until the process ends; everything around it
//! (removing the old output, `prepare`, comparing the new output) stands outside.
//!
//! Facts of a sample: `command`, `parameter NAME`, `printed NAME`, `status` or `signal` of a failure, `output` (digest), `peak_bytes` or
//! `peak_at_most_bytes`, `minor_faults`, `major_faults`, `switches`, `preemptions`, `syscalls` (name → count).

mod check;
mod contender;
mod content;
mod contest;
pub mod export;
mod file;
mod label;
mod pace;
mod parameter;
mod printed;
mod ring;
pub mod show;
mod standing;
mod start;
pub mod template;
mod workplace;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

pub use contender::absence;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Error;
use crate::model::Printed;

pub use content::Content;
pub use contest::{Absent, Contest};
pub use file::{Aim, Block, CaseFile};
pub use pace::{Pace, Paced};
pub use parameter::{Parameter, Values};
pub use standing::{Standing, of as standings, regressions, sentences};
pub use start::{Shell, found, needs_shell};
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

impl Output {
    /// The word of `--output`, or a path with a slash, as with hyperfine.
    ///
    /// # Errors
    /// [`Error::Refused`] for another word.
    ///
    /// ```
    /// use gush_lab::contend::Output;
    /// assert_eq!(Output::read("pipe")?, Output::Pipe);
    /// assert_eq!(Output::read("./pipe")?, Output::File("./pipe".into()));
    /// assert!(Output::read("nul").is_err());
    /// # Ok::<(), gush_lab::Error>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, Error> {
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

    /// The text that [`read`](Self::read) reads.
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
        let text = String::deserialize(deserializer)?;
        Self::read(&text).map_err(|error| D::Error::custom(error.told()))
    }
}

/// The failures that put no command out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// None: who fails is out.
    #[default]
    None,
    /// Every failure.
    All,
    /// These exit statuses; 128 and the number of a signal stand for an end by this signal.
    Statuses(Vec<i32>),
}

impl Ignored {
    /// `all-non-zero`, or exit statuses with commas between, as with hyperfine.
    ///
    /// # Errors
    /// [`Error::Refused`] for another text.
    ///
    /// ```
    /// use gush_lab::contend::Ignored;
    /// assert_eq!(Ignored::read("all-non-zero")?, Ignored::All);
    /// assert_eq!(Ignored::read("1,2")?, Ignored::Statuses(vec![1, 2]));
    /// assert!(Ignored::read("some").is_err());
    /// # Ok::<(), gush_lab::Error>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, Error> {
        if text == "all-non-zero" {
            return Ok(Self::All);
        }
        let statuses = text.split(',').map(|status| status.trim().parse());
        let statuses = statuses.collect::<Result<_, _>>();
        statuses.map(Self::Statuses).map_err(|_| {
            Error::refused(format!("'{text}' is no list of exit statuses: 1,2 (or all-non-zero)"))
        })
    }

    /// Is an end by `status` ignored?
    fn has(&self, status: ExitStatus) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Statuses(statuses) => statuses.contains(&shell_status(status)),
        }
    }

    /// For the identity of a case.
    fn told(&self) -> Value {
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

/// A command in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The command, with names in braces.
    pub command: String,
    /// The contender's name, with names of parameters in braces; without a name, the command.
    pub name: Option<String>,
    /// Runs before each run of the command, in the place of the comparison's own.
    pub prepare: Option<String>,
    /// Runs after each run of the command, in the place of the comparison's own.
    pub conclude: Option<String>,
    /// Where the standard output of the command goes, in the place of the comparison's own.
    pub output: Option<Output>,
    /// The command with these values of its parameters alone, as [`Comparison::singled`] has it.
    #[serde(skip)]
    pub values: Option<Values>,
    /// Programs that the command needs beside the program started.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A missing program is no failure.
    #[serde(default, rename = "optional")]
    pub is_optional: bool,
}

/// The contenders of a comparison, and the manner of comparing.
///
/// ```
/// use gush_lab::contend::{Comparison, Entry, Input};
/// use gush_lab::probe::Probe;
/// use gush_lab::runner::Runner;
/// # let dir = tempfile::tempdir()?;
/// let entry = |command: &str| Entry { command: command.into(), ..Entry::default() };
/// let comparison = Comparison {
///     entries: vec![entry("cp {in} {out}"), entry("dd if={in} of={out} bs=64K")],
///     input: Some(Input::Bytes(1 << 20)),
///     dir: dir.path().to_owned(),
///     ..Comparison::default()
/// };
/// let contest = comparison.contest()?;
/// let probe = Probe::default();
/// let runner = Runner { probe: &probe, rounds: 2, time: None, end: None };
/// let outcome = runner.run(&contest.cases, |_| ());
/// assert_eq!((outcome.samples.len(), outcome.failures.len()), (4, 0));
/// assert!(contest.agreement()?.unwrap().contains("equal to the input"));
/// contest.end(|_| (), |_| ());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The suite's name in the stored run.
    pub suite: String,
    /// The commands. The others are measured against the first.
    pub entries: Vec<Entry>,
    /// Parameters: a command that names some becomes a contender for every choice of their values.
    pub parameters: Vec<Parameter>,
    /// This program: behind `{gush}` unless a variable is called so, and the one that counts system calls.
    pub gush: Option<PathBuf>,
    /// Values for more names. Labels leave the names as they are.
    pub variables: BTreeMap<String, String>,
    /// Where files are made.
    pub dir: PathBuf,
    /// The input, for which `{in}` stands.
    pub input: Option<Input>,
    /// The bytes that a command moves, if they are not the input's.
    pub bytes: Option<u64>,
    /// Runs once for each contender, before all rounds.
    pub setup: Option<String>,
    /// Runs before each run of a command.
    pub prepare: Option<String>,
    /// Runs after each run of a command.
    pub conclude: Option<String>,
    /// Runs once for each contender, after all rounds.
    pub cleanup: Option<String>,
    /// Who starts the commands.
    pub shell: Shell,
    /// Runs of each contender before the first round; at least one of the contender whose output is the expected one.
    pub warmups: u32,
    /// How often a sample runs the command, one run after the other, each with everything around a run.
    pub repeat: u32,
    /// Commands that fail so are measured nevertheless.
    pub ignored: Ignored,
    /// Where standard output goes.
    pub output: Output,
    /// Standard input is the input, instead of nothing.
    pub is_input_piped: bool,
    /// `{out}` of the run before is not removed.
    pub keeps_output: bool,
    /// Outputs are not compared.
    pub ignores_output: bool,
    /// The right output: a file or directory, or `{in}`. Without it, the first contender's output.
    pub expected: Option<String>,
    /// Count the system calls of each contender, in one run more.
    pub counts_calls: bool,
    /// Figures that the commands print, of which the first is compared instead of the time. Of several runs of a sample the mean
    /// counts.
    pub figures: Vec<Printed>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            suite: "run".to_owned(),
            entries: Vec::new(),
            parameters: Vec::new(),
            gush: None,
            variables: BTreeMap::new(),
            dir: PathBuf::from("."),
            input: None,
            bytes: None,
            setup: None,
            prepare: None,
            conclude: None,
            cleanup: None,
            shell: Shell::Auto,
            warmups: 1,
            repeat: 1,
            ignored: Ignored::None,
            output: Output::Null,
            is_input_piped: false,
            keeps_output: false,
            ignores_output: false,
            expected: None,
            counts_calls: false,
            figures: Vec::new(),
        }
    }
}
