//! A step taken with so many bytes.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use nix::sys::resource::UsageWho;

use super::SUITE;
use super::hostile::{Evidence, Hostile};
use super::steps::{SOURCE, Step};
use crate::Error;
use crate::case::Case;
use crate::model::{Described, Measured};
use crate::once;
use crate::probe::Probe;
use crate::runner::children;

pub(super) struct Climb {
    step: &'static Step,
    program: PathBuf,
    bytes: u64,
    hostile: Rc<Hostile>,
    evidence: OnceCell<Evidence>,
    described: Described,
}

impl Climb {
    pub(super) fn new(
        step: &'static Step,
        program: &Path,
        bytes: u64,
        hostile: Rc<Hostile>,
    ) -> Self {
        let Step { name, does, write, read, group, baseline, published, .. } = step;
        let described = Described::new(SUITE.name, name)
            .does(*does)
            .group(*group)
            .against(*baseline)
            .with("write", write.join(" "))
            .with("read", read.join(" "))
            .with("bytes", bytes);
        let described = match published {
            Some((from, to)) => described.published(*from, *to, SOURCE),
            None => described,
        };
        let (program, evidence) = (program.to_owned(), OnceCell::new());
        Self { step, program, bytes, hostile, evidence, described }
    }

    /// The reader's measurement of `bytes`.
    fn run(&self, probe: &Probe, bytes: u64) -> Result<Measured, Error> {
        let mut write = Command::new(&self.program);
        write.args(["pipe", "write"]).args(self.step.write).arg("--quiet");
        if self.step.is_huge && probe.huge_pages_checked {
            write.arg("--check-huge-page");
            if !self.step.write.contains(&"--huge-page") {
                write.arg("--huge-page");
            }
        }
        let mut read = Command::new(&self.program);
        read.args(["pipe", "read"]).args(self.step.read);
        read.args(["--quiet", "--csv", "--bytes", &bytes.to_string()]).stdout(Stdio::piped());
        let before = once::used(UsageWho::RUSAGE_CHILDREN)?;
        let (writing, reading) = connected(write, read, probe)?;
        for (name, output) in [("writer", &writing), ("reader", &reading)] {
            if !output.status.success() {
                return Err(Error::refused(format!("the {name} said: {}", said(output))));
            }
        }
        let worked = once::used(UsageWho::RUSAGE_CHILDREN)?.since(before);
        let measured = measured(&String::from_utf8_lossy(&reading.stdout))?;
        Ok(Measured { user_s: Some(worked.user_s), system_s: Some(worked.system_s), ..measured })
    }
}

impl Case for Climb {
    fn described(&self) -> &Described {
        &self.described
    }

    fn prepare(&self, probe: &Probe) -> Result<(), Error> {
        let Step { write, promises, .. } = self.step;
        let found = self.hostile.evidence(write, *promises, probe)?;
        // Set once: a case is prepared once.
        let _ = self.evidence.set(found);
        Ok(())
    }

    /// Every measurement starts both programs anew, so a part of one warms up all that can be warm.
    fn warm_up(&self, probe: &Probe) -> Result<(), Error> {
        // A sixteenth warms the caches and the page allocator, and costs little time.
        self.run(probe, (self.bytes / 16).max(1)).map(drop)
    }

    fn measure(&self, probe: &Probe) -> Result<Measured, Error> {
        let measured = self.run(probe, self.bytes)?;
        Ok(match self.evidence.get() {
            Some(Evidence { sound, finding }) => {
                measured.with("sound", *sound).with("evidence", finding.as_str())
            }
            None => measured,
        })
    }
}

/// Runs both programs with a pipe between them, each on a separate processor.
pub(super) fn connected(
    mut write: Command,
    mut read: Command,
    probe: &Probe,
) -> Result<(Output, Output), Error> {
    let (from, to) =
        std::io::pipe().map_err(|error| Error::failed("no pipe between the programs", error))?;
    if let Some([first, second]) = probe.processors {
        // Two processors of their own: on one the two programs would take turns.
        write.args(["--cpu", &first.to_string()]);
        read.args(["--cpu", &second.to_string()]);
    }
    write.stdin(Stdio::null()).stdout(to).stderr(Stdio::piped());
    read.stdin(from).stderr(Stdio::piped());
    let writer = children::start(&mut write)?;
    let reader = children::start(&mut read)?;
    // The commands own copies of the pipe's ends, and would keep it open.
    drop((write, read));
    // The reader first: when it has ended, the writer dies of its broken pipe.
    let reading = reader.finish()?;
    Ok((writer.finish()?, reading))
}

/// The last messages of a program.
pub(super) fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match said.lines().last() {
        Some(line) => line.to_owned(),
        None => format!("nothing, and ended with {}", output.status),
    }
}

/// Reads the reader's line of CSV: `gib_per_s,bytes,buffer_bytes,pipe_bytes,…`.
fn measured(line: &str) -> Result<Measured, Error> {
    let line = line.trim();
    let fields: Vec<&str> = line.split(',').collect();
    let read = || {
        let [speed, bytes, buffer_bytes, pipe_bytes, ..] = fields[..] else { return None };
        let number = |text: &str| text.parse::<u64>().ok();
        let (gib_per_s, bytes) = (Some(speed.parse().ok()?), number(bytes)?);
        let measured = Measured { gib_per_s, bytes, ..Measured::default() };
        let measured = measured.with("buffer_bytes", number(buffer_bytes)?);
        Some(measured.with("pipe_bytes", number(pipe_bytes)?))
    };
    read().ok_or_else(|| Error::refused(format!("the reader printed no figures: '{line}'")))
}
