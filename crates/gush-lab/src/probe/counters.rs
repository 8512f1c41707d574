//! The kernel's counters at one moment.

use std::fs;
use std::path::Path;

use nix::sys::resource::UsageWho;

use super::Cgroup;
use super::processor::Frequency;
use crate::runner::Usage;

/// Counters at one moment; the difference of two is the work in between.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Seconds that all processors together worked.
    pub busy_s: f64,
    /// Seconds that the hypervisor gave to others.
    pub stolen_s: f64,
    /// Seconds of all processors together, idle or not.
    pub total_s: f64,
    /// Seconds of processor time of this program and of ended children.
    pub own_s: f64,
    /// How often a processor was slowed down because of heat.
    pub hot: u64,
    /// How often the control group's limit stopped this program.
    pub throttled: u64,
}

impl Counters {
    /// Looks at the machine whose `/proc` and `/sys` are in `root`.
    pub fn look_in(root: &Path) -> Self {
        Self {
            own_s: own_s(),
            hot: Frequency::look_in(root).hot,
            throttled: Cgroup::look_in(root).throttled,
            ..times(root).unwrap_or_default()
        }
    }
}

/// The first line of `/proc/stat` (proc_stat(5)): user nice system idle iowait irq softirq steal …,
/// in ticks.
fn times(root: &Path) -> Option<Counters> {
    /// USER_HZ is 100 on every architecture that gush is built for.
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
    // The first line is the sum of all processors.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    // Time of guests is counted within user already (proc_stat(5)).
    let busy = user + nice + system + irq + softirq;
    Some(Counters {
        busy_s: busy / TICKS_PER_S,
        stolen_s: steal / TICKS_PER_S,
        total_s: (busy + idle + iowait + steal) / TICKS_PER_S,
        ..Counters::default()
    })
}

fn own_s() -> f64 {
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .filter_map(|who| Usage::of(who).ok())
        .map(|used| used.user_s + used.system_s)
        .sum()
}
