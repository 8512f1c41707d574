//! Any command as a contender: `gush lab run 'cp {in} {out}' 'gush cp {in} {out}'`.
//!
//! | room | holds |
//! |---|---|
//! | `template`, `parameter` | `{in}`, `{out}` and the user's own names in a command; their values |
//! | `start` | which commands need a shell; processes of both kinds |
//! | `place`, `content` | the input and the outputs; the digest of an output |
//! | `printed` | figures that a command prints itself |
//! | `contender`, `label` | one command as a [`Case`]: prepared, timed, counted; its name |
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

mod contender;
mod content;
pub mod export;
mod file;
mod label;
mod pace;
mod parameter;
mod place;
mod printed;
mod ring;
pub mod show;
mod standing;
mod start;
pub mod template;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use contender::absence;

use crate::Error;
use crate::case::Case;
use crate::model::Printed;

pub use content::Content;
pub use file::{Aim, Block, CaseFile};
pub use pace::{Pace, Paced};
pub use parameter::{Parameter, Values};
pub use place::Input;
pub use standing::{Standing, of as standings, regressions, sentences};
pub use start::{Shell, found, needs_shell};

use contender::{Contender, Sides};
use place::Place;
use ring::{Expected, Ring};

/// The names that every comparison knows, with words of other programs for the same.
const NAMES: [(&str, &[&str]); 4] = [
    ("in", &["input", "infile", "source", "src"]),
    ("out", &["output", "outfile", "target", "dst"]),
    ("dir", &["directory", "tmp", "tmpdir"]),
    ("gush", &[]),
];

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

/// A command in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The command, with names in braces.
    pub command: String,
    /// The contender's name, with names of parameters in braces; without a name, the command.
    pub name: Option<String>,
    /// Runs before each run of the command, in the place of the comparison's own.
    pub prepare: Option<String>,
    /// Programs that the command needs beside the program started.
    pub needs: Vec<String>,
    /// A missing program is no failure.
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
/// contest.end(|_| ());
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
    /// A command that fails is measured nevertheless.
    pub ignores_failures: bool,
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
            ignores_failures: false,
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

/// A contender that takes no part, because an optional program is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The contender.
    pub label: String,
    /// The program.
    pub program: String,
}

/// A comparison made ready: the files stay until [`end`](Self::end).
pub struct Contest {
    /// The contenders, in order.
    pub cases: Vec<Box<dyn Case>>,
    /// Contenders left out, and why.
    pub absent: Vec<Absent>,
    /// Doubts about the comparison, as sentences.
    pub notes: Vec<String>,
    contenders: Vec<Rc<Contender>>,
    ring: Rc<Ring>,
}

impl Comparison {
    /// Makes the input and the contenders.
    ///
    /// # Errors
    /// The contradiction in the comparison, as a sentence, or the file that cannot be made.
    pub fn contest(&self) -> Result<Contest, Error> {
        self.check()?;
        let place = Place::new(&self.dir, self.input.as_ref())?;
        let ring = Rc::new(Ring {
            shell: self.shell_words(),
            rules: self.clone(),
            expected: RefCell::new(self.expectation(&place)?),
            baseline: OnceCell::new(),
            seen_once: RefCell::default(),
            printed: RefCell::default(),
            spoiler: OnceCell::new(),
            place,
        });
        let (mut contenders, mut absent) = (Vec::new(), Vec::new());
        let all = self.contenders(&ring)?;
        let measure = all.first().map_or_else(String::new, |first| first.label().to_owned());
        for contender in all {
            match contender.missing_program() {
                Some(program) if contender.is_optional() => {
                    absent.push(Absent { label: contender.label().to_owned(), program });
                }
                _ => contenders.push(Rc::new(contender)),
            }
        }
        if let Some(first) = contenders.first() {
            // Empty before: nobody else sets the cell.
            let _ = ring.baseline.set(first.label().to_owned());
        }
        let case = |one: &Rc<Contender>| Box::new(contender::Turn(Rc::clone(one))) as Box<dyn Case>;
        let cases = contenders.iter().map(case).collect();
        let mut notes = self.notes(&ring);
        let is_written =
            |one: &&Rc<Contender>| one.is_beside_writers() && self.output == Output::Null;
        notes.extend(contenders.iter().filter(is_written).map(|one| {
            let label = one.label();
            format!("{label}: its standard output goes into a file, because others write {{out}}")
        }));
        if let Some(first) = contenders.first().filter(|first| first.label() != measure) {
            let other = first.label();
            notes.push(format!("{measure} is absent: {other} is the measure of the others"));
        }
        Ok(Contest { cases, absent, notes, contenders, ring })
    }

    /// The shell that starts the commands, if one does.
    fn shell_words(&self) -> Option<Vec<String>> {
        self.shell.words_for(self.entries.iter().map(|entry| entry.command.as_str()))
    }

    /// Refuses a comparison that contradicts itself, before anything is made or started.
    ///
    /// # Errors
    /// The contradiction, as a sentence.
    pub fn check(&self) -> Result<(), Error> {
        if self.entries.is_empty() {
            return Err(Error::refused("no command is there to be measured"));
        }
        if self.shell_words().is_none() {
            for entry in &self.entries {
                start::words(&entry.command, |_| None)?;
            }
        }
        let used = |name: &str| self.texts().any(|text| template::names(text, name));
        let mut names = BTreeSet::new();
        for parameter in &self.parameters {
            if !names.insert(&parameter.name) {
                return Err(Error::refused(format!(
                    "the parameter {{{}}} is given twice",
                    parameter.name
                )));
            }
            if self.variables.contains_key(&parameter.name) {
                return Err(Error::refused(format!(
                    "{{{}}} is a variable and a parameter",
                    parameter.name
                )));
            }
            if !used(&parameter.name) {
                return Err(Error::refused(format!(
                    "no command names the parameter {{{}}}",
                    parameter.name
                )));
            }
        }
        for text in self.texts() {
            if let Some(name) = template::unknown(text, |name| self.knows(name)) {
                return Err(self.unknown_name(name));
            }
        }
        let wants_input = used("in") || self.is_input_piped;
        if wants_input && self.input.is_none() {
            return Err(Error::refused("{in} needs --input, a size or a path"));
        }
        self.check_figures()?;
        if self.input.is_some() && !wants_input {
            return Err(Error::refused(
                "no command reads the input: name it with {in}, or say --stdin",
            ));
        }
        place::check(&self.dir, self.input.as_ref())?;
        let expected = self.expected.as_deref().filter(|path| *path != "{in}");
        if let Some(path) = expected.filter(|_| !self.ignores_output) {
            Content::look(Path::new(path))?;
        }
        Ok(())
    }

    /// Figures are read from standard output, which nothing else can then have.
    fn check_figures(&self) -> Result<(), Error> {
        let Some(first) = self.figures.first() else { return Ok(()) };
        let twice = self.figures.iter().enumerate().find_map(|(place, figure)| {
            let others = &self.figures[..place];
            others.iter().any(|other| other.name == figure.name).then_some(&figure.name)
        });
        if let Some(name) = twice {
            return Err(Error::refused(format!("the figure '{name}' is named twice")));
        }
        if self.output != Output::Null {
            return Err(Error::refused(format!(
                "the figure '{}' is read from standard output, which --output {} uses otherwise",
                first.name,
                self.output.name()
            )));
        }
        let writes = |entry: &&Entry| template::names(&entry.command, "out");
        let writers = self.entries.iter().filter(writes).count();
        if writers > 0 && writers < self.entries.len() {
            return Err(Error::refused(
                "with figures, every command writes {out} or none does: standard output is not compared",
            ));
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let usual = NAMES.iter().map(|(name, _)| *name);
        let parameters = self.parameters.iter().map(|parameter| parameter.name.as_str());
        usual.chain(parameters).chain(self.variables.keys().map(String::as_str))
    }

    fn knows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    fn unknown_name(&self, name: &str) -> Error {
        let lower = name.to_lowercase();
        let same = NAMES.iter().find(|(_, words)| words.contains(&&*lower));
        let remedy = match same {
            Some((own, _)) => format!("did you mean '{{{own}}}'?"),
            None => {
                let known: Vec<String> = self.names().map(|name| format!("{{{name}}}")).collect();
                crate::error::hint(&format!("{{{lower}}}"), known.iter().map(String::as_str))
            }
        };
        Error::refused(format!(
            "{{{name}}} has no value; {remedy} (--set {name}=… gives one; {{ {name} }} are just braces)"
        ))
    }

    /// All texts in which names may stand: the commands, and the path of the expected output.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [&self.setup, &self.prepare, &self.conclude, &self.cleanup, &self.expected];
        let of_entries = self.entries.iter().flat_map(|entry| {
            [Some(entry.command.as_str()), entry.prepare.as_deref()].into_iter().flatten()
        });
        own.into_iter().flatten().map(String::as_str).chain(of_entries)
    }

    fn expectation(&self, place: &Place) -> Result<Option<Expected>, Error> {
        let Some(text) = self.expected.as_deref().filter(|_| !self.ignores_output) else {
            return Ok(None);
        };
        let content = match text {
            "{in}" => place.input_content()?.cloned(),
            path => Some(Content::of(Path::new(path))?),
        };
        let from = if text == "{in}" { "the input".to_owned() } else { text.to_owned() };
        Ok(content.map(|content| Expected { from, content }))
    }

    /// Every entry with every choice of the parameters that the entry names, under labels that differ.
    fn contenders(&self, ring: &Rc<Ring>) -> Result<Vec<Contender>, Error> {
        let mut labels = BTreeSet::new();
        let mut found = Vec::new();
        for entry in &self.entries {
            let sides = Sides {
                setup: self.setup.clone(),
                prepare: entry.prepare.clone().or_else(|| self.prepare.clone()),
                conclude: self.conclude.clone(),
                cleanup: self.cleanup.clone(),
            };
            let named: Vec<&Parameter> = self
                .parameters
                .iter()
                .filter(|parameter| {
                    template::names(&entry.command, &parameter.name) || sides.name(&parameter.name)
                })
                .collect();
            for values in parameter::choices(&named) {
                let mut label = label::of(entry, &values);
                let mut copies = 1;
                while !labels.insert(label.clone()) {
                    copies += 1;
                    label = label::numbered(&label::of(entry, &values), copies);
                }
                let dir = ring.place.own_dir(found.len() + 1)?;
                found.push(Contender::new(entry, label, &sides, values, dir, Rc::clone(ring)));
            }
        }
        Ok(found)
    }

    fn notes(&self, ring: &Ring) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(shell), Shell::Auto) = (&ring.shell, &self.shell) {
            notes.push(format!(
                "{} starts the commands, because one of them needs a shell; its start is a part of every time",
                shell[0]
            ));
        }
        notes
    }
}

/// Says whether standard outputs, seen once each, are the same. One alone is compared with nothing.
fn printed_sentence(printed: &[(String, Content)], output: &Output) -> Option<String> {
    let ((_, first), rest) = printed.split_first()?;
    let timed = match output {
        Output::Null => {
            "; the timed runs wrote to /dev/null, where some programs do less (--output pipe)"
        }
        _ => "",
    };
    let differs = rest.iter().find(|(_, content)| content != first);
    match differs {
        Some((label, other)) => Some(format!(
            "Standard output, seen once and not timed, differs: {} bytes from {}, {} bytes from {label} (--output check puts out who differs)",
            first.bytes, printed[0].0, other.bytes
        )),
        None if rest.is_empty() => None,
        None => Some(format!(
            "Standard output was the same, seen once each and not timed: {} bytes{timed}",
            first.bytes
        )),
    }
}

impl Contest {
    /// The label of the contender that the others are measured against.
    #[must_use]
    pub fn baseline(&self) -> &str {
        self.ring.baseline.get().map_or("", String::as_str)
    }

    /// Whether the outputs were equal, as a sentence; `None` if none was compared.
    ///
    /// # Errors
    /// When the input cannot be read again.
    pub fn agreement(&self) -> Result<Option<String>, Error> {
        let Comparison { ignores_output, ref output, .. } = self.ring.rules;
        if self.ring.place.survey() != self.ring.place.first_survey() && !self.ring.names_input() {
            return Err(Error::refused(
                "the input changed during the rounds: the figures are of unlike inputs",
            ));
        }
        // Standard output has figures, which differ by nature.
        let has_none = self.ring.expected.borrow().is_none() && !self.ring.rules.figures.is_empty();
        if ignores_output || has_none {
            return Ok(None);
        }
        let expected = self.ring.expected.borrow();
        let Some(Expected { content, .. }) = &*expected else {
            let printed = self.ring.printed.borrow();
            let is_blind = printed.is_empty() && *output != Output::Inherit;
            let nothing =
                "No output was compared (--output check compares what the commands print)";
            return Ok(match is_blind && self.contenders.len() > 1 {
                true => Some(nothing.to_owned()),
                false => printed_sentence(&printed, output),
            });
        };
        let place = &self.ring.place;
        let is_input = place.input_bytes() == Some(content.bytes)
            && place.input_content()?.is_some_and(|input| input == content);
        let equal = if is_input { ", equal to the input" } else { "" };
        let once = self.ring.seen_once.borrow();
        let (which, rest) = match &once[..] {
            [] => ("Every output", String::new()),
            once if once.len() == self.contenders.len() => {
                ("Standard output, seen once each and not timed,", String::new())
            }
            once => ("Every output", format!("; of {} one, not timed", once.join(", "))),
        };
        Ok(Some(format!(
            "{which} was compared: {} bytes, blake3 {}…{equal}{rest}",
            content.bytes,
            content.short()
        )))
    }

    /// Runs the cleanup of every contender set up, and removes the files; `tell` learns of failures.
    pub fn end(self, mut tell: impl FnMut(&Error)) {
        let Self { cases, contenders, ring, .. } = self;
        drop(cases);
        for contender in &contenders {
            if let Err(error) = contender.clean_up() {
                tell(&error);
            }
        }
        drop(contenders);
        let removed = Rc::into_inner(ring).map_or(Ok(()), |ring| {
            let Ring { place, spoiler, .. } = ring;
            place.remove(spoiler.get().map(String::as_str))
        });
        if let Err(error) = removed {
            tell(&error);
        }
    }
}
