//! `gush lab copy`: every way copies, calls are counted exactly, and cases that cannot be measured
//! are reported.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{gush, skipped};
use serde_json::Value;
use tempfile::TempDir;

/// A directory on the disk that the build is on: the one for temporary files may be in memory.
fn disk_dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn lab(dir: &Path, options: &[&str]) -> Output {
    let mut command = gush();
    command.args(["lab", "copy", "--no-store", "--dir"]).arg(dir).args(options);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The samples by their case.
fn samples(output: &Output) -> BTreeMap<String, Value> {
    let by_case = |one: Value| (one["case"].as_str().unwrap().to_owned(), one);
    crate::samples(output).into_iter().map(by_case).collect()
}

/// The counted system calls of a sample as one line: `read=3;write=2`.
fn calls(sample: &Value) -> String {
    let calls = sample["facts"]["syscalls"].as_object();
    let calls = calls.into_iter().flatten().map(|(name, count)| format!("{name}={count}"));
    calls.collect::<Vec<_>>().join(";")
}

fn may_trace(output: &Output) -> bool {
    let reported = text(&output.stderr);
    let denied = reported.lines().find(|line| line.contains("system calls are not counted"));
    denied.map(skipped).is_none()
}

/// The calls of the published ways for a file of `size`, as formulas: see the test of 512 MiB
/// below.
fn check_table(dir: &Path, size: &str, table: &[(&str, &str)]) {
    let only: Vec<&str> = table.iter().map(|(way, _)| *way).collect();
    let options = ["--rounds", "1", "--json", "--size", size, "--only", &only.join(",")];
    let output = lab(dir, &options);
    if !may_trace(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let samples = samples(&output);
    for (way, expected) in table {
        assert_eq!(calls(&samples[&format!("{way}@{size}")]), *expected, "{way}");
    }
}

#[cfg(target_env = "gnu")]
#[test]
fn calls_of_the_published_ways_are_those_of_the_published_table() {
    // A 256th of the published file: counts are divided by 256, save for the call that answers 0,
    // the loader's read, and the half block that starts an 8192-byte stream.
    check_table(
        disk_dir().path(),
        "2M",
        &[
            ("stdio-char", "read=514;write=512"),
            ("stdio-block-1024", "read=514;write=512"),
            ("stdio-block-4096", "read=514;write=512"),
            ("stdio-block-8192", "read=258;write=511"),
            ("read-write-1024", "read=2050;write=2048"),
            ("read-write-4096", "read=514;write=512"),
            ("read-write-64K", "read=34;write=32"),
            ("read-write-128K", "read=18;write=16"),
            ("sendfile-4096", "read=1;sendfile=513"),
            ("mmap-whole", "mmap=2;read=1"),
            ("splice-4096", "read=1;splice=1025"),
            ("splice-64K", "read=1;splice=65"),
            ("copy-file-range-loop", "copy_file_range=2;read=1"),
        ],
    );
}

#[cfg(target_env = "gnu")]
#[test]
#[ignore = "copies and traces for a minute or more"]
fn calls_on_512_mib_are_exactly_the_published_table() {
    check_table(
        disk_dir().path(),
        "512M",
        &[
            ("stdio-char", "read=131074;write=131072"),
            ("stdio-block-1024", "read=131074;write=131072"),
            ("stdio-block-4096", "read=131074;write=131072"),
            ("stdio-block-8192", "read=65538;write=131071"),
            ("read-write-1024", "read=524290;write=524288"),
            ("read-write-4096", "read=131074;write=131072"),
            ("read-write-64K", "read=8194;write=8192"),
            ("read-write-128K", "read=4098;write=4096"),
            ("sendfile-4096", "read=1;sendfile=131073"),
            ("mmap-whole", "mmap=2;read=1"),
            ("splice-4096", "read=1;splice=262145"),
            ("splice-64K", "read=1;splice=16385"),
            ("copy-file-range-loop", "copy_file_range=2;read=1"),
        ],
    );
}

#[test]
fn every_case_is_measured_in_every_round() {
    let dir = disk_dir();
    let output = lab(dir.path(), &["--json", "--rounds", "2", "--size", "64K"]);
    assert!(output.status.success(), "{output:?}");
    let samples = crate::samples(&output);
    let counts = may_trace(&output);
    for name in
        ["stdio-char@64K", "read-write-4096@64K", "sendfile@64K", "read-mmap@64K", "auto@64K"]
    {
        for round in [1, 2] {
            let is_it = |one: &&Value| one["case"] == name && one["round"] == round;
            let one = samples.iter().find(is_it).expect(name);
            assert_eq!(one["facts"]["size_bytes"], 65_536, "{one}");
            for (figure, least) in
                [("wall_s", 1e-9), ("user_s", 0.0), ("system_s", 0.0), ("gib_per_s", 1e-9)]
            {
                assert!(one[figure].as_f64().unwrap() >= least, "{one}");
            }
            assert_ne!(calls(one).is_empty(), counts, "{one}");
        }
    }
    let buffer = |name| {
        let one = samples.iter().find(|one| one["case"] == name).unwrap();
        one["facts"]["buffer_bytes"].as_u64()
    };
    assert_eq!(buffer("read-write-4096@64K"), Some(4096));
    assert_eq!(buffer("splice-1M@64K"), Some(1 << 20));
    assert_eq!(buffer("sendfile@64K"), None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "files were left");
}

#[test]
fn the_table_has_speeds_by_size_and_system_calls() {
    let dir = disk_dir();
    let options = ["--rounds", "1", "--sizes", "4K,128K", "--only", "read-write-4096,splice"];
    let output = lab(dir.path(), &options);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    for start in [
        "File size: 4K. The source in the cache",
        "File size: 128K. The source in the cache",
        "read-write-4096@4K ",
        "splice-1M@128K ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start}: {text}");
    }
    if may_trace(&output) {
        let calls = text.lines().find(|line| line.contains("read=34;write=32")).expect(&text);
        assert!(
            calls.starts_with("read-write-4096@128K ") && calls.ends_with("  the same"),
            "{text}"
        );
        assert!(!text.contains("DIFFERS"), "{text}");
    }
}

#[test]
fn cold_files_are_read_from_the_disk_and_tmpfs_says_that_it_cannot() {
    let options =
        ["--rounds", "1", "--json", "--size", "4M", "--cold", "--only", "read-write-128K"];
    let output = lab(disk_dir().path(), &options);
    if output.status.success() {
        assert!(samples(&output).contains_key("read-write-128K+cold@4M"), "{output:?}");
    } else {
        let reported = text(&output.stderr);
        assert!(reported.contains("stay in memory after POSIX_FADV_DONTNEED"), "{output:?}");
        crate::common::not_applicable(&format!("the build is on no disk: {reported}"));
    }
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("/dev/shm takes no files");
    };
    let output = lab(memory.path(), &options);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let reported = text(&output.stderr);
    assert!(
        reported.contains("read-write-128K+cold@4M: ") && reported.contains("stay in memory"),
        "{reported}"
    );
    assert!(samples(&output).contains_key("read-write-128K@4M"), "the others went on: {output:?}");
}

#[test]
fn what_is_refused_here_is_left_out_with_a_reason_and_fails_when_named() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("/dev/shm takes no files");
    };
    let unnamed = lab(memory.path(), &["--rounds", "1", "--json", "--size", "4K", "--no-count"]);
    assert!(unnamed.status.success(), "{unnamed:?}");
    assert!(
        text(&unnamed.stderr).contains("reflink is left out: reflink is refused here"),
        "{unnamed:?}"
    );
    let options = ["--rounds", "1", "--json", "--size", "4K", "--only", "reflink,sendfile-4096"];
    let named = lab(memory.path(), &options);
    assert_eq!(named.status.code(), Some(1), "{named:?}");
    assert!(text(&named.stderr).contains("reflink@4K: reflink is refused here"), "{named:?}");
    assert!(samples(&named).contains_key("sendfile-4096@4K"), "{named:?}");
}

#[test]
fn misuse_is_reported_in_a_sentence() {
    let dir = disk_dir();
    for (options, said) in [
        (&["--only", "nope"][..], "'nope'; choose from stdio-char, "),
        (&["--size", "0"], "invalid --size '0': must be more than zero"),
        (&["--size", "4P", "--only", "sendfile"], "cannot make a file of 4503599627370496 bytes"),
        (&["--advice", "nope"], "invalid --advice 'nope'; did you mean 'none'?"),
    ] {
        let output = lab(dir.path(), options);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
    let nowhere = lab(&dir.path().join("nowhere"), &[]);
    assert_eq!(nowhere.status.code(), Some(1));
    let said = text(&nowhere.stderr);
    assert!(said.contains("cannot make files in '") && said.contains("': No such file"), "{said}");
    assert!(!said.contains(".gush-lab-"), "{said}");
}

#[test]
fn a_size_that_the_disk_has_no_room_for_is_reported_once_and_the_others_go_on() {
    let dir = disk_dir();
    let script = "mount -t tmpfs -o size=1M none m && exec \"$G\" lab copy --no-store --dir m \
                  --rounds 1 --json --sizes 64K,2M --only read-write";
    let Some(output) = crate::common::cp::with_mounts(dir.path(), script) else { return };
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    let reported = said.lines().filter(|line| line.contains("cannot make a file of 2097152 bytes"));
    assert_eq!(reported.count(), 1, "{said}");
    assert!(samples(&output).keys().all(|case| case.ends_with("@64K")), "{output:?}");
}

#[test]
fn an_interrupt_leaves_no_file() {
    let dir = disk_dir();
    let mut child = gush()
        .args(["lab", "copy", "--no-store", "--size", "64M", "--rounds", "1000", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    let source = || {
        let own = fs::read_dir(dir.path()).unwrap().next()?.ok()?.path();
        own.join("source-67108864").exists().then_some(())
    };
    while source().is_none() {
        assert!(Instant::now() < patience, "no source was made");
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_single_copy_prints_json() {
    let dir = disk_dir();
    let (source, target) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&source, crate::common::noise(100_000, 1)).unwrap();
    for way in ["stdio-block-8192", "splice-4096", "mmap-whole", "uring", "direct", "read-write-L2"]
    {
        let mut once = gush();
        once.args(["lab", "once", "--cpu", "0", "copy", "--way", way]).args([&source, &target]);
        let output = once.output().unwrap();
        if !output.status.success() {
            let reported = text(&output.stderr);
            // What every kernel and file system has can only fail because it is broken.
            let may_lack = ["uring", "direct", "read-write-L2"].contains(&way);
            let is_reported =
                ["refused here", "does not tell"].iter().any(|why| reported.contains(why));
            assert!(may_lack && is_reported, "{way}: {reported}");
            crate::common::not_applicable(&format!("{way}: {reported}"));
            continue;
        }
        let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(measured["bytes"], 100_000, "{way}");
        assert_eq!(measured["facts"]["way"], way);
        assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap(), "{way}");
    }
}

#[test]
fn a_single_measurement_without_a_way_names_the_ways() {
    let ways = [
        (&["copy", "a", "b"][..], "stdio-char, stdio-block-1024, "),
        (&["memory"], "read-1, "),
        (&["pages"], "touched-4K, touched-2M, "),
    ];
    for (words, first) in ways {
        let output = gush().args(["lab", "once"]).args(words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let missing = format!("gush: lab: once: --way is missing; choose from {first}");
        assert!(said.starts_with(&missing), "{said}");
    }
}

/// The calls of the whole process, by this program's count and by strace's.
#[test]
fn the_count_is_the_one_that_strace_gives() {
    let dir = disk_dir();
    let [source, target, counts] = ["a", "b", "counts"].map(|name| dir.path().join(name));
    fs::write(&source, crate::common::noise(1 << 20, 1)).unwrap();
    let mut strace = match crate::common::strace(&["-c", "-o", counts.to_str().unwrap()]) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    let words = ["lab", "once", "copy", "--way", "read-write-4096"];
    assert!(strace.args(words).args([&source, &target]).output().unwrap().status.success());
    let straces: BTreeMap<String, u64> = fs::read_to_string(&counts)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let counted = words.first()?.parse::<f64>().is_ok() && words.len() >= 5;
            counted.then(|| Some((words.last()?.to_string(), words[3].parse().ok()?)))?
        })
        .filter(|(name, _)| name != "total")
        .collect();
    let words: Vec<_> = ["copy", "--way", "read-write-4096"]
        .map(Into::into)
        .into_iter()
        .chain([source.clone().into(), target.clone().into()])
        .collect();
    let program = Path::new(env!("CARGO_BIN_EXE_gush"));
    let mut count = gush_lab::count::of(program, &words, &source, &target, None).unwrap();
    // strace counts a call when it returns, and this one does not.
    assert_eq!(count.in_all.remove("exit_group"), Some(1));
    assert_eq!(count.in_all, straces);
    assert_eq!(gush_lab::count::line(&count.as_c_program), "read=258;write=256");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn copies_are_measured_where_tracing_is_denied() {
    const PTRACE: &str = "101";
    const EPERM: &str = "1";
    let dir = disk_dir();
    let deny = match crate::common::denier(dir.path()) {
        Ok(deny) => deny,
        Err(why) => return skipped(&why),
    };
    let uncounted = Command::new(&deny)
        .args([EPERM, PTRACE, env!("CARGO_BIN_EXE_gush"), "lab", "copy", "--no-store", "--dir"])
        .arg(dir.path())
        .args(["--rounds", "1", "--json", "--size", "1M", "--only", "read-write-4096"])
        .output()
        .unwrap();
    assert!(uncounted.status.success(), "{uncounted:?}");
    assert_eq!(calls(&samples(&uncounted)["read-write-4096@1M"]), "");
    assert!(text(&uncounted.stderr).contains("may not be traced"), "{uncounted:?}");
}

#[test]
fn a_reader_that_leaves_ends_the_run_and_leaves_no_file() {
    let dir = TempDir::new().unwrap();
    let mut lab = gush();
    lab.args(["lab", "copy", "--no-store", "--csv", "--rounds", "1000000", "--size", "64K"]);
    lab.args(["--only", "read-write-4096,sendfile-4096", "--dir"]).arg(dir.path());
    let mut lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("run,"));
    assert!(lines.next().unwrap().unwrap().contains("@64K,"));
    drop(lines);
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("write error: Broken pipe") && !said.contains("interrupted"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
}
