//! `nofork`: the process becomes the program of its second address.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::common::link::{Killed, eventually};
use crate::common::{file_of, gush};
use tempfile::TempDir;

#[test]
fn the_program_is_the_process_and_its_end_is_that_of_the_link() {
    for (program, code, signal) in [
        ("shell:'cat; echo $$; exit 7',nofork", Some(7), None),
        ("shell:'cat; echo $$; exit 0',nofork", Some(0), None),
        ("shell:'cat; echo $$; kill -KILL $$',nofork", None, Some(9)),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gush"));
        command.args(["link", "-", program]).stdin(file_of(b"sent ")).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let number = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (code, signal), "{program}");
        assert_eq!(output.stdout, format!("sent {number}\n").into_bytes(), "{program}");
    }
}

/// It reads the socket itself, and waits there for a client that says nothing yet.
#[test]
fn the_program_has_the_client_itself_and_limits_do_not_count() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    let program = "shell:'echo ready; read line; echo $line $SOCAT_PEERADDR; exit 5',nofork";
    command.args(["link", "-t", "1ms", "-T", "1ms", "unix-listen:s", program]);
    let mut link = Killed(command.current_dir(dir.path()).spawn().unwrap());
    let mut client = None;
    eventually("it listens", || {
        client = UnixStream::connect(dir.path().join("s")).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    let mut heard = BufReader::new(client.try_clone().unwrap());
    let mut ready = String::new();
    heard.read_line(&mut ready).unwrap();
    client.write_all(b"hello\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = String::new();
    heard.read_to_string(&mut rest).unwrap();
    assert_eq!((ready.as_str(), rest.as_str()), ("ready\n", "hello <anon>\n"));
    assert_eq!(link.0.wait().unwrap().code(), Some(5));
}

#[test]
fn one_direction_leaves_the_other_stream_of_the_process() {
    for (way, program, heard) in
        [("-u", "exec:'tr a-z A-Z',nofork", "SENT"), ("-U", "shell:'echo back',nofork", "back\n")]
    {
        let mut command = gush();
        command.args(["link", way, "-", program]).stdin(file_of(b"sent"));
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), heard, "{way} {output:?}");
    }
}

/// As a program that is started has: those of its client, whichever way the bytes go.
#[test]
fn it_has_the_variables_of_its_client_in_one_direction_too() {
    for (way, nofork) in [("-u", ",nofork"), ("-U", ",nofork"), ("-u", ""), ("-U", "")] {
        let dir = TempDir::new().unwrap();
        let mut command = gush();
        let program =
            format!("shell:'echo $SOCAT_SOCKADDR $SOCAT_PEERADDR $SOCAT_VERSION >env'{nofork}");
        command.args(["link", way, "unix-listen:s", &program]).current_dir(dir.path());
        let mut link = Killed(command.spawn().unwrap());
        eventually("it listens", || UnixStream::connect(dir.path().join("s")).is_ok());
        assert_eq!(link.0.wait().unwrap().code(), Some(0), "{way} {nofork}");
        let env = std::fs::read_to_string(dir.path().join("env")).unwrap();
        assert_eq!(env, "s <anon> 1.8.0.3\n", "{way} {nofork}");
    }
}

#[test]
fn a_program_that_is_missing_is_an_error() {
    let output = gush().args(["link", "-", "exec:/nonexistent,nofork"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("start /nonexistent: No such file"), "{said}");
}

#[test]
fn it_is_refused_where_no_program_can_take_the_place_of_the_link() {
    for (first, second, why) in [
        ("exec:cat,nofork", "-", "nofork is for the second address"),
        ("-", "null:!!exec:cat,nofork", "nofork is for the second address"),
        ("tcp-listen:1,fork", "exec:cat,nofork", "a link's only connection"),
        ("-,crnl", "exec:cat,nofork", "as it is"),
        ("udp-listen:1", "exec:cat,nofork", "as it is"),
        ("tls:h:1", "exec:cat,nofork", "as it is"),
        ("-", "exec:cat,nofork,pty", "pty"),
    ] {
        let output = gush().args(["link", first, second]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{first} {second}: {said}");
    }
}
