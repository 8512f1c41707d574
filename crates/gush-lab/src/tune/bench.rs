//! One move, by the plan's choice or another setting, and the time taken.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Instant;

use gush::{Mover, Report, Space, Tuning};

use rustix::time::{ClockId, clock_gettime};

use super::question::{EndKind, Question};
use super::setting::Setting;
use super::trial_dir::TrialDir;
use crate::Error;
use crate::scratch::fill;

/// The bytes that programs at the far ends read and write at a time, as GNU's do.
const FAR_BYTES: usize = 128 << 10;
/// A sample of short moves has many of them.
const SAMPLE_BYTES: u64 = 4 << 20;
const MOST_MOVES: u64 = 64;
/// From this size on gush cp reserves the space of a new file on ext4.
const RESERVED_BYTES: u64 = 16 << 20;

/// One sample.
#[derive(Debug)]
pub(super) struct Taken {
    /// Seconds for one move, until the far end has every byte.
    pub(super) seconds: f64,
    /// Processor seconds of one move: of all threads between files, else of the moving thread.
    pub(super) processor_s: f64,
    /// The engine's account of the last move.
    pub(super) report: Report,
}

/// Files and ends that a question needs again and again.
#[derive(Debug)]
pub(super) struct Bench<'q> {
    question: &'q Question,
    source: Option<File>,
    moves: u64,
}

/// A moment by the clock, and the processor time so far.
struct Start {
    clock: Instant,
    processor: ClockId,
    processor_s: f64,
}

impl Start {
    fn now(processor: ClockId) -> Self {
        let processor_s = processor_s(processor);
        Self { clock: Instant::now(), processor, processor_s }
    }

    fn used_s(&self) -> f64 {
        processor_s(self.processor) - self.processor_s
    }
}

fn processor_s(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl<'q> Bench<'q> {
    /// Makes the source, in the page cache.
    pub(super) fn new(question: &'q Question) -> Result<Self, Error> {
        let filled = |trial: &TrialDir| {
            let file = trial.file()?;
            fill(&file, question.bytes).map_err(|error| {
                Error::failed(format!("cannot fill a file in {}", trial.dir.display()), error)
            })?;
            Ok::<_, Error>(file)
        };
        let source = question.source.trial_dir().map(filled).transpose()?;
        // Many moves of a small file make one sample: one is too short for the clock.
        let most = if source.is_some() { MOST_MOVES } else { 1 };
        Ok(Self { question, source, moves: (SAMPLE_BYTES / question.bytes).clamp(1, most) })
    }

    /// Takes one sample, of the plan's choice if there is no `setting`.
    pub(super) fn sample(&self, setting: Option<&Setting>) -> Result<Taken, Error> {
        match (&self.source, &self.question.target) {
            (Some(source), EndKind::File(dir)) => {
                // New files, as cp makes them; made and removed outside of the time.
                let made: Result<Vec<_>, _> = (0..self.moves).map(|_| dir.file()).collect();
                let made = made?;
                // Files are moved by several threads, whose time counts as well.
                let start = Start::now(ClockId::ProcessCPUTime);
                let mut last = None;
                for target in &made {
                    last = Some(self.moved(source, target, setting)?);
                }
                self.taken(&start, last)
            }
            (Some(source), target) => {
                let (near, far) = joined(target)?;
                thread::scope(|scope| {
                    let drain = scope.spawn(move || drain(far));
                    // The draining thread is the measurement's own, and no part of the move.
                    let start = Start::now(ClockId::ThreadCPUTime);
                    let mut last = None;
                    for _ in 0..self.moves {
                        last = Some(self.moved(source, &near, setting)?);
                    }
                    // The drain sees the end only when this side is closed.
                    drop(near);
                    self.arrived(drain.join())?;
                    self.taken(&start, last)
                })
            }
            (None, target) => {
                let (feeding, near) = joined(&self.question.source)?;
                thread::scope(|scope| {
                    let start = Start::now(ClockId::ThreadCPUTime);
                    let bytes = self.question.bytes;
                    let feeder = scope.spawn(move || feed(feeding, bytes));
                    let report = match target {
                        EndKind::File(dir) => {
                            let file = dir.file()?;
                            self.moved(&near, &file, setting)?
                        }
                        stream => {
                            let (out, far) = joined(stream)?;
                            let drain = scope.spawn(move || drain(far));
                            let report = self.moved(&near, &out, setting)?;
                            drop(out);
                            self.arrived(drain.join())?;
                            report
                        }
                    };
                    let taken = self.taken(&start, Some(report));
                    // It has nothing left to feed, or nobody to feed.
                    drop(near);
                    let fed =
                        feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    fed.map_err(|error| Error::failed("the feeding end failed", error))?;
                    taken
                })
            }
        }
    }

    fn moved(
        &self,
        source: &impl AsFd,
        target: &impl AsFd,
        setting: Option<&Setting>,
    ) -> Result<Report, Error> {
        let on_ext4 = self.question.target.trial_dir().is_some_and(|at| at.file_system == "ext4");
        // As `gush cp` reserves, so that the comparison is about moves of its own.
        let reserves = on_ext4 && self.question.bytes >= RESERVED_BYTES;
        let space = if reserves { Space::TryReserve } else { Space::AsWritten };
        let tuning = Tuning::default().space(space);
        let mut mover = Mover::new(source, target);
        if self.source.is_some() {
            mover = mover.source_offset_bytes(0);
        }
        mover = match setting {
            Some(setting) => setting.apply(mover, tuning),
            None => mover.tuning(tuning),
        };
        let report = mover.run().map_err(|error| {
            let what = format!("{}: {}", self.question, error.without_errno());
            match error.io_error().and_then(io::Error::raw_os_error) {
                Some(number) => Error::failed(what, io::Error::from_raw_os_error(number)),
                None => Error::refused(what),
            }
        })?;
        match report.bytes == self.question.bytes {
            true => Ok(report),
            false => {
                Err(Error::refused(format!("{}: {} bytes moved", self.question, report.bytes)))
            }
        }
    }

    fn arrived(&self, drained: thread::Result<io::Result<u64>>) -> Result<(), Error> {
        let drained = drained.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let bytes = drained.map_err(|error| Error::failed("the far end failed", error))?;
        match bytes == self.question.bytes * self.moves {
            true => Ok(()),
            false => Err(Error::refused(format!("{}: {bytes} bytes arrived", self.question))),
        }
    }

    fn taken(&self, start: &Start, report: Option<Report>) -> Result<Taken, Error> {
        let each = |seconds: f64| seconds / self.moves as f64;
        let seconds = each(start.clock.elapsed().as_secs_f64());
        let processor_s = each(start.used_s());
        report
            .map(|report| Taken { seconds, processor_s, report })
            .ok_or_else(|| Error::refused("there was nothing to move"))
    }
}

/// A writing end and a reading end.
fn joined(end: &EndKind) -> Result<(OwnedFd, OwnedFd), Error> {
    let made = match end {
        EndKind::Socket => tcp().map(|(near, far)| (near.into(), far.into())),
        _ => io::pipe().map(|(reader, writer)| (writer.into(), reader.into())),
    };
    made.map_err(|error| Error::failed(format!("no {} can be had", end.name()), error))
}

fn tcp() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    Ok((near, far))
}

fn drain(from: OwnedFd) -> io::Result<u64> {
    let mut from = File::from(from);
    let mut buffer = gush::Pages::new(FAR_BYTES)?;
    let mut all = 0;
    loop {
        match from.read(buffer.as_mut_slice()) {
            Ok(0) => return Ok(all),
            Ok(bytes) => all += bytes as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn feed(to: OwnedFd, bytes: u64) -> io::Result<()> {
    let mut to = File::from(to);
    let buffer = vec![b'X'; FAR_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(FAR_BYTES as u64);
        to.write_all(&buffer[..usize::try_from(part).unwrap_or(FAR_BYTES)])?;
        left -= part;
    }
    Ok(())
}
