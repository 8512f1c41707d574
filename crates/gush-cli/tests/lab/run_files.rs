//! `gush lab run FILE`: comparisons written down in a file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{ended, lab, names};
use gush_lab::bench::Comparison;
use tempfile::TempDir;

#[test]
fn a_file_of_comparisons_that_is_missing_is_named_as_one() {
    let dir = TempDir::new().unwrap();
    let (status, _, said) = ended(lab(dir.path()).current_dir(dir.path()).arg("nope.toml"));
    assert_eq!(status, Some(1));
    assert!(said.contains("cannot read nope.toml: No such file or directory"), "{said}");
    let elsewhere = dir.path().join("nosuch/nope.toml").display().to_string();
    let (status, _, said) = ended(lab(dir.path()).arg(&elsewhere));
    assert_eq!(status, Some(1));
    let only = format!("gush: lab: run: cannot read {elsewhere}: No such file or directory\n");
    assert_eq!(said, only);
    // A word with characters of the shell is a command, for which the shell looks.
    fs::write(dir.path().join("in.toml"), "").unwrap();
    let command = format!("cat<{}", dir.path().join("in.toml").display());
    let (status, _, said) = ended(lab(dir.path()).args(["-r", "2", &command]));
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_missing_program_is_named_once() {
    let dir = TempDir::new().unwrap();
    for program in ["./nosuch", "no-such-program-at-all"] {
        let (status, _, said) = ended(lab(dir.path()).args(["-r", "2", program]));
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(said.matches(program).count(), 1, "{said}");
    }
}

#[test]
fn a_file_of_comparisons_is_run_in_one_go() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("cases.toml");
    let text = r#"
        [variables]
        tool = "no-such-program-at-all"

        [[comparison]]
        name = "copy"
        about = "a file of 64 KiB"
        input = "64K"
        runs = 2
        [[comparison.contender]]
        name = "cp"
        command = "cp {in} {out}"
        [[comparison.contender]]
        name = "dd"
        command = "dd if={in} of={out}"
        [[comparison.contender]]
        name = "tool"
        command = "{tool} {in} {out}"
        optional = true
        [[comparison.aim]]
        contender = "dd"
        rivals = ["cp", "tool"]
        times = 0.000001

        [[comparison]]
        name = "read"
        input = "4K"
        runs = 1
        [[comparison.contender]]
        command = "cat {in} | {tool} -c"
        needs = ["{tool}"]
        optional = true
        [[comparison.contender]]
        command = "wc -c <{in}"
    "#;
    fs::write(&file, text).unwrap();
    let run = |words: &[&str]| ended(lab(dir.path()).arg(&file).args(words));
    let (status, out, said) = run(&[]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("tool: no-such-program-at-all is not installed: left out"), "{said}");
    assert!(out.contains("copy: a file of 64 KiB\ncontender") && out.contains("\nread\n"), "{out}");
    assert!(out.contains("aim: dd at least 0.000001 times as fast as cp: "), "{out}");
    assert!(out.contains(", reached\n") && out.contains("\nwc -c <{in} "), "{out}");
    let (_, out, _) = run(&["--only", "read", "--set", "tool=wc", "--csv", "-r", "2"]);
    assert_eq!(
        out.lines().filter(|line| line.contains(",cat {in} | {tool} -c,")).count(),
        2,
        "{out}"
    );
    let (status, _, said) = run(&["--only", "read", "--set", "tool=target/no-such"]);
    assert_eq!(status, Some(0), "another contender was measured: {said}");
    assert!(said.contains("target/no-such does not exist: left out"), "{said}");
    let text = text.replace(
        "command = \"wc -c <{in}\"",
        "command = \"{tool}\"\nneeds = [\"{tool}\"]\noptional = true",
    );
    let without = dir.path().join("without.toml");
    fs::write(&without, text).unwrap();
    let (status, _, said) = ended(lab(dir.path()).arg(&without).args(["--only", "read"]));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("nothing was measured: every contender lacks a program"), "{said}");
    assert!(!said.contains("warning: "), "{said}");
    fs::remove_file(without).unwrap();
    let (status, _, said) = run(&["--only", "nope"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("unknown comparison 'nope'; choose from copy, read"), "{said}");
    let (status, _, said) = run(&["--set", "tol=wc"]);
    assert!(status == Some(1) && said.contains("--set tol: no command names {tol}"), "{said}");
    let (_, _, said) = run(&["--only", "raed"]);
    assert!(said.contains("unknown comparison 'raed'; did you mean 'read'?"), "{said}");
    assert_eq!(names(dir.path()), ["cases.toml"]);
}

#[test]
fn options_replace_what_a_file_says() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("cases.toml");
    let text = "[[comparison]]\nname = 'it'\nruns = 1\nwarmup = 0\nprepare = 'echo file >>log'\n\
                parameters.x = ['1', '2']\n[[comparison.contender]]\ncommand = 'echo {x} >>log'\n\
                prepare = 'echo own >>log'\n[[comparison.contender]]\ncommand = 'echo b >>log'\n";
    fs::write(&file, text).unwrap();
    let log = |words: &[&str]| {
        let _ = fs::remove_file(dir.path().join("log"));
        let mut command = lab(dir.path());
        let command = command.current_dir(dir.path()).arg("--no-compare").arg(&file).args(words);
        let (status, _, said) = ended(command);
        assert_eq!(status, Some(0), "{said}");
        let text = fs::read_to_string(dir.path().join("log")).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(log(&[]), "1 2 b file own own");
    assert_eq!(log(&["-p", "echo p >>log"]), "1 2 b p p p", "a contender's own, too");
    assert_eq!(log(&["-p", "echo p >>log", "-p", "echo q >>log"]), "1 2 b p p q");
    assert_eq!(log(&["-L", "x", "7", "-r", "2"]), "7 7 b b file file own own");
    assert_eq!(log(&["--reference", "echo r >>log", "-p", "true"]), "1 2 b r");
}

#[test]
fn a_contender_of_a_file_has_an_output_of_its_own() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("cases.toml");
    let run = |own: &str| {
        let text = format!(
            "[[comparison]]\nname = 'echo'\noutput = 'pipe'\nruns = 1\n\
             [[comparison.contender]]\ncommand = 'echo one'\n{own}\
             [[comparison.contender]]\ncommand = 'echo two'\n"
        );
        fs::write(&file, text).unwrap();
        ended(lab(dir.path()).arg(&file))
    };
    let (status, _, said) = run("");
    assert_eq!(status, Some(0), "nobody looks at what is dropped: {said}");
    let (status, out, said) = run("output = 'check'\n");
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("Every output but that of echo two was compared"), "{out}");
    let (status, _, said) = run("output = 'chek'\n");
    assert_eq!(status, Some(1), "{said}");
    let why = "'chek' is none of null, pipe, check and inherit (./chek is a file)";
    assert!(said.contains("cases.toml cannot be understood: ") && said.contains(why), "{said}");
}

#[test]
fn the_case_files_of_bench_contradict_nothing() {
    let mut files = 0;
    for entry in fs::read_dir(bench()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&path).unwrap();
        let all = Comparison::read("bench", &text);
        for comparison in all.unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
            let name = comparison.name.clone();
            let checked = comparison.check();
            checked.unwrap_or_else(|error| panic!("{}: {name}: {error}", path.display()));
        }
    }
    assert!(files >= 9, "{files}");
}

fn bench() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
}

#[test]
fn the_case_files_of_bench_work() {
    let bench = bench();
    let dir = TempDir::new().unwrap();
    for (name, only) in [
        ("cat.toml", "pair,three,counted"),
        ("copy.toml", "cached,small,pipe,threads"),
        ("pv.toml", "file,to-file"),
        ("hash.toml", "stored"),
        ("tee.toml", "file"),
    ] {
        for part in only.split(',') {
            let mut command = lab(dir.path());
            command.arg(bench.join(name)).args(["--only", part, "-r", "1", "-w", "1"]);
            let (status, out, said) = ended(command.args(["--repeat", "1", "--input", "64K"]));
            assert_eq!(status, Some(0), "{name}, {part}: {said}");
            assert!(out.contains("\ngush"), "{name}, {part}: {out}");
        }
    }
    let start = ["--only", "start", "-r", "1", "--repeat", "1"];
    let (status, out, said) = ended(lab(dir.path()).arg(bench.join("cat.toml")).args(start));
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("\nGNU ") && out.contains("\ngush "), "{out}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}
