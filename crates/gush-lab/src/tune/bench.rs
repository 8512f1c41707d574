//! One move, as the engine makes it with a profile or without, and how long it took.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Instant;

use gush::{Endpoint, Mover, Profile, Report, Space, Tuning};

use super::question::{End, Question};
use crate::Error;

/// What programs at the far ends read and write at a time, as GNU's do.
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
    /// The engine's account of the last move.
    pub(super) report: Report,
}

/// What a question needs again and again.
#[derive(Debug)]
pub(super) struct Bench<'q> {
    question: &'q Question,
    source: Option<File>,
    moves: u64,
}

impl<'q> Bench<'q> {
    /// Makes the source, in the page cache.
    pub(super) fn new(question: &'q Question) -> Result<Self, Error> {
        let source = match &question.source {
            End::File(place) => {
                let mut file = place.file()?;
                fill(&mut file, question.bytes).map_err(|error| {
                    let dir = place.dir.display();
                    Error::failed(format!("cannot fill a file in {dir}"), error)
                })?;
                Some(file)
            }
            End::Pipe | End::Socket => None,
        };
        let moves = match &source {
            Some(_) => (SAMPLE_BYTES / question.bytes).clamp(1, MOST_MOVES),
            None => 1,
        };
        Ok(Self { question, source, moves })
    }

    /// Takes one sample.
    pub(super) fn sample(&self, profile: Option<&Profile>) -> Result<Taken, Error> {
        match (&self.source, &self.question.target) {
            (Some(source), End::File(place)) => {
                // New files, as cp makes them; made and removed outside of the time.
                let made: Result<Vec<_>, _> = (0..self.moves).map(|_| place.file()).collect();
                let targets = made?;
                let start = Instant::now();
                let mut last = None;
                for target in &targets {
                    last = Some(self.moved(self.mover(source, target), profile)?);
                }
                self.taken(start, last)
            }
            (Some(source), target) => {
                let (near, far) = joined(target)?;
                thread::scope(|scope| {
                    let drain = scope.spawn(move || drain(far));
                    let start = Instant::now();
                    let mut last = None;
                    for _ in 0..self.moves {
                        last = Some(self.moved(self.mover(source, &near), profile)?);
                    }
                    drop(near);
                    self.arrived(drain.join())?;
                    self.taken(start, last)
                })
            }
            (None, target) => {
                let (feeding, near) = joined(&self.question.source)?;
                thread::scope(|scope| {
                    let start = Instant::now();
                    let bytes = self.question.bytes;
                    let feeder = scope.spawn(move || feed(feeding, bytes));
                    let report = match target {
                        End::File(place) => {
                            let file = place.file()?;
                            self.moved(Mover::new(&near, &file), profile)?
                        }
                        stream => {
                            let (out, far) = joined(stream)?;
                            let drain = scope.spawn(move || drain(far));
                            let report = self.moved(Mover::new(&near, &out), profile)?;
                            drop(out);
                            self.arrived(drain.join())?;
                            report
                        }
                    };
                    let taken = self.taken(start, Some(report));
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

    fn mover<'a>(&self, source: &'a File, target: &'a impl std::os::fd::AsFd) -> Mover<'a> {
        let on_ext4 = self.question.target.place().is_some_and(|at| at.file_system == "ext4");
        let reserves = on_ext4 && self.question.bytes >= RESERVED_BYTES;
        let space = if reserves { Space::TryReserve } else { Space::AsWritten };
        Mover::new(source, target).source_offset_bytes(0).tuning(Tuning::default().space(space))
    }

    fn moved<'a>(&self, mover: Mover<'a>, profile: Option<&'a Profile>) -> Result<Report, Error> {
        let mover = match profile {
            Some(profile) => mover.profile(profile),
            None => mover,
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

    fn taken(&self, start: Instant, report: Option<Report>) -> Result<Taken, Error> {
        let seconds = start.elapsed().as_secs_f64() / self.moves as f64;
        report
            .map(|report| Taken { seconds, report })
            .ok_or_else(|| Error::refused("there was nothing to move"))
    }
}

/// What a profile says about a question, without anything being moved.
pub(super) fn advice(question: &Question, profile: &Profile) -> Result<Option<String>, Error> {
    let open = |end: &End, reading: bool| match end {
        End::File(place) => place.file().map(|file| (OwnedFd::from(file), None)),
        stream => joined(stream).map(|(write, read)| match reading {
            true => (read, Some(write)),
            false => (write, Some(read)),
        }),
    };
    let ((source, _feeding), (target, _far)) =
        (open(&question.source, true)?, open(&question.target, false)?);
    let look = |fd| {
        Endpoint::of(fd).map_err(|errno| Error::failed(format!("{question}: cannot look"), errno))
    };
    let known_bytes = question.source.place().map_or(0, |_| question.bytes);
    Ok(profile.advice(&look(&source)?, &look(&target)?, known_bytes))
}

/// Bytes that are no hole and no zeros.
fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    let block: Vec<u8> =
        (0..1_u32 << 18).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64);
        file.write_all(&block[..usize::try_from(part).unwrap_or(block.len())])?;
        left -= part;
    }
    Ok(())
}

/// A writing end and a reading end.
fn joined(end: &End) -> Result<(OwnedFd, OwnedFd), Error> {
    let made = match end {
        End::Socket => tcp().map(|(near, far)| (near.into(), far.into())),
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
    let mut buffer = vec![0; FAR_BYTES];
    let mut all = 0;
    loop {
        match from.read(&mut buffer) {
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
