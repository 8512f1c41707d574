//! Whether the kernel's work can be profiled: by trying.

use super::finding::Finding;
use crate::explain::perf::{Obstacle, may_record, paranoid};

pub(super) fn profiling() -> Finding {
    const TOPIC: &str = "perf";
    let level = paranoid()
        .map_or(String::new(), |level| format!("; kernel.perf_event_paranoid is {level}"));
    match may_record() {
        Ok(()) => Finding::fine(
            TOPIC,
            format!("perf can record the kernel{level}"),
            "the lab can name the kernel functions that cause a figure",
        ),
        Err(Obstacle { fact, remedy }) => {
            let without = "figures come without the kernel functions that cause them";
            Finding { remedy, ..Finding::absent(TOPIC, fact + &level, without) }
        }
    }
}
