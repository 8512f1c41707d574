//! `gush lab pipe`: the cases, the table and the CSV, and the evidence for soundness.

use std::process::Output;

use crate::common::gush;
use gush_lab::suite::pipe::{STEPS, Step};

/// The published steps, whose writers use memory again that a reader may still hold.
const REUSED: [&str; 9] = [
    "vmsplice-read",
    "vmsplice-splice",
    "vmsplice-splice-untouched",
    "huge-splice",
    "huge-splice-busy",
    "same-buffer-busy",
    "huge-read-busy",
    "huge-read-busy-1M",
    "huge-splice-busy-1M",
];

fn lab(options: &[&str]) -> Output {
    gush().args(["lab", "pipe"]).args(options).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn can_lend() -> bool {
    !matches!(gush::Kernel::get().vmsplice(), gush::Vmsplice::Absent(_))
}

#[test]
fn every_case_is_measured_in_every_round() {
    if !can_lend() {
        return crate::common::skipped("vmsplice is denied: its cases cannot run");
    }
    let output = lab(&["--json", "--rounds", "2", "--bytes", "9M"]);
    assert!(output.status.success(), "{output:?}");
    let mut samples = crate::samples(&output);
    for Step { name, .. } in STEPS {
        for round in [1, 2] {
            let is_it = |one: &serde_json::Value| one["case"] == *name && one["round"] == round;
            let place = samples.iter().position(is_it);
            let one = samples.swap_remove(place.unwrap_or_else(|| panic!("{name} in {round}")));
            assert!(one["gib_per_s"].as_f64().unwrap() > 0.0, "{name}");
            assert_eq!(one["bytes"], 9 << 20);
            if name.starts_with("vmsplice") {
                let sizes = ["buffer_bytes", "pipe_bytes"].map(|size| &one["facts"][size]);
                assert_eq!(sizes, [262_144, 131_072], "{name}");
            }
            assert!(one["user_s"].is_f64() && one["system_s"].is_f64(), "{one}");
        }
    }
    assert!(samples.is_empty(), "{samples:?}");
}

/// The page and the table call a case sound if the hostile reader found so in this run.
#[test]
fn soundness_is_seen_and_not_believed() {
    if gush::Kernel::get().vmsplice() != gush::Vmsplice::ZeroCopy {
        return crate::common::not_applicable("nothing is lent here, so nothing can change");
    }
    let output = lab(&["--json", "--no-store", "--rounds", "1", "--bytes", "1M"]);
    assert!(output.status.success(), "{output:?}");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = run["runs"][0]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), STEPS.len());
    for sample in samples {
        let name = sample["case"].as_str().unwrap();
        let (sound, reported) = (&sample["facts"]["sound"], sample["facts"]["evidence"].as_str());
        let reported = reported.expect("evidence");
        match (REUSED.contains(&name), sound.as_bool()) {
            (true, Some(false)) => {
                assert!(reported.contains("corrupted: byte "), "{name}: {reported}")
            }
            // Without the privilege of a large pipe the hostile reader holds less than both buffers
            // of 2 MiB.
            (true, None) => {
                assert!(
                    name.ends_with("-1M") && reported.contains("unchanged"),
                    "{name}: {reported}"
                );
            }
            (false, Some(true)) => assert!(reported.contains("unchanged"), "{name}: {reported}"),
            found => panic!("{name}: {found:?}: {reported}"),
        }
    }
}

/// The run has the options and the baseline of each case.
#[test]
fn a_run_says_what_it_measured() {
    let output =
        lab(&["--json", "--no-store", "--rounds", "1", "--bytes", "1M", "--only", "socket-read"]);
    assert!(output.status.success(), "{output:?}");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &run["runs"][0];
    assert_eq!(run["build"].as_str().map(str::len), Some(12));
    let [case] = run["cases"].as_array().unwrap().as_slice() else { panic!("{run}") };
    assert_eq!(
        (&case["case"], &case["baseline"]),
        (&"socket-read".into(), &"write-read-busy".into())
    );
    assert_eq!(case["identity"]["write"], "--technique socket --busy-loop");
    assert_eq!(case["identity"]["bytes"], 1 << 20);
}

#[test]
fn the_table_compares_with_the_baseline() {
    let options = ["--rounds", "5", "--bytes", "8M", "--only", "socket-read,write-read-busy"];
    let output = lab(&options);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("both spinning"), "{text}");
    assert!(lines[1].starts_with("case ") && lines[1].contains("cpu s/GiB"), "{text}");
    assert!(lines[2].starts_with("write-read-busy ") && lines[2].contains("  yes "), "{text}");
    assert!(lines[3].starts_with("socket-read ") && lines[3].contains("  yes "), "{text}");
    assert!(
        lines[3].contains("x write-read-busy") || lines[3].contains("x? write-read-busy"),
        "{text}"
    );
}

#[test]
fn unknown_cases_are_refused_with_the_known_ones() {
    let output = lab(&["--only", "nope"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(STEPS.iter().all(|step| said.contains(step.name)), "{said}");
}

#[test]
fn one_processor_is_reported() {
    let allowed = gush_lab::affinity::allowed().unwrap();
    let pinned = std::thread::spawn(move || {
        gush_lab::affinity::pin(allowed[0]).unwrap();
        lab(&["--only", "write-read", "--bytes", "1M", "--rounds", "1"])
    });
    let output = pinned.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("not pinned: one processor"), "{output:?}");
}
