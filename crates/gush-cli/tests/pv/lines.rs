//! `gush pv -l`: the lines reported are those of the bytes that have passed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::shell::{said, shell};
use crate::common::{gush, noise, skipped, strace};
use serde_json::Value;
use tempfile::TempDir;

/// So much is read by two threads.
const LARGE_BYTES: usize = 20_000_003;

fn large() -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let bytes = noise(LARGE_BYTES, 5);
    fs::write(dir.path().join("large"), &bytes).unwrap();
    (dir, bytes)
}

fn ends(bytes: &[u8], separator: u8) -> u64 {
    bytes.iter().filter(|&&byte| byte == separator).count() as u64
}

/// `gush pv --json -l -i 0.1` with `args`, whose output is a pipe.
fn start(dir: &Path, args: &[&str]) -> (Child, impl FnMut() -> Value) {
    let mut command = gush();
    command.args(["pv", "--json", "-l", "-i", "0.1"]).args(args).current_dir(dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let reading = move || {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "a reading is there");
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{line}: {why}"))
    };
    (child, reading)
}

/// The reading that says that the transfer has ended.
fn the_last(mut reading: impl FnMut() -> Value) -> Value {
    loop {
        let now = reading();
        if now["ended"] == true {
            return now;
        }
    }
}

#[test]
fn every_line_is_counted_by_every_way() {
    let (dir, bytes) = large();
    fs::write(dir.path().join("small"), &bytes[..1000]).unwrap();
    let both = [&bytes[..], &bytes[..1000]].concat();
    for (words, separator) in [("-l", b'\n'), ("-0", 0)] {
        let (of_large, of_both) = (ends(&bytes, separator), ends(&both, separator));
        for (line, wanted) in [
            ("$G pv -f -n -b -i 600 WORDS large | cat >got", &bytes),
            ("$G pv -f -n -b -i 600 WORDS large >got", &bytes),
            ("$G pv -f -n -b -i 600 WORDS <large >got", &bytes),
            ("$G pv -f -n -b -i 600 WORDS large small | cat >got", &both),
            ("$G pv -f -n -b -i 600 WORDS -U - large | cat >got", &bytes),
            ("cat large | $G pv -f -n -b -i 600 WORDS >got", &bytes),
            ("$G pv -f -n -b -i 600 WORDS large -- cat >got", &bytes),
        ] {
            let line = format!("set -o pipefail; {}", line.replace("WORDS", words));
            let output = shell(dir.path(), &line);
            assert!(output.status.success(), "{line}: {}", said(&output));
            assert!(&fs::read(dir.path().join("got")).unwrap() == wanted, "{line}");
            let last = said(&output).lines().last().unwrap_or_default().to_owned();
            let lines = if wanted.len() == both.len() { of_both } else { of_large };
            assert_eq!(last, lines.to_string(), "{line}");
        }
    }
}

#[test]
fn all_lines_are_the_whole_at_the_end() {
    let (dir, bytes) = large();
    let lines = ends(&bytes, b'\n');
    let (mut child, reading) = start(dir.path(), &["large"]);
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    let last = the_last(reading);
    assert!(child.wait().unwrap().success() && got == bytes);
    assert_eq!(
        (&last["lines"], &last["expected"], &last["percent"]),
        (&lines.into(), &lines.into(), &100.0.into())
    );
}

/// What has passed does not pass again, and is no part of the whole.
#[test]
fn standard_input_named_twice_is_expected_once() {
    let dir = TempDir::new().unwrap();
    for words in ["", "-l"] {
        let line =
            format!("seq 1000 >few; $G pv -f -n {words} -i 600 - few - <few >got; wc -l <got");
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        assert_eq!((said(&output), output.stdout), ("100\n".to_owned(), b"2000\n".to_vec()));
    }
}

#[test]
fn what_was_stored_is_the_whole_of_what_is_passed_on() {
    let dir = TempDir::new().unwrap();
    for words in ["", "-l"] {
        let line = format!("seq 1000 >few; $G pv -f -n {words} -i 600 -U - few >got");
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        assert_eq!(said(&output), "100\n100\n", "{line}");
    }
}

#[test]
fn the_share_of_lines_is_estimated_by_bytes_until_all_have_passed() {
    let dir = TempDir::new().unwrap();
    // The lines become shorter, so that the first ones promise too few.
    let lines: Vec<u8> = (0..300_u32).rev().flat_map(|at| line_of(at * 1000)).collect();
    fs::write(dir.path().join("large"), &lines).unwrap();
    let (mut child, mut reading) = start(dir.path(), &["large"]);
    let mut stdout = child.stdout.take().unwrap();
    let mut got = vec![0; 10_000_000];
    stdout.read_exact(&mut got).unwrap();
    let now = loop {
        let now = reading();
        if now["lines"].as_u64().unwrap() >= ends(&got, b'\n') {
            break now;
        }
    };
    let (expected, percent) = (now["expected"].as_u64().unwrap(), now["percent"].as_f64().unwrap());
    // The reader holds the transfer after 10 MB and what a pipe holds, of 45 MB.
    assert!((100..300).contains(&expected) && (20.0..40.0).contains(&percent), "{now}");
    stdout.read_to_end(&mut got).unwrap();
    let last = the_last(reading);
    assert!(child.wait().unwrap().success() && got == lines);
    assert_eq!((&last["expected"], &last["percent"]), (&300.into(), &100.0.into()));
}

fn line_of(bytes: u32) -> Vec<u8> {
    let mut line = vec![b'x'; bytes as usize];
    line.push(b'\n');
    line
}

#[test]
fn a_file_that_is_written_to_meanwhile_is_counted_as_it_passed() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("large"), vec![b'x'; LARGE_BYTES]).unwrap();
    let file = File::options().write(true).open(dir.path().join("large")).unwrap();
    let (mut child, reading) = start(dir.path(), &["large"]);
    let mut stdout = child.stdout.take().unwrap();
    let mut got = vec![0; 100_000];
    stdout.read_exact(&mut got).unwrap();
    // Time to read ahead: the reader holds the transfer.
    thread::sleep(Duration::from_millis(200));
    file.write_all_at(&vec![b'\n'; LARGE_BYTES / 2], 0).unwrap();
    stdout.read_to_end(&mut got).unwrap();
    let last = the_last(reading);
    assert!(child.wait().unwrap().success());
    let passed = ends(&got, b'\n');
    assert!(passed > 0, "the change came in time");
    assert_eq!((got.len(), &last["lines"]), (LARGE_BYTES, &passed.into()));
}

#[test]
fn a_file_that_shrinks_or_grows_ends_where_it_ends() {
    for len in [LARGE_BYTES / 3, LARGE_BYTES * 2] {
        let dir = TempDir::new().unwrap();
        let bytes = line_of(9).repeat(LARGE_BYTES / 10);
        fs::write(dir.path().join("large"), &bytes).unwrap();
        let file = File::options().append(true).open(dir.path().join("large")).unwrap();
        let (mut child, reading) = start(dir.path(), &["large"]);
        let mut stdout = child.stdout.take().unwrap();
        let mut got = vec![0; 1000];
        stdout.read_exact(&mut got).unwrap();
        match len < LARGE_BYTES {
            true => file.set_len(len as u64).unwrap(),
            false => (&file).write_all(&bytes).unwrap(),
        }
        stdout.read_to_end(&mut got).unwrap();
        let last = the_last(reading);
        assert!(child.wait().unwrap().success());
        assert_eq!(last["lines"], ends(&got, b'\n'), "{len}");
        // A block that was read before the cut passes.
        let most = if len < LARGE_BYTES { len + (4 << 20) } else { 2 * bytes.len() };
        assert!(got.len() <= most && got.len() >= len.min(2 * bytes.len()), "{len}: {}", got.len());
    }
}

#[test]
fn an_output_that_fails_has_the_lines_reported_and_the_input_is_after_them() {
    let (dir, bytes) = large();
    // Not a multiple of a block, and room for it alone.
    let line = "ulimit -f 9000; trap '' XFSZ; { $G pv -f -n -b -i 600 -l; stat=$?; cat >&3; exit $stat; } <large >got 3>rest";
    let output = shell(dir.path(), line);
    assert_eq!(output.status.code(), Some(16), "{}", said(&output));
    let got = fs::read(dir.path().join("got")).unwrap();
    assert!(got.len() == 9000 << 10 && got == bytes[..got.len()]);
    assert!(
        said(&output).contains("standard output: write failed after 9216000 bytes: File too large")
    );
    assert!(!said(&output).contains("not delivered"), "{}", said(&output));
    assert!(said(&output).lines().any(|line| line == ends(&got, b'\n').to_string()));
    let mut rest = Vec::new();
    File::open(dir.path().join("rest")).unwrap().read_to_end(&mut rest).unwrap();
    // The limit is of the second file, too: its beginning is what follows.
    assert!(!rest.is_empty() && bytes[got.len()..].starts_with(&rest));
}

#[test]
fn an_input_begins_where_its_position_is() {
    let (dir, bytes) = large();
    let mut file = File::open(dir.path().join("large")).unwrap();
    file.seek(SeekFrom::Start(77)).unwrap();
    let mut command = gush();
    command.args(["pv", "-f", "-n", "-b", "-l", "-i", "600"]).stdin(file.try_clone().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stdout == bytes[77..]);
    assert_eq!(said(&output), format!("{}\n", ends(&bytes[77..], b'\n')));
    assert_eq!(file.stream_position().unwrap(), LARGE_BYTES as u64);
}

#[test]
fn denied_interrupted_and_failing_calls_lose_no_byte_and_no_line() {
    let (dir, bytes) = large();
    for fault in [
        "vmsplice:error=EPERM",
        "vmsplice:error=EINTR:when=1+3",
        "vmsplice:error=ENOMEM:when=3",
        // The engine reads again from where the two threads had to give up.
        "pread64:error=EIO:when=9",
        // One of the two threads comes late with its block: the other one has read it.
        "pread64:delay_enter=100ms:when=4+9",
        "clone,clone3:error=EAGAIN:when=2+",
        "madvise:error=EINVAL",
    ] {
        let inject = format!("inject={fault}");
        let mut traced = match strace(&["-e", &inject]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["pv", "-f", "-n", "-b", "-i", "600", "-l", "large"]).current_dir(dir.path());
        let output = traced.output().unwrap();
        assert!(output.status.success(), "{fault}: {}", said(&output));
        assert!(output.stdout == bytes, "{fault}: {} bytes", output.stdout.len());
        // strace reports a thread that ends while it is delayed.
        let said = said(&output);
        let reported: Vec<_> = said.lines().filter(|line| !line.starts_with("strace: ")).collect();
        assert_eq!(reported, [ends(&bytes, b'\n').to_string()], "{fault}");
    }
}

#[test]
fn a_fifo_is_opened_once() {
    let dir = TempDir::new().unwrap();
    let line = "mkfifo fifo; seq 9 >fifo & timeout 20 $G pv -f -n -b -l fifo >got";
    let output = shell(dir.path(), line);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(dir.path().join("got")).unwrap(), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

/// An estimated size cuts nothing off: neither a last line without an end, nor what follows the
/// first file.
#[test]
fn an_estimated_number_of_lines_is_no_limit() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nl"), "a\nb\nc").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    for (options, files) in [
        ("-lS", &["nl"][..]),
        ("-lqS", &["nl"]),
        ("-lqS", &["nl", "nl"]),
        // As if no size were given.
        ("-lqSs0", &["nl"]),
        ("-lqSs@empty", &["nl", "nl"]),
    ] {
        let mut pv = gush();
        let output = pv.args(["pv", options]).args(files).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{options} {files:?}");
        let expected = "a\nb\nc".repeat(files.len());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{options} {files:?}");
    }
    let mut pv = gush();
    let output = pv.args(["pv", "-lqS", "-s2", "nl"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\nb\n");
}

#[test]
fn bytes_that_were_not_delivered_stay_in_the_file() {
    let (dir, bytes) = large();
    fs::write(dir.path().join("small"), &bytes[..100_000]).unwrap();
    for (file, len) in [("large", LARGE_BYTES), ("small", 100_000)] {
        for options in ["-l", "-l -L 1G", "-l -S -s 1000000", ""] {
            let line = format!("{{ $G pv -q {options} >/dev/full; wc -c; }} <{file}");
            let output = shell(dir.path(), &line);
            let left = String::from_utf8(output.stdout.clone()).unwrap();
            assert_eq!(left.trim(), len.to_string(), "{options} {file}: {}", said(&output));
        }
    }
}
