//! The parts of a measurement: samples of cases in rounds, made by a run, on a machine.
//!
//! Everything here has one form as JSON, which the store, exports, imports and the report share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::once;

/// One sample's figures of one case.
///
/// A figure that a suite does not take is absent. `facts` has values peculiar to a suite, which the
/// head of its module lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gib_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_s: Option<f64>,
    #[serde(default)]
    pub bytes: u64,
    /// Values peculiar to the suite.
    #[serde(default)]
    pub facts: BTreeMap<String, Value>,
}

impl Measured {
    /// So many bytes in so many seconds.
    pub fn timed(bytes: u64, wall_s: f64) -> Self {
        let gib_per_s = once::gib_per_s(bytes, wall_s);
        Self { gib_per_s, wall_s: Some(wall_s), bytes, ..Self::default() }
    }

    /// The speed in the unit of the suite: GiB/s, or else times a second. Larger is faster.
    pub fn speed(&self) -> Option<f64> {
        self.gib_per_s.or_else(|| self.wall_s.map(f64::recip)).filter(|speed| speed.is_finite())
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}

/// One case in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub suite: String,
    /// The case's name, unique in the suite.
    pub case: String,
    /// Counted from 1.
    pub round: u32,
    #[serde(flatten)]
    pub measured: Measured,
}

impl Sample {
    pub fn new(suite: &str, case: &str, round: u32, measured: Measured) -> Self {
        Self { suite: suite.to_owned(), case: case.to_owned(), round, measured }
    }
}

/// The description of a case, without figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    pub suite: String,
    /// The case's name, unique in the suite.
    pub case: String,
    /// Who does what, in a few words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub does: String,
    /// The heading above the case, together with the cases that it can be compared with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The case of the same suite that is the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The figure that somebody published for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// The figures that the command prints itself, of which the first is the one that is compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<Printed>,
    /// All parameters by name: two runs can be compared where these are equal.
    #[serde(default)]
    pub identity: BTreeMap<String, Value>,
}

/// A figure that a command prints, in a line of JSON: `{"median_us": 41.5}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// The name, as the command prints it.
    pub name: String,
    /// The unit, short enough for the head of a column.
    pub unit: String,
    #[serde(default)]
    pub less_is_better: bool,
}

impl Printed {
    /// The fact of a sample that has the figure.
    pub fn fact(&self) -> String {
        format!("printed {}", self.name)
    }

    /// The figure of a sample.
    pub fn of(&self, measured: &Measured) -> Option<f64> {
        measured.facts.get(&self.fact())?.as_f64()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// From, in the unit of the case.
    pub from: f64,
    pub to: f64,
    /// By whom, and of which machine.
    pub source: String,
}

impl Described {
    /// A case of which nothing more is known.
    pub fn new(suite: &str, case: &str) -> Self {
        Self { suite: suite.to_owned(), case: case.to_owned(), ..Self::default() }
    }

    /// The same, with `does` as the words for who does what.
    pub fn does(self, does: impl Into<String>) -> Self {
        Self { does: does.into(), ..self }
    }

    /// The same, below a heading.
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: group.into(), ..self }
    }

    /// The same, measured against the case `baseline`, unless this is that case.
    pub fn against(self, baseline: impl Into<String>) -> Self {
        let baseline = Some(baseline.into()).filter(|name| *name != self.case);
        Self { baseline, ..self }
    }

    pub fn published(self, from: f64, to: f64, source: &str) -> Self {
        Self { published: Some(Published { from, to, source: source.to_owned() }), ..self }
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.identity.insert(name.to_owned(), value.into());
        self
    }
}

/// A fact that makes figures doubtful, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub fact: String,
    pub remedy: String,
}

impl Warning {
    pub fn new(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { fact: fact.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.fact, self.remedy)
    }
}

/// A case that could not be measured, and was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub suite: String,
    pub case: String,
    pub error: String,
}

/// The machine of a run: a fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Names the machine: a hash of the facts that do not change between boots.
    pub id: String,
    /// `host`, `system`, `architecture`, `processor`, `processors`, `pinned`, `virtualisation`,
    /// `memory`, `kernel`, `kernel_build`, `mitigations`, `huge_pages`, `huge_pages_shmem`,
    /// `pipe_max_bytes`, `pipe_user_pages_soft`, `cgroup_processors`, `cgroup_memory`,
    /// `file_systems`, `clock_source`, `memory_given_back`, `governor`, `turbo`, `libc`: those that
    /// could be found out.
    pub facts: BTreeMap<String, String>,
}

/// Something that belongs to a run and is no figure: a flame graph, a call path.
///
/// The report shows `image/svg+xml` as a picture, and anything else as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub suite: String,
    pub case: String,
    /// The subject, in a few words.
    pub title: String,
    /// `image/svg+xml` or `text/plain`.
    pub media_type: String,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Names the run on every machine; sorts by time.
    pub id: String,
    pub started: Timestamp,
    /// The time of the end; none for a run that goes on or was killed.
    #[serde(default)]
    pub finished: Option<Timestamp>,
    /// Somebody interrupted the run: samples are missing.
    #[serde(default)]
    pub interrupted: bool,
    /// The part of the processors' time that other programs and the hypervisor took during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    pub gush: String,
    /// Names the program's build: the beginning of the build ID, or of the program's hash.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    pub command: Vec<String>,
    pub machine: Machine,
    /// Facts that made figures doubtful.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// The cases to be measured, in the order of the suites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Described>,
    /// Every raw sample, in the order in which they were taken.
    #[serde(default)]
    pub samples: Vec<Sample>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Run {
    /// The command that made the run, quoted for a shell, without the program's directory.
    pub fn command_line(&self) -> String {
        let Some((program, words)) = self.command.split_first() else { return String::new() };
        let name = program.rsplit('/').next().unwrap_or_default();
        let words = std::iter::once(name).chain(words.iter().map(String::as_str));
        // An import refuses texts with a NUL, which alone cannot be quoted.
        let line = shlex::try_join(words).unwrap_or_default();
        line.split(char::is_control).collect::<Vec<_>>().join(" ")
    }

    /// The failure of a case: a case with one has no figures.
    pub fn failure_of(&self, suite: &str, case: &str) -> Option<&Failure> {
        self.failures.iter().find(|failed| (&*failed.suite, &*failed.case) == (suite, case))
    }

    /// Sorts items, whose suite and case `of` returns, in the order of the run's descriptions;
    /// others come last, in their present order.
    pub(crate) fn sort_as_described<'n, T>(
        &self,
        all: &mut [T],
        of: impl Fn(&T) -> (&'n str, &'n str),
    ) {
        let names = self.cases.iter().map(|case| (case.suite.as_str(), case.case.as_str()));
        let places: HashMap<(&str, &str), usize> = names.zip(0..).collect();
        all.sort_by_key(|one| places.get(&of(one)).copied().unwrap_or(usize::MAX));
    }
}
