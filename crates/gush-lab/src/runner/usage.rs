//! The resources used by a process.

/// The resources used by a process and the children that it waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor seconds in user space.
    pub user_s: f64,
    /// Processor seconds in the kernel.
    pub system_s: f64,
    /// The largest memory that one of the processes had in use, in bytes. A new process begins with the memory of
    /// the process that starts it: see [`start_bytes`].
    pub peak_bytes: u64,
    /// Page faults without reading.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// How often a process gave the processor away.
    pub switches: u64,
    /// How often a processor was taken from a process.
    pub preemptions: u64,
}

impl Usage {
    /// Both together; of the memory the larger peak.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            switches: self.switches + other.switches,
            preemptions: self.preemptions + other.preemptions,
        }
    }
}

/// This process's own peak of memory in bytes, below which [`Usage::peak_bytes`] of children says nothing: until
/// execve(2) a child counts as large as this process. `None` if `/proc` does not tell.
#[must_use]
pub fn start_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
