//! The machine's fingerprint: everything that is known to change how fast bytes move.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Cgroup;
use super::processor::{self, Frequency};
use crate::model::Machine;
use crate::procfs;

/// The machine whose `/proc`, `/sys` and `/etc` are in the directory `root`.
///
/// Facts that cannot be found out are absent. The id is a hash of the processor, how many there
/// are, the memory in GiB, and `/etc/machine-id`, which itself is never shown (machine-id(5) asks
/// for that).
pub(super) fn of(root: &Path, cgroup: &Cgroup) -> Machine {
    let at = |path: &str| root.join(path);
    let line = |path: &str| procfs::line(at(path));
    let frequency = Frequency::look_in(root);
    let facts = [
        ("host", line("proc/sys/kernel/hostname")),
        ("system", os_release(&at("etc/os-release"))),
        ("architecture", Some(std::env::consts::ARCH.to_owned())),
        ("processor", processor::model(&at("proc/cpuinfo"))),
        ("processors", processor::online(root).map(|count| count.to_string())),
        ("processors_allowed", procfs::field(at("proc/self/status"), "Cpus_allowed_list")),
        ("virtualisation", processor::virtualisation(root)),
        ("memory", procfs::bytes(at("proc/meminfo"), "MemTotal").map(gib)),
        ("kernel", line("proc/sys/kernel/osrelease")),
        ("kernel_build", line("proc/sys/kernel/version")),
        ("mitigations", mitigations(&at("sys/devices/system/cpu/vulnerabilities"))),
        ("huge_pages", chosen(line("sys/kernel/mm/transparent_hugepage/enabled"))),
        ("huge_pages_shmem", chosen(line("sys/kernel/mm/transparent_hugepage/shmem_enabled"))),
        ("pipe_max_bytes", line("proc/sys/fs/pipe-max-size")),
        ("pipe_user_pages_soft", line("proc/sys/fs/pipe-user-pages-soft")),
        ("cgroup_processors", cgroup.processors.map(|count| format!("{count:.2}"))),
        ("cgroup_memory", cgroup.memory_bytes.map(gib)),
        ("file_systems", file_systems(&at("proc/self/mounts"))),
        ("clock_source", line("sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("memory_given_back", gives_memory_back(root).then(|| "to the host".to_owned())),
        ("governor", frequency.governor),
        ("turbo", frequency.turbo.map(|on| if on { "on" } else { "off" }.to_owned())),
    ];
    let facts: BTreeMap<String, String> =
        facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect();
    let id = id(&facts, line("etc/machine-id"));
    Machine { id, facts }
}

/// A hash of the facts that do not change between boots.
fn id(facts: &BTreeMap<String, String>, machine_id: Option<String>) -> String {
    let mut hasher = blake3::Hasher::new();
    // Facts that stay through a new kernel: a machine keeps its name, and its runs stay comparable.
    for name in ["architecture", "processor", "processors", "memory"] {
        hasher.update(name.as_bytes());
        hasher.update(facts.get(name).map_or(&[][..], |fact| fact.as_bytes()));
        // A separator, or two facts could be cut elsewhere and give the same bytes.
        hasher.update(&[0]);
    }
    hasher.update(machine_id.unwrap_or_default().as_bytes());
    hasher.finalize().to_hex()[..12].to_owned()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(line: Option<String>) -> Option<String> {
    let line = line?;
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// To half a GiB: the kernel reports somewhat less than the installed memory.
fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", (bytes as f64 / f64::from(1 << 29)).round() / 2.0)
}

/// Does this virtual machine return free pages to its host, so that touching them again costs more?
/// `VIRTIO_BALLOON_F_REPORTING` is bit 5 (`include/uapi/linux/virtio_balloon.h`).
fn gives_memory_back(root: &Path) -> bool {
    const REPORTING: usize = 5;
    let devices = fs::read_dir(root.join("sys/bus/virtio/drivers/virtio_balloon"));
    let features =
        devices.into_iter().flatten().flatten().map(|device| device.path().join("features"));
    features.filter_map(procfs::line).any(|bits| bits.as_bytes().get(REPORTING) == Some(&b'1'))
}

/// os-release(5): `PRETTY_NAME="…"`.
fn os_release(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The kernel's measures against processor faults
/// (`Documentation/ABI/testing/sysfs-devices-system-cpu`): each costs system calls something.
fn mitigations(directory: &Path) -> Option<String> {
    let mut found: Vec<String> = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let state = procfs::line(entry.path())?;
            let name = entry.file_name().into_string().ok()?;
            // Only those that cost something are worth a word.
            (state != "Not affected").then(|| format!("{name}: {state}"))
        })
        .collect();
    // The order of a directory is chance; the text is compared between runs.
    found.sort();
    Some(if found.is_empty() { "none needed".to_owned() } else { found.join("; ") })
}

/// Where files can be written: `ext4 on /, tmpfs on /dev/shm`.
fn file_systems(mounts: &Path) -> Option<String> {
    /// More would say nothing about the machine: containers mount by the hundred.
    const MOST: usize = 12;
    const WITH_FILES: [&str; 14] = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "overlay",
        "nfs", "nfs4", "virtiofs", "9p",
    ];
    // Bytes, because one mount point that is not UTF-8 must not hide the others.
    let text = fs::read(mounts).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut seen: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split(' ').skip(1);
        let [Some(place), Some(kind), Some(options)] = [(); 3].map(|()| fields.next()) else {
            continue;
        };
        let mount = format!("{kind} on {place}");
        let writable =
            // Nothing is measured where nothing can be written.
            !options.split(',').any(|option| option == "ro") && !place.starts_with("/sys/");
        if WITH_FILES.contains(&kind) && writable && !seen.contains(&mount) {
            seen.push(mount);
        }
    }
    seen.truncate(MOST);
    (!seen.is_empty()).then(|| seen.join(", "))
}

/// Asked of getconf(1), because the C library's own function is not to be had without unsafe code.
pub(super) fn libc_version() -> Option<String> {
    let mut getconf = Command::new("getconf");
    // Asked of a program, since gush itself may be linked with another C library.
    getconf.arg("GNU_LIBC_VERSION").stdin(Stdio::null()).stderr(Stdio::null());
    let output = getconf.output().ok().filter(|output| output.status.success())?;
    let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!version.is_empty() && version != "undefined").then_some(version)
}
