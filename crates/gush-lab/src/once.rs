//! One measurement in a process of its own: `gush lab once SUITE …` prints a [`Measured`] as a line
//! of JSON.
//!
//! The runner, the counter of system calls and a profiler all start the very same thing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use nix::sys::resource::UsageWho;

use crate::case::Case;
use crate::model::{Described, Measured};
use crate::probe::Probe;
use crate::runner::{Usage, children};
use crate::suite::{Asked, Suite};
use crate::{Error, affinity};

/// Measures in a new process: `program lab once WORDS`, on one processor if one is named.
pub fn run(
    program: &Path,
    words: &[OsString],
    processor: Option<usize>,
) -> Result<Measured, Error> {
    let mut command = Command::new(program);
    command.args(["lab", "once"]);
    if let Some(processor) = processor {
        command.args(["--cpu", &processor.to_string()]);
    }
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = children::start(&mut command)?.finish()?;
    if !output.status.success() {
        return Err(last_message(&output));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Error::refused(format!("the process that measured printed no figures: {error}"))
    })
}

/// The last message of a process that failed, without the program's name in front.
pub(crate) fn last_message(output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().map(|line| line.trim_start_matches(SPEAKER).to_owned());
    Error::refused(line.unwrap_or_else(|| format!("its process ended with {}", output.status)))
}

/// How `gush lab once` begins a sentence.
const SPEAKER: &str = "gush: lab: once: ";

/// Pins this thread, for cases that measure in this process.
pub fn pin(processor: usize) -> Result<(), Error> {
    affinity::pin(processor)
        .map_err(|errno| Error::failed(format!("cannot stay on processor {processor}"), errno))
}

/// A case that is nothing but one such process.
#[derive(Clone, Debug)]
pub struct Single {
    program: PathBuf,
    /// The arguments after `gush lab once`.
    words: Vec<OsString>,
    /// Whether the process stays on one processor.
    pinned: bool,
    described: Described,
}

impl Single {
    /// The measurement with the name of the case, in the suite's own table, on `bytes`.
    pub fn new(
        suite: &Suite,
        asked: &Asked,
        described: Described,
        bytes: u64,
        pinned: bool,
    ) -> Self {
        let words = [suite.name, "--way", &described.case, "--bytes", &bytes.to_string()];
        let words = words.map(OsString::from).into();
        Self { program: asked.program.clone(), words, pinned, described }
    }
}

impl Case for Single {
    fn described(&self) -> &Described {
        &self.described
    }

    fn measure(&self, probe: &Probe) -> Result<Measured, Error> {
        let processor = probe.processors.map(|[first, _]| first).filter(|_| self.pinned);
        run(&self.program, &self.words, processor)
    }
}

/// A clock of this process: wall time, processor time, page faults and context switches.
#[derive(Debug)]
pub struct Clock {
    usage: Usage,
    started: Instant,
}

/// The resources used so far.
pub(crate) fn used(who: UsageWho) -> Result<Usage, Error> {
    Usage::of(who).map_err(|errno| Error::failed("cannot ask for the processor time used", errno))
}

impl Clock {
    pub fn start() -> Result<Self, Error> {
        Ok(Self { usage: used(UsageWho::RUSAGE_SELF)?, started: Instant::now() })
    }

    /// Stops; `bytes` were moved meanwhile.
    pub fn stop(self, bytes: u64) -> Result<Measured, Error> {
        // First of all: asking for the usage takes time too.
        let wall_s = self.started.elapsed().as_secs_f64();
        let used = used(UsageWho::RUSAGE_SELF)?.since(self.usage);
        Ok(used.recorded(Measured::timed(bytes, wall_s), 1))
    }
}

/// Bytes in so many seconds as GiB/s; none where no time passed or nothing moved.
pub fn gib_per_s(bytes: u64, seconds: f64) -> Option<f64> {
    (bytes > 0 && seconds > 0.0).then(|| bytes as f64 / seconds / (1_u64 << 30) as f64)
}
