//! A program of the standard library's own `main`, which starts itself as a shell starts a program.

use gush_test as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use gush_process::{Signals, Termination, Then};
use rustix::process::{Signal, getpid, kill_process};

/// Names the part that a child plays.
const PART: &str = "GUSH_PROGRAM_PART";

fn main() -> ExitCode {
    gush_process::restore_sigpipe();
    match env::var(PART).as_deref() {
        Err(_) => {
            checked();
            ExitCode::SUCCESS
        }
        Ok("descriptors") => {
            for standard in 0..3 {
                let target = fs::read_link(format!("/proc/self/fd/{standard}")).unwrap();
                let is_null = target.as_os_str() == "/dev/null";
                eprint!("{} {is_null}; ", gush_process::was_closed(standard));
            }
            ExitCode::SUCCESS
        }
        Ok("signals") => {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("SigIgn:")).unwrap();
            let ignored = u64::from_str_radix(line[7..].trim(), 16).unwrap();
            println!("{}", ignored >> (libc::SIGPIPE - 1) & 1);
            ExitCode::SUCCESS
        }
        Ok("a late call") => {
            late();
            ExitCode::SUCCESS
        }
        Ok("a duty that never comes due") => {
            let duty = || panic!("due");
            Signals::new(|_| Then::Die).after(Duration::MAX, duty).watch().unwrap();
            asked_to_end()
        }
        Ok("a duty that panics") => {
            Signals::new(|_| panic!("a duty")).stops(|_| ()).watch().unwrap();
            asked_to_end()
        }
        Ok("a late call that panics") => {
            let (sender, heard) = mpsc::channel::<()>();
            let call = move || {
                let _sender = &sender;
                panic!("late")
            };
            let signals = Signals::new(|_| Then::Die).stops(|_| ());
            signals.after(Duration::ZERO, call).watch().unwrap();
            assert!(heard.recv().is_err());
            // One that stops ends no process, and leaves the thread at its post.
            kill_process(getpid(), Signal::TTOU).unwrap();
            thread::sleep(Duration::from_millis(100));
            asked_to_end()
        }
        Ok(part) => panic!("no such part: {part}"),
    }
}

/// A late call comes when its time is over, and signals are answered before and after.
fn late() {
    let (sender, heard) = mpsc::channel();
    let (late, began, delay) = (sender.clone(), Instant::now(), Duration::from_millis(20));
    let respond = move |came| {
        sender.send(Some(came)).unwrap();
        Then::GoOn
    };
    let call = move || {
        assert!(began.elapsed() >= delay);
        late.send(None).unwrap();
    };
    Signals::new(respond).after(delay, call).watch().unwrap();
    let send = |signal| kill_process(getpid(), signal).unwrap();
    send(Signal::TERM);
    let mut first = [heard.recv().unwrap(), heard.recv().unwrap()];
    first.sort_by_key(Option::is_some);
    assert_eq!(first, [None, Some(Termination::Terminate)]);
    for _ in 0..2 {
        send(Signal::INT);
        assert_eq!(heard.recv(), Ok(Some(Termination::Interrupt)));
    }
}

/// Asks this process to end, and waits for a minute at most.
fn asked_to_end() -> ExitCode {
    kill_process(getpid(), Signal::TERM).unwrap();
    thread::sleep(Duration::from_secs(60));
    ExitCode::SUCCESS
}

/// Starts this program in a part, by a line of bash in which `"$@"` is the program.
fn child(part: &str, line: &str) -> Output {
    let program = env::current_exe().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", line, "bash"]).arg(program);
    command.env(PART, part).output().unwrap()
}

fn checked() {
    let null = "true true; true true; false false; ";
    assert_eq!(String::from_utf8_lossy(&child("descriptors", "\"$@\" <&- >&-").stderr), null);
    let open = child("descriptors", "\"$@\" </dev/zero >/dev/zero").stderr;
    assert_eq!(String::from_utf8_lossy(&open), "false false; ".repeat(3));

    let late = child("a late call", "\"$@\"");
    assert!(late.status.success(), "{late:?}");

    // The signals are blocked in all threads: if nobody waits for them, SIGKILL alone ends the
    // process.
    for (duty, says) in [
        ("a duty that never comes due", ""),
        ("a duty that panics", "a duty"),
        ("a late call that panics", "late"),
    ] {
        let ended = child(duty, "exec \"$@\"");
        assert_eq!(ended.status.signal(), Some(libc::SIGTERM), "{duty}: {ended:?}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{duty}: {said}");
    }

    assert_eq!(child("signals", "\"$@\"").stdout, b"0\n", "SIGPIPE is as the parent left it");
    assert_eq!(child("signals", "trap '' PIPE; \"$@\"").stdout, b"1\n");
}
