//! Helpers that the tests of all crates share: a known state to begin with, and visible messages
//! about tests that could not run.
//!
//! A test that cannot test is no proof of anything, and must not be shown as a success. There are
//! two reasons. Something is missing that can be installed or granted ([`skipped`]): where
//! `GUSH_NO_SKIP=1` is set, that fails. Or the kernel, the hardware or the place is another
//! ([`not_applicable`]): that is said, and never fails.
//!
//! What would take minutes every day is tried in part, says `NOT RUN`, and is tried whole by
//! `.ci/run` ([`sampled`]). Cases that mostly wait run several at a time ([`side_by_side`]).
//!
//! Linking it, by `use gush_test as _` where no function of this crate is called, makes a test
//! program begin in a known state (`start.rs`), and end in a failure that names the tests of a
//! program that hangs (`watchdog.rs`).

mod executable;
mod forked;
mod fuse;
mod own_dir;
mod port;
mod side_by_side;
mod start;
mod watchdog;
mod whole;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, chmodat, makedev, mknodat};
use rustix::thread::{CapabilitySet, CapabilitySets};

pub use executable::executable;
pub use forked::{Forked, forked};
pub use fuse::{FuseFile, RequestsAtOnce, mount_fuse, mount_slow_fuse};
pub use own_dir::own_dir;
pub use port::Port;
pub use side_by_side::side_by_side;
pub use whole::{cover, few_or_all, is_whole, not_run, sampled};

/// The running test could not test, because something is missing that can be installed or granted.
///
/// # Panics
/// Where `GUSH_NO_SKIP=1` is set: there everything that tests need is said to be installed.
pub fn skipped(why: &str) {
    say("SKIPPED", why);
    let forbidden = std::env::var_os("GUSH_NO_SKIP").is_some_and(|value| value == "1");
    assert!(!forbidden, "GUSH_NO_SKIP=1 is set, and a test was skipped: {why}");
}

/// The running test has no subject here, and nothing that could be installed would change that: the
/// kernel lacks a file system, the processor a counter, the machine a disk.
pub fn not_applicable(why: &str) {
    say("NOT APPLICABLE", why);
}

/// Runs `work` on a thread that has no capabilities, as a thread of an ordinary user has none:
/// root, too, may then write only what the file's mode allows, and take no low port
/// (capabilities(7)).
///
/// # Panics
/// With the panic of `work`.
pub fn without_privilege<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    std::thread::scope(|scope| {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let dropped = std::thread::Builder::new().name(test).spawn_scoped(scope, || {
            rustix::thread::set_capabilities(None, sets)
                .expect("everybody may give up capabilities");
            work()
        });
        match dropped.expect("a thread").join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Whether the counts come to rest: in one of thirty seconds, no count grows by more than `most`.
///
/// Other programs of a busy machine disturb some seconds; counts of a program that spins, or looks
/// again and again, grow in all.
pub fn comes_to_rest<const N: usize>(most: [u64; N], mut counts: impl FnMut() -> [u64; N]) -> bool {
    (0..30).any(|_| {
        let before = counts();
        std::thread::sleep(Duration::from_secs(1));
        let now = counts();
        (0..N).all(|at| now[at] - before[at] <= most[at])
    })
}

/// `null`, `zero` or `full` for a program that is given a device's name: in `dir`, because root's
/// program could replace the one under `/dev`, change its mode or remove the device. A node of its
/// own where this process may make one, and a link to the real one for everybody else, who cannot
/// harm that.
///
/// # Panics
/// Where `dir` can hold neither, and for another name.
#[must_use]
pub fn device(name: &str, dir: &Path) -> PathBuf {
    let minor = match name {
        "null" => 3,
        "zero" => 5,
        "full" => 7,
        _ => panic!("no device of memory (mem(4), null(4), full(4)): {name}"),
    };
    let path = dir.join(name);
    let mode = Mode::from_raw_mode(0o666);
    // The umask takes bits from the first mode.
    let made = mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(1, minor))
        .and_then(|()| chmodat(CWD, &path, mode, AtFlags::empty()));
    // Where the file system is mounted with `nodev`, it cannot be opened.
    if made.is_err() || std::fs::File::open(&path).is_err() {
        // There is no node to remove where mknodat(2) failed.
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(Path::new("/dev").join(name), &path).expect("a link in `dir`");
    }
    path
}

/// Judges the output of one test run in a process of its own (`--exact NAME --ignored
/// --nocapture`): the messages about skips are passed on, which the parent's capture would swallow.
///
/// # Panics
/// Where another number of tests ran: a test of that name does not exist any more.
pub fn one_test_ran(output: &Output) -> bool {
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    for line in out.lines().chain(errors.lines()) {
        if ["SKIPPED: ", "NOT APPLICABLE: ", "NOT RUN: "].iter().any(|word| line.starts_with(word))
        {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
    if output.status.success() {
        assert!(out.contains("\nrunning 1 test\n"), "not one test ran in the child: {out}");
    }
    output.status.success()
}

/// Past the capture of the test runner, which shows the output of failed tests only.
fn say(class: &str, why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "{class}: {test}: {why}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    #[ignore = "run by the test below, with and without GUSH_NO_SKIP"]
    fn child_is_skipped() {
        super::skipped("a tool is missing");
    }

    #[test]
    #[ignore = "run by the test below, with and without GUSH_NO_SKIP"]
    fn child_is_not_applicable() {
        super::not_applicable("another kernel");
    }

    #[test]
    fn what_counts_on_never_comes_to_rest() {
        let mut seconds = 0;
        let rests_after_two = || {
            seconds += 1;
            [7, u64::min(seconds, 4)]
        };
        assert!(super::comes_to_rest([0, 0], rests_after_two));
        assert_eq!(seconds, 6, "two looks a second");
    }

    #[test]
    #[ignore = "run by the test below, with and without GUSH_TEST_WHOLE"]
    fn child_samples() {
        let of_both = super::sampled(vec![1, 2, 3], "numbers", |_| vec!["the same key"]).len();
        assert_eq!(of_both, if super::is_whole() { 3 } else { 1 });
        assert_eq!(super::few_or_all(2, 5, "trials"), if super::is_whole() { 5 } else { 2 });
    }

    #[test]
    fn a_sample_says_what_is_left_out_and_a_whole_run_leaves_nothing_out() {
        let heard = |whole: Option<&str>| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child
                .args(["--exact", "tests::child_samples", "--ignored"])
                .env_remove("GUSH_TEST_WHOLE");
            let output =
                child.envs(whole.map(|value| ("GUSH_TEST_WHOLE", value))).output().unwrap();
            assert!(super::one_test_ran(&output), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let said = "NOT RUN: tests::child_samples: 2 of 3 numbers; GUSH_TEST_WHOLE=1 runs all, as .ci/run does\n\
                    NOT RUN: tests::child_samples: 3 of 5 trials; GUSH_TEST_WHOLE=1 runs all, as .ci/run does\n";
        assert_eq!(heard(None), said);
        assert_eq!(heard(Some("0")), said);
        assert_eq!(heard(Some("1")), "");
    }

    fn passes(test: &str, no_skip: Option<&str>) -> (bool, String) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &format!("tests::{test}"), "--ignored"]).env_remove("GUSH_NO_SKIP");
        let output = child.envs(no_skip.map(|value| ("GUSH_NO_SKIP", value))).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn a_skip_is_seen_and_fails_where_none_is_allowed() {
        let said = "SKIPPED: tests::child_is_skipped: a tool is missing\n";
        assert_eq!(passes("child_is_skipped", None), (true, said.to_owned()));
        assert_eq!(passes("child_is_skipped", Some("0")), (true, said.to_owned()));
        let (passed, heard) = passes("child_is_skipped", Some("1"));
        assert!(!passed && heard.starts_with(said), "{heard}");
        let said = "NOT APPLICABLE: tests::child_is_not_applicable: another kernel\n";
        assert_eq!(passes("child_is_not_applicable", Some("1")), (true, said.to_owned()));
    }
}
