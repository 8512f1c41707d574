//! A thread that takes only processor time that nobody else wants.

use rustix::io;

use crate::Errno;

pub(crate) fn take_idle_time() -> io::Result<()> {
    // SAFETY: the kernel only reads the structure, which lives as long as the call; 0 is the calling thread. By syscall(2),
    // because musl's function of that name answers ENOSYS: it would be of the whole process (POSIX).
    let answer = unsafe {
        let parameter = std::mem::zeroed::<libc::sched_param>();
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameter)
    };
    match answer {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_thread_alone_becomes_idle() {
        fn policy() -> i32 {
            // SAFETY: takes a number and touches no memory.
            unsafe { libc::sched_getscheduler(0) }
        }
        let before = policy();
        let within = std::thread::spawn(|| super::take_idle_time().map(|()| policy())).join();
        assert_eq!(within.unwrap(), Ok(libc::SCHED_IDLE));
        assert_eq!(policy(), before);
    }
}
