//! `gush lab explain` from a user's view.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{gush, skipped};
use crate::run_ends::{is_alive, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Explains a short case; none where this machine does not allow perf.
fn explained(args: &[&str], home: &Path) -> Option<Output> {
    let mut command = gush();
    command.args(["lab", "explain", "pipe:write-read"]).args(args).env("HOME", home);
    let output = command.args(["--", "--bytes", "128M"]).output().unwrap();
    let said = said(&output);
    let lacking =
        ["perf is not installed", "may not profile the kernel", "perf cannot record here"];
    if lacking.iter().any(|words| said.contains(words)) || said.contains("cannot count events") {
        skipped(said.trim());
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(output)
}

#[test]
fn the_kernels_time_is_explained_drawn_kept_and_reported() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (flame, report, db) = (path("flame.svg"), path("report.html"), path("runs"));
    let files = ["--flame", &flame, "--report", &report, "--db", &db];
    let Some(output) = explained(&files, dir.path()) else { return };
    let reported = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(reported.starts_with("pipe:write-read: "), "{reported}");
    for part in [
        " % copying\n",
        "Bytes are copied between",
        "s of processor time",
        "The kernel's call path as sampled",
    ] {
        assert!(reported.contains(part), "{part:?} is missing in\n{reported}");
    }
    assert!(fs::read_to_string(&flame).unwrap().contains("anon_pipe_write"));
    assert!(fs::read_to_string(&report).unwrap().contains("flame graph"));
    assert!(said(&output).contains("gush lab report "), "{output:?}");
    let exported = gush().args(["lab", "export", "last", "--json", "--db", &db]).output().unwrap();
    let exported: serde_json::Value = serde_json::from_slice(&exported.stdout).unwrap();
    let text = exported.to_string();
    assert!(text.contains("image/svg+xml"), "{text}");
    assert!(text.contains("\"samples\":[]"), "what perf slowed is not kept among figures: {text}");
}

#[test]
fn scripts_get_shares_that_add_up() {
    let home = TempDir::new().unwrap();
    let Some(output) = explained(&["--json", "--no-store"], home.path()) else { return };
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let shares = record["about"].as_array().unwrap().iter();
    let sum: f64 = shares.map(|about| about["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{record}");
    assert!(record["kernel_functions"][0]["function"].is_string());
    assert!(!said(&output).contains("stored"), "{output:?}");
    // perf would keep copies of all programs in ~/.debug.
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "something is left at home");
}

/// Counting by ptrace(2) comes before the copy, and is no part of the recording.
#[test]
fn the_copy_is_recorded_alone_and_in_the_directory_named() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = gush();
    command.args(["lab", "explain", "copy:read-write-1024@32M", "--json", "--no-store", "--"]);
    command.args(["--size", "32M", "--dir"]).arg(dir.path()).current_dir("/proc");
    let output = command.output().unwrap();
    let reported = said(&output);
    let lacking = ["perf is not", "may not profile", "perf cannot", "cannot count events"];
    if lacking.iter().any(|words| reported.contains(words)) {
        return skipped(reported.trim());
    }
    // /proc takes no files: without --dir there would be none.
    assert!(output.status.success(), "{output:?}");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = record["kernel_functions"].as_array().unwrap();
    let named = |part: &str| {
        functions.iter().any(|one| one["function"].as_str().is_some_and(|name| name.contains(part)))
    };
    assert!(!functions.is_empty() && !named("ptrace"), "{record}");
    let tree = record["call_paths"][0]["tree"].as_str().unwrap();
    assert!(!tree.contains("unlinkat"), "removing the copy is recorded: {tree}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
}

/// The account is printed, and the status says that the store which the user named does not have
/// it.
#[test]
fn a_full_disk_is_a_failure_of_who_named_the_store() {
    let dir = TempDir::new().unwrap();
    let script = r#"set -e
        mount -t tmpfs -o size=8k none "$1"
        status=0; "$2" lab explain pipe:write-read --db "$1/runs" -- --bytes 128M || status=$?
        echo "named: status $status"
        status=0; XDG_DATA_HOME="$1" "$2" lab explain pipe:write-read -- --bytes 128M || status=$?
        echo "usual: status $status"
    "#;
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path());
    let output = match command.arg(env!("CARGO_BIN_EXE_gush")).env("HOME", dir.path()).output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    let (reported, said) = (String::from_utf8(output.stdout.clone()).unwrap(), said(&output));
    if !reported.starts_with("pipe:write-read: ") {
        return skipped(&format!("no file system of its own, or no profile: {}", said.trim()));
    }
    assert_eq!(said.matches("this is not stored: ").count(), 2, "{said}");
    assert!(reported.contains("\nnamed: status 1\n"), "{reported}");
    assert!(reported.contains("\nusual: status 0\n"), "{reported}");
}

#[test]
fn a_missing_perf_says_which_package_has_it() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command.env("PATH", dir.path()).args(["lab", "explain", "pipe:write-read", "--no-store"]);
    let output = command.output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(said(&output).contains("perf is not installed: the package is linux-perf"));
}

#[test]
fn a_signal_ends_the_lab_and_a_perf_that_hangs() {
    let endless = "echo $$ >$pid.new; mv $pid.new $pid; exec sleep 100000";
    // What perf records keeps its output open, and nobody but the lab ends it.
    let recorded = "sleep 100000 & echo $! >$pid.new; mv $pid.new $pid; wait";
    let cases = [("cpu-clock:k", endless), ("--delay=-1", recorded), ("script", endless)];
    for (hangs, how) in cases {
        let dir = TempDir::new().unwrap();
        let [perf, pid] = ["perf", "pid"].map(|name| dir.path().join(name));
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *' {hangs} '*) ;; *) exit 0;; esac\n\
             pid='{}'\n{how}\n",
            pid.display()
        );
        fs::write(&perf, script).unwrap();
        fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let mut lab = gush();
        lab.env("PATH", path).args(["lab", "explain", "pipe:write-read", "--no-store"]);
        let mut lab = lab.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("perf has started", || pid.exists());
        kill_process(Pid::from_child(&lab), Signal::TERM).unwrap();
        wait_until(hangs, || lab.try_wait().unwrap().is_some());
        assert_eq!(lab.wait().unwrap().code(), Some(128 + 15), "{hangs}");
        let mut said = String::new();
        lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "gush: lab: explain: interrupted\n", "{hangs}");
        wait_until("perf has ended", || !is_alive(&pid));
    }
}

#[test]
fn a_user_who_may_not_profile_gets_the_remedy() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !rustix::process::geteuid().is_root() || paranoid.trim().parse::<i32>().unwrap_or(0) < 2 {
        return skipped("needs root to become nobody, and kernel.perf_event_paranoid of 2 or more");
    }
    let mut command = gush();
    command.args(["lab", "explain", "pipe:write-read", "--no-store"]).uid(65534).gid(65534);
    let output = match command.current_dir("/").output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("nobody cannot start the program: {error}")),
    };
    let said = said(&output);
    if said.contains("perf is not installed") {
        return skipped(said.trim());
    }
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(said.contains("this user may not profile the kernel"), "{said}");
    assert!(said.contains("sysctl kernel.perf_event_paranoid=1"), "{said}");
}

#[test]
fn what_is_no_case_is_reported() {
    for (case, words) in [
        ("write-read", "write SUITE:CASE, such as pipe:write-read"),
        ("pipe:", "write SUITE:CASE"),
        ("--x:y", "unrecognized option '--x:y'"),
        ("nope:x", "unknown suite 'nope'; choose from "),
        ("report:x", "unknown suite 'report'; choose from "),
    ] {
        let output = gush().args(["lab", "explain", case]).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(words), "{output:?}");
    }
    for (case, words) in [
        ("pipe:nope", "gush: lab: explain: pipe: unknown case 'nope'; choose from write-read"),
        ("copy:nope", "unknown case, way or method 'nope'"),
        ("copy:sendfile", "cases, and one is explained at a time: sendfile-4096@"),
    ] {
        let output = gush().args(["lab", "explain", case, "--no-store"]).output().unwrap();
        let said = said(&output);
        if ["perf is not", "may not profile", "perf cannot"].iter().any(|w| said.contains(w)) {
            return skipped(said.trim());
        }
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}
