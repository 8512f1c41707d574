//! The FizzBuzz example prints the lines of a naive version, to the end of the 64-bit numbers, into
//! anything.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use proptest::prelude::*;

mod common;
#[path = "../examples/fizzbuzz/lines.rs"]
mod lines;

use common::{skipped, techniques_served_here};
use gush::pipe::Technique;
use lines::Lines;

fn naive(from: u64, lines: u64) -> Vec<u8> {
    let mut text = String::new();
    for number in (from..=u64::MAX).take(lines as usize) {
        text += &match (number % 3 == 0, number % 5 == 0) {
            (true, true) => "FizzBuzz".to_owned(),
            (true, false) => "Fizz".to_owned(),
            (false, true) => "Buzz".to_owned(),
            (false, false) => number.to_string(),
        };
        text.push('\n');
    }
    text.into_bytes()
}

/// All that is made, asked for in pieces of this size.
fn made(from: u64, lines: u64, piece_bytes: usize) -> Vec<u8> {
    let mut lines = Lines::new(from, lines);
    let (mut text, mut piece) = (Vec::new(), vec![0; piece_bytes]);
    loop {
        let len = lines.fill(&mut piece);
        text.extend_from_slice(&piece[..len]);
        if len < piece_bytes {
            assert_eq!(lines.fill(&mut piece), 0, "what has ended makes no more");
            return text;
        }
    }
}

fn assert_same(from: u64, lines: u64, piece_bytes: usize) {
    let (made, naive) = (made(from, lines, piece_bytes), naive(from, lines));
    if let Some(at) = made.iter().zip(&naive).position(|(made, naive)| made != naive) {
        let window = at.saturating_sub(40)..(at + 40).min(made.len()).min(naive.len());
        let (made, naive) =
            (&made[window.clone()].escape_ascii(), &naive[window.clone()].escape_ascii());
        panic!("from {from}, byte {at}:\n made  {made}\n naive {naive}");
    }
    assert_eq!(made.len(), naive.len(), "from {from}, {lines} lines");
}

/// Compares so many lines from 1 on, a part at a time, so that memory stays small.
fn assert_same_from_the_start(all_lines: u64) {
    const PART: u64 = 1_000_000;
    let mut lines = Lines::new(1, all_lines);
    for first in (1..=all_lines).step_by(PART as usize) {
        let naive = naive(first, PART.min(all_lines + 1 - first));
        let mut made = vec![0; naive.len()];
        assert_eq!(lines.fill(&mut made), naive.len());
        assert!(made == naive, "in the million lines from {first} on");
    }
    assert_eq!(lines.fill(&mut [0]), 0);
}

#[test]
fn the_first_million_lines_are_those_of_a_naive_version() {
    assert_same_from_the_start(1_000_000);
}

#[test]
#[ignore = "a campaign: seconds with optimisation, minutes without"]
fn the_first_hundred_million_lines_are_those_of_a_naive_version() {
    assert_same_from_the_start(100_000_000);
}

#[test]
fn digits_grow_at_each_power_of_ten() {
    for power in 1..20 {
        let power = 10_u64.pow(power);
        assert_same(power.saturating_sub(1234).max(1), 3000, 4096);
        assert_same(power, 700, 100);
        assert_same(power - 1, 700, 100);
    }
}

#[test]
fn digits_carry_over_wherever_they_are_kept() {
    for zeros in 2..20 {
        let power = 10_u64.pow(zeros);
        for times in [2, 3, 7, 10, 13, 99, 100] {
            if let Some(number) = power.checked_mul(times) {
                assert_same(number.saturating_sub(1500).max(1), 3300, 65_536);
            }
        }
    }
}

#[test]
fn the_largest_number_is_the_last() {
    for lines in (1..2000).step_by(37) {
        for asked in [lines, lines + 1, u64::MAX] {
            assert_same(u64::MAX - lines + 1, asked, 1000);
        }
    }
    assert_eq!(made(u64::MAX, u64::MAX, 64), b"FizzBuzz\n");
    assert_eq!(made(u64::MAX - 1, 1, 64), b"18446744073709551614\n");
}

#[test]
fn no_lines_are_no_bytes() {
    assert_eq!(made(1, 0, 64), b"");
}

proptest! {
    #[test]
    fn any_lines_are_those_of_a_naive_version(
        (digits, from) in (1_u32..65, any::<u64>()),
        lines in 0_u64..3000,
        piece_bytes in 1_usize..9000,
    ) {
        assert_same((from >> (64 - digits)).max(1), lines, piece_bytes);
    }
}

/// The program, which cargo builds with the tests unless this test alone is asked for.
fn program() -> Option<Command> {
    let test = std::env::current_exe().expect("the path of this test");
    let path: PathBuf =
        test.ancestors().nth(2).expect("a target directory").join("examples/fizzbuzz");
    if !path.exists() {
        skipped("the example is not built (cargo build --example fizzbuzz)");
        return None;
    }
    Some(Command::new(path))
}

/// Status, standard error.
fn ending(mut child: std::process::Child) -> (ExitStatus, String) {
    let mut errors = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("UTF-8");
    (child.wait().expect("a status"), errors)
}

/// As the program's options spell the technique.
fn name_of(technique: Technique) -> String {
    format!("{technique:?}").to_lowercase()
}

#[test]
fn each_technique_pipes_the_same_lines() {
    let (from, lines) = (999_990_000, 600_000);
    let expected = naive(from, lines);
    let named =
        techniques_served_here().into_iter().map(|one| format!("--technique={}", name_of(one)));
    for technique in named.chain(["".to_owned(), "--naive".to_owned()]) {
        let Some(mut program) = program() else { return };
        program.args(["--from", &from.to_string(), "--lines", &lines.to_string()]);
        program.args(Some(&technique).filter(|word| !word.is_empty()));
        let output = program.output().expect("a run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{technique}: {errors}");
        assert!(output.stdout == expected, "{technique}");
    }
}

#[test]
fn a_file_gets_the_same_lines_and_dev_null_takes_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("lines");
    for (path, is_file) in [(path, true), ("/dev/null".into(), false)] {
        let Some(mut program) = program() else { return };
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        program.args(["--lines", "300000"]).stdout(file.expect("a target"));
        assert!(program.status().expect("a run").success());
        if is_file {
            assert!(fs::read(&path).expect("lines") == naive(1, 300_000));
        }
    }
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    for technique in techniques_served_here() {
        let Some(mut program) = program() else { return };
        program
            .args(["--technique", &name_of(technique)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = program.spawn().expect("a run");
        let mut start = [0; 16];
        child.stdout.take().expect("a pipe").read_exact(&mut start).expect("lines");
        let (status, errors) = ending(child);
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""), "{technique:?}");
        assert_eq!(&start, b"1\n2\nFizz\n4\nBuzz\n");
    }
}

#[test]
fn a_full_device_is_an_error_that_names_it() {
    let Some(mut program) = program() else { return };
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = program.stdout(full).output().expect("a run");
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("cannot write to standard output: No space left"), "{errors}");
}

#[test]
fn wrong_arguments_get_the_reason_and_the_usage() {
    for (words, reason) in [
        (&["--from", "0"][..], "--from '0': 1 is the least"),
        (&["--from", "18446744073709551616"], "--from '18446744073709551616': number too large"),
        (&["--lines"], "--lines needs a value"),
        (&["--technique", "magic"], "--technique 'magic': fresh, socket or write"),
        (&["10"], "unknown argument '10'"),
    ] {
        let Some(mut program) = program() else { return };
        let output = program.args(words).output().expect("a run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
        assert!(errors.contains(reason) && errors.contains("usage: fizzbuzz"), "{errors}");
    }
}
