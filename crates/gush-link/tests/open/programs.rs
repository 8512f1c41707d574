//! Programs as ends, as a user of `gush_link::open` sees them.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::open_common::{one, one_as, run, talk, until};
use gush_link::open::OpenOptions;

/// Runs a program to its end, and answers everything said.
fn said(address: &str, input: &[u8]) -> String {
    let answer = run(async {
        let mut end = one(address).await.unwrap_or_else(|error| panic!("{error}"));
        talk(&mut end.conduit, input).await
    });
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_gone(process: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", process.trim())) {
        // Whose parent is gone too may still wait to be reaped by another.
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

#[test]
fn a_program_is_talked_to_by_socket_pipes_or_terminal() {
    let noise: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    run(async {
        for text in ["exec:cat", "exec:cat,pipes", "EXEC:'cat -u',setsid"] {
            let mut end = one(text).await.unwrap();
            assert!(talk(&mut end.conduit, &noise).await == noise, "{text}");
        }
    });
    assert_eq!(
        said("shell:'tty; test -t 2 && echo $((6 * 7))',pty,raw", b"").lines().last(),
        Some("42")
    );
}

#[test]
fn a_terminal_echoes_and_ends_lines_as_terminals_do() {
    let echo = said("shell:'read line; echo got $line',pty", b"hi\n");
    assert_eq!(echo, "hi\r\ngot hi\r\n");
    let silent = said("shell:'read line; echo got $line',pty,echo=0", b"hi\n");
    assert_eq!(silent, "got hi\r\n");
}

#[test]
fn a_terminal_is_the_controlling_one() {
    let text = said("shell:'exec 3<>/dev/tty && echo mine >&3',pty,raw", b"");
    assert_eq!(text, "mine\n");
}

#[test]
fn standard_error_comes_along_if_asked_for() {
    assert_eq!(said("shell:'echo oops >&2',stderr", b""), "oops\n");
    assert_eq!(said("shell:'echo oops >&2',stderr,pipes", b""), "oops\n");
}

#[test]
fn a_program_starts_where_and_as_what_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    assert_eq!(
        said(&format!("exec:pwd,cwd={}", dir.display()), b"").trim_end(),
        dir.to_str().unwrap()
    );
    let group_and_session = |options: &str| {
        let text = said(
            &format!("shell:'cut -d\" \" -f1\\,5\\,6 /proc/self/stat; echo $$'{options}"),
            b"",
        );
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        (words[1] == words[3], words[2] == words[3])
    };
    assert_eq!(group_and_session(""), (true, false));
    assert_eq!(group_and_session(",setsid"), (true, true));
}

#[test]
fn in_one_direction_the_other_is_the_programs_own() {
    run(async {
        // Its standard input is empty: it does not wait.
        let mut end = one_as("exec:cat", OpenOptions::default().read_only()).await.unwrap();
        assert_eq!(end.keeper.finished().await.unwrap().unwrap().code(), Some(0));
        assert!(end.conduit.reads() && !end.conduit.writes());
        let dir = tempfile::tempdir().unwrap();
        let text = format!("shell:'cat > out',cwd={}", dir.path().display());
        let mut end = one_as(&text, OpenOptions::default().write_only()).await.unwrap();
        rustix::io::write(end.conduit.write_fd().unwrap(), b"kept").unwrap();
        end.conduit.finish().unwrap();
        assert_eq!(end.keeper.finished().await.unwrap().unwrap().code(), Some(0));
        assert_eq!(std::fs::read(dir.path().join("out")).unwrap(), b"kept");
    });
}

#[test]
fn how_a_program_ended_is_known() {
    run(async {
        let mut end = one("shell:'exit 3'").await.unwrap();
        for _ in 0..2 {
            assert_eq!(end.keeper.finished().await.unwrap().unwrap().code(), Some(3));
        }
        let mut end = one("shell:'kill -9 $$'").await.unwrap();
        assert_eq!(end.keeper.finished().await.unwrap().unwrap().signal(), Some(9));
        let mut other = one("null:").await.unwrap();
        assert_eq!(other.keeper.finished().await.unwrap(), None);
    });
}

#[test]
fn a_program_and_its_children_end_with_the_link() {
    let (program, child) = run(async {
        let end = one("shell:'sleep 1000 & echo $!; wait'").await.unwrap();
        let mut bytes = [0; 32];
        let count = loop {
            match rustix::io::read(end.conduit.read_fd().unwrap(), &mut bytes) {
                Ok(count) => break count,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
            }
        };
        let child = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let program = end.keeper.process().unwrap();
        assert!(!is_gone(&child));
        (program, child)
    });
    until(|| is_gone(&child), "the child lives on");
    until(|| !Path::new(&format!("/proc/{program}")).exists(), "the program is a zombie");
}

#[test]
fn a_program_that_ignores_being_asked_is_killed() {
    let program = run(async {
        let end =
            one("shell:'trap \"\" TERM; echo ready; while :; do sleep 1; done'").await.unwrap();
        while rustix::io::read(end.conduit.read_fd().unwrap(), &mut [0; 9]).is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        end.keeper.process().unwrap()
    });
    until(
        || !Path::new(&format!("/proc/{program}")).exists(),
        "the program lives on, or is a zombie",
    );
}

#[test]
fn what_cannot_be_started_says_why() {
    run(async {
        let error = one("exec:no-such-program-here -x").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "exec:no-such-program-here -x: start no-such-program-here: No such file or directory"
        );
        assert!(error.hint().unwrap().contains("in PATH"), "{error}");
        assert!(!error.passes());
        let error = one("exec:/no/such/program").await.unwrap_err();
        assert!(error.hint().unwrap().contains("no such file"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        gush_test::executable(&script, "#!/no/such/interpreter\n");
        let error = one(&format!("exec:{}", script.display())).await.unwrap_err();
        assert!(error.hint().unwrap().contains("interpreter"), "{error}");
        let error = one("exec:/etc/passwd").await.unwrap_err();
        assert!(error.hint().unwrap().contains("not executable"), "{error}");
        let error = one("exec:pwd,cwd=/no/such/place").await.unwrap_err();
        assert!(error.to_string().contains("change directory to /no/such/place"), "{error}");
    });
}

#[test]
fn one_thread_ends_all_programs_that_are_slow_to_end() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("gush-reaper")).count()
    };
    let programs: Vec<u32> = run(async {
        let mut ends = Vec::new();
        for _ in 0..20 {
            let end = one("shell:'trap \"\" TERM; echo ready; while :; do sleep 1; done'");
            ends.push(end.await.unwrap());
        }
        for end in &ends {
            while rustix::io::read(end.conduit.read_fd().unwrap(), &mut [0; 9]).is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
        ends.iter().map(|end| end.keeper.process().unwrap()).collect()
    });
    assert!(threads() <= 1, "{} threads", threads());
    let is_there = |program: &u32| Path::new(&format!("/proc/{program}")).exists();
    until(|| !programs.iter().any(is_there), "a program lives on, or is a zombie");
}

#[test]
fn a_terminal_has_a_size() {
    let size = said("exec:'stty size',pty", b"");
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let ours = [output.as_fd(), input.as_fd(), error.as_fd()].map(rustix::termios::tcgetwinsize);
    let seen = ours.into_iter().flatten().find(|size| size.ws_row > 0 && size.ws_col > 0);
    // The tester's terminal, or the size of the first terminals: 24 rows of 80 columns.
    let (rows, columns) = seen.map_or((24, 80), |size| (size.ws_row, size.ws_col));
    assert_eq!(size.trim(), format!("{rows} {columns}"));
}
