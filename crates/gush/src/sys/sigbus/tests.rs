//! Each case runs in a separate process: dispositions are the process's, and some cases end it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicI32;

use super::*;

const CASE: &str = "GUSH_SIGBUS_CASE";

/// Runs `test` of this binary anew as the process that the case is about.
fn child(test: &str, case: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", test, "--nocapture"]).env(CASE, case);
    command.stdout(std::process::Stdio::null()).status().expect("a child")
}

/// A range with a guard over the addresses. Nothing is mapped there: only the addresses matter
/// here.
const RANGE: (usize, usize) = (0x7f00 << 32, 1 << 32);

fn send_with_code(code: libc::c_int) {
    let mut info = [0_i32; 32];
    // `siginfo_t` on 64 bits: signo, errno, code, padding, and then the address, which for a signal
    // that was sent is the sender's process and user.
    info[0] = libc::SIGBUS;
    info[2] = code;
    info[5] = 0x7f00;
    // SAFETY: the kernel reads 128 bytes of `info`; a process may send itself any code
    // (rt_sigqueueinfo(2)).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::syscall(libc::SYS_gettid),
            libc::SIGBUS,
            info.as_ptr(),
        )
    };
    assert_eq!(answer, 0);
}

static CALLED: AtomicI32 = AtomicI32::new(0);

extern "C" fn count(_: libc::c_int) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

fn handle(handler: libc::sighandler_t, flags: libc::c_int) {
    let mut action = disposition();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    set_disposition(&action);
}

fn counting() -> libc::sighandler_t {
    count as *const () as libc::sighandler_t
}

#[test]
fn a_signal_that_was_sent_meets_the_default_action() {
    const NAME: &str = "sys::sigbus::tests::a_signal_that_was_sent_meets_the_default_action";
    // SI_USER, SI_TKILL, SI_QUEUE, and the kernel's notice of failing memory.
    for code in [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE, libc::BUS_MCEERR_AO] {
        if std::env::var(CASE).is_ok_and(|case| case == code.to_string()) {
            // Rust's start-up code installs a handler of its own.
            handle(libc::SIG_DFL, 0);
            let _guard = Guard::over(RANGE.0, RANGE.1).expect("a guard");
            send_with_code(code);
            return;
        }
    }
    if std::env::var_os(CASE).is_some() {
        return;
    }
    for code in [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE, libc::BUS_MCEERR_AO] {
        assert_eq!(child(NAME, &code.to_string()).signal(), Some(libc::SIGBUS), "code {code}");
    }
}

#[test]
fn a_signal_that_was_sent_meets_the_previous_handler_as_often_as_that_wants() {
    const NAME: &str = "sys::sigbus::tests::a_signal_that_was_sent_meets_the_previous_handler_as_often_as_that_wants";
    let sent_and_called = || {
        let _guard = Guard::over(RANGE.0, RANGE.1).expect("a guard");
        send_with_code(libc::SI_USER);
        CALLED.load(Ordering::Relaxed)
    };
    match std::env::var(CASE).as_deref() {
        Ok("handled") => {
            handle(counting(), 0);
            assert_eq!([sent_and_called(), sent_and_called()], [1, 2]);
            assert!(disposition().sa_sigaction == counting());
        }
        Ok("once") => {
            handle(counting(), libc::SA_RESETHAND);
            assert_eq!(sent_and_called(), 1);
            assert!(disposition().sa_sigaction == libc::SIG_DFL);
        }
        Ok("ignored") => {
            handle(libc::SIG_IGN, 0);
            sent_and_called();
            sent_and_called();
            assert!(disposition().sa_sigaction == libc::SIG_IGN);
        }
        Ok("over ours") => {
            let guard = Guard::over(RANGE.0, RANGE.1).expect("a guard");
            handle(counting(), 0);
            drop(guard);
            assert!(disposition().sa_sigaction == counting());
        }
        Ok("blocked") => {
            let mut set = mem::MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: zeroed is a valid, empty set, to which one signal is added.
            unsafe {
                libc::sigaddset(set.as_mut_ptr(), libc::SIGBUS);
                libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
            }
            assert_eq!(Guard::over(RANGE.0, RANGE.1).err(), Some(Errno::OPNOTSUPP));
        }
        Ok(_) => {}
        Err(_) => {
            for case in ["handled", "once", "ignored", "over ours", "blocked"] {
                assert!(child(NAME, case).success(), "{case}");
            }
        }
    }
}
