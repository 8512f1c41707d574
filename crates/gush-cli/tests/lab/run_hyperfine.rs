//! `gush lab run` with command lines of hyperfine 1.20: the same meaning, or a refusal that names the remedy.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::run::{ended, lab};

#[test]
fn a_command_of_its_own_is_concluded_by_its_own() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let say = |what: &str| format!("echo {what} >>{}", log.display());
    let around = ["-p", &say("p1"), "-p", &say("p2"), "-C", &say("c1"), "-C", &say("c2")];
    let mut command = lab(dir.path());
    command.args(["-r", "2", "-w", "0", "--no-compare"]).args(around);
    let (status, _, said) = ended(command.args([&say("one"), &say("two")]));
    assert_eq!(status, Some(0), "{said}");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 12, "{text}");
    for run in lines.chunks(3) {
        assert!([["p1", "one", "c1"], ["p2", "two", "c2"]].contains(&run.try_into().unwrap()));
    }
    let twice = ["-C", "true", "-C", "true", "true", "true", "true"];
    let (status, _, said) = ended(lab(dir.path()).args(twice));
    assert_eq!(status, Some(1));
    assert!(said.contains("2 --conclude for 3 command(s): give one for all, or one for each"));
}

#[test]
fn failures_are_ignored_by_their_status() {
    let dir = TempDir::new().unwrap();
    let run = |words: &[&str]| ended(lab(dir.path()).args(["-r", "1"]).args(words));
    for ignored in ["--ignore-failure", "--ignore-failure=all-non-zero", "-i", "-i=3,4"] {
        let (status, out, said) = run(&[ignored, "exit 3", "exit 4"]);
        assert_eq!(status, Some(0), "{ignored}: {said}");
        assert!(out.contains("exit 3 failed in 1 of 1 rounds: status 3"), "{ignored}: {out}");
    }
    // As bash counts a signal.
    assert_eq!(run(&["-i=137", "kill -9 $$"]).0, Some(0));
    let (status, _, said) = run(&["--ignore-failure=4, 5", "exit 3", "exit 4"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("exit 3: ended with status 3") && !said.contains("exit 4:"), "{said}");
    let (status, _, said) = run(&["-i=all", "exit 3"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("'all' is no list of exit statuses: 1,2"), "{said}");
}

#[test]
fn the_reference_has_a_name() {
    let dir = TempDir::new().unwrap();
    let words = ["-r", "1", "--csv", "--reference", "true", "--reference-name", "old", "-n", "new"];
    let (status, out, said) = ended(lab(dir.path()).args(words).arg("true x"));
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("\nold,1,") && out.contains("\nnew,1,"), "{out}");
    let (status, _, said) = ended(lab(dir.path()).args(["--reference-name", "old", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("--reference"), "{said}");
}

#[test]
fn values_of_parameters_may_begin_with_a_hyphen() {
    let dir = TempDir::new().unwrap();
    let words = ["-r", "1", "--csv", "-L", "a", r"-x,--y,b\\\,c", "-P", "n", "-1", "1", "-D", "2"];
    let (status, out, said) = ended(lab(dir.path()).args(words).arg("echo '{a}' {n}"));
    assert_eq!(status, Some(0), "{said}");
    let mut labels: Vec<&str> =
        out.lines().skip(1).filter_map(|row| row.split(",1,").next()).collect();
    labels.sort_unstable();
    assert_eq!(
        labels,
        [
            r#""echo 'b\,c' -1""#,
            r#""echo 'b\,c' 1""#,
            "echo '--y' -1",
            "echo '--y' 1",
            "echo '-x' -1",
            "echo '-x' 1",
        ]
    );
    let (status, _, said) = ended(lab(dir.path()).args(["-D", "2", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("--parameter-scan"), "{said}");
}

#[test]
fn what_is_one_for_all_commands_is_not_given_twice() {
    let dir = TempDir::new().unwrap();
    for (option, values) in [
        ("--output", ["null", "pipe"]),
        ("--setup", ["true", "false"]),
        ("--cleanup", ["true", "false"]),
    ] {
        let [one, two] = values;
        let (status, _, said) =
            ended(lab(dir.path()).args([option, one, option, two, "true", "true"]));
        assert_eq!(status, Some(1), "{option}");
        assert!(said.contains(&format!("{option} is one for all commands")), "{said}");
    }
    let (status, _, said) = ended(lab(dir.path()).args(["-n", "", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("a name with nothing in it"), "{said}");
}

#[test]
fn a_command_knows_the_number_of_its_run() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let tell = format!("echo \"$HYPERFINE_ITERATION\" >>{}", log.display());
    let run = |words: &[&str]| {
        let _ = fs::remove_file(&log);
        let (status, _, said) = ended(lab(dir.path()).args(words).arg(&tell));
        assert_eq!(status, Some(0), "{said}");
        fs::read_to_string(&log).unwrap()
    };
    assert_eq!(run(&["-r", "3", "-w", "2"]), "warmup-0\nwarmup-1\n0\n1\n2\n");
    assert_eq!(run(&["-r", "2", "-w", "1", "--repeat", "2"]), "warmup-0\nwarmup-1\n0\n1\n2\n3\n");
}

#[test]
fn exported_fields_are_those_of_hyperfine() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut command = lab(dir.path());
    command.args(["-r", "4", "-w", "0", "-i", "-L", "b", "1,2", "-L", "a", "x", "--export-csv"]);
    command.arg(file("csv")).arg("--export-json").arg(file("json"));
    // Memory beyond that of the program which starts the command: tail keeps a line without an end.
    let large = "head -c 100M /dev/zero | tail -n 1 >/dev/null; kill -9 $$ {a} {b}";
    let (status, _, said) = ended(command.arg(large));
    assert_eq!(status, Some(0), "{said}");
    let csv = fs::read_to_string(file("csv")).unwrap();
    let head = "command,mean,stddev,median,user,system,min,max,parameter_a,parameter_b,median_low,";
    assert!(csv.starts_with(head), "{csv}");
    let json: Value = serde_json::from_str(&fs::read_to_string(file("json")).unwrap()).unwrap();
    let first = &json["results"][0];
    assert_eq!(first["parameters"], serde_json::json!({"a": "x", "b": "1"}));
    assert_eq!(first["exit_codes"], serde_json::json!([137, 137, 137, 137]));
    let memory = first["memory_usage_byte"].as_array().expect("one figure a run");
    assert_eq!(memory.len(), 4, "{json}");
    assert!(memory.iter().all(|bytes| bytes.as_u64().unwrap() > 90 << 20), "{json}");
}
