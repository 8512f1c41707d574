//! One JSON object per file: action, methods, errors.

use std::collections::HashMap;
use std::path::Path;
use std::thread::{self, ThreadId};

use gush_text::quote;
use gush_tree::{Action, Done, Error};
use serde::Serialize;

use crate::json::{Methods, bytes_if_odd};

/// The record of one file. Scripts rely on the field names.
#[derive(Debug, Serialize)]
pub struct Record {
    source: String,
    /// The name in hexadecimal, if it is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_bytes: Option<String>,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
    action: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    bytes: u64,
    hole_bytes: u64,
    /// `null` for the entries of a tree.
    seconds: Option<f64>,
    #[serde(flatten)]
    methods: Methods,
    /// The target was re-read, and the content equals the source's.
    verified: bool,
    /// The hash of source and target, if they were verified by hash.
    blake3: Option<String>,
    backup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_bytes: Option<String>,
    warnings: Vec<String>,
    error: Option<Failure>,
}

/// The record of an entry that the source of a mirror lacks.
#[derive(Debug, Serialize)]
pub struct Removed {
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
    action: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    error: Option<Failure>,
}

impl Removed {
    pub fn new(target: &Path, dry_run: bool, result: &Result<(), Error>) -> Self {
        Self {
            target: target.to_string_lossy().into_owned(),
            target_bytes: bytes_if_odd(target),
            action: if result.is_ok() { "removed" } else { "failed" },
            dry_run,
            error: result.as_ref().err().map(Failure::new),
        }
    }
}

/// The warnings of the files being copied, one per thread.
#[derive(Debug, Default)]
pub struct Warnings(HashMap<ThreadId, Vec<Failure>>);

impl Warnings {
    pub fn add(&mut self, warning: &Error) {
        self.0.entry(thread::current().id()).or_default().push(Failure::new(warning));
    }

    /// The warnings of this thread's file.
    pub fn take(&mut self) -> Vec<Failure> {
        self.0.remove(&thread::current().id()).unwrap_or_default()
    }

    /// The warnings of all threads.
    pub fn take_all(&mut self) -> Vec<Failure> {
        self.0.drain().flat_map(|(_, warnings)| warnings).collect()
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    what: String,
    errno: Option<i32>,
    message: String,
    delivered_bytes: Option<u64>,
    hint: Option<String>,
}

impl Record {
    /// The record of one copy.
    pub fn new(
        (source, target): (&Path, &Path),
        seconds: Option<f64>,
        warnings: Vec<Failure>,
        result: &Result<Done, Error>,
    ) -> Self {
        let mut record = Self {
            source: source.to_string_lossy().into_owned(),
            source_bytes: bytes_if_odd(source),
            target: target.to_string_lossy().into_owned(),
            target_bytes: bytes_if_odd(target),
            action: "failed",
            dry_run: false,
            bytes: 0,
            hole_bytes: 0,
            seconds,
            methods: Methods::default(),
            verified: false,
            blake3: None,
            backup: None,
            backup_bytes: None,
            warnings: warnings.iter().map(|warning| warning.message.clone()).collect(),
            error: None,
        };
        match result {
            Ok(done) => {
                record.add(done);
                // A tree is incomplete for what its entries lack, which have records of their own.
                let is_tree = done.action == Action::Directory && seconds.is_some();
                if !done.complete && !is_tree {
                    record.lacks_attributes(target, warnings);
                }
            }
            Err(error) => {
                record.bytes = error.delivered_bytes().unwrap_or(0);
                record.error = Some(Failure::new(error));
            }
        }
        record
    }

    /// Not all attributes could be set, which the user knows by a warning.
    fn lacks_attributes(&mut self, target: &Path, warnings: Vec<Failure>) {
        let is_about = |warning: &Failure| warning.path == self.target;
        let told = warnings.into_iter().rfind(is_about);
        self.error = Some(told.unwrap_or_else(|| {
            let text = format!("{} lacks attributes of the source", quote::always(target));
            Failure::new(&Error::reported(target, text))
        }));
        if self.action == "attributes" {
            self.action = "failed";
        }
    }

    fn add(&mut self, done: &Done) {
        self.action = match done.action {
            Action::Copied => "copied",
            Action::HardLinked => "hard-linked",
            Action::SymbolicLinked => "symbolic-linked",
            Action::Recreated => "recreated",
            Action::Directory => "directory",
            Action::Attributes => "attributes",
            Action::Skipped => "skipped",
        };
        self.verified = done.verified;
        self.blake3 = done.digest.map(|digest| digest.to_string());
        self.backup = done.backup.as_ref().map(|path| path.to_string_lossy().into_owned());
        self.backup_bytes = done.backup.as_deref().and_then(bytes_if_odd);
        let Some(report) = &done.report else { return };
        self.bytes = report.bytes;
        self.hole_bytes = report.hole_bytes;
        self.methods = Methods::of(report);
    }
}

impl Failure {
    fn new(error: &Error) -> Self {
        Self {
            path: error.path().to_string_lossy().into_owned(),
            path_bytes: bytes_if_odd(error.path()),
            what: error.what(),
            errno: error.io_error().and_then(std::io::Error::raw_os_error),
            message: error.to_string(),
            delivered_bytes: error.delivered_bytes(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_of_the_file_that_its_thread_copies() {
        let mut warnings = Warnings::default();
        let lost = |text: &str| Error::reported(Path::new("a"), text.to_owned());
        let told = |warnings: Vec<Failure>| warnings.into_iter().map(|warning| warning.message);
        warnings.add(&lost("a: lost"));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let of_other = warnings.take();
                warnings.add(&lost("root: lost"));
                of_other
            });
            assert!(other.join().unwrap().is_empty());
        });
        assert!(told(warnings.take()).eq(["a: lost"]));
        assert!(told(warnings.take_all()).eq(["root: lost"]));
    }
}
