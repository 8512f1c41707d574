//! Facts that make figures doubtful, and remedies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::model::{Machine, Sample, Warning};
use crate::probe::{Counters, Probe};
use crate::stats;

/// The doubts that arose since `begun`, and the part of the processors' time that other programs
/// and the hypervisor have taken since.
pub fn since(begun: &Counters, samples: &[Sample]) -> (Vec<Warning>, Option<f64>) {
    let now = Counters::look_in(Path::new("/"));
    let mut found = of_load(begun, &now);
    found.extend(of_slowing(begun, &now));
    found.extend(of_samples(samples));
    // Counters of a virtual machine can go backwards by a tick.
    let others = taken(begun, &now).map(|[others, stolen]| (others + stolen).clamp(0.0, 1.0));
    (found, others)
}

/// The doubts about the machine's settings.
pub fn before(probe: &Probe) -> Vec<Warning> {
    let mut found = of_settings(&probe.machine);
    found.extend(probe.notes.iter().cloned());
    found
}

/// Which parts of the processors' time other programs, and the hypervisor, took between two looks.
fn taken(before: &Counters, after: &Counters) -> Option<[f64; 2]> {
    let total_s = after.total_s - before.total_s;
    let own_s = after.own_s - before.own_s;
    let others_s = after.busy_s - before.busy_s - own_s;
    let stolen_s = after.stolen_s - before.stolen_s;
    (total_s > 0.0).then(|| [others_s / total_s, stolen_s / total_s])
}

/// The settings that make figures drift.
pub fn of_settings(machine: &Machine) -> Vec<Warning> {
    let fact = |name: &str| machine.facts.get(name).map(String::as_str);
    let mut found = Vec::new();
    if cfg!(debug_assertions) {
        found.push(Warning::new(
            "this gush was built without optimisation",
            "measure with a release build: cargo build --release --features full",
        ));
    }
    if let Some(governor) = fact("governor").filter(|&name| name != "performance") {
        found.push(Warning::new(
            format!("the processors' frequency follows the load (governor {governor})"),
            "as root: cpupower frequency-set -g performance",
        ));
    }
    if fact("turbo") == Some("on") {
        found.push(Warning::new(
            "turbo is on: a processor is fast while it is cool",
            "as root: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        ));
    }
    if fact("memory_given_back").is_some() {
        found.push(Warning::new(
            "this machine gives free memory back to its host, and the first use of a page after that takes several times as long",
            "as root, before the run: head -c 8G /dev/zero >/dev/shm/warm; rm /dev/shm/warm",
        ));
    }
    found
}

/// The work of others on the processors between two looks.
pub fn of_load(before: &Counters, after: &Counters) -> Vec<Warning> {
    const OTHERS: f64 = 0.05;
    const STOLEN: f64 = 0.01;
    let Some([others, stolen]) = taken(before, after) else { return Vec::new() };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let others = (others > OTHERS).then(|| {
        let fact =
            format!("other programs used {} of the processors during the run", percent(others));
        Warning::new(
            fact,
            "stop them, as top shows them, or measure again when the machine is quiet",
        )
    });
    let stolen = (stolen > STOLEN).then(|| {
        let share = percent(stolen);
        let fact =
            format!("the hypervisor gave {share} of the processors' time to others during the run");
        Warning::new(fact, "measure again later, or on a machine with dedicated processors")
    });
    others.into_iter().chain(stolen).collect()
}

/// The causes that slowed the processors down between two looks.
pub fn of_slowing(before: &Counters, after: &Counters) -> Vec<Warning> {
    let hot = after.hot.saturating_sub(before.hot);
    let throttled = after.throttled.saturating_sub(before.throttled);
    let found = [
        (
            hot,
            format!("a processor was slowed down {hot} times because it was too hot"),
            "let the machine cool down, and measure fewer cases at a time (--only)",
        ),
        (
            throttled,
            format!("the control group's processor limit stopped this program {throttled} times"),
            "raise the limit: cpu.max, the container's --cpus, or the pod's cpu limit",
        ),
    ];
    let found = found.into_iter().filter(|(times, ..)| *times > 0);
    found.map(|(_, fact, remedy)| Warning::new(fact, remedy)).collect()
}

/// The doubts about the samples themselves.
pub fn of_samples(samples: &[Sample]) -> Vec<Warning> {
    let mut cases: BTreeMap<(&str, &str), Vec<(u32, f64)>> = BTreeMap::new();
    for sample in samples {
        if let Some(speed) = sample.measured.speed() {
            cases.entry((&sample.suite, &sample.case)).or_default().push((sample.round, speed));
        }
    }
    let few = cases.values().filter(|own| own.len() < stats::FEWEST_SAMPLES).count();
    let mut found = Vec::new();
    if few > 0 {
        found.push(Warning::new(
            format!(
                "fewer than {} samples, too few for an interval to be trusted, of {few} of {} cases",
                stats::FEWEST_SAMPLES,
                cases.len()
            ),
            format!("measure more rounds: --rounds {}, of fewer cases where time is short", stats::FEWEST_SAMPLES),
        ));
    }
    let named = |all: &[String]| {
        let more = match all.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(", and {more} more of {} cases", cases.len()),
        };
        format!("{}{more}", all[..all.len().min(MOST_NAMED)].join(", "))
    };
    let leaves = |sample: &&Sample| sample.measured.facts.contains_key("left_running");
    let leaving: BTreeSet<String> = (samples.iter().filter(leaves))
        .map(|Sample { suite, case, .. }| format!("{suite} {case}"))
        .collect();
    if !leaving.is_empty() {
        let leaving = Vec::from_iter(leaving);
        found.push(Warning::new(
            format!("commands that ended before programs which they had started, whose processor time and memory are not counted: {}", named(&leaving)),
            "let the command wait for them: wait, in a shell",
        ));
    }
    let odd: Vec<String> =
        cases.iter().filter_map(|(&(suite, case), own)| odd_rounds(suite, case, own)).collect();
    if !odd.is_empty() {
        found.push(Warning::new(
            format!("samples far from the others of their case: {}", named(&odd)),
            "something disturbed those rounds: measure more of them",
        ));
    }
    found
}

const MOST_NAMED: usize = 6;

fn odd_rounds(suite: &str, case: &str, own: &[(u32, f64)]) -> Option<String> {
    if own.len() < stats::FEWEST_SAMPLES {
        return None;
    }
    let speeds: Vec<f64> = own.iter().map(|&(_, speed)| speed).collect();
    let odd: Vec<String> = own
        .iter()
        .zip(stats::outliers(&speeds))
        .filter(|&(_, odd)| odd)
        .map(|((round, _), _)| round.to_string())
        .collect();
    let rounds = match odd.len() {
        0 => return None,
        1 => format!("round {}", odd[0]),
        2..=MOST_NAMED => format!("rounds {}", odd.join(" ")),
        many => format!("{many} of {} rounds", own.len()),
    };
    Some(format!("{suite} {case} ({rounds})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measured;

    #[test]
    fn a_long_run_names_no_round_of_many() {
        let speed = |round: u32| {
            if round.is_multiple_of(20) { 9.0 } else { 2.0 + f64::from(round % 3) / 10.0 }
        };
        let sample = |round| {
            let measured = Measured { gib_per_s: Some(speed(round)), ..Measured::default() };
            Sample::new("run", "true", round, measured)
        };
        let samples: Vec<Sample> = (1..=500).map(sample).collect();
        let facts: Vec<String> = of_samples(&samples).into_iter().map(|one| one.fact).collect();
        assert_eq!(
            facts,
            ["samples far from the others of their case: run true (25 of 500 rounds)"]
        );
    }
}
