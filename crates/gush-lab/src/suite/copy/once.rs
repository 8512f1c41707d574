//! One copy, in this process, under a clock.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use gush::{Advice, Choice, Mover, Space, Tuning};

use super::cold;
use super::textbook;
use super::ways::{Buffer, By, Way};
use crate::model::Measured;
use crate::once::Clock;
use crate::{Error, foreign};

/// Read-ahead advice for the source, by the suite's names.
pub const ADVICE: &[(&str, Advice)] = &[
    ("none", Advice::None),
    ("sequential", Advice::Sequential),
    ("willneed", Advice::WillNeed),
    ("random", Advice::Random),
];

/// The treatment of the target's space, by the suite's names.
pub const SPACE: &[(&str, Space)] =
    &[("as-written", Space::AsWritten), ("reserve", Space::Reserve)];

pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

/// The copy to be made.
#[derive(Clone, Debug)]
pub struct Once {
    pub way: &'static Way,
    /// Read-ahead advice for the source; for the engine's ways only.
    pub advice: Advice,
    /// The target's space; for the engine's ways only.
    pub space: Space,
    /// Whether the source is dropped from the page cache before the clock starts.
    pub cold: bool,
    pub source: PathBuf,
    /// The target; an existing file is overwritten.
    pub target: PathBuf,
}

impl Once {
    /// Copies once: the clock runs from before both files are opened until both are closed.
    pub fn run(&self) -> Result<Measured, Error> {
        let tuned = self.advice != Advice::None || self.space != Space::AsWritten;
        if tuned && !self.way.is_engines() {
            return Err(Error::refused(format!(
                "{} is a textbook's loop: it takes neither advice nor reserved space",
                self.way
            )));
        }
        if matches!(self.way.buffer, Buffer::Cache(_)) && self.way.buffer_bytes().is_none() {
            return Err(Error::refused("this machine does not report the sizes of its caches"));
        }
        let size_bytes = self.look()?;
        let clock = Clock::start()?;
        let bytes = self.copy()?;
        let measured = clock.stop(bytes)?;
        // A way that stops early would be a fast one.
        if bytes != size_bytes {
            return Err(Error::refused(format!("{bytes} of {size_bytes} bytes arrived")));
        }
        Ok(self.facts(measured, size_bytes))
    }

    /// The source's size; drops the source's pages for a cold copy.
    fn look(&self) -> Result<u64, Error> {
        let source = File::open(&self.source).map_err(|error| self.failed("open", error))?;
        if self.cold {
            cold::drop_from_cache(&source)?;
        }
        Ok(source.metadata().map_err(|error| self.failed("look at", error))?.len())
    }

    fn copy(&self) -> Result<u64, Error> {
        let failed = |error| self.failed("copy", error);
        match self.way.by {
            By::Characters => {
                foreign::copy_by_characters(&self.source, &self.target).map_err(failed)
            }
            By::Blocks => {
                let block_bytes = self.way.buffer_bytes().unwrap_or(4096);
                foreign::copy_by_blocks(&self.source, &self.target, block_bytes).map_err(failed)
            }
            By::Loop(textbook) => {
                let (source, target) = self.open()?;
                textbook::copy(textbook, &source, &target, self.way.buffer_bytes()).map_err(failed)
            }
            By::Engine(method) => self.by_engine(Choice::Only(method), 1),
            By::Auto => self.by_engine(Choice::Auto, 0),
        }
    }

    fn by_engine(&self, choice: Choice, threads: usize) -> Result<u64, Error> {
        let mut tuning = Tuning::default().advice(self.advice).space(self.space);
        tuning = match (self.way.buffer, self.way.buffer_bytes()) {
            (Buffer::Pipe(bytes), _) => tuning.pipe_bytes(bytes),
            (_, Some(bytes)) => tuning.buffer_bytes(bytes),
            (_, None) => tuning,
        };
        let (source, target) = self.open()?;
        Mover::new(&source, &target)
            .method(choice)
            .threads(threads)
            .tuning(tuning)
            .run()
            .map(|report| report.bytes)
            .map_err(|error| Error::refused(error.to_string()))
    }

    fn open(&self) -> Result<(File, File), Error> {
        let source = File::open(&self.source).map_err(|error| self.failed("open", error))?;
        let target = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&self.target)
            .map_err(|error| {
                Error::failed(format!("cannot create '{}'", self.target.display()), error)
            })?;
        Ok((source, target))
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::failed(format!("cannot {what} '{}' by {}", self.source.display(), self.way), error)
    }

    fn facts(&self, measured: Measured, size_bytes: u64) -> Measured {
        let buffer = self.way.buffer_bytes().map(|bytes| bytes as u64);
        measured
            .with("method", self.way.method)
            .with("way", self.way.name)
            .with("buffer_bytes", buffer)
            .with("size_bytes", size_bytes)
            .with("cache", if self.cold { "cold" } else { "cached" })
            .with("advice", name_of(ADVICE, &self.advice))
            .with("space", name_of(SPACE, &self.space))
    }
}
