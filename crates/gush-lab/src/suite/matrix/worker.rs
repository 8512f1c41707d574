//! A process of its own for the attempts: an attempt that hangs or kills its process does not end the table.
//!
//! `gush lab once matrix` reads a line of JSON for each attempt from standard input, and answers with a
//! line. The asking process sets a time limit, and kills a worker that exceeds the limit.

use std::io::{self, BufRead, Write};

use nix::sys::signal::{SigSet, Signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::attempt::attempt;
use super::source::Workshop;
use super::{Aim, Kind, Way, places};
use crate::{Error, affinity};

/// One attempt, as a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) way: Way,
    pub(super) source: Kind,
    pub(super) target: Kind,
    pub(super) aim: Aim,
    /// The mover's, and that of the far ends.
    pub(super) processors: Option<[usize; 2]>,
}

/// Serves attempts until standard input ends: the job of `gush lab once matrix`.
///
/// # Errors
/// When a line is no task, or nobody reads the answers.
pub fn serve() -> Result<(), Error> {
    // A far end that is gone shall be an error of a write, not the end of this process.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGPIPE);
    signals.thread_block().map_err(|errno| Error::failed("cannot block SIGPIPE", errno))?;
    let mut lines = io::stdin().lock().lines();
    let mut next = || lines.next().transpose().map_err(|error| Error::failed("no task", error));
    let Some(line) = next()? else { return Ok(()) };
    // The first line has the kinds of ends, the others an attempt each.
    let kinds: Vec<Kind> = parsed(&line)?;
    let places = places::find(&kinds);
    answer(&places)?;
    let dirs = places.into_iter().filter_map(|place| Some((place.kind, place.dir?))).collect();
    let mut workshop = Workshop::new(dirs);
    while let Some(line) = next()? {
        let Task { way, source, target, aim, processors } = parsed(&line)?;
        workshop.processor = processors.map(|[_, far]| far);
        if let Some([near, _]) = processors {
            // Unpinned it is slower, not wrong.
            let _ = affinity::pin(near);
        }
        answer(&attempt(&mut workshop, way, source, target, aim))?;
    }
    Ok(())
}

fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, Error> {
    serde_json::from_str(line)
        .map_err(|error| Error::refused(format!("this is no task of the matrix: {error}")))
}

fn answer(what: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(what)
        .map_err(|error| Error::refused(format!("an answer cannot be written: {error}")))?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&line)
        .and_then(|()| stdout.flush())
        .map_err(|error| Error::failed("cannot answer", error))
}
