//! A program of tests that hangs ends in a failure that names the tests, in any place.
//!
//! A timer of the process (alarm(2)) is set before main: no thread is added, which tests would
//! count, and no child inherits the timer. At the alarm, this very program is started anew, to
//! report on the one that hangs and to kill the programs that that has started, whose open output
//! would keep the caller waiting; then the one that hangs ends.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, ptr};

/// After so many seconds a program of tests is said to hang; 0 for never.
pub const SECONDS: &CStr = c"GUSH_TEST_SECONDS";

/// Several times the time of the slowest on a busy machine.
const USUAL_SECONDS: libc::c_uint = 1500;

/// In the environment of the process that reports.
const REPORTS: &CStr = c"GUSH_TEST_HANGS";

/// The kernel cuts a thread's name, which is its test's, to so many bytes (pthread_setname_np(3)).
const NAME_BYTES: usize = 15;

/// Sets the timer; in the process that reports, reports, and does not return.
///
/// # Safety
/// To be called before main and before any thread.
pub unsafe fn start() {
    // SAFETY: no other thread exists, and the strings end with a zero byte; the handler stays in
    // memory.
    unsafe {
        if !libc::getenv(REPORTS.as_ptr()).is_null() {
            report();
            libc::_exit(0);
        }
        let chosen = libc::getenv(SECONDS.as_ptr());
        let chosen =
            (!chosen.is_null()).then(|| CStr::from_ptr(chosen).to_str().ok()?.parse().ok());
        libc::signal(libc::SIGALRM, rings as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::alarm(chosen.flatten().unwrap_or(USUAL_SECONDS));
    }
}

/// Runs in whichever thread the kernel picks, which may hold any lock: nothing but system calls.
extern "C" fn rings(_: libc::c_int) {
    let program = c"/proc/self/exe".as_ptr();
    let (words, environment) =
        ([program, ptr::null()], [c"GUSH_TEST_HANGS=1".as_ptr(), ptr::null()]);
    // SAFETY: the C library's fork takes locks, the system call takes none; the child replaces
    // itself at once, the arrays end with a null pointer, their strings with a zero byte, and
    // `_exit` may be called at any time.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            libc::execve(program, words.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        libc::waitpid(child as libc::pid_t, ptr::null_mut(), 0);
        libc::_exit(101);
    }
}

/// Says which tests of the parent still run, and kills what the parent has started.
fn report() {
    let hanging = std::os::unix::process::parent_id();
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    eprintln!(
        "\nHANGS: {} has not ended in time (GUSH_TEST_SECONDS, by default {USUAL_SECONDS}). Still running:",
        program.display()
    );
    let tests = tests(hanging);
    for thread in entries(&format!("/proc/{hanging}/task")) {
        let read = |file: &str| fs::read_to_string(thread.join(file)).unwrap_or_default();
        let (name, waits) = (read("comm").trim_end().to_owned(), read("wchan"));
        let meant: Vec<&str> =
            tests.iter().map(String::as_str).filter(|test| is_of(test, &name)).collect();
        match &meant[..] {
            [] => eprintln!("  the thread {name} (in {waits})"),
            _ => eprintln!("  {} (in {waits})", meant.join(" or ")),
        }
    }
    let own = std::process::id();
    for child in descendants(hanging).into_iter().filter(|child| *child != own) {
        let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        eprintln!("  what it started: {child} {}", words.join(" "));
        // SAFETY: sending a signal has no preconditions.
        unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) };
    }
}

/// Can a thread with this name be the one of this test?
fn is_of(test: &str, thread: &str) -> bool {
    test.as_bytes()[..test.len().min(NAME_BYTES)] == *thread.as_bytes()
}

/// The names of the tests that the parent was asked for, by the same words.
fn tests(hanging: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{hanging}/cmdline")).unwrap_or_default();
    let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty()).skip(1);
    let mut listing = Command::new("/proc/self/exe");
    listing.args(words.map(OsStr::from_bytes)).args(["--list", "--format=terse"]);
    listing.env_remove(name_of(REPORTS)).env(name_of(SECONDS), "60");
    let listed = listing.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let lines = String::from_utf8_lossy(&listed).into_owned();
    lines.lines().filter_map(|line| line.strip_suffix(": test").map(str::to_owned)).collect()
}

fn name_of(variable: &CStr) -> OsString {
    variable.to_string_lossy().into_owned().into()
}

fn entries(dir: &str) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The children of a process, theirs, and so on.
fn descendants(process: u32) -> Vec<u32> {
    let number = |path: PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    // The parent is the second field after the name (proc_pid_stat(5)).
    let parent = |process: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> = entries("/proc")
        .into_iter()
        .filter_map(number)
        .filter_map(|process| Some((process, parent(process)?)))
        .collect();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        at += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    #[ignore = "run by the test below, as one that hangs"]
    fn child_hangs_with_a_child_of_its_own() {
        if std::env::var_os("GUSH_TEST_SECONDS").is_some() {
            let line = "echo started $$ >&2; sleep 600 & wait";
            Command::new("sh").args(["-c", line]).status().unwrap();
        }
    }

    #[test]
    #[ignore = "run by the test below, with a time of its own"]
    fn child_has_so_long() {
        // SAFETY: no memory is involved; the answer is what was left.
        let left = unsafe { libc::alarm(0) };
        println!("{left} seconds are left");
    }

    #[test]
    fn a_test_that_hangs_is_named_and_all_it_started_ends() {
        let mut hanging = Command::new("timeout");
        // Its output would stay open for as long as what it started lives.
        hanging.args(["--signal=KILL", "120"]).arg(std::env::current_exe().unwrap());
        hanging.args(["--ignored", "--test-threads=2", "watchdog::tests::child_hangs"]);
        let output = hanging.env_remove("GUSH_TEST_STARTED").env("GUSH_TEST_SECONDS", "2").output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(101), "{said}");
        let (started, report) = said.split_once("\nHANGS: ").expect(&said);
        assert!(report.contains("watchdog::tests::child_hangs_with_a_child_of_its_own"), "{said}");
        assert!(!report.contains(" or "), "tests that were not asked for: {said}");
        assert_eq!(report.matches("what it started: ").count(), 2, "{said}");
        assert!(report.contains("sleep 600"), "{said}");
        let shell = started.trim().strip_prefix("started ").expect(&said);
        let is_there = std::path::Path::new("/proc").join(shell).join("exe").read_link().is_ok();
        assert!(!is_there, "{said}");
    }

    #[test]
    fn every_program_of_tests_has_a_time_and_what_it_starts_has_none() {
        let left = |variables: &[(&str, &str)], is_started: bool| -> u32 {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([
                "--ignored",
                "--exact",
                "--nocapture",
                "watchdog::tests::child_has_so_long",
            ]);
            child.env_remove("GUSH_TEST_SECONDS").envs(variables.iter().copied());
            if !is_started {
                child.env_remove("GUSH_TEST_STARTED");
            }
            let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
            let word = said.lines().find_map(|line| line.strip_suffix(" seconds are left"));
            word.expect(&said).parse().unwrap()
        };
        assert!((1..=super::USUAL_SECONDS).contains(&left(&[], false)));
        assert!(
            (1_000_000..=2_000_000).contains(&left(&[("GUSH_TEST_SECONDS", "2000000")], false))
        );
        assert_eq!(left(&[("GUSH_TEST_SECONDS", "0")], false), 0);
        assert_eq!(left(&[], true), 0);
    }
}
