//! Has attempts made by worker processes: each has a time limit, and a lost worker is replaced.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::event::PollFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::worker::Task;
use super::{Aim, Attempt, Kind, KindPlace, Outcome, Way, raw};
use crate::Error;
use crate::runner::children::{self, Running};

/// Has attempts made by a worker, and starts another when the worker is lost.
#[derive(Debug)]
pub struct Prober {
    program: PathBuf,
    kinds: Vec<Kind>,
    worker: Option<Worker>,
    places: Vec<KindPlace>,
    patience: Duration,
}

/// Time limit for finding places.
const SETUP_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for an attempt that moves a few bytes, also on a busy machine.
const VERIFY_LIMIT: Duration = Duration::from_secs(20);
/// A speed below which nobody waits, in bytes a second.
const LEAST_SPEED: u64 = 4 << 20;

impl Prober {
    /// Starts a worker of `program` for ends of `kinds`.
    ///
    /// # Errors
    /// When the worker does not start, or does not answer.
    pub fn start(program: &Path, kinds: &[Kind]) -> Result<Self, Error> {
        let mut prober = Self {
            program: program.to_owned(),
            kinds: kinds.to_vec(),
            worker: None,
            places: Vec::new(),
            patience: VERIFY_LIMIT,
        };
        prober.worker = Some(prober.employ()?);
        Ok(prober)
    }

    /// Where files of each kind lie, or why there are none.
    #[must_use]
    pub fn places(&self) -> &[KindPlace] {
        &self.places
    }

    /// Tries a way on a pair; a worker that hangs or dies is an outcome too.
    ///
    /// # Errors
    /// When no worker can be started any more.
    pub fn try_out(
        &mut self,
        way: Way,
        source: Kind,
        target: Kind,
        aim: Aim,
        processors: Option<[usize; 2]>,
    ) -> Result<Attempt, Error> {
        let missing = self
            .places
            .iter()
            .find(|place| place.dir.is_none() && [source, target].contains(&place.kind));
        if let Some(place) = missing {
            return Ok(Outcome::Absent { why: place.how.clone() }.into());
        }
        let limit = match aim {
            Aim::Verify => self.patience,
            // Slow is no failure: a pseudo-terminal moves some MiB a second.
            Aim::Speed(bytes) => self.patience + Duration::from_secs(bytes / LEAST_SPEED),
        };
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.employ()?,
        };
        match worker.ask(&Task { way, source, target, aim, processors }, limit) {
            Ok(attempt) => {
                self.worker = Some(worker);
                Ok(attempt)
            }
            // A hang is an answer about this pair; the next attempt gets a new process.
            Err(Lost::Silent) => {
                worker.end();
                Ok(Outcome::Hangs { seconds: limit.as_secs() }.into())
            }
            Err(Lost::Gone) => Ok(Outcome::Died { why: worker.end() }.into()),
        }
    }

    fn employ(&mut self) -> Result<Worker, Error> {
        let mut worker = Worker::start(&self.program)?;
        match worker.ask(&self.kinds, SETUP_LIMIT) {
            Ok(places) => self.places = places,
            Err(lost) => {
                let why = worker.end();
                return Err(Error::refused(match lost {
                    Lost::Silent => "finding places for files takes too long".to_owned(),
                    Lost::Gone => format!("the worker of the matrix did not start: {why}"),
                }));
            }
        }
        Ok(worker)
    }
}

#[derive(Debug)]
struct Worker {
    process: Running,
    tasks: ChildStdin,
    answers: ChildStdout,
    /// Bytes of the line that is being read.
    read: VecDeque<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// The time is over.
    Silent,
    /// The worker closed its output, or sent a line that cannot be parsed.
    Gone,
}

impl Worker {
    fn start(program: &Path) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(["lab", "once", "matrix"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = children::start(&mut command)?;
        let child = process.child();
        let no_pipe = || Error::refused("the worker of the matrix has no pipes");
        let tasks = child.stdin.take().ok_or_else(no_pipe)?;
        let answers = child.stdout.take().ok_or_else(no_pipe)?;
        Ok(Self { process, tasks, answers, read: VecDeque::new() })
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        what: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Lost> {
        let mut line = serde_json::to_vec(what).map_err(|_| Lost::Gone)?;
        line.push(b'\n');
        self.tasks.write_all(&line).map_err(|_| Lost::Gone)?;
        let line = self.line(Instant::now() + limit)?;
        serde_json::from_slice(&line).map_err(|_| Lost::Gone)
    }

    fn line(&mut self, deadline: Instant) -> Result<Vec<u8>, Lost> {
        const SLICE_MS: i64 = 500;
        let mut buf = [0; 4096];
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let line = self.read.drain(..end).collect();
                self.read.pop_front();
                return Ok(line);
            }
            if Instant::now() >= deadline {
                return Err(Lost::Silent);
            }
            if raw::is_ready(self.answers.as_fd(), PollFlags::IN, SLICE_MS) {
                match self.answers.read(&mut buf) {
                    Ok(0) => return Err(Lost::Gone),
                    Ok(len) => self.read.extend(&buf[..len]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Err(Lost::Gone),
                }
            }
        }
    }

    /// Kills the worker; returns the exit status in words. A worker stuck in the kernel is left behind.
    fn end(mut self) -> String {
        for tries in 0..40 {
            match self.process.child().try_wait() {
                Ok(Some(status)) => return told(status),
                // Some time first, in which a worker that was asked to end can tidy up.
                Ok(None) if tries == 10 => drop(self.process.child().kill()),
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                Err(error) => return error.to_string(),
            }
        }
        // Waiting for it, as dropping does, would hang in turn.
        std::mem::forget(self.process);
        "it is stuck inside the kernel".to_owned()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(Worker { mut process, tasks, .. }) = self.worker.take() {
            // The end of its tasks ends it, and lets it tidy up.
            drop(tasks);
            // An error says that there is no child left to wait for (ECHILD, wait(2)).
            let _ = process.child().wait();
        }
    }
}

fn told(status: ExitStatus) -> String {
    let name = |number: i32| {
        Signal::try_from(number).map_or_else(|_| number.to_string(), |signal| signal.to_string())
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => format!("killed by {}", name(number)),
        (None, None) => "it ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that answers the first line with no place, and the second by `last`.
    fn tried(last: &str) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("worker");
        let script = format!("#!/bin/sh\nread setup; echo '[]'; read task; {last}\n");
        gush_test::executable(&program, &script);
        let mut prober = Prober::start(&program, &[]).unwrap();
        prober.patience = Duration::from_secs(1);
        let way = "read-write".parse().unwrap();
        prober.try_out(way, Kind::Pipe, Kind::Tcp, Aim::Verify, None).unwrap().outcome
    }

    #[test]
    fn a_worker_that_dies_is_an_outcome() {
        let died = |why: &str| Outcome::Died { why: why.to_owned() };
        assert_eq!(tried("exit 3"), died("exit status 3"));
        assert_eq!(tried("kill -9 $$"), died("killed by SIGKILL"));
        assert!(matches!(tried("echo nonsense"), Outcome::Died { .. }));
    }

    #[test]
    fn a_worker_that_hangs_is_an_outcome() {
        assert_eq!(tried("exec sleep 30"), Outcome::Hangs { seconds: 1 });
    }

    #[test]
    fn an_answer_is_taken_as_it_is() {
        assert_eq!(tried(r#"echo '{"outcome":"works","bytes":3}'"#), Outcome::Works { bytes: 3 });
    }

    #[test]
    fn a_program_that_is_no_worker_is_told() {
        let error = Prober::start(Path::new("/bin/false"), &[]).unwrap_err();
        assert_eq!(error.to_string(), "the worker of the matrix did not start: exit status 1");
        assert!(Prober::start(Path::new("/nowhere/gush"), &[]).is_err());
    }
}
