//! `gush lab run` with command lines of hyperfine 1.20, and --env of 2.0: the same meaning, or a
//! refusal that names the remedy.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::not_applicable;
use crate::run::{ended, lab, label};

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
    assert!(said.contains(
        "--conclude is given 2 times for 3 command(s): give it once for all, or once for each"
    ));
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
    assert!(said.contains("'all' is not a list of exit statuses: 1,2"), "{said}");
}

#[test]
fn the_reference_has_a_name() {
    let dir = TempDir::new().unwrap();
    let words = ["-r", "1", "--csv", "--reference", "true", "--reference-name", "old", "-n", "new"];
    let (status, out, said) = ended(lab(dir.path()).args(words).arg("true x"));
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains(",old,1,") && out.contains(",new,1,"), "{out}");
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
    let mut labels: Vec<&str> = out.lines().skip(1).map(label).collect();
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
    for (option, values) in [("--setup", ["true", "false"]), ("--cleanup", ["true", "false"])] {
        let [one, two] = values;
        let (status, _, said) =
            ended(lab(dir.path()).args([option, one, option, two, "true", "true"]));
        assert_eq!(status, Some(1), "{option}");
        assert!(said.contains(&format!("{option} is one for all commands")), "{said}");
    }
    let (status, _, said) = ended(lab(dir.path()).args(["-n", "", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("a name must not be empty"), "{said}");
}

/// The labels of the contenders in the order of the table, or the message of the refusal.
fn labels(words: &[&str]) -> Result<Vec<String>, String> {
    let dir = TempDir::new().unwrap();
    let json = dir.path().join("all.json");
    let mut command = lab(dir.path());
    command.args(["-r", "1", "-w", "0", "--no-compare", "--export-json"]).arg(&json).args(words);
    let (status, _, said) = ended(&mut command);
    if status != Some(0) {
        return Err(said);
    }
    let all: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let results = all["results"].as_array().unwrap();
    Ok(results.iter().map(|one| one["command"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn a_name_is_one_for_each_command_and_has_the_values() {
    let two = ["true a{x}", "true b{x}"];
    let named = |names: &[&str], commands: &[&str]| {
        let names = names.iter().flat_map(|name| ["-n", name]);
        let words = ["-L", "x", "1,2"].into_iter().chain(names).chain(commands.iter().copied());
        labels(&words.collect::<Vec<_>>())
    };
    assert_eq!(named(&["v{x}", "w{x}"], &two).unwrap(), ["v1", "v2", "w1", "w2"]);
    assert_eq!(named(&["v{x}"], &two[..1]).unwrap(), ["v1", "v2"]);
    assert_eq!(named(&["v{x}"], &two).unwrap(), ["v1", "v2", "v1 (2)", "v2 (2)"], "one for all");
    let prepared = ["-p", "true", "true {x}"];
    assert_eq!(named(&["v"], &prepared).unwrap(), ["v, x=1", "v, x=2"]);
    assert_eq!(labels(&["-n", "v", "true", "false"][..3]).unwrap(), ["v"]);
    assert_eq!(labels(&["-n", "v", "true 1", "true 2"]).unwrap(), ["v", "true 2"]);
    for (reference, own) in [("true r", &["r"][..]), ("true r{x}", &["r, x=1", "r, x=2"])] {
        let with_reference = ["-L", "x", "1,2", "--reference", reference, "--reference-name", "r"];
        let named = [&with_reference[..], &["-n", "n{x}", "true {x}"]].concat();
        let expected = [own, &["n1", "n2"]].concat();
        assert_eq!(labels(&named).unwrap(), expected, "the reference has its own");
    }
    // Hyperfine's names of all commands with all values would be those of others here.
    for names in [&["a", "b", "c"][..], &["a1", "b1", "a2", "b2"]] {
        let said = named(names, &two).unwrap_err();
        let count = names.len();
        let why =
            format!("{count} names for 2 command(s): give one --name for each, in which {{NAME}}");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn an_output_is_one_for_all_or_one_for_each_command() {
    let dir = TempDir::new().unwrap();
    let log_kind = |who: &str| format!("sh -c 'echo {who} $(readlink /proc/$$/fd/1) >>kinds'");
    let kinds = |words: &[&str]| {
        let _ = fs::remove_file(dir.path().join("kinds"));
        let mut command = lab(dir.path());
        command.current_dir(dir.path()).args(["-r", "1", "-w", "0", "--no-compare"]).args(words);
        let (status, _, said) = ended(&mut command);
        assert_eq!(status, Some(0), "{said}");
        let mut kinds: Vec<String> =
            (fs::read_to_string(dir.path().join("kinds")).unwrap().lines())
                .map(|line| line.split('[').next().unwrap().to_owned())
                .collect();
        kinds.sort();
        kinds
    };
    let printed = dir.path().join("printed");
    let path = printed.to_str().unwrap();
    let own = ["--output", "pipe", "--output", "null", "--output", path];
    let [a, b, c, r] = ["a", "b", "c", "r"].map(log_kind);
    let words = [&own[..], &[&a, &b, &c]].concat();
    assert_eq!(kinds(&words), ["a pipe:", "b /dev/null", &format!("c {path}")]);
    let reference = [&own[..4], &["--reference", &r, &a]].concat();
    assert_eq!(kinds(&reference), ["a /dev/null", "r pipe:"]);
    for (words, why) in [
        (
            &["true", "true", "true"][..],
            "--output is given 2 times for 3 command(s): give it once for all, or once for each",
        ),
        (
            &["true"],
            "--output is given 2 times for 1 command(s): give it once for all, or once for each",
        ),
        (
            &["-L", "x", "1,2,3", "true {x}"],
            "--output is given 2 times for 1 command(s): give it once for all, or once for each",
        ),
    ] {
        let mut command = lab(dir.path());
        let (status, _, said) = ended(command.args(&own[..4]).args(words));
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn an_output_that_goes_elsewhere_is_named_as_not_compared() {
    let dir = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let mut command = lab(dir.path());
        ended(command.args(["-r", "1", "-w", "0", "-n", "a", "-n", "b"]).args(words))
    };
    let (status, out, said) = run(&["--output", "check", "--output", "pipe", "echo 1", "echo 2"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("Every output but that of b was compared: 2 bytes"), "{out}");
    let (status, _, said) = run(&["--output", "check", "echo 1", "echo 2"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("b: wrong output: it differs from that of a"), "{said}");
}

#[test]
fn a_preparation_is_one_for_each_command_and_knows_the_values() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let say = |what: &str| format!("sh -c 'echo {what} >>{}'", log.display());
    let (one, two) = (say("one {x}"), say("two {x}{y}"));
    let words = ["-r", "1", "-w", "0", "--no-compare", "-L", "x", "1,2", "-L", "y", "a", "-p"];
    let mut command = lab(dir.path());
    command.args(words).args([&one, "-p", &two, &say("run {x}"), &say("last {x}")]);
    let (status, _, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    let text = fs::read_to_string(&log).unwrap();
    let mut pairs: Vec<_> = text.lines().collect::<Vec<_>>().chunks(2).map(<[_]>::concat).collect();
    pairs.sort();
    assert_eq!(pairs, ["one 1run 1", "one 2run 2", "two 1alast 1", "two 2alast 2"]);
}

#[test]
fn a_command_knows_the_number_of_its_run() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let log_kind = format!("echo \"$HYPERFINE_ITERATION\" >>{}", log.display());
    let run = |words: &[&str]| {
        let _ = fs::remove_file(&log);
        let (status, _, said) = ended(lab(dir.path()).args(words).arg(&log_kind));
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

#[test]
fn options_of_hyperfine_mean_the_same() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (markdown, printed) = (path("md"), path("printed"));
    let written = ["--export-markdown", &markdown, "-u", "s"];
    let conclude = format!("echo x >>{}", path("concluded"));
    let (csv, sorted) = (path("csv"), ["--sort", "mean-time"]);
    let others = ["-C", &conclude, "-r", "2", "-w", "0", "--export-csv", &csv];
    let commands = ["--no-compare", "--output", &printed, "sleep 0.5", "echo hello"];
    let (status, out, said) =
        ended(lab(dir.path()).args(written).args(sorted).args(others).args(commands));
    assert_eq!(status, Some(0), "{said}");
    let csv = fs::read_to_string(csv).unwrap();
    let rows = csv.lines().skip(1).map(|row| row.split(',').collect::<Vec<&str>>());
    let rows: Vec<(&str, f64)> = rows.map(|row| (row[0], row[1].parse().unwrap())).collect();
    let [(fast, least), (slow, most)] = rows[..] else { panic!("{csv}") };
    assert!(least <= most, "{csv}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with(fast) && lines[2].starts_with(slow), "{out}");
    assert!(lines[1..3].iter().all(|line| line.contains(" s  ") && !line.contains(" ms")), "{out}");
    let markdown = fs::read_to_string(markdown).unwrap();
    let place = |of: &str| markdown.find(of).unwrap_or_else(|| panic!("{of}: {markdown}"));
    let [first, second] = [fast, slow].map(|name| place(&format!("| `{name}` | ")));
    assert!(first < second && markdown.contains(" |\n\nIn brackets: "), "{markdown}");
    assert!(!markdown.contains(" ms"), "{markdown}");
    let text = fs::read_to_string(printed).unwrap();
    assert!(["", "hello\n"].contains(&text.as_str()), "of the last run alone: {text}");
    assert_eq!(fs::read_to_string(path("concluded")).unwrap(), "x\n".repeat(4));
}

#[test]
fn an_input_or_output_with_another_name_here_is_reported() {
    let dir = TempDir::new().unwrap();
    let refusal = |words: &[&str]| {
        let (status, out, said) = ended(lab(dir.path()).args(words).arg("true"));
        assert_eq!((status, out.as_str()), (Some(1), ""), "{said}");
        said
    };
    assert!(refusal(&["--input", "null"]).contains("without --input the commands read /dev/null"));
    assert!(refusal(&["--input", "./file"]).contains("say --stdin"));
    assert!(refusal(&["--output", "nul"]).contains("./nul is a file"));
}

#[test]
fn each_command_and_what_runs_around_it_has_its_environment() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let say = format!("echo \"$A$B\" >>{}", log.display());
    let run = |words: &[&str]| {
        let _ = fs::remove_file(&log);
        let once = ["-r", "1", "-w", "0", "--no-compare"];
        let (status, out, said) = ended(lab(dir.path()).args(once).args(words));
        (status, out, said, fs::read_to_string(&log).unwrap_or_default())
    };
    let (status, out, said, text) =
        run(&["--env", "A=1 B='2 3'", "--env", "", "-p", &say, &say, &say]);
    assert_eq!(status, Some(0), "{said}");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["", "", "12 3", "12 3"]);
    assert!(out.contains("A=1 B='2 3' echo "), "its name has the environment: {out}");
    let (status, _, said, text) =
        run(&["--env", "A={n}{dir}", "-L", "n", "7,8", "-s", "true", &say]);
    assert_eq!(status, Some(0), "{said}");
    let values: BTreeSet<char> = text.lines().filter_map(|line| line.chars().next()).collect();
    assert!(values == BTreeSet::from(['7', '8']) && !text.contains("{dir}"), "{text}");
    for (env, why) in [("A", "--env 'A': write NAME=VALUE"), ("A={x}", "{x} has no value")] {
        let (status, _, said, _) = run(&["--env", env, &say]);
        assert!(status == Some(1) && said.contains(why), "{said}");
    }
}

#[test]
fn counters_are_columns_and_fields_or_refused() {
    let dir = TempDir::new().unwrap();
    let (csv, json) = (dir.path().join("csv"), dir.path().join("json"));
    let mut command = lab(dir.path());
    command.args(["-r", "2", "-w", "0", "--counters", "--export-csv"]).arg(&csv);
    let (status, out, said) = ended(command.arg("--export-json").arg(&json).arg("sleep 0.01"));
    if status == Some(1) {
        assert!(said.contains("--counters: cannot count cycles: ") && out.is_empty(), "{said}");
        return not_applicable("the processor has no counters, or nobody may read them");
    }
    assert!(out.contains("  cycles  instructions  cache misses"), "{out}");
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",cpu_cycles,instructions,cache_misses"));
    let json: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let counts = json["results"][0]["instructions"].as_array().unwrap();
    assert!(counts.len() == 2 && counts.iter().all(|count| count.as_f64().unwrap() > 10_000.0));
}
