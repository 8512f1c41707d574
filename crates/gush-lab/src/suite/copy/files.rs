//! The files of a run: sources of every size, made once, in a directory that goes with the run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use gush::Digest;

use crate::Error;
use crate::count::Count;
use crate::scratch::Scratch;

/// The sources and the target.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) scratch: Scratch,
    sources: RefCell<BTreeMap<u64, Result<SourceFile, String>>>,
    /// The counts so far, by the parts of the case's name that they depend on.
    counts: RefCell<BTreeMap<String, Count>>,
}

/// A file to copy.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
}

impl Files {
    /// A new, hidden directory in `dir`, which is removed in the end.
    pub(super) fn new(dir: &Path) -> Result<Self, Error> {
        let scratch = Scratch::new_in(dir)?;
        Ok(Self { scratch, sources: RefCell::default(), counts: RefCell::default() })
    }

    /// The file that copies are written to.
    pub(super) fn target(&self) -> PathBuf {
        self.scratch.path().join("target")
    }

    pub(super) fn remove_target(&self) {
        // Not there before the first copy, nor after one that failed early.
        let _ = fs::remove_file(self.target());
    }

    /// The source of this size, written at the first request; a failure is remembered.
    pub(super) fn source(&self, size_bytes: u64) -> Result<SourceFile, Error> {
        self.sources
            .borrow_mut()
            .entry(size_bytes)
            .or_insert_with(|| self.make(size_bytes).map_err(|error| error.to_string()))
            .clone()
            .map_err(Error::refused)
    }

    /// The answer of `count`, called once for every `name`.
    pub(super) fn counted(
        &self,
        name: &str,
        count: impl FnOnce() -> Result<Count, Error>,
    ) -> Result<Count, Error> {
        // A cold case and a warm one have the same calls, and tracing is slow.
        if let Some(known) = self.counts.borrow().get(name) {
            return Ok(known.clone());
        }
        let count = count()?;
        self.counts.borrow_mut().insert(name.to_owned(), count.clone());
        Ok(count)
    }

    fn make(&self, size_bytes: u64) -> Result<SourceFile, Error> {
        let (path, file) = self.scratch.filled(&format!("source-{size_bytes}"), size_bytes)?;
        let digest = digest(&file)?;
        Ok(SourceFile { path, digest })
    }
}

pub(super) fn digest(file: &File) -> Result<Digest, Error> {
    gush::digest_of(file).map_err(|error| Error::refused(error.to_string()))
}
