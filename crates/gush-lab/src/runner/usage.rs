//! The resources used by processes and threads.

use std::fs::File;
use std::ops::Add;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use nix::sys::resource::{UsageWho, getrusage};

use crate::model::Measured;
use crate::procfs;

/// The resources used by a process and the children that it waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor seconds in user space.
    pub user_s: f64,
    /// Processor seconds in the kernel.
    pub system_s: f64,
    /// The largest memory in use by one of the processes, in bytes. A new process starts with that
    /// of its parent: see [`start_bytes`].
    pub peak_bytes: u64,
    /// Page faults without reading.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// How often a process gave the processor away.
    pub switches: u64,
    /// How often a processor was taken from a process.
    pub preemptions: u64,
    /// How many of its descendants still ran at its end; what they use is not counted.
    pub left_running: u64,
}

impl Usage {
    /// Of this process, of the calling thread, or of the children that this process waited for.
    pub fn of(who: UsageWho) -> nix::Result<Self> {
        getrusage(who).map(|usage| usage.as_ref().into())
    }

    /// The resources used since `earlier`; never below zero, since user and system time are
    /// estimates.
    pub fn since(self, earlier: Self) -> Self {
        let used = self.by(earlier, |own, other| (own - other).max(0.0), u64::saturating_sub);
        Self { peak_bytes: self.peak_bytes, left_running: self.left_running, ..used }
    }

    fn by(self, other: Self, seconds: fn(f64, f64) -> f64, counts: fn(u64, u64) -> u64) -> Self {
        Self {
            user_s: seconds(self.user_s, other.user_s),
            system_s: seconds(self.system_s, other.system_s),
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            minor_faults: counts(self.minor_faults, other.minor_faults),
            major_faults: counts(self.major_faults, other.major_faults),
            switches: counts(self.switches, other.switches),
            preemptions: counts(self.preemptions, other.preemptions),
            left_running: counts(self.left_running, other.left_running),
        }
    }

    /// `measured` with the resources of one of so many runs.
    pub(crate) fn recorded(&self, measured: Measured, runs: u32) -> Measured {
        let each = |count: u64| count / u64::from(runs);
        let measured = match self.left_running {
            0 => measured,
            left => measured.with("left_running", left),
        };
        Measured {
            user_s: Some(self.user_s / f64::from(runs)),
            system_s: Some(self.system_s / f64::from(runs)),
            ..measured
        }
        .with("minor_faults", each(self.minor_faults))
        .with("major_faults", each(self.major_faults))
        .with("switches", each(self.switches))
        .with("preemptions", each(self.preemptions))
    }

    /// Both together; of the memory the larger peak.
    pub fn and(self, other: Self) -> Self {
        self.by(other, f64::add, u64::add)
    }
}

impl From<&libc::rusage> for Usage {
    fn from(used: &libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
        Self {
            user_s: seconds(used.ru_utime),
            system_s: seconds(used.ru_stime),
            // The kernel counts it in KiB (getrusage(2)).
            peak_bytes: count(used.ru_maxrss) << 10,
            minor_faults: count(used.ru_minflt),
            major_faults: count(used.ru_majflt),
            switches: count(used.ru_nvcsw),
            preemptions: count(used.ru_nivcsw),
            left_running: 0,
        }
    }
}

/// This process's own peak of memory in bytes, which [`Usage::peak_bytes`] of children includes, as
/// until execve(2) a child is as large as this process. `None` if `/proc` does not say.
pub fn start_bytes() -> Option<u64> {
    /// How far apart the kernel's two counts may be.
    const UNSURE_BYTES: u64 = 1 << 20;
    static IS_IN_USAGE: LazyLock<bool> = LazyLock::new(|| {
        in_status().zip(in_usage()).is_some_and(|(own, most)| most <= own + UNSURE_BYTES)
    });
    // Made in a tenth of the time, but counts the program that started this one, if that is larger.
    if *IS_IN_USAGE { in_usage() } else { in_status() }
}

fn in_usage() -> Option<u64> {
    Usage::of(UsageWho::RUSAGE_SELF).ok().map(|own| own.peak_bytes)
}

fn in_status() -> Option<u64> {
    procfs::bytes("/proc/self/status", "VmHWM")
}

/// Lowers [`start_bytes`] to the memory that is in use now (proc_pid_clear_refs(5)); older kernels
/// keep the peak.
pub fn lower_start() {
    static CLEAR: LazyLock<Option<File>> =
        LazyLock::new(|| File::options().write(true).open("/proc/self/clear_refs").ok());
    let _ = CLEAR.as_ref().map(|clear| clear.write_at(b"5", 0));
}
