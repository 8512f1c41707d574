//! How a link to a program ends: its exit status, the bytes that it leaves unread, and its last
//! words.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use tempfile::TempDir;

use super::{FORK, ONCE, Seen, code, file_of, seen};
use crate::common::link::{Running, eventually};
use crate::common::{file_of as file_with, gush, noise};

#[test]
fn the_exit_status_of_a_program_is_the_links() {
    for (program, status) in [("exec:false", 1), ("exec:true", 0), ("shell:'exit 3'", 1)] {
        // Whether the program still reads when the bytes come is left to chance, the status is not.
        for input in [&b""[..], b"some", &noise(1 << 20, 3)] {
            for args in
                [&["-u", "-", program][..], &["-", program], &[program, "-"], &["-u", program, "-"]]
            {
                let (got, said) = code(args, input);
                assert_eq!(got, Some(status), "{args:?} {} bytes: {said}", input.len());
                assert_eq!(said.contains("the program ended: exit status"), status != 0, "{said}");
            }
        }
    }
}

#[test]
fn a_program_killed_by_a_signal_has_failed() {
    let (status, said) = code(&["-", "shell:'kill -9 $$'"], b"");
    assert_eq!(status, Some(1));
    assert!(said.contains("SIGKILL"), "{said}");
}

/// head(1) reads one line and exits; yes(1) never stops.
#[test]
fn a_program_whose_reader_has_exited_fails_only_if_sigpipe_kills_it() {
    let ignores = "exec:sh -c \"trap '' PIPE; yes 2>/dev/null; exit 0\"";
    for (writer, expected, ended) in [("exec:yes", 1, "program-failed"), (ignores, 0, "closed")] {
        let (status, said) = code(&["--json", "-u", writer, "exec:head -1"], b"");
        assert_eq!(status, Some(expected), "{writer}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{writer}: {said}");
    }
}

/// The first client sends something else, the second ends its data, and the third sends half a
/// header and waits.
#[test]
fn what_a_program_leaves_unread_is_reported() {
    let dir = TempDir::new().unwrap();
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    fs::write(&small, vec![7; 10_000]).unwrap();
    fs::write(&large, vec![7; 8 << 20]).unwrap();
    let (small, large) = (small.to_str().unwrap(), large.to_str().unwrap());
    // Reads one byte of the whole file, which is in the pipe by then.
    let one = "exec:dd bs=1 count=1 of=/dev/null status=none";
    // Each other holder of the pipe ends with the test, and not before: at the end of this FIFO.
    let hold = dir.path().join("hold");
    rustix::fs::mkfifoat(rustix::fs::CWD, &hold, rustix::fs::Mode::RWXU).unwrap();
    let _held = File::options().read(true).write(true).open(&hold).unwrap();
    let holder =
        format!("shell:'exec 3<&0 4<{}; cat <&4 >/dev/null 2>&1 & exit 0'", hold.display());
    let cases = [
        (small, one, "the program left 9999 bytes "),
        (large, one, " bytes or more of its input unread"),
        (small, "exec:cat", ""),
        (large, "exec:cat", ""),
        // Whoever reads in the program's place may still come to the rest.
        (small, &holder, ""),
    ];
    for (file, program, reported) in cases {
        let done = gush().args(["link", "-u", file, program]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program}: {said}");
        assert_eq!(said.contains("unread"), !reported.is_empty(), "{program}: {said}");
        assert!(said.contains(reported), "{program}: {said}");
    }
}

/// Of many clients it may be the usual end.
#[test]
fn what_a_program_of_one_of_many_clients_leaves_unread_is_no_warning() {
    let link = Running::start(&["-u", FORK, "exec:dd bs=1 count=1 of=/dev/null status=none"]);
    link.client().write_all(&[7; 10_000]).unwrap();
    let line = link.says("of its input unread");
    assert!(line.contains("the program left 9999 bytes"), "{line}");
    assert!(!line.contains("warning"), "{line}");
}

#[test]
fn the_pipe_of_a_program_that_exits_is_reported_in_bytes() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("large"), vec![7; 8 << 20]).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("hold"), rustix::fs::Mode::RWXU).unwrap();
    let held = File::options().read(true).write(true).open(path("hold")).unwrap();
    // In the background, because a shell may put the FIFO in the place of its own standard input.
    let program = "shell:'exec 4<hold; echo $$ >new; mv new pid; cat <&4 & wait'";
    let mut command = gush();
    command.args(["link", "-u", "large", program]).current_dir(dir.path());
    let link = Running::of(command);
    eventually("the program runs", || path("pid").exists());
    let pid = fs::read_to_string(path("pid")).unwrap();
    let pipe =
        File::options().read(true).write(true).open(format!("/proc/{}/fd/0", pid.trim())).unwrap();
    let held_bytes = || rustix::io::ioctl_fionread(&pipe).unwrap();
    eventually("the pipe has more than a page", || held_bytes() > 4096);
    let (least_bytes, most_bytes) =
        (held_bytes(), rustix::pipe::fcntl_getpipe_size(&pipe).unwrap());
    // The program alone has the pipe then, and comes to the end of the FIFO.
    drop(pipe);
    drop(held);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    let reported = said.split("the program left ").nth(1).unwrap_or_else(|| panic!("{said}"));
    let (bytes, rest) = reported.split_once(' ').unwrap();
    assert!(rest.starts_with("bytes or more of its input unread"), "{said}");
    let range = least_bytes..=most_bytes as u64;
    assert!(range.contains(&bytes.parse().unwrap()), "{range:?}: {said}");
}

#[test]
fn the_end_of_a_program_that_fails_is_no_end_for_its_client() {
    for (program, expected) in [
        ("shell:'printf half; exit 3'", Seen::Reset(4)),
        ("shell:'printf whole'", Seen::End(5)),
        ("shell:'printf half; exit 3',pipes", Seen::Reset(4)),
    ] {
        let link = Running::start(&["--json", ONCE, program]);
        let mut client = link.client();
        assert_eq!(seen(&mut client), expected, "{program}");
        drop(client);
        let (status, _, said) = link.finish();
        let failed = matches!(expected, Seen::Reset(_));
        assert_eq!(status.code(), Some(i32::from(failed)), "{said}");
        assert_eq!(said.contains("\"ended\":\"program-failed\""), failed, "{said}");
    }
}

#[test]
fn a_program_that_reads_no_more_goes_on_writing() {
    let program = "shell:'exec <&-; sleep 0.2; printf late',pipes";
    let mut command = gush();
    command.args(["link", "-", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(&noise(1 << 20, 4));
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "late");
    assert!(output.status.success());
}

/// Bytes that the link has sent, and a slow client not read yet, would be lost by a reset at once.
#[test]
fn what_a_program_wrote_before_it_failed_reaches_a_slow_client() {
    const BYTES: usize = 1_000_000;
    let dir = TempDir::new().unwrap();
    let done = dir.path().join("done");
    let program = format!("shell:'head -c {BYTES} /dev/zero; touch {}; exit 3'", done.display());
    let link = Running::start(&[&format!("{FORK},sndbuf=4M"), &program]);
    // The link waits for 1 s at most, which a client on a busy machine may miss.
    let arrives = |_| {
        let mut client = link.client();
        sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
        eventually("the program has written all", || done.exists());
        fs::remove_file(&done).unwrap();
        // The program has exited by then, and the link would have reset the connection.
        thread::sleep(Duration::from_millis(200));
        seen(&mut client) == Seen::Reset(BYTES)
    };
    assert!((0..10).any(arrives), "never all of it: {}", link.said());
}

/// A program may leave its end to a child, as one that goes into the background does.
#[test]
fn a_program_that_leaves_its_end_to_its_child_is_still_served() {
    // In a background list standard input is /dev/null; a zombie is a process that has exited.
    let program = "shell:'exec 3<&0; (until grep -q \"^State:.Z\" /proc/$$/status; do sleep 0.01; done; \
                   echo gone; cat <&3) & exit 0'";
    for options in ["", ",pipes"] {
        let link = Running::start(&["--json", ONCE, &format!("{program}{options}")]);
        let mut client = link.client();
        let mut gone = [0; 5];
        client.read_exact(&mut gone).unwrap();
        assert_eq!(&gone, b"gone\n");
        let question = noise(300_000, 5);
        let mut asking = client.try_clone().unwrap();
        let (answer, sent) = thread::scope(|scope| {
            let sent = scope.spawn(|| {
                asking.write_all(&question).and_then(|()| asking.shutdown(Shutdown::Write))
            });
            let mut answer = Vec::new();
            let read = client.read_to_end(&mut answer);
            (read.map(|_| answer), sent.join().unwrap())
        });
        assert!(sent.is_ok() && answer.unwrap() == question, "{options}: {}", link.said());
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{said}");
    }
}

#[test]
fn a_program_that_has_exited_keeps_no_place_for_its_client() {
    let link = Running::start(&[
        "--json",
        "tcp-listen:127.0.0.1:0,fork,max-children=1",
        "exec:'echo done'",
    ]);
    // They read the end, and do not close.
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let mut client = link.client();
            assert_eq!(seen(&mut client), Seen::End(5));
            client
        })
        .collect();
    // One place for three clients: each was given back although its client stays.
    link.says_times("\"ended\":\"closed\"", clients.len());
}

/// A program ended in the middle of its work has not finished the work.
#[test]
fn a_program_that_outlives_the_idle_limit_is_a_failure_and_one_that_outlives_the_linger_limit_is_reported()
 {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 10);
    let program = "shell:'cat >/dev/null; sleep 100; exit 7'";
    for (limit, code, ended) in [("-T", 1, "idle"), ("-t", 0, "lingered")] {
        let link = Running::start(&["--json", "-u", limit, "0.3", &file, program]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{limit}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{limit}: {said}");
        assert!(said.contains("still ran"), "{limit}: {said}");
    }
}

/// One limit is there for both: each program that still runs then is reported. Within a limit of
/// its own, which begins after that of the first, the second program would end.
#[test]
fn two_programs_have_one_limit() {
    let programs = ["sleep 100", "sleep 8"];
    let [one, other] =
        programs.map(|sleeps| format!("shell:'exec >/dev/null </dev/null; {sleeps}'"));
    let cases = [("-T", 1, "idle"), ("-t", 0, "lingered")].map(|(limit, code, ended)| {
        // The end of a program's output is passed on after a second, within the idle limit.
        let link = Running::start(&["--json", limit, "4", &one, &other]);
        (link, limit, code, ended)
    });
    for (link, limit, code, ended) in cases {
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{limit}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{limit}: {said}");
        for program in programs {
            let names_it = |line: &str| line.contains(program) && line.contains("still ran");
            assert!(said.lines().any(names_it), "{limit}, {program}: {said}");
        }
    }
}

/// As the first program's failure ends the second, so does the second one's end the first.
#[test]
fn a_program_that_fails_is_reported_while_the_other_goes_on() {
    let goes_on = "shell:'exec >/dev/null </dev/null; sleep 100'";
    let fails = "shell:'exec >/dev/null </dev/null; sleep 1.5; exit 3'";
    for programs in [[goes_on, fails], [fails, goes_on]] {
        let (status, _, said) = Running::start(&["--json", programs[0], programs[1]]).finish();
        assert_eq!(status.code(), Some(1), "{programs:?}: {said}");
        assert!(said.contains("\"ended\":\"program-failed\""), "{programs:?}: {said}");
    }
}

/// The program reads on for ever, and sees no end: all bytes are read, and nothing comes back.
#[test]
fn a_program_on_a_terminal_without_an_end_is_ended_once_it_has_read_all() {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 10);
    for program in ["exec:cat,pty,raw,shut-none", "shell:'cat >/dev/null',pty,raw,shut-none"] {
        let (status, _, said) = Running::start(&["--json", "-u", &file, program]).finish();
        assert_eq!(status.code(), Some(0), "{program}: {said}");
        assert!(said.contains("\"ended\":\"closed\""), "{program}: {said}");
    }
}

#[test]
fn a_program_on_a_terminal_ends_with_its_reader_also_one_way() {
    for reader in ["exec:true", "exec:'head -1'"] {
        let link = Running::start(&["--json", "-u", "exec:yes,pty", reader]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{reader}: {said}");
        assert!(said.contains("\"ended\":\"program-failed\""), "{reader}: {said}");
    }
}

#[test]
fn a_program_that_is_used_one_way_inherits_the_other_standard_stream() {
    for (args, printed) in [
        (&["-u", "exec:cat", "-"][..], "input\n"),
        (&["-u", "exec:cat,pty,raw", "-"], "input\n"),
        (&["-u", "exec:cat!!null:", "-"], "input\n"),
        (&["-u", "-", "exec:'tr a-z A-Z'"], "INPUT\n"),
        (&["-u", "-", "exec:'tr a-z A-Z',pty"], "INPUT\n"),
        (&["null:!!exec:'tr a-z A-Z'", "-"], "INPUT\n"),
    ] {
        let output = gush().arg("link").args(args).stdin(file_with(b"input\n")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{args:?}: {output:?}");
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

/// In one direction nobody was ever to read what the program says: it is hung up for no words of
/// its own.
#[test]
fn a_program_on_a_terminal_may_go_on_talking_where_the_data_goes_one_way() {
    let dir = TempDir::new().unwrap();
    let done = dir.path().join("done");
    let program = format!(
        "shell:'cat >/dev/null; for n in 1 2 3 4 5 6 7 8; do echo word; sleep 0.25; done; touch {}',pty",
        done.display()
    );
    let (status, said) = code(&["-u", "-", &program], b"data");
    assert_eq!(status, Some(0), "{said}");
    assert!(done.exists(), "{said}");
}
