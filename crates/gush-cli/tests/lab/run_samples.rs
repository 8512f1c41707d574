//! `gush lab run`: what a sample measures of a command, and of the programs that the command
//! starts.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::skipped;
use crate::run::{ended, lab};

/// The intervals of the clock are parts of the whole time, and no two of them overlap, nor any of
/// them with a preparation: on whatever machine their sum is no more than the whole.
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
fn a_sample_has_what_its_command_used() {
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

/// A program whose parent has ended is waited for by nobody of the command: its time is counted all
/// the same if it has ended, and reported as missing if it goes on.
#[test]
fn programs_that_outlive_their_parent_are_counted_or_reported() {
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
    let reported = "commands that ended before programs which they had started, whose processor time and memory are not counted: run server";
    assert!(said.contains(reported) && !said.contains("run orphan"), "{said}");
}

#[test]
fn the_largest_memory_of_a_command_is_reported() {
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

/// getrusage(2) counts the memory that a process used before its execve(2).
#[test]
fn a_large_program_that_starts_the_lab_hides_no_memory_of_a_command() {
    let dir = TempDir::new().unwrap();
    let text = "printf -v large '%*s' 150000000 ''; exec \"$@\"";
    let mut command = Command::new("bash");
    let lab = lab(dir.path());
    command.args(["-c", text, "bash"]).arg(lab.get_program()).args(lab.get_args());
    command.envs(lab.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-r", "1", "--json", "dd if=/dev/zero of=/dev/null bs=50M count=1"]);
    let (status, out, said) = ended(&mut command);
    assert_eq!(status, Some(0), "{said}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let facts = &json["runs"][0]["samples"][0]["facts"];
    assert!(facts["peak_bytes"].is_u64(), "{facts}");
}
