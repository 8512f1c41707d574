//! `gush lab pipe`: the ladder's names, its table and its CSV.

mod common;

use std::process::Output;

use common::gush;

const NAMES: [&str; 14] = [
    "write-read",
    "vmsplice-read",
    "vmsplice-splice",
    "vmsplice-splice-untouched",
    "huge-splice",
    "huge-splice-busy",
    "same-buffer-busy",
    "write-read-busy",
    "fresh-splice",
    "fresh-read",
    "socket-splice",
    "socket-read",
    "reservoir-splice",
    "reservoir-read",
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
fn csv_has_a_row_for_every_case_and_round() {
    let output = lab(&["--csv", "--rounds", "2", "--bytes", "9M"]);
    let text = text(&output.stdout);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound"));
    if !can_lend() {
        return common::skipped("vmsplice is denied: its cases cannot run");
    }
    assert!(output.status.success(), "{output:?}");
    for round in ["1", "2"] {
        for name in NAMES {
            let fields: Vec<&str> = lines.next().expect(name).split(',').collect();
            assert_eq!(fields[..2], [name, round]);
            assert!(fields[2].parse::<f64>().unwrap() > 0.0, "{name}");
            assert_eq!(fields[3], (9 << 20).to_string());
            let published = name.starts_with("vmsplice") || name.starts_with("huge");
            if published {
                assert_eq!(fields[4..6], ["262144", "131072"], "{name}");
            }
            let sound = !(published || name == "same-buffer-busy");
            assert_eq!(fields[6], sound.to_string(), "{name}");
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn the_table_compares_with_the_first_case() {
    let output = lab(&["--rounds", "3", "--bytes", "8M", "--only", "socket-read,write-read"]);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("case "), "{text}");
    assert!(lines[1].starts_with("write-read ") && lines[1].contains(" 1.0x  yes "), "{text}");
    assert!(lines[2].starts_with("socket-read ") && lines[2].contains(" yes "), "{text}");
    assert!(lines[3].contains("physical limit"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

/// The line of the physical limit comes from a store: without one it says so, unless none was wanted.
#[test]
fn the_table_says_why_the_physical_limit_is_not_known() {
    let short = ["--rounds", "1", "--bytes", "1M", "--only", "write-read"];
    let last_lines = |more: &[&str]| {
        let output = lab(&[&short[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        let last = text(&output.stdout).lines().last().map(str::to_owned);
        (last.expect("a table"), text(&output.stderr))
    };
    // Not even root makes a file there.
    let (last, said) = last_lines(&["--db", "/proc/self/lab.jsonl"]);
    assert_eq!(last, "The physical limit is not known: without a store, no earlier run is.");
    assert!(said.contains("this run is not stored: /proc/self/lab.jsonl: "), "{said}");
    let (last, _) = last_lines(&["--no-store"]);
    assert!(last.starts_with("write-read "), "{last}");
}

#[test]
fn unknown_cases_are_refused_with_the_known_ones() {
    let output = lab(&["--only", "nope"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(NAMES.iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn one_processor_is_told() {
    let allowed = gush_lab::affinity::allowed().unwrap();
    let pinned = std::thread::spawn(move || {
        gush_lab::affinity::pin(allowed[0]).unwrap();
        lab(&["--only", "write-read", "--bytes", "1M", "--rounds", "1"])
    });
    let output = pinned.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("not pinned: one processor"), "{output:?}");
}
