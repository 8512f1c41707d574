//! `gush lab run` looks at the outputs of the commands: a wrong answer never wins.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::run::{ended, lab, names};

#[test]
fn a_wrong_answer_never_wins() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["--input", "64K", "-r", "5"]);
    command.args(["cp {in} {out}", "head -c 10 {in} >{out}", "cat {in} >{out}"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(1), "{said}");
    let why = "head -c 10 {in} >{out}: wrong output: it differs from that of cp {in} {out}: 10 bytes instead of 65536";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("sh starts the commands, because one of them needs a shell"), "{said}");
    assert!(!out.contains("head"), "who is out is in no figure: {out}");
    let (status, out, _) = ended(command.arg("--no-compare"));
    assert_eq!(status, Some(0));
    assert!(out.contains("head -c 10") && !out.contains("compared"), "{out}");
}

#[test]
fn the_output_of_commands_is_shown_if_asked_for() {
    let dir = TempDir::new().unwrap();
    let show = |option: &[&str]| {
        let mut command = lab(dir.path());
        command.args(["-r", "1", "-w", "0", "--csv"]).args(option);
        ended(command.arg("printf shown-%s once")).1
    };
    assert!(show(&["--show-output"]).contains("shown-once"));
    assert!(!show(&[]).contains("shown-once"));
}

#[test]
fn the_expected_output_is_held_against_all() {
    let dir = TempDir::new().unwrap();
    let run =
        |words: &[&str]| ended(lab(dir.path()).args(["--input", "4K", "-r", "1"]).args(words));
    let (status, _, said) = run(&["--expect", "{in}", "head -c 10 {in} >{out}", "cp {in} {out}"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("it differs from that of the input: 10 bytes instead of 4096"), "{said}");
    assert!(!said.contains("cp {in} {out}: wrong"), "{said}");
    let (status, out, said) = run(&["--stdin", "--output", "check", "cat", "cat -"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("4096 bytes") && out.contains("equal to the input"), "{out}");
    let (_, _, said) = run(&["--output", "check", "cat {in} /proc/sys/kernel/random/uuid"]);
    assert!(said.contains("its output changes from run to run (--no-compare "), "{said}");
}

#[test]
fn directories_are_inputs_and_outputs_too() {
    let dir = TempDir::new().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "12345").unwrap();
    let mut command = lab(dir.path());
    command.arg("--input").arg(&tree).args(["-r", "2", "cp -r {in} {out}", "cp -a {in} {out}"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("5 bytes") && out.contains("equal to the input"), "{out}");
    assert_eq!(names(dir.path()), ["tree"]);
}

/// A command of a shell that counts the runs in `file`, and then is `then`, with the count in `$n`.
fn counting(file: &Path, then: &str) -> String {
    format!("n=$(($(cat {0} 2>/dev/null || echo 0) + 1)); echo $n >{0}; {then}", file.display())
}

#[test]
fn every_run_of_a_repeat_begins_in_a_fresh_place_and_has_its_output_compared() {
    let dir = TempDir::new().unwrap();
    let counter = TempDir::new().unwrap();
    let counter = counter.path().join("n");
    let log = counter.with_file_name("log");
    let run = |command: &str| {
        let _ = fs::remove_file(&counter);
        let _ = fs::remove_file(&log);
        let mut lab = lab(dir.path());
        lab.args(["-r", "2", "-w", "0", "--repeat", "3", "--input", "4K"]);
        lab.arg("--prepare").arg(format!("echo prepare >>{}", log.display()));
        lab.arg("--conclude").arg(format!("echo conclude >>{}", log.display()));
        ended(lab.args(["cp {in} {out}", command]))
    };
    let (status, _, said) = run("test ! -e {out} && cp {in} {out}");
    assert_eq!(status, Some(0), "an earlier output was there: {said}");
    let log = fs::read_to_string(&log).unwrap();
    let around = ["prepare", "conclude"].map(|what| log.matches(what).count());
    assert_eq!(around, [15, 15], "2 contenders in 2 rounds, and the first one before; 3 runs each");
    for wrong in 1..=3 {
        // One run of three is wrong, each in its turn: comparing only the first or the last would
        // not do.
        let once = format!("if [ $((n % 3)) = {} ]; then echo x; else cat {{in}}; fi", wrong % 3);
        let (status, out, said) = run(&counting(&counter, &format!("{{ {once}; }} >{{out}}")));
        assert_eq!(status, Some(1), "run {wrong} of 3 is wrong: {said}");
        assert!(said.contains("wrong output: it differs from that of cp {in} {out}"), "{said}");
        assert!(!out.contains(" as fast as cp"), "{out}");
    }
}

#[test]
fn a_failure_of_any_run_of_a_repeat_is_reported() {
    let dir = TempDir::new().unwrap();
    let row = |then: &str| {
        let counter = TempDir::new().unwrap();
        let command = counting(&counter.path().join("n"), then);
        let mut lab = lab(dir.path());
        lab.args(["-r", "1", "-w", "0", "-i", "--repeat", "3", "--json", "-n", "it"]);
        let (status, out, said) = ended(lab.arg(command));
        assert_eq!(status, Some(0), "{said}");
        let run: Value = serde_json::from_str(&out).unwrap();
        let facts = &run["runs"][0]["samples"][0]["facts"];
        ["status", "signal"].map(|fact| facts[fact].as_u64())
    };
    assert_eq!(row("true"), [None, None]);
    assert_eq!(row("[ $n != 1 ] || exit 7"), [Some(7), None]);
    assert_eq!(row("[ $n != 2 ] || exit 8"), [Some(8), None]);
    assert_eq!(row("[ $n != 3 ] || exit 9"), [Some(9), None]);
    assert_eq!(row("[ $n != 2 ] || kill -9 $$"), [None, Some(9)], "a signal is no exit status");
}

#[test]
fn an_output_that_never_ends_or_that_nobody_writes_is_out() {
    let dir = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let mut command = lab(dir.path());
        ended(command.args(["--input", "64K", "-r", "2"]).args(words))
    };
    for (command, kind) in
        [("mkfifo {out}", "a FIFO"), ("ln -s /dev/zero {out}", "a symbolic link: nothing")]
    {
        let (status, out, said) = run(&["cp {in} {out}", command]);
        assert_eq!(status, Some(1), "{said}");
        assert!(
            said.contains(&format!("{command}: ")) && said.contains(&format!("is {kind}")),
            "{said}"
        );
        assert!(!out.contains(command), "{out}");
    }
    for (first, second, why) in [
        (
            "cp {in} {out}",
            "true",
            "wrong output: it differs from that of cp {in} {out}: 0 bytes instead of 65536",
        ),
        ("cp {in} {out}", "head -c 10 {in}", "10 bytes instead of 65536"),
        (
            "cat {in}",
            "head -c 9 {in} >{out}",
            "differs from that of cat {in}: 9 bytes instead of 65536",
        ),
    ] {
        let (status, out, said) = run(&["-i", "--output", "check", first, second]);
        assert_eq!(status, Some(1), "{first}, {second}: {said}");
        assert!(said.contains(&format!("{second}: ")) && said.contains(why), "{said}");
        assert!(!out.contains(" as fast as "), "{out}");
    }
    let (status, out, said) = run(&["--output", "check", "cp {in} {out}", "cat {in}"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("equal to the input"), "{out}");
    let (status, _, said) = run(&["--expect", "{in}", "cat {in}"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("--expect needs an output to compare"), "{said}");
}

#[test]
fn a_contender_that_changes_the_input_is_out_by_name() {
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("own");
    for command in ["truncate -s 0 {in}", "touch {in}", "sh -c 'cp {in} {in}2 && mv {in}2 {in}'"] {
        fs::write(&own, "the user's own").unwrap();
        let mut lab = lab(dir.path());
        // Comparing would find the difference too: here the input alone is watched.
        lab.arg("--input").arg(&own).args(["-r", "3", "--no-compare", command, "cat {in}"]);
        let (status, out, said) = ended(&mut lab);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(&format!("{command}: it changed the input")), "{said}");
        assert!(
            said.contains(&format!("cat {{in}}: not measured: {command} changed the input")),
            "{said}"
        );
        assert!(!out.contains(" as fast as "), "{out}");
    }
}

#[test]
fn inputs_of_one_size_differ_by_their_content() {
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("own");
    let identity = |text: Option<&str>| {
        let mut command = lab(dir.path());
        match text {
            Some(text) => {
                fs::write(&own, text).unwrap();
                command.arg("--input").arg(&own);
            }
            None => drop(command.args(["--input", "4"])),
        }
        let (_, out, said) = ended(command.args(["-r", "1", "--json", "cat {in}"]));
        let json: Value = serde_json::from_str(&out).expect(&said);
        json["runs"][0]["cases"][0].to_string()
    };
    let made = identity(None);
    assert_eq!(made, identity(None));
    let one = identity(Some("1234"));
    assert_eq!(one, identity(Some("1234")));
    assert_ne!(one, identity(Some("4321")));
    assert_ne!(one, made);
}
