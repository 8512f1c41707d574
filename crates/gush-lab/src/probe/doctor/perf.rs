//! Whether the kernel's work can be profiled: by trying.

use super::finding::Finding;
use crate::explain::perf::{Obstacle, may_record};

pub(super) fn profiling() -> Finding {
    const TOPIC: &str = "perf";
    match may_record() {
        Ok(()) => Finding::fine(
            TOPIC,
            "perf can record the kernel",
            "the lab can name the kernel functions that cause a figure",
        ),
        Err(Obstacle { fact, remedy }) => {
            let without = "figures come without the kernel functions that cause them";
            Finding { remedy, ..Finding::absent(TOPIC, fact, without) }
        }
    }
}
