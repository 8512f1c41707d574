//! The physical limit beside a suite's figures.

use gush_lab::model::Sample;
use gush_lab::store::{Store, StoreError};
use gush_lab::suite::memory;

use super::session::Ended;

/// The throughput of memory, from this run or from the last stored run of this machine. If no run measured
/// memory, the line says how to measure the throughput. If the store cannot be used, the line says that the limit is
/// unknown. No line for figures that are no throughput, or for the suite `memory` itself.
pub fn line(ended: &Ended) -> Option<String> {
    let Sample { suite, .. } = ended.run.samples.first()?;
    if *suite == memory::SUITE.name
        || ended.run.samples.iter().all(|sample| sample.measured.gib_per_s.is_none())
    {
        return None;
    }
    if let Some(limit) = memory::limit(&ended.run.samples) {
        return Some(format!("The physical limit: {limit}."));
    }
    let Some(store) = &ended.store else {
        // With --no-store the user did not ask about earlier runs.
        let unknown = "The physical limit is not known: without a store, no earlier run is.";
        return ended.is_unstored.then(|| unknown.to_owned());
    };
    Some(match last(store, &ended.run.machine.id) {
        Ok(Some((run, limit))) => format!("The physical limit: {limit} (run {run})."),
        Ok(None) => "The physical limit was not measured here yet: gush lab memory.".to_owned(),
        Err(error) => format!("The physical limit is not known: {error}."),
    })
}

/// The machine's newest run that measured memory, and the limit found there.
fn last(store: &Store, machine: &str) -> Result<Option<(String, String)>, StoreError> {
    for entry in store.runs()?.into_iter().rev() {
        let has_memory = entry.suites.iter().any(|suite| suite == memory::SUITE.name);
        if has_memory
            // Another machine's memory limits nothing here.
            && entry.run.machine.id == machine
            && let Some(limit) = memory::limit(&store.run(&entry.run.id)?.samples)
        {
            return Ok(Some((entry.run.id, limit)));
        }
    }
    Ok(None)
}
