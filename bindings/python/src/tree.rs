//! A tree, copied on threads that know nothing of Python, while the caller's thread looks for
//! signals.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use gush_tree::{
    Copier, CopyOptions, Dereference, Done, Error, Events, Filter, ModeRule, Place, Specials,
    Xattrs,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure;
use crate::signals::{Asker, SLICE};

/// Source, target, text and errno of an entry that failed.
type Failed = (PathBuf, PathBuf, String, Option<i32>);

/// What has been copied so far.
#[derive(Default)]
struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
}

/// The listener of one copy.
struct Listener<'t> {
    tally: &'t Tally,
    wants_entries: bool,
    failed: Vec<Failed>,
    warnings: Vec<String>,
}

impl Events for Listener<'_> {
    fn entry_ended(&mut self, source: &Path, target: &Path, result: &Result<Done, Error>) {
        match result {
            Ok(done) => {
                let bytes = done.report.as_ref().map_or(0, |report| report.bytes);
                self.tally.files.fetch_add(1, Ordering::Relaxed);
                self.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => {
                let errno = error.io_error().and_then(std::io::Error::raw_os_error);
                let text = failure::text_of(error);
                self.failed.push((source.to_path_buf(), target.to_path_buf(), text, errno));
            }
        }
    }

    fn wants_entries(&self) -> bool {
        self.wants_entries
    }

    fn warns(&mut self, warning: &Error) {
        self.warnings.push(warning.to_string());
    }
}

fn keep(options: &mut CopyOptions, names: &[String]) -> PyResult<()> {
    let preserve = &mut options.preserve;
    preserve.mode = ModeRule::Umask;
    preserve.required = true;
    for name in names {
        match name.as_str() {
            "mode" => preserve.mode = ModeRule::Keep,
            "timestamps" => preserve.times = true,
            "ownership" => preserve.owner = true,
            "links" => preserve.links = true,
            "xattr" => preserve.xattrs = Xattrs::Try,
            unknown => {
                let known = "mode, timestamps, ownership, links, xattr";
                let text = format!("preserve: {unknown:?} is none of {known}");
                return Err(PyValueError::new_err(text));
            }
        }
    }
    Ok(())
}

/// Copies a directory and all that is in it. Answers with the entries that failed, and with
/// warnings.
#[pyfunction]
#[pyo3(signature = (source, target, *, threads, symlinks, left_out, preserve, verify, on_progress))]
#[expect(clippy::too_many_arguments, reason = "Python names each of them")]
pub(crate) fn copy_tree(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    threads: usize,
    symlinks: bool,
    left_out: Vec<OsString>,
    preserve: Vec<String>,
    verify: bool,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Failed>, Vec<String>)> {
    let cancel = gush::Cancel::new();
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.dereference = if symlinks { Dereference::Named } else { Dereference::Always };
    options.specials = Specials::Refuse;
    options.verify = verify;
    options.moving.threads = threads;
    options.moving.cancel = Some(cancel.clone());
    keep(&mut options, &preserve)?;
    if !left_out.is_empty() {
        let rules: Vec<_> = left_out.into_iter().map(|pattern| (false, pattern)).collect();
        options.filter = Some(Filter::new(&rules).map_err(PyValueError::new_err)?);
    }
    let tally = Tally::default();
    let mut listener = Listener {
        tally: &tally,
        wants_entries: on_progress.is_some(),
        failed: Vec::new(),
        warnings: Vec::new(),
    };
    let report = |py: Python<'_>| match &on_progress {
        Some(callback) => {
            let (files, bytes) = (&tally.files, &tally.bytes);
            let seen = (files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            callback.call1(py, seen).map(drop)
        }
        None => Ok(()),
    };
    let (outcome, asked) = py.detach(|| {
        thread::scope(|scope| {
            let (send, ended) = mpsc::channel::<()>();
            let (options, listener) = (&options, &mut listener);
            let copying = scope.spawn(move || {
                // Dropped at the end, also by a panic.
                let _send = send;
                let (from, to) = (Place::here(&source), Place::here(&target));
                Copier::new(options).copy(from, to, listener)
            });
            let mut asker = Asker::new();
            let mut asked = Ok(());
            while ended.recv_timeout(SLICE) == Err(RecvTimeoutError::Timeout) {
                if asked.is_ok() {
                    asked = asker.ask(report);
                }
                if asked.is_err() {
                    cancel.cancel();
                }
            }
            let outcome = copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (outcome, asked)
        })
    });
    asked?;
    outcome.map_err(|error| failure::of_tree(py, &error))?;
    report(py)?;
    Ok((listener.failed, listener.warnings))
}
