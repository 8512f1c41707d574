//! Each case runs in a separate process, because the tested state belongs to the whole process.

use gush_test as _;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use gush_process::{Errno, Signals, Then, duplicate_inherited, take_inherited, was_closed};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs one ignored test of this binary as bash starts it with `line`, in which `"$@"` is the
/// program.
fn child(line: &str, test: &str) {
    let output = Command::new("bash")
        .args(["-c", line, "bash"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{line}: {}", said.concat());
}

/// The signals of a line of proc_pid_status(5) for this thread.
fn signals(which: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

const ENDING: u64 = 1 << (libc::SIGHUP - 1) | 1 << (libc::SIGINT - 1) | 1 << (libc::SIGTERM - 1);

#[test]
fn an_inherited_descriptor_gets_one_owner() {
    for limit in ["", "ulimit -n 20; "] {
        child(&format!("{limit}exec \"$@\" 7</dev/null"), "in_a_child_one_thread_takes_it");
    }
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_one_thread_takes_it() {
    drop(duplicate_inherited(7).unwrap());
    let together = Barrier::new(8);
    let take = || {
        together.wait();
        take_inherited(7)
    };
    let taken: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let owners: Vec<_> = taken.into_iter().filter_map(Result::ok).collect();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].as_raw_fd(), 7);
    assert_eq!(duplicate_inherited(7).unwrap_err(), Errno::BADF);
    drop(owners);
    // Whoever gets the number next opened it itself, here without close-on-exec.
    let again = opened_as(7, || rustix::io::dup(std::io::stdin()).unwrap());
    assert_eq!(take_inherited(7).unwrap_err(), Errno::BADF);
    assert_eq!(duplicate_inherited(7).unwrap_err(), Errno::BADF);
    drop(again);
}

/// The descriptor from `open`, called again and again until the number is right.
fn opened_as(number: i32, mut open: impl FnMut() -> OwnedFd) -> OwnedFd {
    let mut lower = Vec::new();
    loop {
        match open() {
            fd if fd.as_raw_fd() == number => return fd,
            fd => lower.push(fd),
        }
        assert!(lower.len() < 100, "{number} is open");
    }
}

#[test]
fn an_inherited_number_that_was_closed_and_opened_anew_is_given_to_nobody() {
    child("exec \"$@\" 7</dev/null", "in_a_child_the_number_is_opened_anew");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
#[allow(unsafe_code)]
fn in_a_child_the_number_is_opened_anew() {
    // SAFETY: nobody has taken it. A library that closes what it does not know does this.
    drop(unsafe { OwnedFd::from_raw_fd(7) });
    // The standard library opens with close-on-exec.
    let own = opened_as(7, || std::fs::File::open("/dev/null").unwrap().into());
    assert_eq!(take_inherited(7).unwrap_err(), Errno::BADF);
    assert_eq!(duplicate_inherited(7).unwrap_err(), Errno::BADF);
    drop(own);
}

#[test]
fn a_descriptor_of_our_own_is_given_to_nobody_else() {
    // Without close-on-exec, as a C library opens it, or a program that starts another one with it.
    let own = rustix::io::dup(std::io::stderr()).unwrap();
    assert_eq!(take_inherited(own.as_raw_fd()).unwrap_err(), Errno::BADF);
    assert_eq!(duplicate_inherited(own.as_raw_fd()).unwrap_err(), Errno::BADF);
    for number in [-1, 0, 1, 2, 1023, 1024, i32::MAX] {
        assert_eq!(take_inherited(number).unwrap_err(), Errno::BADF, "{number}");
    }
}

#[test]
fn standard_descriptors_that_were_closed_are_known() {
    for limit in ["", "ulimit -n 20; "] {
        child(&format!("{limit}exec \"$@\" <&-"), "in_a_child_standard_input_was_closed");
    }
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_standard_input_was_closed() {
    assert_eq!([0, 1, 2].map(was_closed), [true, false, false]);
}

#[test]
fn signals_are_not_held_back_where_nobody_could_wait_for_them() {
    child("exec \"$@\"", "in_a_child_no_thread_can_start");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_no_thread_can_start() {
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(1), maximum: before.maximum }).unwrap();
    let answer = gush_process::on_termination(|| ());
    setrlimit(Resource::As, before).unwrap();
    assert_eq!(answer, Err(Errno::AGAIN));
    assert_eq!(signals("SigBlk:") & ENDING, 0);
}

#[test]
fn a_thread_that_waits_is_interrupted_where_no_descriptor_is_left() {
    child("exec \"$@\"", "in_a_child_no_descriptor_is_left");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_no_descriptor_is_left() {
    Signals::new(|_| Then::GoOn).while_ending(Duration::MAX, || ()).watch().unwrap();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(40), maximum: Some(40) }).unwrap();
    let _all: Vec<_> = std::iter::from_fn(|| rustix::io::dup(&reader).ok()).collect();
    let waits = thread::spawn(move || rustix::io::read(&reader, &mut [0; 1]));
    for _ in 0..6000 {
        if waits.is_finished() {
            assert_eq!(waits.join().unwrap(), Err(Errno::INTR));
            return;
        }
        gush_process::interrupt_others();
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the thread still waits");
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    child("trap '' HUP INT; exec \"$@\"", "in_a_child_hangup_and_interrupt_are_ignored");
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_hangup_and_interrupt_are_ignored() {
    let ignored = ENDING & !(1 << (libc::SIGTERM - 1));
    gush_process::on_termination(|| ()).unwrap();
    assert_eq!(signals("SigIgn:") & ENDING, ignored);
    assert_eq!(signals("SigBlk:") & ENDING, ENDING & !ignored);
}

#[test]
fn the_local_time_is_that_of_the_time_zone() {
    child("\"$@\"", "in_a_child_of_another_time_zone");
}

#[test]
#[ignore = "run by the_local_time_is_that_of_the_time_zone"]
#[allow(unsafe_code)]
fn in_a_child_of_another_time_zone() {
    // SAFETY: this test is the only one of its process, and no other thread reads the environment.
    unsafe { std::env::set_var("TZ", "XYZ-5:30") };
    let time = gush_process::local_time(std::time::UNIX_EPOCH).unwrap();
    assert_eq!((time.year, time.hour, time.minute), (1970, 5, 30));
}
