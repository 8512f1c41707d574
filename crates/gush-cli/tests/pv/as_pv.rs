//! `gush pv` compared with pv 1.11: the last line of progress, the number of bytes and the status
//! are those that pv had.
//!
//! `recorded/pv-1.11.jsonl` has a line for each command line, with the input, and with the answer
//! of pv 1.11.0, built from its sources, in the locale C.UTF-8. A newer pv writes its answers into
//! the file by `GUSH_PV=/path/to/pv GUSH_BLESS=1 cargo test -p gush-cli --test pv as_pv`.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::gush_as;
use serde_json::{Value, json};
use tempfile::TempDir;

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/pv-1.11.jsonl")
}

fn cases() -> Vec<Value> {
    let text = fs::read_to_string(recorded()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bytes that a case has as its input: a text, or so many zeros or newlines.
fn input(case: &Value) -> Vec<u8> {
    let many = |name: &str| case["input"][name].as_u64().map(|number| number as usize);
    match (many("zeros"), many("newlines")) {
        (Some(number), _) => vec![0; number],
        (_, Some(number)) => vec![b'\n'; number],
        _ => case["input"]["text"].as_str().unwrap().into(),
    }
}

/// Runs a program with the input of `case` as a pipe. Only the end is shown, however slow the
/// machine is.
fn answer(mut command: Command, case: &Value) -> Output {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), b"hello\nfile\n").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let words = case["words"].as_str().unwrap();
    command.args(["-i", "600"]).args(words.split_whitespace()).current_dir(dir.path());
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm").env_remove("POSIXLY_CORRECT");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = input(case);
    // A program that ends early leaves bytes in the pipe.
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes).ok());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

#[test]
fn every_recorded_answer_of_pv_is_the_answer_of_gush() {
    if let (Some(pv), Some(_)) = (std::env::var_os("GUSH_PV"), std::env::var_os("GUSH_BLESS")) {
        return record(Path::new(&pv));
    }
    let names = TempDir::new().unwrap();
    let cases = cases();
    assert!(cases.len() > 500, "{} cases", cases.len());
    let differ = cases.iter().filter_map(|case| {
        let Output { status, stdout, stderr } = answer(gush_as("pv", names.path()), case);
        let said = String::from_utf8_lossy(&stderr);
        // Of a wrong command line, the status alone is pv's.
        let same_words = case["said"].as_str().is_none_or(|theirs| theirs == said);
        let is_same = case["status"] == json!(status.code())
            && case["bytes"] == json!(stdout.len())
            && same_words;
        let ours = || format!("{case}\n  gush: {status}, {} bytes, {said:?}", stdout.len());
        (!is_same).then(ours)
    });
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn the_numbers_are_those_of_the_bytes_of_the_input() {
    let names = TempDir::new().unwrap();
    let text = json!({"text": "one\ntwo\nthree\nfour"});
    for (words, arrives) in [
        ("-q", "one\ntwo\nthree\nfour"),
        ("-q file -", "hello\nfile\none\ntwo\nthree\nfour"),
        ("-S -s 5", "one\nt"),
        ("-l -S -s 2", "one\ntwo\n"),
        ("-l -S -s 3 file -", "hello\nfile\none\n"),
        ("-q -l -L 1000", "one\ntwo\nthree\nfour"),
        ("-q -M in -- tr a-z A-Z", "ONE\nTWO\nTHREE\nFOUR"),
        ("-q -M 1 -- tr a-z A-Z", "ONE\nTWO\nTHREE\nFOUR"),
        ("-q --monitor both -- cat -n", "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour"),
    ] {
        let case = json!({"words": words, "input": text});
        let Output { status, stdout, stderr } = answer(gush_as("pv", names.path()), &case);
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(String::from_utf8(stdout).unwrap(), arrives, "{words}: {said}");
        assert!(status.success(), "{words}: {said}");
    }
}

fn record(pv: &Path) {
    let line = |case: Value| {
        let Output { status, stdout, stderr } = answer(Command::new(pv), &case);
        let is_misuse = status.code() == Some(64);
        let said = (!is_misuse).then(|| String::from_utf8(stderr).unwrap());
        let answer = json!({
            "words": case["words"], "input": case["input"], "status": status.code(), "said": said,
            "bytes": stdout.len(),
        });
        format!("{answer}\n")
    };
    let text: String = cases().into_iter().map(line).collect();
    fs::write(recorded(), text).unwrap();
}
