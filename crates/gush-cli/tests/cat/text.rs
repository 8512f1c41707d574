//! The text flags of `gush cat` give the same bytes as GNU cat's.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::shell::{said, shell};
use crate::common::{gnu, gush, skipped};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

const TRICKY: &[&[u8]] = &[
    b"plain\n\n\n\n\ttab\tin\r\n\r\n\rreturn\r",
    b"\nafter a held return\n\n",
    b"\n\n\nno end",
    b"",
    b" goes on \x00\x01\x1b\x7f\x80\x9f\xa0\xff\xfe\n\x89\x8a\n\xc3\xa9\n",
    b"\n",
    b"\r",
];

fn write_files(dir: &Path, contents: &[impl AsRef<[u8]>]) {
    for (i, content) in contents.iter().enumerate() {
        fs::write(dir.join(i.to_string()), content).unwrap();
    }
}

fn output(mut command: Command, args: &[String], dir: &Path) -> Output {
    let stdin = fs::File::open(dir.join("0")).map_or_else(|_| Stdio::null(), Stdio::from);
    command.args(args).current_dir(dir).stdin(stdin).output().unwrap()
}

fn gush_cat() -> Command {
    let mut command = gush();
    command.arg("cat");
    command
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|i| i.to_string())
}

#[test]
fn every_flag_combination_shows_what_gnu_cat_shows() {
    let gnu_cat = match gnu("cat") {
        Ok(path) => path,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    write_files(dir.path(), TRICKY);
    for chosen in 0..1_u32 << 10 {
        let flags: String = "AbeEnstTuv"
            .chars()
            .enumerate()
            .filter(|(i, _)| chosen >> i & 1 == 1)
            .map(|(_, c)| c)
            .collect();
        let mut args: Vec<String> = names(TRICKY.len()).collect();
        if !flags.is_empty() {
            args.insert(0, format!("-{flags}"));
        }
        let expected = output(Command::new(&gnu_cat), &args, dir.path());
        let got = output(gush_cat(), &args, dir.path());
        assert_eq!(
            got.stdout.escape_ascii().to_string(),
            expected.stdout.escape_ascii().to_string(),
            "-{flags}"
        );
        assert!(got.status.success() && got.stderr.is_empty(), "-{flags}: {got:?}");
    }
}

#[test]
fn long_names_and_their_beginnings_work() {
    let dir = TempDir::new().unwrap();
    write_files(dir.path(), TRICKY);
    for (long, short) in [
        ("--show-all", "-A"),
        ("--number-nonblank", "-b"),
        ("--number-", "-b"),
        ("--show-ends", "-E"),
        ("--show-e", "-E"),
        ("--number", "-n"),
        ("--squeeze-blank", "-s"),
        ("--sq", "-s"),
        ("--show-tabs", "-T"),
        ("--show-nonprinting", "-v"),
    ] {
        let mut args: Vec<String> = names(TRICKY.len()).collect();
        args.push(short.to_owned());
        let expected = output(gush_cat(), &args, dir.path());
        *args.last_mut().unwrap() = long.to_owned();
        let got = output(gush_cat(), &args, dir.path());
        assert_eq!((got.stdout, got.status), (expected.stdout, expected.status), "{long}");
    }
    let ambiguous = gush_cat().arg("--show").output().unwrap();
    assert_eq!(ambiguous.status.code(), Some(1));
}

#[test]
fn standard_input_may_come_between_files_and_twice() {
    let dir = TempDir::new().unwrap();
    write_files(dir.path(), &["in\n", "one\n", "two\n"]);
    let args = ["-n", "1", "-", "2", "-", "--", "1"].map(str::to_owned);
    let got = output(gush_cat(), &args, dir.path());
    assert_eq!(
        String::from_utf8(got.stdout).unwrap(),
        "     1\tone\n     2\tin\n     3\ttwo\n     4\tone\n"
    );
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(b'\n'), 1 => Just(b'\r'), 1 => Just(b'\t'), 3 => any::<u8>()];
    let small = prop::collection::vec(byte, 0..64);
    // Past any buffer's end, where state must be carried over.
    prop_oneof![4 => small.clone(), 1 => (small, 120_000_usize..140_000).prop_map(|(mut piece, len)| {
        piece.push(b'x');
        piece.iter().copied().cycle().take(len).collect()
    })]
}

#[test]
fn any_files_show_as_gnu_cat_shows_them() {
    let gnu_cat = match gnu("cat") {
        Ok(path) => path,
        Err(why) => return skipped(&why),
    };
    let files = prop::collection::vec(any_file(), 0..5);
    let cases = (files, "[AbeEnstTuv]{0,4}", prop::option::of(1_usize..300_000));
    let config =
        ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&cases, |(files, flags, buffer_bytes)| {
        let dir = TempDir::new().unwrap();
        write_files(dir.path(), &files);
        let mut args: Vec<String> = names(files.len()).collect();
        if !flags.is_empty() {
            args.push(format!("-{flags}"));
        }
        let expected = output(Command::new(&gnu_cat), &args, dir.path());
        args.extend(buffer_bytes.map(|bytes| format!("--buffer-size={bytes}")));
        let got = output(gush_cat(), &args, dir.path());
        prop_assert!(got.stdout == expected.stdout, "{args:?}");
        prop_assert_eq!(got.status, expected.status);
        Ok(())
    });
    outcome.unwrap();
}

/// A packet of a pipe (O_DIRECT of pipe(2)) loses its rest in a shorter read.
#[test]
fn a_small_buffer_cuts_no_packet() {
    let dir = TempDir::new().unwrap();
    let text: String = (0..1000).map(|line| format!("{line:08}\n\n")).collect();
    fs::write(dir.path().join("text"), &text).unwrap();
    let line = "set -o pipefail; dd if=text bs=1000 oflag=direct status=none | $G cat -n --buffer-size=100";
    let output = shell(dir.path(), line);
    assert!(output.status.success(), "{}", said(&output));
    let numbered = shell(dir.path(), "cat text | $G cat -n");
    assert!(output.stdout == numbered.stdout, "other bytes");
}
