//! Records a case alone: perf is switched on before a measurement and off after it, so that nothing
//! of the preparation is in the profile (perf-record(1), `--control`).

use std::cell::RefCell;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::Error;
use crate::case::Case;

/// Names the directory of the two FIFOs, for the program that perf starts.
const VARIABLE: &str = "GUSH_LAB_RECORD";

/// The FIFOs that perf listens at and answers by.
pub(super) fn make(dir: &Path) -> Result<String, Error> {
    let [control, answers] = fifos(dir);
    for path in [&control, &answers] {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(|errno| Error::failed("cannot make a FIFO for perf", errno))?;
    }
    Ok(format!("--control=fifo:{},{}", control.display(), answers.display()))
}

/// The environment by which the program that perf starts finds them.
pub(super) fn environment(dir: &Path) -> (&'static str, &Path) {
    (VARIABLE, dir)
}

fn fifos(dir: &Path) -> [PathBuf; 2] {
    ["control", "answers"].map(|name| dir.join(name))
}

/// The FIFOs of the perf that records this program.
#[derive(Debug)]
pub struct Switch {
    control: File,
    answers: RefCell<File>,
}

impl Switch {
    /// perf's switch, where this program was started to be recorded.
    ///
    /// # Errors
    /// When there are several cases, whose times would be mixed; when perf cannot be reached.
    pub fn for_the_only(cases: &[Box<dyn Case>]) -> Result<Option<Self>, Error> {
        let Some(dir) = env::var_os(VARIABLE) else { return Ok(None) };
        if cases.len() > 1 {
            let names: Vec<&str> = cases.iter().map(|case| &*case.described().case).collect();
            return Err(Error::refused(several(&names)));
        }
        let [control, answers] = fifos(Path::new(&dir));
        // Opening a FIFO waits for the other side, so that perf is there from here on.
        let reached = File::options().write(true).open(control);
        let switch = reached
            .and_then(|control| Ok(Self { control, answers: RefCell::new(File::open(answers)?) }));
        switch.map(Some).map_err(|error| Error::failed("cannot reach perf", error))
    }

    /// Records what `measure` does.
    pub(crate) fn around<T>(&self, measure: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.say("enable")?;
        let measured = measure();
        // Also after a failure, or perf would record the next preparation.
        self.say("disable")?;
        measured
    }

    /// Tells perf, and waits for the answer.
    fn say(&self, word: &str) -> Result<(), Error> {
        let written = (&self.control).write_all(format!("{word}\n").as_bytes());
        // perf acknowledges each word: only then is it recording.
        written
            .and_then(|()| self.answer())
            .map_err(|error| Error::failed("perf does not listen any more", error))
    }

    /// `ack`, a line's end, and a zero byte.
    fn answer(&self) -> io::Result<()> {
        let mut byte = [0];
        while byte != *b"\n" {
            // Byte by byte: a buffered reader would take the beginning of the next answer.
            self.answers.borrow_mut().read_exact(&mut byte)?;
        }
        Ok(())
    }
}

/// Why `names` cannot be recorded together.
fn several(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("these are {} cases, and one is explained at a time: {shown}{more}", names.len())
}
