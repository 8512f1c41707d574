//! `gush lab run`: any commands side by side.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use crate::common::{gush, not_applicable, skipped};
use serde_json::Value;
use tempfile::TempDir;

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

#[test]
fn contenders_are_measured_compared_and_stored() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("lab.jsonl");
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
    assert_eq!(names(dir.path()), ["lab.jsonl"], "files are left behind");

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
    let rows = |name: &str| out.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!([rows("sleep 0.01,"), rows("second,"), rows("third,")], [2, 2, 2], "{out}");
    let json = dir.path().join("all.json");
    let mut command = lab(dir.path());
    command.args(["-r", "5", "-w", "0", "--reference", "sleep 0.02", "true", "--export-json"]);
    assert_eq!(ended(command.arg(&json)).0, Some(0));
    let all: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(all["results"][0]["command"], "sleep 0.02");
    assert_eq!(all["results"][1]["command"], "true");
}

#[test]
fn a_missing_first_contender_is_told_and_its_successor_named() {
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
        said.contains("no-such-program-at-all is absent: true is the measure of the others"),
        "{said}"
    );
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

#[test]
fn a_contender_that_fails_is_out_unless_told_otherwise() {
    let dir = TempDir::new().unwrap();
    let commands = ["true", "sh -c 'echo because >&2; exit 7'", "no-such-program-at-all"];
    let (status, out, said) = ended(lab(dir.path()).args(["-r", "1", "-N"]).args(commands));
    assert_eq!(status, Some(1));
    assert!(said.contains(": ended with status 7: because\n"), "{said}");
    assert!(said.contains("no-such-program-at-all: is not installed: left out"), "{said}");
    assert!(out.contains("\ntrue ") && !out.contains("exit 7"), "{out}");
    let ignoring = ["-r", "2", "-i", "--export-json", "-", "false", "sh -c 'kill -9 $$'"];
    let (status, out, said) = ended(lab(dir.path()).args(ignoring));
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["results"][0]["exit_codes"], serde_json::json!([1, 1]));
    assert_eq!(json["results"][1]["exit_codes"], serde_json::json!([137, 137]));
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
        // One run of three is wrong, each in its turn: comparing only the first or the last would not do.
        let once = format!("if [ $((n % 3)) = {} ]; then echo x; else cat {{in}}; fi", wrong % 3);
        let (status, out, said) = run(&counting(&counter, &format!("{{ {once}; }} >{{out}}")));
        assert_eq!(status, Some(1), "run {wrong} of 3 is wrong: {said}");
        assert!(said.contains("wrong output: it differs from that of cp {in} {out}"), "{said}");
        assert!(!out.contains(" as fast as cp"), "{out}");
    }
}

#[test]
fn a_failure_of_any_run_of_a_repeat_is_told() {
    let dir = TempDir::new().unwrap();
    let row = |then: &str| {
        let counter = TempDir::new().unwrap();
        let command = counting(&counter.path().join("n"), then);
        let mut lab = lab(dir.path());
        lab.args(["-r", "1", "-w", "0", "-i", "--repeat", "3", "--csv", "-n", "it"]);
        let (status, out, said) = ended(lab.arg(command));
        assert_eq!(status, Some(0), "{said}");
        let rows: Vec<Vec<String>> =
            out.lines().map(|row| row.split(',').map(str::to_owned).collect()).collect();
        let column = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
        [rows[1][column("status")].clone(), rows[1][column("signal")].clone()]
    };
    assert_eq!(row("true"), ["0", ""]);
    assert_eq!(row("[ $n != 1 ] || exit 7"), ["7", ""]);
    assert_eq!(row("[ $n != 2 ] || exit 8"), ["8", ""]);
    assert_eq!(row("[ $n != 3 ] || exit 9"), ["9", ""]);
    assert_eq!(row("[ $n != 2 ] || kill -9 $$"), ["", "9"], "a signal is no exit status");
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
    // What surrounds a command is beside each of its runs.
    for run in lines.windows(3).filter(|three| ["a", "b"].contains(&three[1])) {
        assert_eq!((run[0], run[2]), ("prepare", "conclude"));
    }
    assert_eq!(lines[32..], ["cleanup", "cleanup"]);
    let (status, _, said) = ended(lab(dir.path()).args(["-r", "1", "--setup", "exit 3", "true"]));
    assert_eq!(status, Some(1));
    assert!(said.contains("true: setup 'exit 3' ended with status 3"), "{said}");
}

#[test]
fn parameters_make_a_contender_of_every_choice() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["-r", "1", "-L", "word", "a,b", "-P", "n", "1", "2", "-D", "0.5"]);
    command.args(["echo {word} {n}", "true {word}", "true", "--csv"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    let mut labels: Vec<&str> =
        out.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
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
    assert!(out.contains("\n\"sleeper, s=0\",1,"), "{out}");
}

/// The intervals of the clock are parts of the whole time, and no two of them overlap, nor any of them with a preparation: on
/// whatever machine their sum is no more than the whole.
#[test]
fn the_clock_runs_for_the_command_alone_and_a_sample_is_one_of_its_runs() {
    let dir = TempDir::new().unwrap();
    let seconds_of_one = |words: &[&str]| {
        let begun = Instant::now();
        let (status, out, said) = ended(lab(dir.path()).args(["-w", "0", "--json"]).args(words));
        assert_eq!(status, Some(0), "{said}");
        let run: Value = serde_json::from_str(&out).unwrap();
        let wall_s = run["runs"][0]["samples"][0]["wall_s"].as_f64().unwrap();
        (wall_s, begun.elapsed().as_secs_f64())
    };
    let (wall_s, whole_s) = seconds_of_one(&["-r", "1", "--prepare", "sleep 1.5", "true"]);
    assert!(1.5 + wall_s <= whole_s, "{wall_s} s and the preparation in {whole_s} s");
    let (wall_s, whole_s) = seconds_of_one(&["-r", "1", "--repeat", "5", "sleep 0.3"]);
    assert!(5.0 * wall_s <= whole_s, "five runs of {wall_s} s in {whole_s} s");
}

#[test]
fn a_sample_tells_what_its_command_used() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["-r", "1", "--input", "1M", "--repeat", "3", "--json"]);
    let (status, out, said) = ended(command.args(["cat {in}", "dd if={in} of=/dev/null bs=1M"]));
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let samples = json["runs"][0]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 2);
    for sample in samples {
        assert_eq!(sample["bytes"], 1 << 20);
        assert!(
            sample["wall_s"].as_f64().unwrap() > 0.0 && sample["gib_per_s"].as_f64().unwrap() > 0.0
        );
        let processor_s = sample["user_s"].as_f64().unwrap() + sample["system_s"].as_f64().unwrap();
        assert!(processor_s > 0.0, "the process and its execve take time: {sample}");
        // One program on one processor at a time, and the kernel's rounding.
        let wall_s = sample["wall_s"].as_f64().unwrap();
        assert!(processor_s < 1.5 * wall_s + 0.004, "of one run, not of three: {sample}");
        let facts = &sample["facts"];
        assert!(facts["peak_bytes"].is_u64() || facts["peak_at_most_bytes"].is_u64(), "{facts}");
        assert!(facts["minor_faults"].as_u64().unwrap() > 0);
    }
}

/// A program whose parent has ended is waited for by nobody of the command: its time is counted all the same if it has ended,
/// and told as missing if it goes on.
#[test]
fn programs_that_outlive_their_parent_are_counted_or_told() {
    if !Path::new("/proc/self/task").join(std::process::id().to_string()).join("children").exists()
    {
        return skipped("the kernel has no list of a process's children");
    }
    let dir = TempDir::new().unwrap();
    let busy = "i=0; while test $i -lt 400000; do i=$((i+1)); done";
    // A zombie is the process that has ended and that nobody has waited for.
    let orphan = format!(
        "(sh -c 'echo $$ >{{dir}}/pid; {busy}' &)
         until grep -q '^State:.Z' /proc/$(cat {{dir}}/pid)/status; do sleep 0.1; done"
    );
    let done = dir.path().join("done");
    // Also where this test fails before it writes the file: then the directory goes.
    let here = dir.path().display();
    let server = format!("(while test -d {here} -a ! -e {here}/done; do sleep 0.01; done) &");
    let mut command = lab(dir.path());
    command.args(["-r", "1", "-w", "0", "--json", "-n", "own", "-n", "orphan", "-n", "server"]);
    let (status, out, said) = ended(command.args([busy, &orphan, &server]));
    fs::write(done, "").unwrap();
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let samples = json["runs"][0]["samples"].as_array().unwrap();
    let of = |name| samples.iter().find(|sample| sample["case"] == name).unwrap();
    let user_s = |name| of(name)["user_s"].as_f64().unwrap();
    assert!(user_s("orphan") > 0.5 * user_s("own"), "{out}");
    let left = |name| of(name)["facts"]["left_running"].as_u64();
    assert_eq!(["own", "orphan", "server"].map(left), [None, None, Some(1)], "{out}");
    let told = "commands that ended before programs which they had started, whose processor time and memory are not counted: run server";
    assert!(said.contains(told) && !said.contains("run orphan"), "{said}");
}

#[test]
fn the_largest_memory_of_a_command_is_told() {
    let dir = TempDir::new().unwrap();
    // dd holds one block of 200 MiB.
    let mut command = lab(dir.path());
    command.args(["-r", "1", "--json", "dd if=/dev/zero of=/dev/null bs=200M count=1"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let peak = json["runs"][0]["samples"][0]["facts"]["peak_bytes"].as_u64();
    assert!(peak.is_some_and(|bytes| (200 << 20..260 << 20).contains(&bytes)), "{peak:?}");
}

#[test]
fn system_calls_are_counted_through_pipelines() {
    let dir = TempDir::new().unwrap();
    let mut command = lab(dir.path());
    command.args(["-r", "1", "--count-calls", "--json", "--shell", "sh"]);
    let (status, out, said) =
        ended(command.args(["/bin/true | /bin/true", "/bin/true; /bin/true"]));
    // Tracing is forbidden in some containers.
    if said.contains("cannot be counted") || said.contains("cannot trace") {
        return not_applicable(&said);
    }
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    for sample in json["runs"][0]["samples"].as_array().unwrap() {
        let calls = &sample["facts"]["syscalls"];
        assert_eq!(calls["execve"], 3, "a shell and two programs: {calls}");
    }
}

/// Nobody reads a pipe while calls are counted: it would fill, and timeout(1) would end the command that waits for room.
#[test]
fn system_calls_are_counted_of_a_command_that_prints_more_than_a_pipe_holds() {
    let dir = TempDir::new().unwrap();
    let prints = "timeout 60 head -c 1M /dev/zero";
    for outputs in [&["--output", "pipe"][..], &["--output", "null", "--output", "pipe"]] {
        let mut command = lab(dir.path());
        command.args(["-r", "1", "-w", "0", "--count-calls", "--json"]).args(outputs);
        let (status, out, said) = ended(command.args(["true", prints]));
        if said.contains("cannot be counted") || said.contains("cannot trace") {
            return not_applicable(&said);
        }
        assert_eq!(status, Some(0), "{outputs:?}: {said}");
        let json: Value = serde_json::from_str(&out).unwrap();
        let samples = json["runs"][0]["samples"].as_array().unwrap();
        let of = |name| samples.iter().find(|sample| sample["case"] == name).unwrap();
        assert!(of(prints)["facts"]["syscalls"]["write"].is_u64(), "{outputs:?}: {out}");
    }
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
        let (status, out, said) = run(&["-i", first, second]);
        assert_eq!(status, Some(1), "{first}, {second}: {said}");
        assert!(said.contains(&format!("{second}: ")) && said.contains(why), "{said}");
        assert!(!out.contains(" as fast as "), "{out}");
    }
    let (status, out, said) = run(&["cp {in} {out}", "cat {in}"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.contains("equal to the input"), "{out}");
    let (_, out, _) = run(&["cat {in}", "head -c 10 {in}"]);
    assert!(
        out.contains("not timed, differs: 65536 bytes from cat {in}, 10 bytes from head"),
        "{out}"
    );
    let (_, out, _) = run(&["cat {in}", "cat {in} /dev/null"]);
    assert!(out.contains("not timed: 65536 bytes"), "{out}");
    let (_, out, _) = run(&["--no-compare", "cat {in}", "head -c 10 {in}"]);
    assert!(!out.contains("Standard output"), "{out}");
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
fn a_run_without_a_sample_is_not_kept() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("runs.jsonl");
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
fn inputs_of_one_size_are_told_apart_by_their_content() {
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
    assert!(said.contains("cannot be written: /nowhere/at is no directory"), "{said}");
}

#[test]
fn options_of_hyperfine_mean_the_same() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (adoc, org, printed) = (path("a"), path("o"), path("printed"));
    let written = ["--export-asciidoc", &adoc, "--export-orgmode", &org, "-u", "second"];
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
    let (adoc, org) = (fs::read_to_string(adoc).unwrap(), fs::read_to_string(org).unwrap());
    let place = |text: &str, of: &str| text.find(of).unwrap_or_else(|| panic!("{of}: {text}"));
    let [first, second] = [fast, slow].map(|name| place(&adoc, &format!("|`+{name}+`\n|")));
    assert!(first < second && adoc.contains("|===\n\nIn brackets: "), "{adoc}");
    assert!(!adoc.contains(" ms"), "{adoc}");
    let [first, second] = [fast, slow].map(|name| place(&org, &format!("| ={name}= | ")));
    assert!(first < second && !org.contains(" ms"), "{org}");
    let text = fs::read_to_string(printed).unwrap();
    assert!(["", "hello\n"].contains(&text.as_str()), "of the last run alone: {text}");
    assert_eq!(fs::read_to_string(path("concluded")).unwrap(), "x\n".repeat(4));
}

#[test]
fn the_style_decides_about_progress_and_tables() {
    let dir = TempDir::new().unwrap();
    for (style, progress, table) in [
        ("auto", false, true),
        ("full", true, true),
        ("basic", false, true),
        ("none", false, false),
    ] {
        let (status, out, said) =
            ended(lab(dir.path()).args(["-r", "1", "--style", style, "true"]));
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(said.contains("round 1 of 1: true"), progress, "{style}: {said}");
        assert_eq!(out.contains("contender"), table, "{style}: {out}");
        assert!(table || out.is_empty(), "{out}");
    }
}

#[test]
fn an_option_of_hyperfine_with_another_name_here_is_told() {
    let dir = TempDir::new().unwrap();
    let told = |words: &[&str]| {
        let (status, out, said) = ended(lab(dir.path()).args(words).arg("true"));
        assert_eq!((status, out.as_str()), (Some(1), ""), "{said}");
        said
    };
    assert!(told(&["--min-benchmarking-time", "5"]).contains("--min-runs N"));
    assert!(told(&["--input", "null"]).contains("without --input the commands read /dev/null"));
    assert!(told(&["--input", "./file"]).contains("say --stdin"));
    assert!(told(&["--output", "nul"]).contains("./nul is a file"));
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
        (&["-p", "rm {cache}", "true"], "there are {in}, {out}, {dir}, {gush}"),
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
        (&["echo 'a"], "a quote without its end"),
        (&["--only", "x", "true"], "--only x is for files of comparisons"),
        (&["--set", "x", "true"], "--set x: write NAME=VALUE"),
        (&["--set", "gus=x", "{gush} --version"], "--set gus: no command names {gus}"),
        (
            &["--reference", "true", "-p", "true", "-p", "true", "true"],
            "2 --prepare for 3 command(s)",
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
