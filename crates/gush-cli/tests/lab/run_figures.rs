//! `gush lab run` with figures that the commands print themselves.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::gush;
use serde_json::Value;
use tempfile::TempDir;

/// `gush lab WORDS…`, with the store and the files in `dir`: status, standard output, standard
/// error.
fn lab(dir: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = gush();
    command.current_dir(dir).arg("lab").args(words).arg("--db").arg(dir.join("runs"));
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

const SLOW: &str = r#"printf 'noise\n{"us": 40, "rate": 2}\n'"#;
const QUICK: &str = r#"printf '{"us": 20, "rate": 3}\n'"#;

/// Rounds of both by latency, and by rate as another figure.
fn measured(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let figures = ["run", "-r", "6", "--figure", "us,µs,less", "--figure", "rate,1/s"];
    lab(dir, &[&figures, more].concat())
}

#[test]
fn less_latency_is_better_in_every_form() {
    let dir = TempDir::new().unwrap();
    let exports = ["--export-markdown", "m.md", "--export-csv", "c.csv", "--export-json", "j.json"];
    let (status, out, said) =
        measured(dir.path(), &[&["-n", "slow", "-n", "quick", SLOW, QUICK], &exports[..]].concat());
    assert_eq!(status, Some(0), "{said}");
    let row = |name: &str| {
        let line = out.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let interval = |value: &str| format!("{value} … {value}");
    assert!(
        row("quick").join(" ").starts_with(&format!(
            "quick 20.000 {} 2.000 {} 3.000 1.500 {}",
            interval("20.000"),
            interval("2.000"),
            interval("1.500")
        )),
        "{out}"
    );
    assert!(row("slow").join(" ").starts_with("slow 40.000 "), "{out}");
    let sentence = "quick is 2.00 times as good as slow by us (95 %: 2.00 … 2.00)\n";
    assert!(out.contains(sentence), "{out}");
    assert!(!out.contains("No output was compared"), "{out}");

    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let markdown = read("m.md");
    let figures = "| us | 95 % interval | x first | 95 % interval | rate | x first |";
    assert!(markdown.lines().next().unwrap().contains(figures), "{markdown}");
    let quick = "| 20.000 | 20.000 … 20.000 | 2.000 | 2.000 … 2.000 | 3.000 | 1.500 |";
    assert!(markdown.lines().nth(3).unwrap().contains(quick), "{markdown}");
    let csv = read("c.csv");
    assert!(csv.lines().next().unwrap().ends_with(",us,us_times_first,rate,rate_times_first"));
    let row = csv.lines().nth(2).unwrap();
    assert!(row.ends_with(",20.000000000,2.000000000,3.000000000,1.500000000"), "{row}");
    let json: Value = serde_json::from_str(&read("j.json")).unwrap();
    assert_eq!(json["results"][1]["times_first"], 2.0);
    assert_eq!(json["results"][1]["figures"]["us"]["median"], 20.0);

    let (_, out, _) = lab(dir.path(), &["history", "last", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let figure = &shown["figures"][1];
    assert_eq!((&figure["unit"], &figure["less_is_better"]), (&"µs".into(), &true.into()));
    assert_eq!(
        (&figure["median"]["value"], &figure["times"]["value"]),
        (&20.0.into(), &2.0.into())
    );
}

#[test]
fn a_regression_is_one_by_the_figure_and_not_by_the_time() {
    let dir = TempDir::new().unwrap();
    let guard = |first, second| measured(dir.path(), &["--fail-if-slower", "5%", first, second]);
    // Slept through: the time says the opposite of the figure.
    let late = format!("sleep 0.02; {QUICK}");
    let (status, _, said) = guard(SLOW, &late);
    assert_eq!(status, Some(0), "{said}");
    let (status, _, said) = guard(&late, SLOW);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("is worse than ") && said.contains("0.50 times as good by us"), "{said}");
}

#[test]
fn a_command_that_prints_no_figure_is_out() {
    let dir = TempDir::new().unwrap();
    let (status, out, said) = measured(dir.path(), &[SLOW, "echo nothing", r#"echo '{"us": 1}'"#]);
    assert_eq!(status, Some(1), "{out}");
    assert!(
        said.contains(r#"it printed no line such as {"us": 1.5} on standard output"#),
        "{said}"
    );
    assert!(said.contains("it printed no number 'rate'"), "{said}");
    assert!(!out.contains("echo nothing is"), "{out}");
}

#[test]
fn standard_output_has_one_use() {
    let dir = TempDir::new().unwrap();
    let refused = |words: &[&str], why: &str| {
        let (status, _, said) = measured(dir.path(), words);
        assert_eq!(status, Some(1), "{words:?}");
        assert!(said.contains(why), "{said}");
    };
    refused(&["--output", "check", SLOW], "which --output check uses otherwise");
    let own = ["--output", "null", "--output", "pipe", SLOW, QUICK];
    refused(&own, "which --output pipe uses otherwise");
    refused(&["--input", "4K", "cp {in} {out}", SLOW], "every command writes {out} or none does");
    refused(&["--figure", "us", SLOW], "the figure 'us' is named twice");
    let (status, _, said) = lab(dir.path(), &["run", "--figure", "us,µs,more", SLOW]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("write NAME, NAME,UNIT or NAME,UNIT,less"), "{said}");
}

#[test]
fn an_aim_of_a_file_is_held_against_the_figure_that_it_names() {
    let dir = TempDir::new().unwrap();
    let text = r#"
[[comparison]]
name = "both"
runs = 5
[[comparison.figure]]
name = "us"
unit = "µs"
less_is_better = true
[[comparison.figure]]
name = "rate"
unit = "1/s"
[[comparison.contender]]
name = "slow"
command = '''printf '{"us": 40, "rate": 2}\n' '''
[[comparison.contender]]
name = "quick"
command = '''printf '{"us": 20, "rate": 3}\n' '''
[[comparison.aim]]
contender = "quick"
rivals = ["slow"]
times = 2.0
[[comparison.aim]]
contender = "quick"
rivals = ["slow"]
times = 2.0
figure = "rate"
"#;
    fs::write(dir.path().join("both.toml"), text).unwrap();
    let (status, out, said) = lab(dir.path(), &["run", "both.toml"]);
    assert_eq!(status, Some(0), "{said}");
    let aim = "aim: quick at least 2 times as good as slow by";
    assert!(out.contains(&format!("{aim} us: 2.000 (95 %: 2.000 … 2.000), reached\n")), "{out}");
    assert!(out.contains(&format!("{aim} rate: 1.500 (95 %: 1.500 … 1.500), MISSED\n")), "{out}");
    let wrong = text.replace("figure = \"rate\"", "figure = \"rat\"");
    fs::write(dir.path().join("both.toml"), wrong).unwrap();
    let (_, _, said) = lab(dir.path(), &["run", "both.toml"]);
    assert!(said.contains("an aim names the figure 'rat', which is none"), "{said}");
}
