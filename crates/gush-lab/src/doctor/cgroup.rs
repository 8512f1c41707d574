//! Limits of the control group that this process is in, version 2 or 1 (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::{Finding, size};

/// What is limited, by which files of either version.
struct Limit {
    topic: &'static str,
    controller: &'static str,
    v2: &'static str,
    v1: &'static str,
}

const MEMORY: Limit = Limit {
    topic: "cgroup-memory",
    controller: "memory",
    v2: "memory.max",
    v1: "memory.limit_in_bytes",
};
const PROCESSOR: Limit =
    Limit { topic: "cgroup-processors", controller: "cpu", v2: "cpu.max", v1: "cpu.cfs_quota_us" };

/// Memory and processors.
pub(super) fn limits() -> [Finding; 2] {
    [memory(MEMORY.read()), processors(PROCESSOR.read())]
}

/// The tightest limit of a group and of those around it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// No group can be looked at.
    Nowhere,
    Unlimited,
    /// Bytes, or processors.
    At(f64),
}

impl Limit {
    fn read(&self) -> Found {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut found = Found::Nowhere;
        for (dir, top, is_v2) in self.dirs(&groups, &mounts) {
            for group in dir.ancestors().take_while(|group| group.starts_with(&top)) {
                let value = if is_v2 { self.v2_value(group) } else { self.v1_value(group) };
                found = match (found, value) {
                    (found, None) => found,
                    (Found::At(least), Some(Found::At(value))) => Found::At(least.min(value)),
                    (Found::At(least), Some(_)) => Found::At(least),
                    (_, Some(value)) => value,
                };
            }
        }
        found
    }

    /// The group's directory and the top of its hierarchy, of each version that is mounted.
    fn dirs(&self, groups: &str, mounts: &str) -> Vec<(PathBuf, PathBuf, bool)> {
        let mut dirs = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let is_v2 = controllers.is_empty();
            if !is_v2 && !controllers.split(',').any(|name| name == self.controller) {
                continue;
            }
            let top = mounts.lines().find_map(|mount| {
                let fields: Vec<&str> = mount.split(' ').collect();
                let &[_, point, kind, options, ..] = &fields[..] else { return None };
                let fits = match is_v2 {
                    true => kind == "cgroup2",
                    false => {
                        kind == "cgroup" && options.split(',').any(|name| name == self.controller)
                    }
                };
                fits.then(|| PathBuf::from(point))
            });
            if let Some(top) = top {
                // In a namespace the path may lie above what is mounted; the top then is our group.
                let dir = top.join(path.trim_start_matches('/'));
                dirs.push((if dir.is_dir() { dir } else { top.clone() }, top, is_v2));
            }
        }
        dirs
    }

    fn v2_value(&self, group: &Path) -> Option<Found> {
        let text = fs::read_to_string(group.join(self.v2)).ok()?;
        parse_v2(self.topic, &text)
    }

    fn v1_value(&self, group: &Path) -> Option<Found> {
        let text = fs::read_to_string(group.join(self.v1)).ok()?;
        let period = fs::read_to_string(group.join("cpu.cfs_period_us")).unwrap_or_default();
        parse_v1(self.topic, &text, &period)
    }
}

fn parse_v2(topic: &str, text: &str) -> Option<Found> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if first == "max" {
        return Some(Found::Unlimited);
    }
    let value: f64 = first.parse().ok()?;
    if topic == PROCESSOR.topic {
        let period: f64 = words.next()?.parse().ok()?;
        return Some(Found::At(value / period));
    }
    Some(Found::At(value))
}

fn parse_v1(topic: &str, text: &str, period: &str) -> Option<Found> {
    /// What version 1 shows for "none": the largest number of whole pages.
    const NONE_BYTES: f64 = (1_u64 << 62) as f64;
    let value: f64 = text.trim().parse().ok()?;
    if topic == PROCESSOR.topic {
        if value < 0.0 {
            return Some(Found::Unlimited);
        }
        return Some(Found::At(value / period.trim().parse::<f64>().ok()?));
    }
    Some(if value >= NONE_BYTES { Found::Unlimited } else { Found::At(value) })
}

fn memory(found: Found) -> Finding {
    /// Enough for the engine, which takes 16 MiB, and for pages that wait to be written.
    const ENOUGH: f64 = (512_u64 << 20) as f64;
    let topic = MEMORY.topic;
    match found {
        Found::Nowhere => Finding::unknown(
            topic,
            "no control group can be looked at",
            "a limit on memory, if there is one, shows as slow writes",
        ),
        Found::Unlimited => Finding::fine(
            topic,
            "no limit on memory by the control group",
            "the page cache may take what is free",
        ),
        Found::At(bytes) => {
            let fact = format!("the control group may use {} of memory", size(bytes as u64));
            let consequence =
                "pages of the cache count too: large writes wait for the disk earlier";
            if bytes >= ENOUGH {
                return Finding::fine(topic, fact, consequence);
            }
            Finding::limited(topic, fact, consequence).remedy(
                "raise it: docker --memory, systemd MemoryMax=, Kubernetes resources.limits.memory",
            )
        }
    }
}

fn processors(found: Found) -> Finding {
    let topic = PROCESSOR.topic;
    let usable = gush::Kernel::get().processors();
    match found {
        Found::At(quota) => Finding::limited(
            topic,
            format!("the control group may use {quota:.1} processors; gush sees {usable}"),
            "work that exceeds the quota is held back for up to 100 ms at a time, which figures show",
        )
        .remedy("raise it: docker --cpus, systemd CPUQuota=, Kubernetes resources.limits.cpu"),
        Found::Unlimited | Found::Nowhere if usable < 2 => Finding::limited(
            topic,
            "one processor may be used",
            "reader and writer take turns on it; large files are copied by one thread",
        )
        .remedy("allow more: taskset, docker --cpuset-cpus"),
        Found::Unlimited => Finding::fine(
            topic,
            format!("no quota by the control group; {usable} processors may be used"),
            "large files are copied by several threads",
        ),
        Found::Nowhere => Finding::unknown(
            topic,
            format!("no control group can be looked at; {usable} processors may be used"),
            "a quota, if there is one, shows as pauses of up to 100 ms",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(parse_v2(MEMORY.topic, "max\n"), Some(Found::Unlimited));
        assert_eq!(parse_v2(MEMORY.topic, "1048576\n"), Some(Found::At(1_048_576.0)));
        assert_eq!(parse_v2(PROCESSOR.topic, "50000 100000\n"), Some(Found::At(0.5)));
        assert_eq!(parse_v1(MEMORY.topic, "9223372036854771712\n", ""), Some(Found::Unlimited));
        assert_eq!(parse_v1(PROCESSOR.topic, "-1\n", "100000\n"), Some(Found::Unlimited));
        assert_eq!(parse_v1(PROCESSOR.topic, "200000\n", "100000\n"), Some(Found::At(2.0)));
        assert_eq!(parse_v2(MEMORY.topic, "nonsense"), None);
    }

    #[test]
    fn the_group_is_found_in_either_hierarchy() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let dirs = MEMORY.dirs("4:memory:/no/such\n0::/\n", mounts);
        assert_eq!(dirs[0].1, PathBuf::from("/sys/fs/cgroup/memory"));
        assert!(!dirs[0].2 && dirs[1].2);
        assert!(MEMORY.dirs("3:cpuset:/\n", mounts).is_empty());
    }

    #[test]
    fn small_limits_have_a_remedy() {
        let tight = memory(Found::At(1e6));
        assert_eq!(tight.state, State::Limited);
        assert!(tight.remedy.unwrap().contains("docker --memory"));
        assert_eq!(memory(Found::Unlimited).remedy, None);
    }
}
