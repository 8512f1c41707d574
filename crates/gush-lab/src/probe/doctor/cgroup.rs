//! Limits of the control group that this process is in (cgroups(7)).

use super::finding::Finding;
use crate::probe::Cgroup;
use gush_text::rounded_bytes as size;

/// Memory and processors.
pub(super) fn limits(cgroup: &Cgroup) -> [Finding; 2] {
    [memory(cgroup), processors(cgroup)]
}

fn memory(cgroup: &Cgroup) -> Finding {
    /// Enough for the engine, which takes 16 MiB, and for pages that wait to be written.
    const ENOUGH_BYTES: u64 = 512 << 20;
    let topic = "cgroup-memory";
    match cgroup.memory_bytes {
        None if !cgroup.is_known => Finding::unknown(
            topic,
            "no control group can be looked at",
            "a limit on memory, if there is one, shows as slow writes",
        ),
        None => Finding::fine(
            topic,
            "no limit on memory by the control group",
            "the page cache may take what is free",
        ),
        Some(bytes) => {
            let fact = format!("the control group may use {} of memory", size(bytes));
            let consequence =
                "pages of the cache count too: large writes wait for the disk earlier";
            if bytes >= ENOUGH_BYTES {
                return Finding::fine(topic, fact, consequence);
            }
            Finding::limited(topic, fact, consequence).remedy(
                "raise it: docker --memory, systemd MemoryMax=, Kubernetes resources.limits.memory",
            )
        }
    }
}

fn processors(cgroup: &Cgroup) -> Finding {
    let topic = "cgroup-processors";
    let usable = gush::Kernel::get().processors();
    match cgroup.processors {
        Some(quota) => Finding::limited(
            topic,
            format!("the control group may use {quota:.1} processors; gush sees {usable}"),
            "work that exceeds the quota is held back for up to 100 ms at a time, which figures show",
        )
        .remedy("raise it: docker --cpus, systemd CPUQuota=, Kubernetes resources.limits.cpu"),
        None if usable < 2 => Finding::limited(
            topic,
            "one processor may be used",
            "reader and writer take turns on it; large files are copied by one thread",
        )
        .remedy("allow more: taskset, docker --cpuset-cpus"),
        None if cgroup.is_known => Finding::fine(
            topic,
            format!("no quota by the control group; {usable} processors may be used"),
            "large files are copied by several threads",
        ),
        None => Finding::unknown(
            topic,
            format!("no control group can be looked at; {usable} processors may be used"),
            "a quota, if there is one, shows as pauses of up to 100 ms",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::Condition;

    #[test]
    fn small_limits_have_a_remedy() {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            ("proc/self/cgroup", "0::/box\n"),
            ("proc/self/mounts", "cgroup2 /groups cgroup2 rw 0 0\n"),
            ("groups/box/memory.max", "1000000\n"),
            ("groups/box/cpu.max", "max 100000\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let cgroup = Cgroup::look_in(root.path());
        let [tight, open] = limits(&cgroup);
        assert_eq!(tight.state, Condition::Limited);
        assert!(tight.remedy.expect("a remedy").contains("docker --memory"));
        assert!(!open.fact.contains("may use 1.0 processors"), "{open:?}");
        let [nowhere, _] = limits(&Cgroup::look_in("/nowhere".as_ref()));
        assert_eq!(nowhere.state, Condition::Unknown);
    }
}
