//! A copy on several threads that fails reports the same cause as on one: which side, which error,
//! how far.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::common::cp::{script, stderr, stdout, succeeds, with_mounts};
use crate::common::{noise, skipped, strace};
use serde_json::Value;

/// Enough pieces for several threads, which start at 16 MiB.
const LEN: usize = 32 << 20;

fn with_source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(LEN, 1)).unwrap();
    dir
}

/// One JSON record a run.
fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The record has this error of that path, and that bytes were delivered.
fn assert_reports(record: &Value, path: &str, what: &str, errno: i32) {
    let error = &record["error"];
    assert_eq!(error["path"], path, "{record}");
    assert_eq!(error["what"], what, "{record}");
    assert_eq!(error["errno"], errno, "{record}");
    assert!(error["delivered_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{record}");
}

const RUNS: usize = 12;

/// As where one thread copies them one after the other: the file holds one of the sources, and no
/// parts of both.
#[test]
fn two_names_of_one_file_in_the_target_get_one_source_whole() {
    for (link, options) in [("ln d/1/f d/2/f", "-rT"), ("ln -s ../1/f d/2/f", "-rT")] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("mkdir -p a/1 a/2 d/1 d/2; echo old >d/1/f; {link}");
        assert!(script(dir.path(), &text).status.success());
        let at = |name: &str| dir.path().join(name);
        // Of different lengths, and slow enough for both threads to be at it.
        for (name, letter, length) in [("a/1/f", b'1', 2 << 20), ("a/2/f", b'2', 1 << 20)] {
            fs::write(at(name), vec![letter; length]).unwrap();
        }
        let slow = ["--threads=2", "--limit=8M"];
        succeeds(dir.path(), &[&[options][..], &slow, &["a", "d"]].concat());
        let arrived = fs::read(at("d/1/f")).unwrap();
        let is_one = ["a/1/f", "a/2/f"].iter().any(|name| fs::read(at(name)).unwrap() == arrived);
        assert!(is_one, "{link}: {} bytes of both", arrived.len());
    }
}

#[test]
fn a_rate_limit_is_that_of_all_files_together() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for name in ["x", "y", "z"] {
        fs::write(dir.path().join("a").join(name), noise(1 << 20, 3)).unwrap();
    }
    let began = Instant::now();
    succeeds(dir.path(), &["-r", "--threads=3", "--limit=1M", "a", "b"]);
    let seconds = began.elapsed().as_secs_f64();
    assert!(seconds > 2.8, "3 MiB in {seconds} s");
}

/// The pauses asked for, and not the time that they took, which other programs lengthen: a late
/// sleep makes later pauses fewer.
#[test]
fn a_rate_limit_asks_for_no_more_time_than_the_rate_needs() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for name in ["x", "y"] {
        fs::write(dir.path().join("a").join(name), noise(512 << 10, 3)).unwrap();
    }
    for words in [&["a/x", "b"][..], &["-r", "--threads=1", "a", "c"]] {
        let mut traced = match strace(&["-o", "pauses", "-e", "trace=nanosleep,clock_nanosleep"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["cp", "--limit=1M"]).args(words).current_dir(dir.path());
        assert!(traced.status().unwrap().success());
        let pauses = fs::read_to_string(dir.path().join("pauses")).unwrap();
        // `clock_nanosleep(CLOCK_MONOTONIC, 0, {tv_sec=0, tv_nsec=6250000}, …`
        let number = |text: &str, name: &str| -> Option<u64> {
            let digits = text.split_once(name)?.1;
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let asked_ns: u64 = pauses
            .lines()
            .filter_map(|line| {
                Some(number(line, "tv_sec=")? * 1_000_000_000 + number(line, "tv_nsec=")?)
            })
            .sum();
        let needed_ns = if words.contains(&"-r") { 1_000_000_000 } else { 500_000_000 };
        // One portion, an eighth of a twentieth of a second, may be left over.
        assert!(asked_ns > 0 && asked_ns <= needed_ns + 7_000_000, "{words:?}: {asked_ns} ns");
    }
}

#[test]
fn a_rate_limit_lets_small_files_pass_without_a_pause_each() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for number in 0..200 {
        fs::write(dir.path().join(format!("a/{number}")), "some bytes").unwrap();
    }
    let mut traced = match strace(&["-o", "pauses", "-e", "trace=nanosleep,clock_nanosleep"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    traced.args(["cp", "-r", "--threads=1", "--limit=1G", "a", "b"]).current_dir(dir.path());
    assert!(traced.status().unwrap().success());
    let pauses = fs::read_to_string(dir.path().join("pauses")).unwrap().lines().count();
    assert!(pauses < 20, "{pauses} pauses for 200 files of 10 bytes");
}

#[test]
fn a_limit_on_file_size_is_the_cause_and_everything_before_it_arrives() {
    const EFBIG: i32 = 27;
    let dir = with_source();
    for threads in ["--threads=2", "--threads=4", "--threads=1 --method=read-write"] {
        let text = format!(
            "ulimit -f 18000; trap '' XFSZ
             for _ in $(seq {RUNS}); do \"$G\" cp --json {threads} a b; stat -c %s b >&2; rm b; done"
        );
        let output = script(dir.path(), &text);
        let all = records(&stdout(&output));
        assert_eq!(all.len(), RUNS);
        for record in &all {
            assert_reports(record, "b", "write failed on the target", EFBIG);
            assert_eq!(record["error"]["delivered_bytes"], 18000 << 10, "{threads}");
        }
        let said = stderr(&output);
        assert!(!said.contains("observer"), "{threads}: {said}");
        assert!(said.contains("(ulimit -f)"), "{threads}: {said}");
        assert_eq!(said.lines().filter(|line| *line == "18432000").count(), RUNS, "{said}");
    }
}

/// Copies again and again onto a file system of 24 MiB on `m`, made by `mount`.
fn fill(mount: &str) {
    const ENOSPC: i32 = 28;
    let dir = with_source();
    let text = format!(
        "set -e; {mount}; set +e
         for _ in $(seq {RUNS}); do
             \"$G\" cp --json --threads=4 a m/b; cmp -n $(stat -c %s m/b) a m/b >&2; stat -c %s m/b >&2; rm m/b
         done"
    );
    let Some(output) = with_mounts(dir.path(), &text) else { return };
    let (all, said) = (records(&stdout(&output)), stderr(&output));
    assert_eq!(all.len(), RUNS, "{said}");
    let sizes: Vec<u64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(sizes.len(), RUNS, "{said}");
    for (record, size) in all.iter().zip(sizes) {
        assert_reports(record, "m/b", "write failed on the target", ENOSPC);
        assert_eq!(record["error"]["delivered_bytes"], size, "{said}");
    }
    assert!(!said.contains("differ") && !said.contains("observer"), "{said}");
    assert!(said.contains("free some space on its file system"), "{said}");
}

#[test]
fn a_full_tmpfs_is_the_cause_on_several_threads() {
    fill("mount -t tmpfs -o size=24m none m");
}

#[test]
fn a_full_ext4_is_the_cause_on_several_threads() {
    let probe = script(Path::new("/"), "command -v mkfs.ext4 && [ -e /dev/loop-control ]");
    if !probe.status.success() {
        return skipped("no mkfs.ext4, or no loop devices");
    }
    fill("truncate -s 24M image; mkfs.ext4 -q -O ^has_journal image; mount -o loop image m");
}

#[test]
fn an_injected_error_is_the_cause_on_several_threads() {
    const EIO: i32 = 5;
    let dir = with_source();
    let real = dir.path().canonicalize().unwrap();
    for (call, side, path) in [("pread64", "source", "a"), ("pwrite64", "target", "b")] {
        for when in ["when=3", "when=7", "when=9+"] {
            let inject = format!("inject={call}:error=EIO:{when}");
            let traced = real.join(path);
            let options = ["-P", traced.to_str().unwrap(), "-e", &inject];
            let mut traced = match strace(&options) {
                Ok(traced) => traced,
                Err(why) => return skipped(&why),
            };
            let words = ["cp", "--json", "--threads=3", "--method=read-write", "a", "b"];
            let output = traced.args(words).current_dir(&real).output().unwrap();
            let what = match side {
                "source" => "read failed on the source",
                _ => "write failed on the target",
            };
            assert_reports(&records(&stdout(&output))[0], path, what, EIO);
            assert!(!stderr(&output).contains("observer"), "{inject}: {}", stderr(&output));
        }
    }
}
