//! `gush tune`: measures ways of moving, and writes down those that are surely faster than the
//! engine's table.
//!
//! A question (`question.rs`) is a pair of ends and a size; the answers (`setting.rs`) are profiles of one
//! rule, so that the measured move (`bench.rs`) is exactly the engine's move under that rule. The
//! best is compared with the table's choice by fresh samples (`decide.rs`). `small.rs` asks about messages
//! between sockets, `text.rs` writes the profile, `check.rs` measures with and without the profile.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gush::Host;
use jiff::Timestamp;
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::probe::Probe;
use crate::{Error, write_atomic};

mod bench;
mod check;
mod decide;
mod question;
mod setting;
mod small;
mod text;
mod trial_dir;

pub use check::{Checked, check};
pub use decide::{Answer, Comparison};
pub use setting::Setting;
pub use small::Message;
pub use trial_dir::TrialDir;

/// The part of the time that messages between sockets get.
const MESSAGES_PART: u32 = 20;

/// Everything that was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// When.
    pub made: Timestamp,
    #[serde(skip)]
    host: Host,
    /// The processor's name for people (proc_cpuinfo(5)), if there is one.
    #[serde(skip)]
    processor_name: Option<String>,
    /// One for each question.
    pub answers: Vec<Answer>,
    /// About messages between sockets.
    pub messages: Vec<Message>,
}

impl Findings {
    /// Messages up to this size are no slower read and written than spliced, if anything was seen.
    #[must_use]
    pub fn small_message_bytes(&self) -> Option<usize> {
        small::threshold_bytes(&self.messages)
    }

    /// Was there too little time to answer any question?
    #[must_use]
    pub fn had_no_time(&self) -> bool {
        self.answers.iter().all(|answer| answer.had_no_time())
    }

    /// The profile that follows, as text.
    ///
    /// # Errors
    /// A sentence, if the engine would refuse the profile.
    pub fn profile(&self) -> Result<String, Error> {
        let text = text::of(self);
        // Read back by the engine's own reader: a profile that it would refuse is never written.
        setting::read(&text).map(|_| text)
    }
}

/// Answers every question, for about `time` in all; tells each answer at once.
///
/// # Errors
/// A file that cannot be made or moved, as a sentence. Nothing is left behind.
///
/// ```
/// use std::time::Duration;
/// use gush_lab::tune::{self, TrialDir};
/// # let dir = tempfile::tempdir()?;
/// # let Ok(trial) = TrialDir::look(dir.path()) else { return Ok(()) };
/// let findings = tune::measure(&[trial], Duration::from_millis(100), |answer| {
///     println!("{}: {}", answer.question, answer.table);
/// })?;
/// assert!(findings.profile()?.starts_with("# What gush measured"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn measure(
    dirs: &[TrialDir],
    time: Duration,
    mut tell: impl FnMut(&Answer),
) -> Result<Findings, Error> {
    let start = Instant::now();
    // A handler, because a profile is measured with pipes whose readers leave.
    outlive_broken_pipes()?;
    let messages = small::messages(time / MESSAGES_PART)?;
    let questions = question::all(dirs);
    let mut answers = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        // What one question does not use is the others'.
        let weight = questions[index..].iter().map(question::Question::weight).sum::<u32>();
        let left = time.saturating_sub(start.elapsed()) / weight * question.weight();
        let answer = decide::answer(question, left)?;
        tell(&answer);
        answers.push(answer);
    }
    let probe = Probe::look_in(Path::new("/"));
    Ok(Findings {
        made: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
        processor_name: processor_name(&probe),
        host: probe.host,
        answers,
        messages,
    })
}

/// Can files be made in a directory? One without a name is, or else the kernel is asked: a signal at any moment leaves nothing.
///
/// # Errors
/// The error of open(2), or of access(2) where the file system has no files without a name.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// assert!(gush_lab::tune::may_make_files(dir.path()).is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn may_make_files(dir: &Path) -> std::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(()),
        // EISDIR is of kernels that do not know the flag (open(2), O_TMPFILE).
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            Ok(rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Writes a profile in one go: a reader meanwhile sees the old profile or the new.
///
/// # Errors
/// Which step failed, on which path, and the operating system's answer; an older profile is untouched.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |what: &str, path: &Path, error: std::io::Error| {
        Error::failed(format!("cannot {what} {}", path.display()), error)
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|error| failed("make the directory", dir, error))?;
    }
    // Whole or not at all: a copy at work may read the profile meanwhile.
    write_atomic(path, text).map_err(|error| failed("write", path, error))
}

/// Ignores SIGPIPE: a closed far end gives EPIPE to the feeder, instead of a signal that ends this process silently.
fn outlive_broken_pipes() -> Result<(), Error> {
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::default())
        .map(drop)
        .map_err(|error| Error::failed("cannot watch for SIGPIPE", error))
}

/// The name goes into a comment of the profile, which is one line.
fn processor_name(probe: &Probe) -> Option<String> {
    let name = probe.machine.facts.get("processor").cloned();
    name.filter(|name| !name.is_empty() && !name.contains(char::is_control))
}
