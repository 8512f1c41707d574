//! `gush lab run`: interrupts, signals, and readers that leave.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::not_applicable;
use crate::run::{ended, lab, names};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Waits until `is_so`, for at most a minute.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupt_ends_all_processes_cleans_up_and_leaves_no_file() {
    let dir = TempDir::new().unwrap();
    let (pid_file, cleaned) = (dir.path().join("pid"), dir.path().join("cleaned"));
    // A child of the shell, which nobody kills by killing the shell.
    let endless =
        format!("sleep 100000 & echo $! >{0}.new; mv {0}.new {0}; wait", pid_file.display());
    let mut lab = lab(dir.path());
    lab.args(["--input", "64K", "--cleanup"]).arg(format!("touch {}", cleaned.display()));
    lab.args(["-r", "3", &endless, "cat {in}"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lab = lab.spawn().unwrap();
    wait_until("the command has started", || pid_file.exists());
    kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted: 0 samples were taken"), "{said}");
    assert!(cleaned.exists(), "{said}");
    // Where nobody takes it away, it stays as a zombie.
    wait_until("the shell's child has ended", || !is_alive(&pid_file));
    assert!(names(dir.path()).iter().all(|name| ["pid", "cleaned"].contains(&name.as_str())));
}

#[test]
fn an_interrupt_is_reported_once_and_no_command_is_named_twice() {
    let dir = TempDir::new().unwrap();
    let mut run = lab(dir.path());
    run.args(["--csv", "-r", "100000", "--input", "64K", "cp {in} {out}", "cat {in} > {out}"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Kept open: a reader that leaves is another end.
    let mut rows = BufReader::new(run.stdout.take().unwrap());
    assert_eq!(rows.by_ref().lines().take(3).count(), 3);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(said.matches("interrupted").count(), 1, "{said}");
    let larger = lab(dir.path()).args(["--input", "100000T", "cp {in} {out}"]).output().unwrap();
    let said = String::from_utf8(larger.stderr).unwrap();
    assert!(said.contains("gush: lab: run: cannot make a file of "), "{said}");
}

/// Files of gibibytes, and a command that makes no call at which a tracer could look: none of them
/// holds an interrupt up.
#[test]
fn an_interrupt_ends_what_is_no_measurement() {
    let dir = TempDir::new().unwrap();
    let begun = dir.path().join("begun");
    let waits = format!("touch {}; exec sleep 100000", begun.display());
    let has = |end: &str| {
        let inside = |entry: fs::DirEntry| entry.path().join(end).exists();
        fs::read_dir(dir.path()).unwrap().flatten().any(inside)
    };
    let prepares: &dyn Fn() -> bool = &|| begun.exists();
    let fills: &dyn Fn() -> bool = &|| has("in");
    for (words, is_at_work) in
        [(&["--setup", &waits, "true"][..], prepares), (&["--input", "8G", "cat {in}"], fills)]
    {
        let mut lab = lab(dir.path());
        let mut lab = lab.args(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut ended = None;
        while !is_at_work() && ended.is_none() {
            std::thread::sleep(Duration::from_millis(1));
            ended = lab.try_wait().unwrap();
        }
        // A lab that refuses the input, for want of room, has ended and has no process to
        // interrupt.
        if ended.is_none() {
            kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
        }
        let mut said = String::new();
        lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        if said.contains("leave room for a copy") || said.contains("may not be traced") {
            not_applicable(&said);
            continue;
        }
        assert_eq!(lab.wait().unwrap().code(), Some(130), "{words:?}: {said}");
        assert!(said.contains("interrupted: 0 samples were taken"), "{words:?}: {said}");
    }
    assert!(names(dir.path()).iter().all(|name| name == "begun"), "{:?}", names(dir.path()));
}

#[test]
fn an_interrupt_during_the_cleanup_is_the_status() {
    let dir = TempDir::new().unwrap();
    let [cleaning, interrupted] = ["cleaning", "interrupted"].map(|name| dir.path().join(name));
    let cleanup = format!(
        "touch {}; until test -e {}; do sleep 0.01; done",
        cleaning.display(),
        interrupted.display()
    );
    let mut lab = lab(dir.path());
    lab.args(["-r", "1", "--cleanup", &cleanup, "true"]).stderr(Stdio::piped());
    let mut lab = lab.spawn().unwrap();
    wait_until("the cleanup has started", || cleaning.exists());
    kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
    fs::write(interrupted, "").unwrap();
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted: 1 samples were taken"), "{said}");
}

/// Is the process whose number the file has still there, and no zombie?
pub fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.contains("\nState:") && !status.contains("\nState:\tZ")
}

#[test]
fn no_command_goes_on_after_its_lab_was_killed() {
    // A child of the shell, and not the shell itself, which one signal would reach.
    let endless = "sleep 100000 & echo $! >pid.new; mv pid.new pid; wait";
    // timeout(1) makes a group of its own; and a signal to the whole group is not meant for the
    // guard that leads the group.
    let grouped = format!("exec timeout 100000 sh -c '{endless}'");
    let signalled = format!("trap '' TERM; kill -s TERM 0; {endless}");
    let places: [(&str, &[&str]); 7] = [
        ("the command", &[endless]),
        ("a command with a group of its own", &[&grouped]),
        ("a command that signals its group", &[&signalled]),
        ("--setup", &["--setup", endless, "true"]),
        ("--prepare", &["--prepare", endless, "true"]),
        ("--conclude", &["--conclude", endless, "true"]),
        ("--cleanup", &["-r", "1", "--cleanup", endless, "true"]),
    ];
    for (place, words) in places {
        let dir = TempDir::new().unwrap();
        let pid = dir.path().join("pid");
        let mut killed = lab(dir.path());
        killed.current_dir(dir.path()).args(words).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut killed = killed.spawn().unwrap();
        wait_until(place, || pid.exists() || killed.try_wait().unwrap().is_some());
        killed.kill().unwrap();
        killed.wait().unwrap();
        wait_until(place, || !is_alive(&pid));
        let (status, _, said) = ended(lab(dir.path()).args(["-r", "1", "true"]));
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(names(dir.path()), ["pid"], "{place}: a later run removes the directory");
    }
}

/// The guard's shell takes half a second to start, and the command none to signal its group.
#[test]
fn a_guard_that_is_slow_to_start_outlives_signals_to_its_group() {
    let dir = TempDir::new().unwrap();
    let [pid, script, shell] = ["pid", "script", "sh"].map(|name| dir.path().join(name));
    let signalled =
        "trap '' TERM; kill -s TERM 0; sleep 100000 & echo $! >pid.new; mv pid.new pid; wait";
    fs::write(&script, signalled).unwrap();
    fs::write(&shell, "#!/bin/sh\nsleep 0.5\nexec /bin/sh \"$@\"\n").unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut killed = lab(dir.path());
    killed.current_dir(dir.path()).env("PATH", path).args(["-N", "/bin/sh script"]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command has started", || pid.exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the command has ended", || !is_alive(&pid));
}

/// A shell that never gets to the guard's first line: the command runs without a guard.
#[test]
fn a_guard_that_never_starts_holds_no_command_up() {
    let dir = TempDir::new().unwrap();
    let shell = dir.path().join("sh");
    fs::write(&shell, "#!/bin/sh\nexec sleep 100000\n").unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut unguarded = lab(dir.path());
    unguarded.env("PATH", path).args(["-N", "-r", "1", "touch ran"]).current_dir(dir.path());
    let (status, _, said) = ended(&mut crate::common::bounded(60, &unguarded));
    assert_eq!(status, Some(0), "{said}");
    assert!(dir.path().join("ran").exists());
}

#[test]
fn a_program_left_by_a_setup_stays_where_the_lab_is_killed_later() {
    let dir = TempDir::new().unwrap();
    let [server, begun] = ["server", "begun"].map(|name| dir.path().join(name));
    let setup = "sleep 100000 & echo $! >server";
    let mut killed = lab(dir.path());
    killed.current_dir(dir.path()).args(["--setup", setup, "touch begun; exec sleep 100000"]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command has started", || begun.exists());
    let children = format!("/proc/{0}/task/{0}/children", killed.id());
    let children = fs::read_to_string(children).unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The command, and the process that is to end it: from then on nobody is left to end the
    // setup's program.
    let server_id = fs::read_to_string(&server).unwrap().trim().to_owned();
    let others = children.split_whitespace().filter(|child| *child != server_id);
    for (place, child) in others.enumerate() {
        let pid = dir.path().join(format!("child-{place}"));
        fs::write(&pid, child).unwrap();
        wait_until("the lab's children have ended", || !is_alive(&pid));
    }
    let number: i32 = server_id.parse().unwrap();
    assert!(is_alive(&server), "the setup's program is the user's");
    kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_cleanup_goes_on_after_one_interrupt_and_ends_with_the_second() {
    let endless = "sleep 100000 & echo $! >pid.new; mv pid.new pid; \
                   until test -e go; do sleep 0.01; done; touch goes-on; wait";
    for (command, first) in [("sleep 100000", true), ("true", false)] {
        let dir = TempDir::new().unwrap();
        let [pid, begun, go, goes_on] =
            ["pid", "begun", "go", "goes-on"].map(|name| dir.path().join(name));
        let mut run = lab(dir.path());
        run.current_dir(dir.path()).args(["-r", "1", "-w", "0", "--cleanup", endless]);
        run.arg(format!("touch begun; {command}")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let mut said = BufReader::new(run.stderr.take().unwrap());
        let interrupt = |run: &Child| kill_process(Pid::from_child(run), Signal::INT).unwrap();
        wait_until("the command has started", || begun.exists());
        if first {
            interrupt(&run);
        }
        wait_until("the cleanup has started", || pid.exists());
        if !first {
            interrupt(&run);
        }
        let mut line = String::new();
        while !line.contains("cleanup") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "{command}: not a word");
        }
        assert!(line.contains("interrupted") && line.contains("again ends it at once"), "{line}");
        // Told to only now, so that the cleanup shows to have outlived the message.
        fs::write(&go, "").unwrap();
        wait_until("the cleanup has gone on", || goes_on.exists());
        assert!(is_alive(&pid), "the first one leaves the cleanup alone");
        interrupt(&run);
        assert_eq!(run.wait().unwrap().signal(), Some(2), "{command}");
        wait_until("the cleanup has ended", || !is_alive(&pid));
    }
}

#[test]
fn no_program_outlives_an_interrupt_in_a_session_of_its_own() {
    let sleeper = "echo $$ >pid.new; mv pid.new pid; exec sleep 100000";
    let awaited = format!("setsid -w sh -c '{sleeper}'");
    let daemon = format!("(setsid sh -c '{sleeper}' &); sleep 100000");
    let left = "setsid sh -c 'echo $$ >left.new; mv left.new left; exec sleep 100000' &";
    for endless in [awaited, daemon] {
        let dir = TempDir::new().unwrap();
        let [sleeper, server] = ["pid", "left"].map(|name| dir.path().join(name));
        let mut lab = lab(dir.path());
        lab.current_dir(dir.path()).args(["-r", "3", "-w", "0", "--setup", left]);
        lab.args([
            "--cleanup",
            "test -d /proc/$(cat left) && touch seen; kill $(cat left)",
            &endless,
        ]);
        let mut lab = lab.stderr(Stdio::piped()).spawn().unwrap();
        wait_until("both have started", || sleeper.exists() && server.exists());
        kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
        let mut said = String::new();
        lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
        assert!(!is_alive(&sleeper), "{endless}: {said}");
        assert!(dir.path().join("seen").exists(), "the setup's is ended by the cleanup alone");
        wait_until("the setup's program has ended", || !is_alive(&server));
    }
}

#[test]
fn a_signal_that_the_parent_ignores_ends_no_run() {
    let dir = TempDir::new().unwrap();
    let begun = dir.path().join("begun");
    let text = "trap '' HUP; \"$1\" lab run --no-store --dir \"$2\" -r 2 -w 0 --csv \"touch '$3'; sleep 0.3\" & pid=$!
        until test -e \"$3\"; do sleep 0.01; done; kill -HUP $pid; wait $pid";
    let mut shell = Command::new("bash");
    shell.args(["-c", text, "bash", env!("CARGO_BIN_EXE_gush")]).arg(dir.path()).arg(&begun);
    let (status, out, said) = ended(&mut shell);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(out.lines().count(), 3, "a heading and two rounds: {out}");
}

#[test]
fn a_reader_that_leaves_ends_the_run_and_leaves_no_file() {
    let dir = TempDir::new().unwrap();
    let mut lab = lab(dir.path());
    lab.args(["--input", "64K", "-r", "1000000", "--csv", "cat {in}", "cat {in} {in}"]);
    let mut lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("run,started,"));
    assert!(lines.next().unwrap().unwrap().contains(",run,cat {in}"));
    drop(lines);
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("write error: Broken pipe"), "{said}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}
