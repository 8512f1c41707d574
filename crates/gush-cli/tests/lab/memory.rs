//! `gush lab memory`: bandwidth of one processor and of all.

use std::process::{Command, Output};

use crate::common::{gush, skipped};

fn lab(options: &[&str]) -> Output {
    gush().args(["lab", "memory", "--no-store"]).args(options).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn csv_has_a_row_for_every_operation_of_one_and_of_all_processors() {
    let output = lab(&["--csv", "--rounds", "1", "--bytes", "16M"]);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("case,operation,processors,round,gib_per_s,bytes"));
    let mut rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let all = gush_lab::affinity::allowed().unwrap().len();
    let counts = if all > 1 { vec![(1, "1"), (all, "all")] } else { vec![(1, "1")] };
    for (processors, name) in counts {
        for operation in ["read", "write", "copy"] {
            let case = format!("{operation}-{name}");
            let place = rows.iter().position(|row| row[0] == case).expect("a row");
            let row = rows.swap_remove(place);
            assert_eq!(row[1..4], [operation, processors.to_string().as_str(), "1"]);
            assert!(row[4].parse::<f64>().unwrap() > 0.0 && row[5].parse::<u64>().unwrap() > 0);
        }
    }
    assert!(rows.is_empty(), "{rows:?}");
}

#[test]
fn one_processor_leaves_out_what_needs_several() {
    let allowed = gush_lab::affinity::allowed().unwrap();
    let pinned = std::thread::spawn(move || {
        gush_lab::affinity::pin(allowed[0]).unwrap();
        lab(&["--rounds", "1", "--bytes", "4M"])
    });
    let output = pinned.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    assert!(text.contains("read-1 ") && !text.contains("read-all"), "{text}");
}

#[test]
fn more_memory_than_there_is_is_refused_in_a_sentence() {
    let output = lab(&["--rounds", "1", "--bytes", "4E", "--only", "read-1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("bytes of memory to measure: Cannot allocate"),
        "{output:?}"
    );
}

/// A thread of real-time priority runs to its end before another one of its processor begins.
#[test]
fn the_clock_is_started_before_the_threads() {
    let first = gush_lab::affinity::allowed().unwrap()[0].to_string();
    let mut command = Command::new("chrt");
    command.args(["-f", "1", env!("CARGO_BIN_EXE_gush"), "lab", "once", "--cpu", &first]);
    command.args(["memory", "--way", "read-1", "--bytes", "4M"]);
    let output = match command.output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => return skipped(text(&output.stderr).trim()),
        Err(error) => return skipped(&format!("chrt: {error}")),
    };
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Each thread goes on for at least so long.
    assert!(measured["wall_s"].as_f64().unwrap() >= 0.15, "{measured}");
}
