//! `gush lab run`: any commands side by side.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::gush;

/// `gush lab run` with files in `dir`, and without storing the run.
pub fn lab(dir: &Path) -> Command {
    let mut command = gush();
    // Without --no-store each test would add to the user's own history.
    command.args(["lab", "run", "--no-store", "--dir"]).arg(dir);
    command
}

pub fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The names left in `dir`.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The contender in a row of `--csv` of the first round.
pub fn label(row: &str) -> &str {
    let (_, own) = row.split_once(",run,").expect("a row of the suite");
    own.split(",1,").next().unwrap()
}

#[test]
fn contenders_are_measured_compared_and_stored() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("runs");
    let store = |words: &[&str]| {
        let (status, out, said) = ended(gush().arg("lab").args(words).arg("--db").arg(&db));
        assert_eq!(status, Some(0), "{words:?}: {said}");
        out
    };
    let here = dir.path().to_str().unwrap();
    let run =
        ["run", "--dir", here, "--input", "64K", "-r", "3", "cp {in} {out}", "dd if={in} of={out}"];
    let out = store(&run);
    assert!(out.starts_with("contender "), "{out}");
    assert!(out.contains("\ncp {in} {out} ") && out.contains("\ndd if={in} of={out} "), "{out}");
    assert!(out.contains("3 rounds, too few to be sure of anything"), "{out}");
    assert!(out.contains("Every output was compared: 65536 bytes, blake3 "), "{out}");
    assert!(out.contains("…, equal to the input\n"), "{out}");
    assert_eq!(names(dir.path()), ["runs"], "files are left");

    let shown: Value = serde_json::from_str(&store(&["history", "last", "--json"])).unwrap();
    assert_eq!((&shown["state"], &shown["samples"]), (&"whole".into(), &6.into()));
    let figures = shown["figures"].as_array().unwrap();
    let cases: Vec<&Value> = figures.iter().map(|figure| &figure["case"]).collect();
    assert_eq!(cases, ["cp {in} {out}", "dd if={in} of={out}"], "the first is the measure");
    assert_eq!(
        (&figures[0]["suite"], &figures[0]["baseline"], &figures[1]["baseline"]),
        (&"run".into(), &Value::Null, &"cp {in} {out}".into())
    );
    store(&run);
    let compared: Value =
        serde_json::from_str(&store(&["compare", "last~1", "last", "--json"])).unwrap();
    assert_eq!(compared["cases"].as_array().unwrap().len(), 2, "{compared}");
}

#[test]
fn the_first_contender_is_the_measure_in_whichever_order_a_round_has_them() {
    let dir = TempDir::new().unwrap();
    // Each try would fail half of the time.
    for _ in 0..8 {
        let mut command = lab(dir.path());
        command.args(["--input", "4K", "-r", "1", "-w", "0"]);
        let (status, out, said) = ended(command.args(["cp {in} {out}", "dd of={out} count=0"]));
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("dd of={out} count=0: wrong output"), "{said}");
        assert!(out.contains("\ncp {in} {out} "), "{out}");
    }
}

#[test]
fn the_reference_is_the_measure_and_names_are_those_of_the_commands() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["-r", "2", "-w", "0", "--csv", "--reference", "sleep 0.01"]);
    let (status, out, said) =
        ended(command.args(["-n", "second", "--command-name", "third", "true", "true"]));
    assert_eq!(status, Some(0), "{said}");
    let rows = |name: &str| out.lines().filter(|line| line.contains(name)).count();
    assert_eq!([rows(",sleep 0.01,"), rows(",second,"), rows(",third,")], [2, 2, 2], "{out}");
    let json = dir.path().join("all.json");
    let mut command = lab(dir.path());
    command.args(["-r", "5", "-w", "0", "--reference", "sleep 0.02", "true", "--export-json"]);
    assert_eq!(ended(command.arg(&json)).0, Some(0));
    let all: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(all["results"][0]["command"], "sleep 0.02");
    assert_eq!(all["results"][1]["command"], "true");
}

#[test]
fn a_missing_first_contender_is_reported_and_its_successor_named() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    let (status, out, said) =
        ended(command.args(["-r", "2", "-w", "0", "false", "true", "sleep 0"]));
    assert_eq!(status, Some(1), "{said}");
    assert!(out.contains("false has no time: true is the first here\n"), "{out}");
    let file = dir.path().join("cases.toml");
    let text = r#"
        [[comparison]]
        name = "start"
        runs = 1
        [[comparison.contender]]
        command = "no-such-program-at-all"
        optional = true
        [[comparison.contender]]
        command = "true"
    "#;
    fs::write(&file, text).unwrap();
    let (status, _, said) = ended(lab(dir.path()).arg(&file));
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("no-such-program-at-all is absent: true is the baseline instead"),
        "{said}"
    );
}

#[test]
fn a_contender_that_fails_is_out_unless_failures_are_ignored() {
    let dir = TempDir::new().unwrap();
    let commands = ["true", "sh -c 'echo because >&2; exit 7'", "no-such-program-at-all"];
    let (status, out, said) = ended(lab(dir.path()).args(["-r", "1", "-N"]).args(commands));
    assert_eq!(status, Some(1));
    assert!(said.contains(": ended with status 7: because\n"), "{said}");
    let missing = "no-such-program-at-all: is not installed: left out";
    // A build for tests is one that figures are not to be taken from.
    assert!(said.find(missing).unwrap() < said.find("warning: ").unwrap(), "{said}");
    let (_, _, alone) = ended(lab(dir.path()).arg(commands[2]));
    assert!(alone.contains(missing) && !alone.contains("warning: "), "{alone}");
    assert!(out.contains("\ntrue ") && !out.contains("exit 7"), "{out}");
    let (_, _, said) = ended(lab(dir.path()).args(["-r", "1", "-N", "true", "/"]));
    assert!(said.contains("/: is a directory and no program: left out"), "{said}");
    let ignoring = ["-r", "2", "-i", "--export-json", "-", "false", "sh -c 'kill -9 $$'"];
    let (status, out, said) = ended(lab(dir.path()).args(ignoring));
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["results"][0]["exit_codes"], serde_json::json!([1, 1]));
    assert_eq!(json["results"][1]["exit_codes"], serde_json::json!([137, 137]));
}

/// Neither what an earlier run said, nor what a program said that an earlier run had left.
#[test]
fn a_failure_is_explained_by_the_failed_run_alone() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().display();
    let late = format!(
        "(while test -d {here} -a ! -e {here}/go; do sleep 0.01; done
          echo late >&2; touch {here}/told) &"
    );
    let awaits = format!("touch {here}/go; until test -e {here}/told; do sleep 0.01; done");
    for (first, second) in [("echo early >&2", ":"), (&late, &awaits)] {
        let mut lab = lab(dir.path());
        lab.args(["-r", "2", "-w", "0", "-n", "x"]).arg(format!(
            "if test $HYPERFINE_ITERATION = 0; then {first}\nelse {second}; exit 3; fi"
        ));
        let (status, _, said) = ended(&mut lab);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("x: ended with status 3\n"), "{said}");
    }
}

#[test]
fn an_export_on_standard_output_stands_there_alone() {
    let dir = TempDir::new().unwrap();
    let run =
        |words: &[&str]| ended(lab(dir.path()).args(["-r", "1", "true", "true x"]).args(words));
    let (status, out, said) = run(&["--export-json", "-"]);
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    assert!(said.contains("contender ") && said.contains("too few to be sure"), "{said}");
    let (_, out, _) = run(&["--export-csv", "-"]);
    let columns = out.lines().map(|row| row.matches(',').count()).collect::<Vec<_>>();
    assert!(columns.len() == 3 && columns.iter().all(|&count| count == columns[0]), "{out}");
    let (_, out, _) = run(&["--export-markdown", "-"]);
    let (rows, note) = out.split_once("\n\n").unwrap();
    assert!(rows.lines().count() == 4 && rows.lines().all(|line| line.starts_with('|')), "{out}");
    assert!(note.starts_with("In brackets: ") && note.lines().count() == 1, "{out}");
    let both = "both write to standard output: give one of them a file";
    for words in
        [["--export-json", "-", "--export-csv", "-"], ["--export-csv", "-", "--json", "-i"]]
    {
        let (status, out, said) = run(&words);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{words:?}");
        assert!(said.contains(both), "{said}");
    }
}

#[test]
fn commands_around_run_as_often_as_promised() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let say = |what: &str| format!("echo {what} >>{}", log.display());
    let mut command = lab(dir.path());
    command.args(["-r", "3", "-w", "2", "--setup", &say("setup"), "--prepare", &say("prepare")]);
    command.args(["--conclude", &say("conclude"), "--cleanup", &say("cleanup")]);
    let (status, _, said) = ended(command.args([&say("a"), &say("b")]));
    assert_eq!(status, Some(0), "{said}");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let count = |what| lines.iter().filter(|line| **line == what).count();
    assert_eq!(
        ["setup", "a", "b", "prepare", "conclude", "cleanup"].map(count),
        // Once a contender; each of 5 runs, warm-ups included; and around each of these 10.
        [2, 5, 5, 10, 10, 2]
    );
    assert_eq!(lines.len(), 34);
    // What surrounds a command is next to each of its runs.
    for run in lines.windows(3).filter(|three| ["a", "b"].contains(&three[1])) {
        assert_eq!((run[0], run[2]), ("prepare", "conclude"));
    }
    assert_eq!(lines[32..], ["cleanup", "cleanup"]);
    let (status, _, said) = ended(lab(dir.path()).args(["-r", "1", "--setup", "exit 3", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("true: setup 'exit 3' ended with status 3"), "{said}");
}

#[test]
fn a_program_that_a_hook_installs_is_the_one_that_runs() {
    for option in ["--setup", "--prepare", "--conclude", "--env"] {
        let dir = TempDir::new().unwrap();
        let here = dir.path().display();
        for (place, name) in [("a/tool", "old"), ("new", "new")] {
            let path = dir.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\n: >{here}/ran-{name}-$#\n")).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(dir.path().join("b")).unwrap();
        let usual = format!("{here}/a:{}", std::env::var("PATH").unwrap());
        let path = format!("{here}/b:{usual}");
        let install = format!("cp {here}/new {here}/b/tool");
        let (path, value) = match option {
            "--env" => {
                fs::copy(dir.path().join("new"), dir.path().join("b/tool")).unwrap();
                (&usual, format!("PATH={path}"))
            }
            _ => (&path, install),
        };
        let mut lab = lab(dir.path());
        lab.env("PATH", path).args(["-r", "2", "-w", "0", option, &value, "tool x"]);
        let (status, _, said) = ended(&mut lab);
        assert_eq!(status, Some(0), "{said}");
        assert!(dir.path().join("ran-new-1").exists(), "{option}: {said}");
        // What follows the first run installs it for the second.
        let ran_old = dir.path().join("ran-old-1").exists();
        assert_eq!(ran_old, option == "--conclude", "{option}: {said}");
    }
}

/// Contenders run in turn: what one installs or removes, or its hook, is so for the next.
#[test]
fn a_program_that_another_contender_installs_or_removes_is_looked_for_again() {
    for (command, hook, ran) in [
        ("true", "cp {here}/new {here}/b/tool", "new"),
        ("cp {here}/new {here}/b/tool", "", "new"),
        ("rm -f {here}/b/tool", "", "old"),
    ] {
        let dir = TempDir::new().unwrap();
        let here = dir.path().display().to_string();
        // Both find another one at first.
        let first = if ran == "new" { "ignored" } else { "b/tool" };
        for (place, name) in [("a/tool", "old"), (first, "first"), ("new", "new")] {
            let path = dir.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\n: >{here}/ran-{name}\n")).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir_all(dir.path().join("b")).unwrap();
        let hook = if hook.is_empty() { String::new() } else { format!("conclude = '{hook}'") };
        let cases = format!(
            "[[comparison]]\nname = 'pair'\nabout = 'x'
            [[comparison.contender]]\nname = 'tool'\ncommand = 'tool x'
            [[comparison.contender]]\nname = 'other'\ncommand = '{command}'\n{hook}"
        );
        fs::write(dir.path().join("c.toml"), cases.replace("{here}", &here)).unwrap();
        let path = format!("{here}/b:{here}/a:{}", std::env::var("PATH").unwrap());
        let mut lab = lab(dir.path());
        let (status, _, said) = ended(
            lab.env("PATH", path).current_dir(dir.path()).args(["-r", "3", "-w", "1", "./c.toml"]),
        );
        assert_eq!(status, Some(0), "{said}");
        assert!(dir.path().join(format!("ran-{ran}")).exists(), "{command} {hook}: {said}");
    }
}

/// With O_APPEND, which make(1) sets on its standard output, splice(2) fails.
#[test]
fn flags_that_a_program_sets_on_its_descriptors_are_its_own() {
    let dir = TempDir::new().unwrap();
    let python = "import fcntl,os,sys
seen = [fcntl.fcntl(i, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK) for i in range(3)]
if any(seen): open(sys.argv[1], 'w').write(repr(seen))
for i in range(3): fcntl.fcntl(i, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)";
    fs::write(dir.path().join("flags.py"), python).unwrap();
    let seen = dir.path().join("seen");
    let words = format!("python3 {}/flags.py {}", dir.path().display(), seen.display());
    let (status, _, said) = ended(lab(dir.path()).args(["-r", "2", "-w", "1", &words]));
    assert_eq!(status, Some(0), "{said}");
    assert!(!seen.exists(), "{:?}", fs::read_to_string(seen));
}

#[test]
fn parameters_make_a_contender_of_every_choice() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["-r", "1", "-L", "word", "a,b", "-P", "n", "1", "2", "-D", "0.5"]);
    command.args(["echo {word} {n}", "true {word}", "true", "--csv"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    let mut labels: Vec<&str> = out.lines().skip(1).map(label).collect();
    // Each round has an order by chance.
    labels.sort_unstable();
    let expected = [
        "echo a 1.0",
        "echo a 1.5",
        "echo a 2.0",
        "echo b 1.0",
        "echo b 1.5",
        "echo b 2.0",
        "true",
        "true a",
        "true b",
    ];
    assert_eq!(labels, expected);
    let (_, out, _) = ended(
        lab(dir.path())
            .args(["-r", "1", "-n", "sleeper", "-L", "s", "0,0.0"])
            .args(["sleep {s}", "--csv"]),
    );
    assert!(out.contains(",\"sleeper, s=0\",1,"), "{out}");
}

#[test]
fn a_slower_contender_is_status_2_if_asked_for() {
    let dir = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let mut command = lab(dir.path());
        ended(command.args(["-r", "5", "-w", "0", "--fail-if-slower", "5%"]).args(words))
    };
    // Far apart: on a busy machine too the order is certain.
    let (status, out, said) = run(&["true", "sleep 1"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("sleep 1 is slower than true by more than 5.0 %: it takes "), "{said}");
    assert!(out.contains("true is ") && out.contains(" times as fast as sleep 1 (95 %: "), "{out}");
    let (status, _, said) = run(&["sleep 1", "true"]);
    assert_eq!(status, Some(0), "{said}");
    let witness = dir.path().join("ran");
    let touch = format!("touch {}", witness.display());
    for (words, why) in [
        (&[&touch[..]][..], "needs two contenders"),
        (&[&touch, "true x", "-r", "4"], "needs at least 5 rounds"),
    ] {
        let (status, out, said) = run(words);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{words:?}");
        assert!(said.contains(why), "{said}");
        assert!(!witness.exists(), "refused before anything runs");
    }
    let (status, _, said) = run(&["true", "no-such-program-at-all"]);
    assert_eq!(status, Some(1), "{said}");
}

#[test]
fn a_run_without_a_sample_is_not_kept() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("runs");
    let stored = |words: &[&str]| ended(gush().arg("lab").args(words).arg("--db").arg(&db));
    let (status, _, said) = stored(&["run", "-r", "1", "true"]);
    assert_eq!(status, Some(0), "{said}");
    let (status, _, said) = stored(&["run", "-r", "1", "no-such-program-at-all"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(!said.contains("stored as"), "{said}");
    let (_, out, said) = stored(&["history", "--json"]);
    let runs: Value = serde_json::from_str(&out).expect(&said);
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[test]
fn exports_are_written_for_other_programs() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut command = lab(dir.path());
    command.args(["-r", "2", "echo 'a|b'", "true"]);
    command.arg("--export-markdown").arg(file("t.md")).arg("--export-csv").arg(file("t.csv"));
    let (status, _, said) = ended(command.arg("--export-json").arg(file("t.json")));
    assert_eq!(status, Some(0), "{said}");
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    assert!(read("t.md").contains("\n| `echo 'a\\|b'` | "), "{}", read("t.md"));
    assert!(read("t.csv").starts_with("command,mean,stddev,median,user,system,min,max,"));
    assert!(read("t.csv").contains("\necho 'a|b',0."), "{}", read("t.csv"));
    let json: Value = serde_json::from_str(&read("t.json")).unwrap();
    assert_eq!(json["results"][1]["command"], "true");
    assert_eq!(json["results"][1]["times"].as_array().unwrap().len(), 2);
    let mut command = lab(dir.path());
    let (status, _, said) = ended(command.args(["true", "--export-json", "/nowhere/at/all.json"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("cannot be written: /nowhere/at is not a directory"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let dir = TempDir::new().unwrap();
    let witness = dir.path().join("ran");
    let touch = format!("touch {}", witness.display());
    for (words, why) in [
        (&["cp {in} {out}"][..], "{in} needs --input"),
        (&["--stdin", "true"], "run: --stdin needs --input"),
        (&["--input", "1K", "cp {in} {outt}"], "{outt} has no value; did you mean '{out}'?"),
        (&["--input", "1K", "cat {INPUT}"], "{INPUT} has no value; did you mean '{in}'?"),
        (
            &["--input", "1K", "cp {in} {out}", "cp {im} {out}"],
            "{im} has no value; did you mean '{in}'?",
        ),
        (&["-p", "rm {cache}", "true"], "choose from {in}, {out}, {dir}, {gush}"),
        (&["--expect", "/nowhere/at/all", "true"], "cannot read '/nowhere/at/all': No such file"),
        (
            &["--dir", "/nowhere/at/all", "true"],
            "cannot make files in '/nowhere/at/all': No such file",
        ),
        (&["--input", "1K", "true"], "no command reads the input"),
        (
            &["--input", "/nowhere/at/all", "cat {in}"],
            "cannot use '/nowhere/at/all' as input: No such file",
        ),
        (&["-L", "x", "1,2", "true"], "no command names the parameter {x}"),
        (&["-L", "out", "1,2", "true {out}"], "{out} has a meaning already"),
        (&["-n", "a", "-n", "b", "-n", "c", "true"], "3 names for 2 command(s)"),
        (&["-m", "9", "-M", "3", "true"], "--min-runs 9 is more than --max-runs 3"),
        (&["echo 'a"], "a quote is not closed"),
        (&["--only", "x", "true"], "--only x is for files of comparisons"),
        (&["--set", "x", "true"], "--set x: write NAME=VALUE"),
        (&["--set", "gus=x", "{gush} --version"], "--set gus: no command names {gus}"),
        (
            &["--reference", "true", "-p", "true", "-p", "true", "true"],
            "--prepare is given 2 times for 3 command(s)",
        ),
    ] {
        let (status, _, said) = ended(lab(dir.path()).arg(&touch).args(words));
        assert_eq!(status, Some(1), "{words:?}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(!said.contains("warning"), "{words:?} looked at the machine first: {said}");
        assert!(!witness.exists(), "{words:?} let something run");
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
}
