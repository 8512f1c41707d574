//! The physical limit beside a suite's figures.

use gush_lab::model::Sample;
use gush_lab::store::{Store, StoreError};
use gush_lab::suite::memory;

use super::session::Ended;

/// What memory gives, as this run or the last stored one of this machine measured it; how to measure it,
/// where none did; that nothing is known of it, where the store cannot be used. Nothing beside figures that are no
/// throughput, nor beside memory's own.
pub fn line(ended: &Ended) -> Option<String> {
    let Sample { suite, .. } = ended.run.samples.first()?;
    if suite == "memory"
        || ended.run.samples.iter().all(|sample| sample.measured.gib_per_s.is_none())
    {
        return None;
    }
    if let Some(limit) = memory::limit(&ended.run.samples) {
        return Some(format!("The physical limit: {limit}."));
    }
    let Some(store) = &ended.store else {
        // Who wants nothing stored has not asked for what lies in a store.
        let unknown = "The physical limit is not known: without a store, no earlier run is.";
        return ended.is_unstored.then(|| unknown.to_owned());
    };
    Some(match last(store, &ended.run.machine.id) {
        Ok(Some((run, limit))) => format!("The physical limit: {limit} (run {run})."),
        Ok(None) => "The physical limit was not measured here yet: gush lab memory.".to_owned(),
        Err(error) => format!("The physical limit is not known: {error}."),
    })
}

/// The newest run of the machine that measured memory, and what it says.
fn last(store: &Store, machine: &str) -> Result<Option<(String, String)>, StoreError> {
    for entry in store.runs()?.into_iter().rev() {
        let has_memory = entry.suites.iter().any(|suite| suite == "memory");
        if has_memory
            && entry.run.machine.id == machine
            && let Some(limit) = memory::limit(&store.run(&entry.run.id)?.samples)
        {
            return Ok(Some((entry.run.id, limit)));
        }
    }
    Ok(None)
}
