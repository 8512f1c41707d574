//! The report of a run that has just ended, with the earlier runs.

use std::fs;
use std::path::{Path, PathBuf};

use gush_lab::model::Run;
use gush_lab::store::{Store, StoreError};

use super::report;
use super::session::Ended;

/// The number of earlier runs in the report's history.
const EARLIER: usize = 30;

/// Writes the report to `path`, or to `report.html` in the directory of the store, and returns the
/// path.
pub fn after(ended: &Ended, path: Option<&Path>) -> Result<PathBuf, String> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => report::default_path()?,
    };
    // An unreadable store was reported already; then the report is of this run alone.
    let mut runs =
        ended.store.as_ref().and_then(|store| earlier(store, &ended.run).ok()).unwrap_or_default();
    runs.push(ended.run.clone());
    gush_lab::report::write(&runs, &path).map_err(|error| error.to_string())?;
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

fn earlier(store: &Store, this: &Run) -> Result<Vec<Run>, StoreError> {
    let mut runs = store.runs()?;
    runs.retain(|run| run.id != this.id && !run.samples.is_empty());
    runs.drain(..runs.len().saturating_sub(EARLIER));
    // Thousands of cells with yes or no are no history, and would make the page huge.
    for run in &mut runs {
        run.samples.retain(|sample| sample.measured.speed().is_some());
    }
    runs.retain(|run| !run.samples.is_empty());
    Ok(runs)
}
