//! `gush pv --pipeline`: pipelines that already run, and which stage holds them up.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::common::link::eventually;
use crate::common::shell::said;
use crate::common::{copied_gush, gush, nobody, skipped};

/// A shell's pipeline, in a process group of its own.
struct Pipeline(Child);

impl Pipeline {
    fn start(line: &str) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }

    /// Starts it, and waits until it is found.
    fn found(line: &str) -> Self {
        let pipeline = Self::start(line);
        eventually("the pipeline", || {
            pv(&["--pipeline", &pipeline.pid(), "--once"]).output().unwrap().status.success()
        });
        pipeline
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // A stopped stage, too.
        let _ = kill_process_group(self.group(), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn pv(words: &[&str]) -> Command {
    let mut command = gush();
    command.arg("pv").args(words);
    command
}

/// One look at the pipeline of the process, or of the group `-PGID`.
fn look(target: &str) -> Value {
    let output = pv(&["--pipeline", target, "--once", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Looks until the verdict is certain, and returns that look.
fn certain(target: &str) -> Value {
    let mut last = Value::Null;
    eventually("a certain verdict", || {
        last = look(target);
        last["verdict"]["certain"] == true
    });
    last
}

/// The first words of the stages' commands.
fn commands(look: &Value) -> Vec<String> {
    let stages = look["stages"].as_array().unwrap().iter();
    let command = |stage: &Value| stage["command"].as_str().unwrap().to_owned();
    stages.map(|stage| command(stage).split(' ').next().unwrap().to_owned()).collect()
}

/// The command of the stage that holds the others up, and what it does.
fn holder(look: &Value) -> (String, String) {
    let pid = &look["verdict"]["pid"];
    let stages = look["stages"].as_array().unwrap();
    let stage = stages.iter().find(|stage| &stage["pid"] == pid).unwrap();
    let command = stage["command"].as_str().unwrap().to_owned();
    (command, look["verdict"]["what"].as_str().unwrap().to_owned())
}

#[test]
fn the_stages_are_found_from_the_shell_and_from_each_stage() {
    let pipeline = Pipeline::found("cat /dev/zero | tr a b | sleep 1000; :");
    eventually("three stages", || commands(&look(&pipeline.pid())) == ["cat", "tr", "sleep"]);
    let whole = look(&pipeline.pid());
    for stage in whole["stages"].as_array().unwrap() {
        let found = look(&stage["pid"].to_string());
        assert_eq!(commands(&found), ["cat", "tr", "sleep"]);
    }
    assert_eq!(commands(&look(&format!("-{}", pipeline.pid()))), ["cat", "tr", "sleep"]);
    let edges = whole["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 2);
    for edge in edges {
        assert_eq!(edge["capacity_bytes"], 65536);
    }
}

#[test]
fn the_stage_that_holds_the_others_up_is_named_with_what_it_does() {
    for (line, command, does) in [
        ("cat /dev/zero | tr a b | sleep 1000; :", "sleep 1000", "sleeps"),
        ("sleep 1000 | tr a b | cat; :", "sleep 1000", "sleeps"),
        ("cat /dev/zero | (kill -STOP $BASHPID; exec tr a b) | cat; :", "", "is stopped"),
    ] {
        let pipeline = Pipeline::found(line);
        eventually(line, || {
            let (found, what) = holder(&certain(&pipeline.pid()));
            found.contains(command) && what.ends_with(does)
        });
    }
}

#[test]
fn branches_have_edges_of_their_own() {
    let pipeline = Pipeline::found("cat /dev/zero | tee >(sleep 1000) | cat; :");
    eventually("the branch that is full", || {
        let look = look(&pipeline.pid());
        let edges = look["edges"].as_array().unwrap();
        commands(&look).len() == 4
            && edges.len() == 3
            && look["verdict"]["certain"] == true
            && holder(&look).0 == "sleep 1000"
    });
}

#[test]
fn bytes_that_are_spliced_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let zeros = dir.path().join("zeros");
    std::fs::File::create(&zeros).unwrap().set_len(1 << 40).unwrap();
    let gush = format!("'{}'", gush().get_program().display());
    let zeros = zeros.display();
    let pipeline = Pipeline::found(&format!(
        "{gush} cat '{zeros}' | {gush} pv -q -L 10M | {gush} cat >/dev/null; :"
    ));
    eventually("the rate of each stage", || {
        let look = look(&pipeline.pid());
        let stages = look["stages"].as_array().unwrap();
        let is_shown = |stage: &Value| stage["rate_in"].as_f64().is_some_and(|rate| rate > 1e6);
        stages.len() == 3 && stages.iter().all(is_shown)
    });
}

#[test]
fn a_watched_writer_still_dies_of_sigpipe_and_a_watched_reader_still_sees_the_end() {
    let line = "yes | sleep 1000 | cat; exit $((${PIPESTATUS[0]} - 100))";
    let mut pipeline = Pipeline::found(line);
    let found = look(&pipeline.pid());
    let reader = found["stages"][1]["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    let mut watching = pv(&["--pipeline", &pipeline.pid(), "-n", "-i", "0.1"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    watching.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
    kill_process(reader.unwrap(), Signal::KILL).unwrap();
    // A shell reports the end by SIGPIPE as 128 + 13.
    assert_eq!(pipeline.0.wait().unwrap().code(), Some(41));
    assert!(watching.wait().unwrap().success());
}

#[test]
fn a_look_ends_with_the_pipeline() {
    let pipeline = Pipeline::found("sleep 1000 | cat; :");
    let mut watching = pv(&["--pipeline", &pipeline.pid(), "--json", "-i", "0.1"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    watching.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(pipeline);
    let mut rest = String::new();
    watching.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert!(watching.wait().unwrap().success());
    for line in format!("{{{rest}").lines() {
        let look: Value = serde_json::from_str(line).unwrap();
        assert!(!look["stages"].as_array().unwrap().is_empty());
    }
}

#[test]
fn pipes_are_enlarged_on_request_only() {
    let pipeline = Pipeline::found("sleep 1000 | cat; :");
    let capacity = |look: &Value| look["edges"][0]["capacity_bytes"].as_u64().unwrap();
    assert_eq!(capacity(&look(&pipeline.pid())), 65536);
    let widened = pv(&["--pipeline", &pipeline.pid(), "--once", "--widen"]).output().unwrap();
    assert!(said(&widened).contains("instead of 64 KiB"), "{}", said(&widened));
    assert!(capacity(&look(&pipeline.pid())) > 65536);
}

#[test]
fn a_connection_is_an_edge_from_standard_output_to_standard_input() {
    let (written, read) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let start = |program: &str, argument: &str, ends: [Stdio; 2]| {
        let [stdin, stdout] = ends;
        let mut command = Command::new(program);
        command.arg(argument).stdin(stdin).stdout(stdout).stderr(Stdio::null());
        Ended(command.spawn().unwrap())
    };
    let end = |fd: OwnedFd| Stdio::from(fd);
    let first = start("cat", "/dev/zero", [Stdio::null(), end(written.into())]);
    let _second = start("cat", "-", [end(read.into()), end(client.into())]);
    let _last = start("sleep", "1000", [end(server.into()), Stdio::null()]);
    let found = certain(&first.0.id().to_string());
    assert_eq!(commands(&found), ["cat", "cat", "sleep"]);
    let edges = found["edges"].as_array().unwrap();
    assert!(edges.iter().all(|edge| edge["name"].as_str().unwrap().starts_with("socket:[")));
    assert_eq!((edges.len(), holder(&found).0.as_str()), (2, "sleep 1000"));
}

/// A program that is killed at the end of a test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn all_pipelines_of_the_session_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sleep 1000 | cat >/dev/null & sleep 1001 | tr a b >/dev/null & \
                \"$G\" pv --here --once --json >out; kill 0";
    let mut session = Command::new("setsid");
    session.args(["--wait", "bash", "-c", line]).env("G", gush().get_program());
    session.current_dir(dir.path()).stdin(Stdio::null());
    session.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let text = std::fs::read_to_string(dir.path().join("out")).unwrap();
    let looks = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut found: Vec<Vec<String>> = looks.map(|look: Value| commands(&look)).collect();
    found.sort();
    assert_eq!(found, [["sleep", "cat"], ["sleep", "tr"]], "{text}");
}

#[test]
fn a_stage_in_a_container_is_shown_with_its_inner_pid() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let pipeline = Pipeline::found("cat /dev/zero | unshare --pid --fork sleep 1000; :");
    eventually("both stages", || commands(&look(&pipeline.pid())) == ["cat", "sleep"]);
    let found = look(&pipeline.pid());
    assert_eq!(found["stages"][0]["inner_pid"], Value::Null);
    assert_eq!(found["stages"][1]["inner_pid"], 1);
}

#[test]
fn what_another_user_may_not_see_is_said() {
    let uid = match nobody() {
        Ok(uid) => uid,
        Err(why) => return skipped(&why),
    };
    let line =
        format!("cat /dev/zero | setpriv --reuid={uid} --regid={uid} --clear-groups sleep 1000; :");
    let pipeline = Pipeline::found(&line);
    eventually("both stages", || commands(&look(&pipeline.pid())) == ["cat", "sleep"]);
    let whole = look(&pipeline.pid());
    let (root, own) =
        (whole["stages"][0]["pid"].to_string(), whole["stages"][1]["pid"].to_string());
    let dir = tempfile::tempdir().unwrap();
    let copy = copied_gush(dir.path());
    let as_nobody = |pid: &str| {
        let mut command = Command::new(&copy);
        command.args(["pv", "--pipeline", pid, "--once"]).uid(uid).gid(uid).output().unwrap()
    };
    let refused = as_nobody(&root);
    assert!(said(&refused).contains("CAP_SYS_PTRACE only"), "{}", said(&refused));
    let shown = String::from_utf8(as_nobody(&own).stdout).unwrap();
    assert!(shown.contains("writer unseen"), "{shown}");
    assert!(shown.contains(&format!("{root} of the same group")), "{shown}");
    let line = format!(
        "cat /dev/zero | setpriv --reuid={uid} --regid={uid} --clear-groups cat | sleep 1000; :"
    );
    let pipeline = Pipeline::found(&line);
    eventually("all stages", || commands(&look(&pipeline.pid())) == ["cat", "cat", "sleep"]);
    let own = look(&pipeline.pid())["stages"][1]["pid"].to_string();
    let shown = String::from_utf8(as_nobody(&own).stdout).unwrap();
    assert!(shown.contains(&format!("cat ({own}) waits for the reader of its output")), "{shown}");
}

#[test]
fn what_is_no_pipeline_is_refused_with_the_reason() {
    let mut alone = Command::new("sleep");
    let mut alone = alone
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = alone.id().to_string();
    for (words, why, status) in [
        (&["--pipeline", &pid, "--once"][..], "not a stage of a pipeline", 1),
        (&["--pipeline", "2147483646"], "No such process", 1),
        (&["--pipeline", "x"], "expected a PID", 64),
        (&["--here"], "not a terminal: use --once, -n, --json, or -f", 1),
        (&["--once"], "--once requires --pipeline or --here", 64),
        (&["--pipeline", &pid, "file"], "copy no files", 64),
    ] {
        let output = pv(words).output().unwrap();
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
        assert_eq!(output.status.code(), Some(status), "{words:?}");
    }
    kill_process(Pid::from_child(&alone), Signal::KILL).unwrap();
    assert_eq!(alone.wait().unwrap().signal(), Some(9));
}

#[test]
fn the_picture_is_redrawn_on_a_terminal_and_doctor_prints_it_once() {
    let pipeline = Pipeline::found("cat /dev/zero | sleep $(seq 1000 1020); :");
    certain(&pipeline.pid());
    let mut text = String::new();
    eventually("a certain verdict by doctor", || {
        let doctor = gush().args(["doctor", "pipeline", &pipeline.pid()]).output().unwrap();
        text = String::from_utf8(doctor.stdout).unwrap();
        text.contains("holds up the others: sleep")
    });
    // Only the width of a terminal cuts it.
    assert!(text.contains("sleep 1000 1001") && text.contains(" 1019 1020\n"), "{text}");
    let mut watching = pv(&["--pipeline", &pipeline.pid(), "-f", "-i", "0.1"]);
    let mut watching = watching.stderr(Stdio::piped()).spawn().unwrap();
    let mut drawn = String::new();
    while drawn.matches("COMMAND").count() < 3 {
        let mut piece = [0; 4096];
        let bytes = watching.stderr.as_mut().unwrap().read(&mut piece).unwrap();
        assert!(bytes > 0, "{drawn}");
        drawn.push_str(&String::from_utf8_lossy(&piece[..bytes]));
    }
    kill_process(Pid::from_child(&watching), Signal::INT).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(32));
}
