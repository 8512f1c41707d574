//! The fingerprint, and what is counted while something is measured, from stored /proc and /sys
//! files.

use gush_test as _;
use std::fs;
use std::path::Path;

use gush_lab::probe::{Counters, Probe};
use gush_lab::warnings::{of_settings, of_slowing};
use tempfile::TempDir;

/// A root directory with these files.
fn root(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, text) in files {
        write(root.path(), path, text);
    }
    root
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const LAPTOP: &[(&str, &str)] = &[
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Example 3000 @ 2 GHz\nflags\t\t: fpu vme\n"),
    ("proc/meminfo", "MemTotal:       16303428 kB\nMemFree: 1 kB\n"),
    ("proc/sys/kernel/osrelease", "6.18.0\n"),
    ("proc/sys/fs/pipe-max-size", "1048576\n"),
    (
        "proc/self/mounts",
        "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sr0 /cd ext4 ro 0 0\ntmpfs /tmp tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    ),
    ("proc/self/cgroup", "0::/user/session\n"),
    ("proc/stat", "cpu  1000 100 400 8000 500 10 90 50 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"),
    ("sys/devices/system/cpu/online", "0-3,6\n"),
    ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
    ("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/bus/virtio/drivers/virtio_balloon/virtio0/features", "0110010100000000\n"),
    ("sys/fs/cgroup/user/cpu.max", "150000 100000\n"),
    ("sys/fs/cgroup/user/memory.max", "2147483648\n"),
    ("sys/fs/cgroup/user/cpu.stat", "usage_usec 5\nnr_throttled 12\n"),
    ("sys/fs/cgroup/user/session/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/user/session/memory.max", "max\n"),
    ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("etc/os-release", "NAME=Example\nPRETTY_NAME=\"Example Linux 1\"\n"),
];

#[test]
fn a_fingerprint_has_what_the_kernel_reports() {
    let root = root(LAPTOP);
    let machine = Probe::look_in(root.path()).machine;
    for (name, fact) in [
        ("processor", "Example 3000 @ 2 GHz"),
        ("processors", "5"),
        ("virtualisation", "none"),
        ("memory", "15.5 GiB"),
        ("kernel", "6.18.0"),
        ("mitigations", "spectre_v2: Mitigation: Retpolines"),
        ("huge_pages", "madvise"),
        ("pipe_max_bytes", "1048576"),
        ("cgroup_processors", "1.50"),
        ("cgroup_memory", "2.0 GiB"),
        ("file_systems", "ext4 on /, tmpfs on /tmp"),
        ("governor", "powersave"),
        ("turbo", "on"),
        ("memory_given_back", "to the host"),
        ("system", "Example Linux 1"),
    ] {
        assert_eq!(machine.facts.get(name).map(String::as_str), Some(fact), "{name}");
    }
    let shown = format!("{machine:?}");
    assert!(!shown.contains("0123456789abcdef"), "the machine's secret id is shown");
}

#[test]
fn an_id_survives_a_new_kernel_but_not_another_machine() {
    let root = root(LAPTOP);
    let id = || Probe::look_in(root.path()).machine.id;
    let first = id();
    write(root.path(), "proc/sys/kernel/osrelease", "7.3.4\n");
    write(root.path(), "proc/meminfo", "MemTotal:       16303000 kB\n");
    assert_eq!(id(), first);
    write(root.path(), "etc/machine-id", "fedcba9876543210fedcba9876543210\n");
    assert_ne!(id(), first);
}

#[test]
fn control_groups_of_the_first_version_limit_too() {
    let root = root(&[
        (
            "proc/self/mounts",
            "c /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\nm /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
        ),
        ("proc/self/cgroup", "4:memory:/box\n1:cpu,cpuacct:/box\n"),
        ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
    ]);
    let machine = Probe::look_in(root.path()).machine;
    assert_eq!(machine.facts.get("cgroup_processors").map(String::as_str), Some("0.50"));
    assert_eq!(machine.facts.get("cgroup_memory").map(String::as_str), Some("1.0 GiB"));
}

#[test]
fn nothing_and_nonsense_are_absent_facts() {
    let empty = TempDir::new().unwrap();
    let machine = Probe::look_in(empty.path()).machine;
    assert_eq!(machine.facts.keys().collect::<Vec<_>>(), ["architecture"]);
    let odd = root(&[
        ("proc/meminfo", "MemTotal: many kB\n"),
        ("sys/devices/system/cpu/online", "3-1\n"),
        ("proc/stat", "cpu  1 2\n"),
        ("proc/self/mounts", "\n \nx\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[\n"),
    ]);
    assert_eq!(Probe::look_in(odd.path()).machine.facts.len(), 1);
    assert_eq!(Counters::look_in(odd.path()).total_s, 0.0);
}

#[test]
fn settings_heat_and_limits_become_warnings_with_a_remedy() {
    let root = root(LAPTOP);
    let Probe { machine, .. } = Probe::look_in(root.path());
    let before = Counters::look_in(root.path());
    assert_eq!((before.hot, before.throttled), (7, 12));
    assert!((before.busy_s - 16.0).abs() < 1e-9 && (before.stolen_s - 0.5).abs() < 1e-9);
    let said = |found: &[gush_lab::model::Warning]| {
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let settings = said(&of_settings(&machine));
    assert!(
        settings.contains("governor powersave")
            && settings.contains("turbo is on")
            && settings.contains("gives free memory back"),
        "{settings}"
    );
    // A balloon that takes memory only when the host asks changes no figure.
    let balloon = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features";
    write(root.path(), balloon, "0110000100000000\n");
    let without = said(&of_settings(&Probe::look_in(root.path()).machine));
    assert!(!without.contains("gives free memory back"), "{without}");
    write(root.path(), "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "6\n");
    write(root.path(), "sys/fs/cgroup/user/cpu.stat", "nr_throttled 15\n");
    let slowed = said(&of_slowing(&before, &Counters::look_in(root.path())));
    assert!(
        slowed.contains("slowed down 2 times") && slowed.contains("stopped this program 3 times"),
        "{slowed}"
    );
}
