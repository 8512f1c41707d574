//! What this kernel, this process and these paths allow, found by trying, not by version.
//!
//! Each [`Finding`] is a fact, a consequence, and a remedy if there is one. No existing file is
//! written, and trial files never have a name.
//!
//! ```
//! use gush_lab::probe::{Probe, doctor};
//! let examination = doctor::examine(&Probe::take(), &[std::env::temp_dir()]);
//! assert!(examination.findings.iter().any(|finding| finding.topic == "vmsplice"));
//! assert!(examination.paths[0].usable);
//! ```

mod asked_path;
mod calls;
mod cgroup;
mod congestion;
mod finding;
mod limits;
mod memory;
mod pairs;
mod paths;
mod perf;
mod sharing;
mod status;

use std::path::PathBuf;

use serde::Serialize;

use super::Probe;
use crate::model::Machine;
use asked_path::AskedPath;
pub use finding::{Condition, Finding};

/// The findings, in the form that `gush doctor --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examination {
    /// The form's number: the number grows when a key is removed or changes meaning.
    pub schema: u32,
    /// The output of `uname -r`; for information only.
    pub kernel: String,
    /// The fingerprint of the machine, as every run of the lab keeps it.
    pub machine: Machine,
    /// About the kernel and this process.
    pub findings: Vec<Finding>,
    /// About each path asked for.
    pub paths: Vec<PathFindings>,
    /// From each of these paths to each other one.
    pub pairs: Vec<PairFindings>,
}

/// About one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathFindings {
    /// The path as given.
    pub path: String,
    /// Whether the path can be read or written.
    pub usable: bool,
    /// The findings about the path.
    pub findings: Vec<Finding>,
}

/// About one path as source and another as target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairFindings {
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// The findings about the two.
    pub findings: Vec<Finding>,
}

/// Examines the kernel, this process, each of `paths`, and each pair of them.
pub fn examine(probe: &Probe, paths: &[PathBuf]) -> Examination {
    let status = status::Status::own();
    let mut findings = Vec::new();
    findings.extend(limits::pipes());
    findings.push(memory::huge_pages(probe));
    findings.extend(sharing::of_memory(&status));
    findings.push(sharing::technique());
    findings.extend(calls::all(&status));
    findings.push(memory::locked());
    findings.push(limits::descriptors());
    findings.push(congestion::control());
    findings.extend(cgroup::limits(&probe.cgroup));
    findings.push(status.seccomp());
    findings.push(perf::profiling());
    let asked: Vec<AskedPath> = paths.iter().map(|path| AskedPath::of(path)).collect();
    Examination {
        schema: 1,
        kernel: probe.machine.facts.get("kernel").cloned().unwrap_or_default(),
        machine: probe.machine.clone(),
        findings,
        paths: asked.iter().map(paths::examine).collect(),
        pairs: pairs::examine(&asked),
    }
}
