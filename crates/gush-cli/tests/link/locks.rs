//! Locks: files that programs make (`lockfile=`, `waitlock=`), and locks of the kernel (`lock=`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::link::{Killed, Running, eventually};
use crate::common::{bounded, gush, skipped};
use rustix::process::Signal;
use tempfile::TempDir;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn has_socat() -> bool {
    let has = Command::new("socat").arg("-V").output().is_ok();
    if !has {
        skipped("no socat to compare with");
    }
    has
}

/// A link in `dir` that lasts until its end.
fn link(dir: &Path, words: &[&str]) -> Running {
    let mut command = gush();
    command.args(["link", "--log", "info"]).args(words).current_dir(dir);
    Running::of(command)
}

fn output_of(program: &str, dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    bounded(30, command.args(words).current_dir(dir)).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_lock_file_keeps_others_out_and_goes_with_the_link() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("lock");
        let holder = link(dir.path(), &["unix-listen:front,fork,lockfile=lock", "null:"]);
        holder.says("listening");
        let number = holder.pid().as_raw_pid();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{number}\n"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let refused = gush()
            .args(["link", "-u", "/dev/null,lockfile=lock", "-"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let why = said(&refused);
        assert!(why.contains("File exists") && why.contains(&format!("process {number}")), "{why}");
        let waiting = link(dir.path(), &["unix-listen:next,fork,waitlock=lock", "null:"]);
        waiting.says("waiting for the lock");
        holder.signal(signal);
        holder.finish();
        waiting.says("listening");
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{}\n", waiting.pid().as_raw_pid()));
        waiting.signal(Signal::TERM);
        waiting.finish();
        assert!(!file.exists());
    }
}

#[test]
fn the_switches_of_socat_exclude_socat_and_gush() {
    if !has_socat() {
        return;
    }
    let gush_words = [env!("CARGO_BIN_EXE_gush"), "socat"];
    for holder in [&gush_words[..], &["socat"]] {
        for other in [&gush_words[..], &["socat"]] {
            let dir = TempDir::new().unwrap();
            let file = dir.path().join("lock");
            let mut command = Command::new(holder[0]);
            command.args(&holder[1..]).args(["-L", "lock", "PIPE", "UNIX-LISTEN:front,fork"]);
            let mut holding = Killed(command.current_dir(dir.path()).spawn().unwrap());
            eventually("the lock", || file.exists() && dir.path().join("front").exists());
            let words = [&other[1..], &["-L", "lock", "-u", "/dev/null", "CREATE:made"]].concat();
            let output = output_of(other[0], dir.path(), &words);
            assert_eq!(output.status.code(), Some(1), "{holder:?} {other:?}: {output:?}");
            assert!(!dir.path().join("made").exists());
            let number = holding.0.id().to_string();
            assert_eq!(fs::read_to_string(&file).unwrap().trim(), number, "{holder:?}");
            let pid = rustix::process::Pid::from_child(&holding.0);
            rustix::process::kill_process(pid, Signal::TERM).unwrap();
            holding.0.wait().unwrap();
            assert!(!file.exists(), "{holder:?}");
            let words = [&other[1..], &["-W", "lock", "-u", "/dev/null", "CREATE:made"]].concat();
            let output = output_of(other[0], dir.path(), &words);
            assert!(output.status.success() && !file.exists(), "{other:?}: {output:?}");
        }
    }
}

/// The file is of the whole link, not of the address that ends first.
#[test]
fn a_lock_file_lasts_as_long_as_a_client_or_a_program() {
    let gush_words = [env!("CARGO_BIN_EXE_gush"), "socat"];
    let mut programs = vec![&gush_words[..]];
    programs.extend(has_socat().then_some(&["socat"][..]));
    let looks = "SYSTEM:cat >/dev/null; sleep 0.2; cp lock seen";
    for program in programs {
        for words in [
            ["-u", "-", looks],
            ["-t9", "SYSTEM:echo", looks],
            ["-t9", "UNIX-LISTEN:s", looks],
            ["-t9", "UNIX-LISTEN:s", "SYSTEM:sleep 0.2; cp lock seen; cat"],
            ["-t9", "SYSTEM:sleep 0.2; cp lock seen; cat", "UNIX-LISTEN:s"],
        ] {
            let dir = TempDir::new().unwrap();
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-L", "lock"]).args(words).current_dir(dir.path());
            let mut running = Killed(command.stdin(Stdio::null()).spawn().unwrap());
            if words.contains(&"UNIX-LISTEN:s") {
                let mut client = None;
                eventually("it listens", || {
                    client = UnixStream::connect(dir.path().join("s")).ok();
                    client.is_some()
                });
            }
            running.0.wait().unwrap();
            assert!(dir.path().join("seen").exists(), "{program:?} {words:?}");
            assert!(!dir.path().join("lock").exists(), "{program:?} {words:?}");
        }
    }
}

#[test]
fn a_file_is_locked_for_as_long_as_it_is_open() {
    let beside_socat = has_socat();
    for (lock, refused, socats, waits) in [
        ("write", "read", "setlk-rd", "wait-write"),
        ("read", "write", "setlk", "wait-write"),
        ("flock", "flock-shared", "flock-sh-nb", "wait-flock"),
        ("flock-shared", "flock", "flock-ex-nb", "wait-flock"),
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("f"), "").unwrap();
        let mut command = gush();
        command.args(["link", "--log", "info", &format!("file:f,lock={lock}"), "-"]);
        command.current_dir(dir.path()).stdin(Stdio::piped());
        let mut holder = Running::of(command);
        let input = holder.stdin();
        let try_with = |lock: &str| {
            let address = format!("file:f,lock={lock}");
            output_of(
                env!("CARGO_BIN_EXE_gush"),
                dir.path(),
                &["link", "-t", "1", &address, "null:"],
            )
        };
        holder.says("connected");
        let why = said(&try_with(refused));
        assert!(why.contains("another process has locked it"), "{lock}: {why}");
        // Two that share do not exclude each other, and neither do the two kinds.
        let shares = ["read", "flock-shared"].contains(&lock);
        assert_eq!(try_with(lock).status.success(), shares, "{lock}");
        let of_other_kind = if lock.starts_with("flock") { "write" } else { "flock" };
        assert!(try_with(of_other_kind).status.success(), "{lock}");
        if beside_socat {
            let address = format!("OPEN:f,{socats}");
            let output = output_of("socat", dir.path(), &[&address, "/dev/null"]);
            assert_eq!(output.status.code(), Some(1), "{lock} {socats}: {output:?}");
        }
        let waiting = link(dir.path(), &["-u", "null:", &format!("file:f,lock={waits}")]);
        waiting.says("waiting for a lock");
        drop(input);
        let (status, _, said) = holder.finish();
        assert!(status.success(), "{said}");
        let (status, _, said) = waiting.finish();
        assert!(status.success(), "{said}");
    }
}

#[test]
fn a_lock_of_socat_is_seen() {
    if !has_socat() {
        return;
    }
    for (socats, ours) in [("setlk", "read"), ("flock-ex-nb", "flock-shared")] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("f"), "").unwrap();
        let mut command = Command::new("socat");
        // Opened before the other address listens.
        command.args(["-U", &format!("OPEN:f,{socats}"), "UNIX-LISTEN:front"]);
        let _holding = Killed(command.current_dir(dir.path()).spawn().unwrap());
        eventually("socat's socket", || dir.path().join("front").exists());
        let mut command = gush();
        command.args(["link", "-u", &format!("file:f,lock={ours}"), "null:"]);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert!(said(&output).contains("another process has locked it"), "{output:?}");
    }
}

/// As of a shell's `for ...; do gush ... & done >f`.
#[test]
fn a_lock_of_an_inherited_file_is_this_process_s_alone() {
    let mut programs = vec![vec![env!("CARGO_BIN_EXE_gush"), "socat"]];
    if has_socat() {
        programs.push(vec!["socat"]);
    }
    for program in programs {
        let dir = TempDir::new().unwrap();
        let f = fs::File::create(dir.path().join("f")).unwrap();
        let socat = |words: &[&str]| {
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(words).current_dir(dir.path());
            command
        };
        // Opened before the other address listens.
        let mut holder = socat(&["-U", "-,setlk", "UNIX-LISTEN:front"]);
        let mut holder = Killed(holder.stdout(f.try_clone().unwrap()).spawn().unwrap());
        eventually("the lock", || dir.path().join("front").exists());
        let locks = |address| {
            let mut command = bounded(30, &socat(&["-u", "/dev/null", address]));
            command.stdout(f.try_clone().unwrap()).stderr(Stdio::null());
            command.status().unwrap().code()
        };
        for address in ["-,setlk", "OPEN:f,setlk"] {
            assert_eq!(locks(address), Some(1), "{program:?} {address}");
        }
        drop(std::os::unix::net::UnixStream::connect(dir.path().join("front")).unwrap());
        assert!(holder.0.wait().unwrap().success(), "{program:?}");
        for address in ["-,setlk", "OPEN:f,setlk"] {
            assert_eq!(locks(address), Some(0), "{program:?} {address}");
        }
    }
}
