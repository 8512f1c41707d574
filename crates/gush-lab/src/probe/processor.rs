//! Processors: which, how many, and who decides how fast they run.

use std::fs;
use std::path::Path;

use crate::{affinity, procfs};

/// The processor's name in `/proc/cpuinfo`, or (arm64) the numbers of maker and part.
pub(super) fn model(cpuinfo: &Path) -> Option<String> {
    let field = |name: &str| procfs::field(cpuinfo, name);
    // On ARM there is no model's name, only numbers of maker and part.
    field("model name").or_else(|| {
        Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?))
    })
}

/// How many processors are online: `0-3,6` are five.
pub(super) fn online(root: &Path) -> Option<usize> {
    let list = procfs::line(root.join("sys/devices/system/cpu/online"))?;
    Some(affinity::cpus(&list).len()).filter(|count| *count > 0)
}

/// The hypervisor of the machine, by the firmware's name, or by the processor's word.
pub(super) fn virtualisation(root: &Path) -> Option<String> {
    let flags = procfs::field(root.join("proc/cpuinfo"), "flags")?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let product = procfs::line(root.join("sys/class/dmi/id/product_name"));
    Some(product.unwrap_or_else(|| "a hypervisor".to_owned()))
}

/// The settings that may change the processors' frequency while something is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frequency {
    /// The first processor's governor that is not `performance`, or `performance`.
    pub governor: Option<String>,
    /// May a processor run above its nominal frequency while cool?
    pub turbo: Option<bool>,
    /// How often a processor was slowed down because of heat, all processors together.
    pub hot: u64,
}

impl Frequency {
    /// `Documentation/admin-guide/pm/cpufreq.rst`, `…/intel_pstate.rst`; the throttle counters of
    /// x86.
    pub fn look_in(root: &Path) -> Self {
        let cpus = root.join("sys/devices/system/cpu");
        let mut found = Self {
            turbo: procfs::line(cpus.join("intel_pstate/no_turbo"))
                .map(|no_turbo| no_turbo == "0")
                .or_else(|| procfs::line(cpus.join("cpufreq/boost")).map(|boost| boost == "1")),
            ..Self::default()
        };
        let mut numbers: Vec<u32> = fs::read_dir(&cpus)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        for cpu in numbers.into_iter().map(|number| cpus.join(format!("cpu{number}"))) {
            let hot = procfs::number(cpu.join("thermal_throttle/core_throttle_count"));
            found.hot += hot.unwrap_or(0_u64);
            let governor = procfs::line(cpu.join("cpufreq/scaling_governor"));
            // One processor that is not fixed counts.
            if found.governor.as_deref().is_none_or(|known| known == "performance") {
                found.governor = governor.or(found.governor);
            }
        }
        found
    }
}
