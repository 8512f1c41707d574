//! The ladder of the pipe speed test, rung by rung, and what stands beside and above it.
//!
//! A rung is two command lines, of `gush pipe write` and `gush pipe read`: whoever doubts a figure can
//! run them by hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::case::{Case, View};
use crate::model::{Measured, Sample};
use crate::runner::{Conditions, children};
use crate::{Error, csv, table};

/// One rung.
#[derive(Debug, PartialEq, Eq)]
pub struct Rung {
    /// What it is called.
    pub name: &'static str,
    /// The options of the writer.
    pub write: &'static [&'static str],
    /// The options of the reader.
    pub read: &'static [&'static str],
    /// Bytes to move, unless told otherwise: about a second or less.
    pub bytes: u64,
    /// Does what was written arrive, whatever a reader does?
    pub sound: bool,
    /// Does it stand on huge pages?
    pub huge: bool,
}

const GIB: u64 = 1 << 30;

const fn rung(
    name: &'static str,
    write: &'static [&'static str],
    read: &'static [&'static str],
    bytes: u64,
) -> Rung {
    Rung { name, write, read, bytes, sound: true, huge: false }
}

impl Rung {
    const fn unsound(self) -> Self {
        Self { sound: false, ..self }
    }

    const fn huge(self) -> Self {
        Self { huge: true, ..self }
    }
}

/// The ladder. The first six are the published ones: 256 KiB buffers, and with vmsplice a pipe of 128 KiB.
pub const RUNGS: &[Rung] = &[
    rung("write-read", &[], &[], GIB),
    rung("vmsplice-read", &["--vmsplice"], &[], 2 * GIB).unsound(),
    rung("vmsplice-splice", &["--vmsplice"], &["--splice"], 4 * GIB).unsound(),
    rung(
        "vmsplice-splice-untouched",
        &["--vmsplice", "--dont-touch-pages"],
        &["--splice"],
        4 * GIB,
    )
    .unsound(),
    rung("huge-splice", &["--vmsplice", "--huge-page"], &["--splice"], 4 * GIB).unsound().huge(),
    rung(
        "huge-splice-busy",
        &["--vmsplice", "--huge-page", "--busy-loop"],
        &["--splice", "--busy-loop"],
        32 * GIB,
    )
    .unsound()
    .huge(),
    rung(
        "same-buffer-busy",
        &["--vmsplice", "--huge-page", "--busy-loop", "--same-buffer"],
        &["--splice", "--busy-loop"],
        32 * GIB,
    )
    .unsound()
    .huge(),
    rung("write-read-busy", &["--busy-loop"], &["--busy-loop"], 4 * GIB),
    rung("fresh-splice", &["--technique", "fresh", "--busy-loop"], LARGE_SPLICE, 16 * GIB).huge(),
    rung("fresh-read", &["--technique", "fresh", "--busy-loop"], &["--busy-loop"], 8 * GIB).huge(),
    rung("socket-splice", &["--technique", "socket", "--busy-loop"], LARGE_SPLICE, 8 * GIB),
    rung("socket-read", &["--technique", "socket", "--busy-loop"], &["--busy-loop"], 8 * GIB),
    rung("reservoir-splice", &["--technique", "reservoir", "--busy-loop"], LARGE_SPLICE, 256 * GIB),
    rung(
        "reservoir-read",
        &["--technique", "reservoir", "--busy-loop"],
        &["--busy-loop"],
        32 * GIB,
    ),
];

/// A whole pipe of fat slots in one call.
const LARGE_SPLICE: &[&str] = &["--splice", "--busy-loop", "--buffer-size", "8M"];

/// The ladder as cases of `program`, which has `pipe write` and `pipe read`; `bytes` for every case,
/// instead of each one's own.
///
/// ```
/// let cases = gush_lab::suite::pipe::cases("gush".as_ref(), Some(1 << 20));
/// assert_eq!(cases[0].name(), "write-read");
/// ```
#[must_use]
pub fn cases(program: &Path, bytes: Option<u64>) -> Vec<Box<dyn Case>> {
    climbs(program, |rung| bytes.unwrap_or(rung.bytes))
}

/// The same with an eighth of each rung's own bytes: for a first look.
///
/// ```
/// assert_eq!(gush_lab::suite::pipe::short("gush".as_ref()).len(), 14);
/// ```
#[must_use]
pub fn short(program: &Path) -> Vec<Box<dyn Case>> {
    climbs(program, |rung| rung.bytes / 8)
}

fn climbs(program: &Path, bytes: impl Fn(&Rung) -> u64) -> Vec<Box<dyn Case>> {
    let climb = |rung| Climb { rung, program: program.to_owned(), bytes: bytes(rung) };
    RUNGS.iter().map(|rung| Box::new(climb(rung)) as Box<dyn Case>).collect()
}

/// A rung taken with so many bytes.
struct Climb {
    rung: &'static Rung,
    program: PathBuf,
    bytes: u64,
}

impl Case for Climb {
    fn suite(&self) -> &'static str {
        "pipe"
    }

    fn name(&self) -> &str {
        self.rung.name
    }

    /// Every measurement starts its two programs anew: what can be warmed is done by a part of it.
    fn warm_up(&self, conditions: &Conditions) -> Result<(), Error> {
        self.run(conditions, (self.bytes / 16).max(1)).map(drop)
    }

    fn measure(&self, conditions: &Conditions) -> Result<Measured, Error> {
        let line = self.run(conditions, self.bytes)?;
        Ok(measured(&line)?.with("sound", self.rung.sound))
    }
}

impl Climb {
    /// The reader's line of CSV.
    fn run(&self, conditions: &Conditions, bytes: u64) -> Result<String, Error> {
        let rung = self.rung;
        let (from, to) = std::io::pipe()
            .map_err(|error| Error::failed("no pipe between the programs", error))?;
        let mut write = self.side("write", rung.write, conditions, 0);
        write.arg("--quiet").stdin(Stdio::null()).stdout(to).stderr(Stdio::piped());
        if rung.huge && conditions.huge_pages_checked {
            write.arg("--check-huge-page");
            if !rung.write.contains(&"--huge-page") {
                write.arg("--huge-page");
            }
        }
        let mut read = self.side("read", rung.read, conditions, 1);
        read.args(["--quiet", "--csv", "--bytes", &bytes.to_string()])
            .stdin(from)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let writer = children::start(&mut write)?;
        let reader = children::start(&mut read)?;
        // The commands own copies of the pipe's ends, and would keep it open.
        drop((write, read));
        let reading = reader.finish()?;
        let writing = writer.finish()?;
        for (name, output) in [("writer", &writing), ("reader", &reading)] {
            if !output.status.success() {
                return Err(Error::refused(told(name, output)));
            }
        }
        Ok(String::from_utf8_lossy(&reading.stdout).into_owned())
    }

    fn side(&self, side: &str, options: &[&str], conditions: &Conditions, index: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["pipe", side]).args(options);
        if let Some(processors) = conditions.processors {
            command.args(["--cpu", &processors[index].to_string()]);
        }
        command
    }
}

fn told(name: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match said.lines().last() {
        Some(line) => format!("the {name} said: {line}"),
        None => format!("the {name} ended with {}", output.status),
    }
}

/// Reads the reader's line of CSV: `gib_per_s,bytes,buffer_bytes,pipe_bytes,…`.
fn measured(line: &str) -> Result<Measured, Error> {
    fn number<'a, T: std::str::FromStr>(fields: &mut impl Iterator<Item = &'a str>) -> Option<T> {
        fields.next()?.parse().ok()
    }
    let mut fields = line.trim().split(',');
    let mut read = || {
        let gib_per_s: f64 = number(&mut fields)?;
        let bytes: u64 = number(&mut fields)?;
        let buffer_bytes: u64 = number(&mut fields)?;
        let pipe_bytes: u64 = number(&mut fields)?;
        let measured = Measured { gib_per_s: Some(gib_per_s), bytes, ..Measured::default() };
        Some(measured.with("buffer_bytes", buffer_bytes).with("pipe_bytes", pipe_bytes))
    };
    read()
        .ok_or_else(|| Error::refused(format!("the reader printed no figures: '{}'", line.trim())))
}

/// The ladder's CSV and table.
#[derive(Clone, Copy, Debug)]
pub struct Ladder;

impl View for Ladder {
    fn csv_header(&self) -> &str {
        "case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound"
    }

    /// ```
    /// use gush_lab::{case::View, model::{Measured, Sample}, suite::pipe::Ladder};
    /// let measured = Measured { gib_per_s: Some(4.5), bytes: 1 << 30, ..Measured::default() }
    ///     .with("buffer_bytes", 262_144).with("pipe_bytes", 65_536).with("sound", true);
    /// let sample = Sample { suite: "pipe".into(), case: "write-read".into(), round: 1, measured };
    /// assert_eq!(Ladder.csv_row(&sample), "write-read,1,4.500000,1073741824,262144,65536,true");
    /// ```
    fn csv_row(&self, sample: &Sample) -> String {
        let Sample { case, round, measured, .. } = sample;
        let [buffer, pipe, sound] =
            ["buffer_bytes", "pipe_bytes", "sound"].map(|name| csv::fact(measured, name));
        let gib_per_s = csv::figure(measured.gib_per_s);
        format!("{case},{round},{gib_per_s},{},{buffer},{pipe},{sound}", measured.bytes)
    }

    fn table(&self, samples: &[Sample]) -> String {
        table::of(samples)
    }
}
