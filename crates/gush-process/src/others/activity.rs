//! What a thread does or waits for, from /proc/PID/task/TID/{stat,syscall,wchan}.

use libc::{
    SYS_clock_nanosleep, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_futex, SYS_io_uring_enter,
    SYS_nanosleep, SYS_ppoll, SYS_pread64, SYS_preadv, SYS_pselect6, SYS_pwrite64, SYS_pwritev,
    SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
    SYS_sendfile, SYS_sendmsg, SYS_sendto, SYS_splice, SYS_tee, SYS_vmsplice, SYS_wait4,
    SYS_waitid, SYS_write, SYS_writev, c_long,
};
use rustix::process::RawPid;

use super::{parsed, small};

/// What a thread does or waits for. A descriptor is `None` where the kernel shows the call only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// It runs, or could.
    Computes,
    /// It waits in a read of this descriptor.
    Reads(Option<i32>),
    /// It waits in a write to this descriptor.
    Writes(Option<i32>),
    /// It waits in a splice(2) or tee(2) between these descriptors, for either.
    Splices(i32, i32),
    /// It waits for a disk, or another device that is not to be interrupted.
    Disk,
    /// It waits for one of several events, or for a timeout.
    Polls,
    /// It sleeps.
    Sleeps,
    /// It waits for another thread.
    Lock,
    /// It waits for a child or a signal.
    Child,
    /// It is stopped.
    Stopped,
    /// It has ended.
    Ended,
    /// Any other wait.
    Other,
}

/// What the thread `tid` of `pid` does now.
#[must_use]
pub fn activity(pid: RawPid, tid: RawPid) -> Activity {
    let read = |name: &str| small(&format!("/proc/{pid}/task/{tid}/{name}"));
    let Some(stat) = read("stat").and_then(|text| parsed(&text)) else { return Activity::Ended };
    let by_state = of_state(stat.state);
    // The call needs permission to attach (ptrace(2)), the kernel's function to read only.
    by_state
        .or_else(|| of_call(&read("syscall")?))
        .or_else(|| of_function(&read("wchan")?))
        .unwrap_or(Activity::Other)
}

fn of_state(state: char) -> Option<Activity> {
    match state {
        'R' => Some(Activity::Computes),
        'D' => Some(Activity::Disk),
        'T' | 't' => Some(Activity::Stopped),
        'Z' | 'X' | 'x' => Some(Activity::Ended),
        _ => None,
    }
}

const READS: &[c_long] = &[SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_recvfrom, SYS_recvmsg];
const WRITES: &[c_long] = &[
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendfile,
    SYS_vmsplice,
];
const POLLS: &[c_long] = &[
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_io_uring_enter,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];
const CHILD: &[c_long] = &[
    SYS_wait4,
    SYS_waitid,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

/// Of a line such as `0 0x3 0x7f... ...`: the number of the call and its arguments.
fn of_call(line: &str) -> Option<Activity> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Activity::Computes);
    }
    let number: c_long = first.parse().ok()?;
    let arguments: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    // A descriptor is an int: the upper half of a register is not set.
    let fd = |place: usize| arguments.get(place).map(|&value| value as u32 as i32);
    Some(match number {
        _ if READS.contains(&number) => Activity::Reads(fd(0)),
        _ if WRITES.contains(&number) => Activity::Writes(fd(0)),
        _ if number == SYS_splice => Activity::Splices(fd(0)?, fd(2)?),
        _ if number == SYS_tee => Activity::Splices(fd(0)?, fd(1)?),
        _ if POLLS.contains(&number) => Activity::Polls,
        _ if number == SYS_nanosleep || number == SYS_clock_nanosleep => Activity::Sleeps,
        _ if number == SYS_futex => Activity::Lock,
        _ if CHILD.contains(&number) => Activity::Child,
        _ => Activity::Other,
    })
}

/// Parts of the names of kernel functions in which a thread waits.
const FUNCTIONS: &[(&str, Activity)] = &[
    ("pipe_read", Activity::Reads(None)),
    ("pipe_write", Activity::Writes(None)),
    ("nanosleep", Activity::Sleeps),
    ("futex", Activity::Lock),
    ("poll", Activity::Polls),
    ("do_select", Activity::Polls),
    ("do_wait", Activity::Child),
    ("sigsuspend", Activity::Child),
    ("sigtimedwait", Activity::Child),
];

fn of_function(name: &str) -> Option<Activity> {
    FUNCTIONS.iter().find(|(part, _)| name.contains(part)).map(|(_, activity)| *activity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_known_by_its_call_or_by_the_kernels_function() {
        let call = |number: c_long, rest: &str| of_call(&format!("{number} {rest}"));
        assert_eq!(of_call("running\n"), Some(Activity::Computes));
        assert_eq!(call(SYS_read, "0x3 0x7f"), Some(Activity::Reads(Some(3))));
        assert_eq!(call(SYS_write, "0xffff888100000001 0x0"), Some(Activity::Writes(Some(1))));
        assert_eq!(call(SYS_splice, "0x0 0x0 0x4 0x0"), Some(Activity::Splices(0, 4)));
        assert_eq!(call(SYS_ppoll, "0x0"), Some(Activity::Polls));
        assert_eq!(of_call("-1 0x7ffc 0x7f00"), Some(Activity::Other));
        assert_eq!(of_call(""), None);
        for (name, activity) in [
            ("anon_pipe_read", Activity::Reads(None)),
            ("pipe_write", Activity::Writes(None)),
            ("poll_schedule_timeout.constprop.0", Activity::Polls),
            ("hrtimer_nanosleep", Activity::Sleeps),
            ("futex_wait_queue", Activity::Lock),
        ] {
            assert_eq!(of_function(name), Some(activity), "{name}");
        }
        assert_eq!(of_function("0"), None);
        assert_eq!((of_state('D'), of_state('S')), (Some(Activity::Disk), None));
    }

    #[test]
    fn a_thread_that_reads_an_empty_pipe_waits_at_its_descriptor() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = std::process::Command::new("cat")
            .stdin(reader)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !matches!(activity(pid, pid), Activity::Reads(Some(0) | None)) {
            std::thread::yield_now();
        }
        drop(writer);
        child.wait().unwrap();
        assert_eq!(activity(pid, pid), Activity::Ended);
    }
}
