//! Runs cases: two processes each, pinned, one round of all cases after the other, every sample kept.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use gush::{Kernel, Pages, Vmsplice};

use crate::suite::pipe::Case;
use crate::{Error, affinity};

/// What this machine grants, looked at before anything is measured.
///
/// ```
/// let conditions = gush_lab::runner::Conditions::look();
/// assert!(conditions.processors.is_some() || !conditions.notes.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The writer's and the reader's processor; none when they cannot have one each.
    pub processors: Option<[usize; 2]>,
    /// Huge pages came when asked for, and that can be checked: every writer checks its own.
    pub huge_pages_checked: bool,
    /// What is lacking, a sentence each.
    pub notes: Vec<String>,
}

impl Conditions {
    /// Asks the machine.
    #[must_use]
    pub fn look() -> Self {
        let mut notes = Vec::new();
        let processors = match affinity::allowed().as_deref() {
            Ok([first, second, ..]) if affinity_can_be_set(*first) => Some([*first, *second]),
            Ok([_, _, ..]) => {
                notes.push("not pinned: this process may not choose its processor".to_owned());
                None
            }
            Ok(_) => {
                notes.push(
                    "not pinned: one processor for both programs, which wait for each other on it"
                        .to_owned(),
                );
                None
            }
            Err(errno) => {
                notes.push(format!("not pinned: {errno}"));
                None
            }
        };
        let huge_pages_checked = match huge_page() {
            Ok(true) => true,
            Ok(false) => {
                notes.push(
                    "no huge page came: the huge and fresh cases run on pages of 4 KiB".to_owned(),
                );
                false
            }
            Err(error) => {
                notes.push(format!("could not check for huge pages, which needs root: {error}"));
                false
            }
        };
        match Kernel::get().vmsplice() {
            Vmsplice::ZeroCopy => {}
            Vmsplice::Copies => notes.push(
                "this kernel copies on vmsplice: those cases are sound here, and slow".to_owned(),
            ),
            Vmsplice::Absent(errno) => notes.push(format!(
                "vmsplice is denied or missing here ({errno}): its cases cannot run"
            )),
        }
        Self { processors, huge_pages_checked, notes }
    }
}

/// Tried in a thread of its own, which takes its processor with it when it ends.
fn affinity_can_be_set(cpu: usize) -> bool {
    std::thread::spawn(move || affinity::pin(cpu).is_ok()).join().unwrap_or(false)
}

fn huge_page() -> io::Result<bool> {
    let Ok(mut pages) = Pages::huge(1) else { return Ok(false) };
    pages.as_mut_slice().fill(1);
    gush::hugepage::count(&pages).map(|(huge, all)| huge == all)
}

/// One case, measured once.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The case's name.
    pub case: &'static str,
    /// Counted from 1.
    pub round: usize,
    /// What the reader measured, in GiB/s.
    pub gib_per_s: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// The buffer of the writer, and of the reader unless the case says otherwise.
    pub buffer_bytes: usize,
    /// The pipe's size.
    pub pipe_bytes: usize,
    /// As the case says.
    pub sound: bool,
}

/// What happens while cases run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A case begins.
    Begins {
        /// Its name.
        case: &'static str,
        /// Counted from 1.
        round: usize,
    },
    /// It was measured.
    Measured(&'a Sample),
    /// It could not be measured, and is left out from now on.
    Failed {
        /// Its name.
        case: &'static str,
        /// What its programs said.
        error: &'a Error,
    },
}

/// What to run.
#[derive(Debug)]
pub struct Runner<'a> {
    /// The program that has `pipe write` and `pipe read`.
    pub program: &'a Path,
    /// What the machine grants.
    pub conditions: &'a Conditions,
    /// Bytes for every case, instead of each one's own.
    pub bytes: Option<u64>,
}

impl Runner<'_> {
    /// Runs every case once a round; a case that fails is told of once, and left out from then on.
    pub fn run(
        &self,
        cases: &[&'static Case],
        rounds: usize,
        mut tell: impl FnMut(Event<'_>),
    ) -> Vec<Sample> {
        let mut cases = cases.to_vec();
        let mut samples = Vec::new();
        for round in 1..=rounds {
            cases.retain(|&case| {
                tell(Event::Begins { case: case.name, round });
                match self.once(case, round) {
                    Ok(sample) => {
                        tell(Event::Measured(&sample));
                        samples.push(sample);
                        true
                    }
                    Err(error) => {
                        tell(Event::Failed { case: case.name, error: &error });
                        false
                    }
                }
            });
        }
        samples
    }

    fn once(&self, case: &'static Case, round: usize) -> Result<Sample, Error> {
        let bytes = self.bytes.unwrap_or(case.bytes);
        let (from, to) = std::io::pipe()
            .map_err(|error| Error::failed("no pipe between the programs", error))?;
        let mut write = self.program_for(case.write, "write", 0);
        write.arg("--quiet").stdin(Stdio::null()).stdout(to).stderr(Stdio::piped());
        if case.huge && self.conditions.huge_pages_checked {
            write.args(["--check-huge-page"]);
            if !case.write.contains(&"--huge-page") {
                write.arg("--huge-page");
            }
        }
        let mut read = self.program_for(case.read, "read", 1);
        read.args(["--quiet", "--csv", "--bytes", &bytes.to_string()])
            .stdin(from)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let writer = start(&mut write)?;
        let reader = start(&mut read)?;
        // The commands own copies of the pipe's ends, and would keep it open.
        drop((write, read));
        let reading = finish(reader)?;
        let writing = finish(writer)?;
        for (name, output) in [("writer", &writing), ("reader", &reading)] {
            if !output.status.success() {
                return Err(Error::refused(told(name, output)));
            }
        }
        sample(case, round, &String::from_utf8_lossy(&reading.stdout))
    }

    fn program_for(&self, options: &[&str], side: &str, index: usize) -> Command {
        let mut command = Command::new(self.program);
        command.args(["pipe", side]).args(options);
        if let Some(processors) = self.conditions.processors {
            command.args(["--cpu", &processors[index].to_string()]);
        }
        command
    }
}

fn start(command: &mut Command) -> Result<Child, Error> {
    command.spawn().map_err(|error| Error::failed("cannot start gush pipe", error))
}

fn finish(child: Child) -> Result<Output, Error> {
    child.wait_with_output().map_err(|error| Error::failed("cannot wait for gush pipe", error))
}

fn told(name: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match said.lines().last() {
        Some(line) => format!("the {name} said: {line}"),
        None => format!("the {name} ended with {}", output.status),
    }
}

/// Reads the reader's line of CSV: `gib_per_s,bytes,buffer_bytes,pipe_bytes,…`.
fn sample(case: &'static Case, round: usize, line: &str) -> Result<Sample, Error> {
    let odd = || Error::refused(format!("the reader printed no figures: '{}'", line.trim()));
    let mut fields = line.trim().split(',');
    let mut next = || fields.next().ok_or_else(odd);
    let (gib_per_s, bytes) = (next()?, next()?);
    let (buffer_bytes, pipe_bytes) = (next()?, next()?);
    Ok(Sample {
        case: case.name,
        round,
        gib_per_s: gib_per_s.parse().map_err(|_| odd())?,
        bytes: bytes.parse().map_err(|_| odd())?,
        buffer_bytes: buffer_bytes.parse().map_err(|_| odd())?,
        pipe_bytes: pipe_bytes.parse().map_err(|_| odd())?,
        sound: case.sound,
    })
}
