//! A thread without the real-time priority of its process.

use rustix::io;

use crate::Errno;

/// Takes the calling thread's real-time priority away (`SCHED_OTHER`, sched(7)): for work that has
/// time, in a program that may have been started with such a priority. A thread without one stays
/// as it is.
///
/// # Errors
/// That of sched_setscheduler(2), which a seccomp filter may deny.
pub fn leave_real_time() -> io::Result<()> {
    // By syscall(2), because musl's functions of these names answer ENOSYS: they would be of the
    // whole process (POSIX). SAFETY: takes a number, where 0 is the calling thread, and touches no
    // memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if !matches!(i32::try_from(policy), Ok(libc::SCHED_FIFO | libc::SCHED_RR)) {
        return Ok(());
    }
    // SAFETY: the kernel only reads the structure, which lives as long as the call; 0 is the
    // calling thread.
    let answer = unsafe {
        let parameter = std::mem::zeroed::<libc::sched_param>();
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const parameter)
    };
    match answer {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_thread_alone_leaves() {
        fn policy() -> i64 {
            // SAFETY: takes a number and touches no memory.
            unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
        }
        let caller = policy();
        let within = std::thread::spawn(|| {
            let least = libc::sched_param { sched_priority: 1 };
            // SAFETY: the kernel only reads the structure, which lives as long as the call.
            let set = unsafe {
                libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const least)
            };
            let before = policy();
            let left = super::leave_real_time();
            (set == 0 && before == i64::from(libc::SCHED_FIFO), left, policy())
        });
        let (was_set, left, after) = within.join().unwrap();
        assert_eq!((left, policy()), (Ok(()), caller));
        if was_set {
            assert_eq!(after, i64::from(libc::SCHED_OTHER));
        } else {
            gush_test::skipped("no real-time priority is allowed here");
        }
    }
}
