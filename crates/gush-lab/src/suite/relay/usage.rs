//! The processor time of a process so far, all threads together.

use std::fs;

use crate::Error;

/// Processor seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// In user space, in clock ticks' resolution.
    pub(super) user_s: f64,
    /// In the kernel, in clock ticks' resolution.
    pub(super) system_s: f64,
    /// Both, to the nanosecond.
    pub(super) run_s: f64,
}

impl Usage {
    /// Reads `/proc/PID/stat` and `/proc/PID/task/*/schedstat` (proc(5)).
    pub(super) fn of(pid: u32) -> Result<Self, Error> {
        let unread = |error| Error::failed("the relay's times cannot be read", error);
        let stat = fs::read(format!("/proc/{pid}/stat")).map_err(unread)?;
        let stat = String::from_utf8_lossy(&stat);
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        // The name, in parentheses, may contain anything; utime and stime are fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let seconds = |field| ticks(field).unwrap_or(0) as f64 * tick_s;
        let mut run_ns = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task")).map_err(unread)?.flatten() {
            // A thread may have ended meanwhile; a kernel without schedstats says nothing.
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let first = text.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
            run_ns += first.unwrap_or(0);
        }
        let (user_s, system_s) = (seconds(11), seconds(12));
        let run_s = if run_ns > 0 { run_ns as f64 / 1e9 } else { user_s + system_s };
        Ok(Self { user_s, system_s, run_s })
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
            run_s: self.run_s - earlier.run_s,
        }
    }
}
