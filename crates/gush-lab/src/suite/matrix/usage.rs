//! Processor time of this process and of its threads.

use std::ops::Sub;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Processor seconds, as getrusage(2) divides them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

impl Usage {
    /// Of all threads of this process, those that have ended included.
    pub(super) fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Of the calling thread.
    pub(super) fn of_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    fn of(who: UsageWho) -> Self {
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        getrusage(who).map_or_else(
            |_| Self::default(),
            |usage| Self {
                user_s: seconds(usage.user_time()),
                system_s: seconds(usage.system_time()),
            },
        )
    }
}

impl Sub for Usage {
    type Output = Self;

    /// The difference; never below zero, because the kernel estimates how each sum is divided.
    fn sub(self, other: Self) -> Self {
        Self {
            user_s: (self.user_s - other.user_s).max(0.0),
            system_s: (self.system_s - other.system_s).max(0.0),
        }
    }
}
