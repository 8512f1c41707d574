//! One copy, in this process, under a clock.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use gush::{Advice, Choice, Mover, Space, Tuning};

use super::case::What;
use super::cold;
use super::textbook;
use super::ways::{Buffer, By};
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

/// A copy to be made of a source of any size.
#[derive(Clone, Debug)]
pub struct Once {
    /// Advice and space are for the engine's ways only. A cold source is dropped from the page
    /// cache before the clock starts.
    pub what: What,
    pub source: PathBuf,
    /// The target; an existing file is overwritten.
    pub target: PathBuf,
}

impl Once {
    /// Copies once: the clock runs from before both files are opened until both are closed.
    pub fn run(&self) -> Result<Measured, Error> {
        let What { way, advice, space, cold, .. } = self.what;
        let tuned = advice != Advice::None || space != Space::AsWritten;
        if tuned && !way.is_engines() {
            return Err(Error::refused(format!(
                "{way} is a textbook's loop: it takes neither advice nor reserved space"
            )));
        }
        if matches!(way.buffer, Buffer::Cache(_)) && way.buffer_bytes().is_none() {
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
        Ok(measured
            .with("method", way.method)
            .with("way", way.name)
            .with("buffer_bytes", way.buffer_bytes().map(|bytes| bytes as u64))
            .with("size_bytes", size_bytes)
            .with("cache", if cold { "cold" } else { "cached" })
            .with("advice", name_of(ADVICE, &advice))
            .with("space", name_of(SPACE, &space)))
    }

    /// The source's size; drops the source's pages for a cold copy.
    fn look(&self) -> Result<u64, Error> {
        let source = File::open(&self.source).map_err(|error| self.failed("open", error))?;
        if self.what.cold {
            cold::drop_from_cache(&source)?;
        }
        Ok(source.metadata().map_err(|error| self.failed("look at", error))?.len())
    }

    fn copy(&self) -> Result<u64, Error> {
        let failed = |error| self.failed("copy", error);
        let way = self.what.way;
        match way.by {
            By::Characters => {
                foreign::copy_by_characters(&self.source, &self.target).map_err(failed)
            }
            By::Blocks => {
                let block_bytes = way.buffer_bytes().unwrap_or(4096);
                foreign::copy_by_blocks(&self.source, &self.target, block_bytes).map_err(failed)
            }
            By::Loop(textbook) => {
                let (source, target) = self.open()?;
                textbook::copy(textbook, &source, &target, way.buffer_bytes()).map_err(failed)
            }
            By::Engine(method) => self.by_engine(Choice::Only(method), 1),
            By::Auto => self.by_engine(Choice::Auto, 0),
        }
    }

    fn by_engine(&self, choice: Choice, threads: usize) -> Result<u64, Error> {
        let What { way, advice, space, .. } = self.what;
        let mut tuning = Tuning::default().advice(advice).space(space);
        tuning = match (way.buffer, way.buffer_bytes()) {
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
        Error::failed(
            format!("cannot {what} '{}' by {}", self.source.display(), self.what.way),
            error,
        )
    }
}
