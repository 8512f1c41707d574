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
fn every_operation_is_measured_on_one_and_on_all_processors() {
    let output = lab(&["--json", "--rounds", "1", "--bytes", "16M"]);
    assert!(output.status.success(), "{output:?}");
    let mut samples = crate::samples(&output);
    let all = gush_lab::affinity::allowed().unwrap().len();
    let counts = if all > 1 { vec![(1, "1"), (all, "all")] } else { vec![(1, "1")] };
    for (processors, name) in counts {
        for operation in ["read", "write", "copy"] {
            let case = format!("{operation}-{name}");
            let place = samples.iter().position(|one| one["case"] == *case).expect("a sample");
            let one = samples.swap_remove(place);
            assert_eq!((&one["round"], &one["facts"]["operation"]), (&1.into(), &operation.into()));
            assert_eq!(one["facts"]["processors"], processors);
            assert!(one["gib_per_s"].as_f64().unwrap() > 0.0 && one["bytes"].as_u64().unwrap() > 0);
        }
    }
    assert!(samples.is_empty(), "{samples:?}");
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
