//! A known state to begin with, independent of the program that starts the tests: set before main,
//! for the process of the tests and everything that it starts.
//!
//! `nohup` ignores SIGHUP, a script's `&` ignores SIGINT, and both are inherited by the tested
//! program, which keeps them ignored as GNU's programs do: a test that sends such a signal would
//! wait for ever. Umask, limits, locale, time zone and options in the environment are inherited
//! likewise.
//!
//! Before main and at the end the devices under `/dev` are looked at: a tested program that root
//! runs can replace them or change their mode, and every other program of the machine would suffer.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::OnceLock;
use std::{mem, ptr};

/// Set in the environment of programs that a test starts: a state that a test made for a process of
/// its own stays.
const STARTED: &CStr = c"GUSH_TEST_STARTED";

/// Variables that change the messages and choices of the tested programs, and of those next to
/// them.
const REMOVED: [&CStr; 26] = [
    c"BASH_ENV",
    c"CDPATH",
    c"CLICOLOR",
    c"CLICOLOR_FORCE",
    c"COLUMNS",
    c"ENV",
    c"FORCE_COLOR",
    c"GREP_OPTIONS",
    c"LANG",
    c"LANGUAGE",
    c"LC_COLLATE",
    c"LC_CTYPE",
    c"LC_MESSAGES",
    c"LC_NUMERIC",
    c"LC_TIME",
    c"LINES",
    c"LISTEN_FDNAMES",
    c"LISTEN_FDS",
    c"LISTEN_PID",
    c"NO_COLOR",
    c"POSIXLY_CORRECT",
    c"SIMPLE_BACKUP_SUFFIX",
    c"VERSION_CONTROL",
    c"XDG_CONFIG_HOME",
    c"XDG_DATA_HOME",
    c"XDG_CACHE_HOME",
];

const SET: [(&CStr, &CStr); 2] = [(c"LC_ALL", c"C.UTF-8"), (c"TZ", c"UTC0")];

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
/// musl has no type of its own.
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Limits that a shell may have lowered, back to the hard limits; descriptors to the usual number.
const LIMITS: [(Resource, libc::rlim_t); 5] = [
    (libc::RLIMIT_NOFILE, 1024),
    (libc::RLIMIT_FSIZE, libc::RLIM_INFINITY),
    (libc::RLIMIT_AS, libc::RLIM_INFINITY),
    (libc::RLIMIT_DATA, libc::RLIM_INFINITY),
    (libc::RLIMIT_CPU, libc::RLIM_INFINITY),
];

/// Devices that tests read and write, with their minor numbers; the major number is 1 (null(4),
/// full(4)).
const DEVICES: [(&CStr, libc::c_uint); 3] =
    [(c"/dev/null", 3), (c"/dev/zero", 5), (c"/dev/full", 7)];

/// The process of the tests, and which of the devices were sound before main.
static BEFORE: OnceLock<(libc::pid_t, [bool; 3])> = OnceLock::new();

/// Whether each device is one, and everybody may read and write it.
fn sound_devices() -> [bool; 3] {
    DEVICES.map(|(path, minor)| {
        // SAFETY: the path ends with a zero byte, and all bytes of zero are a valid `stat`.
        unsafe {
            let mut stat: libc::stat = mem::zeroed();
            libc::lstat(path.as_ptr(), &raw mut stat) == 0
                && stat.st_mode == libc::S_IFCHR | 0o666
                && stat.st_rdev == libc::makedev(1, minor)
        }
    })
}

/// Without the standard library's streams and exit, which may be gone already at the end of the
/// process.
fn fail(sentence: &CStr) -> ! {
    // SAFETY: the sentence has as many bytes as it says; `_exit` may be called at any time.
    unsafe {
        libc::write(2, sentence.as_ptr().cast(), sentence.count_bytes());
        libc::_exit(101)
    }
}

extern "C" fn end() {
    // SAFETY: asking for one's number has no preconditions.
    let process = unsafe { libc::getpid() };
    let Some((_, before)) = BEFORE.get().filter(|(tests, _)| *tests == process) else { return };
    if sound_devices().iter().zip(before).any(|(now, before)| *before && !now) {
        fail(
            c"a test has damaged /dev/null, /dev/zero or /dev/full: root repairs them with\n\
              rm -f /dev/null; mknod -m 666 /dev/null c 1 3 (zero: 1 5, full: 1 7)\n",
        );
    }
}

// SAFETY: the C library calls what stands there once, in the C convention, before main and before
// any thread; `begin` calls nothing but the C library, whose own constructors have run.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: no other thread exists, so nobody reads the environment meanwhile; all strings end
    // with a zero byte, the structures are initialised, default dispositions replace ignored ones
    // only, and `end` stays in memory for as long as the process lives.
    unsafe {
        if !libc::getenv(STARTED.as_ptr()).is_null() {
            return;
        }
        crate::watchdog::start();
        libc::setenv(STARTED.as_ptr(), c"1".as_ptr(), 1);
        let devices = sound_devices();
        if !devices[0] {
            fail(
                c"/dev/null is no device that everybody may read and write: root repairs it with\n\
                  rm -f /dev/null; mknod -m 666 /dev/null c 1 3\n",
            );
        }
        let _ = BEFORE.set((libc::getpid(), devices));
        libc::atexit(end);
        for name in REMOVED {
            libc::unsetenv(name.as_ptr());
        }
        for (name, value) in SET {
            libc::setenv(name.as_ptr(), value.as_ptr(), 1);
        }
        // Most tests wait for another program: as many at once as there are processors would leave
        // those idle.
        let processors = libc::sysconf(libc::_SC_NPROCESSORS_ONLN).clamp(2, 32);
        let at_once = format!("{}\0", 3 * processors);
        libc::setenv(c"RUST_TEST_THREADS".as_ptr(), at_once.as_ptr().cast(), 0);
        libc::umask(0o022);
        for (limit, wanted) in LIMITS {
            let mut now: libc::rlimit = mem::zeroed();
            if libc::getrlimit(limit, &raw mut now) == 0 {
                now.rlim_cur = wanted.min(now.rlim_max);
                libc::setrlimit(limit, &raw const now);
            }
        }
        for signal in 1..65 {
            let mut now: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut now);
            if now.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    #[test]
    #[ignore = "run by the test below, from a shell that has set everything up badly"]
    fn child_begins_as_ever() {
        // This thread's: the one that started it blocks all signals for a moment
        // (pthread_create(3)).
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().to_owned()
        };
        // Rust's start-up code ignores SIGPIPE, number 13, afterwards; 32 and 33 are the C
        // library's own.
        let ignored = u64::from_str_radix(&line("SigIgn:"), 16).unwrap();
        assert_eq!(ignored & !(3 << 31), 1 << 12);
        assert_eq!(line("SigBlk:"), "0".repeat(16));
        assert_eq!(line("Umask:"), "0022");
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let limit = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!(limit("Max file size"), "unlimited");
        assert!(limit("Max open files").parse::<u32>().unwrap() > 100);
        assert_eq!(std::env::var("LC_ALL").unwrap(), "C.UTF-8");
        assert_eq!(std::env::var("TZ").unwrap(), "UTC0");
        assert_eq!(std::env::var_os("POSIXLY_CORRECT"), None);
    }

    #[test]
    fn tests_begin_as_ever_wherever_they_are_started() {
        let line = "trap '' HUP INT QUIT TERM USR1 XFSZ; umask 077; ulimit -S -n 100; ulimit -S -f 100; \
                    export POSIXLY_CORRECT=1 LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo; exec \"$@\" <&-";
        let output = Command::new("bash")
            .args(["-c", line, "bash"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "start::tests::child_begins_as_ever", "--ignored", "--nocapture"])
            .env_remove("GUSH_TEST_STARTED")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && said[0].contains("1 passed"), "{}", said.concat());
    }

    #[test]
    #[ignore = "run by the test below, on devices of its own"]
    fn child_damages_what_it_is_asked_to() {
        if let Ok(damage) = std::env::var("GUSH_TEST_DAMAGE") {
            assert!(Command::new("sh").args(["-c", &damage]).status().unwrap().success());
        }
    }

    #[test]
    fn a_test_that_damages_a_device_is_noticed() {
        let line = "mount --make-rprivate / && mount -t tmpfs none /dev && \
                    mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/full c 1 7 || exit 90; \
                    eval \"$1\"; exec \"$0\" --exact start::tests::child_damages_what_it_is_asked_to --ignored";
        let run = |before: &str, meanwhile: &str| {
            let output = Command::new("unshare")
                .args(["-m", "bash", "-c", line])
                .arg(std::env::current_exe().unwrap())
                .arg(before)
                .env_remove("GUSH_TEST_STARTED")
                .env("GUSH_TEST_DAMAGE", meanwhile)
                .stdin(Stdio::null())
                .output();
            let output = output.map_err(|error| format!("unshare: {error}"))?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(90) => Err(format!("no devices of one's own: {said}")),
                _ if said.starts_with("unshare: ") => Err(said),
                code => Ok((code, said)),
            }
        };
        match run("", "true") {
            Ok((code, said)) => assert_eq!(code, Some(0), "{said}"),
            Err(why) => return crate::skipped(&why),
        }
        for damage in [
            "chmod 644 /dev/null",
            "echo >/dev/x; mv /dev/x /dev/null",
            "rm /dev/full",
            "rm /dev/null; ln -s full /dev/null",
        ] {
            let (code, said) = run("", damage).unwrap();
            assert!(
                code == Some(101) && said.starts_with("a test has damaged"),
                "{damage}: {said}"
            );
        }
        let (code, said) = run("chmod 644 /dev/null", "true").unwrap();
        assert!(code == Some(101) && said.starts_with("/dev/null is no device"), "{said}");
    }
}
