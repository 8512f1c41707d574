//! Clients that hang up while the other end opens, or after an end that was overlooked.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{FORK, accept, listener, reset};
use crate::common::link::{PATIENCE, Running};

/// The client's end was overlooked, the reset is not.
#[test]
fn a_client_that_resets_after_an_overlooked_end_leaves_its_place() {
    let (listener, target) = listener();
    let listen = format!("{FORK},max-children=1,ignoreeof");
    let link = Running::start(&["--json", &listen, &target]);
    let client = link.client();
    let _first = accept(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    // So that the end is met before the reset; one that comes first is a reset as any.
    thread::sleep(Duration::from_millis(300));
    reset(client);
    link.says("\"ended\":\"relay-failed\"");
    let _next = link.client();
    let _second = accept(&listener);
}

#[test]
fn a_client_that_resets_while_the_other_end_opens_leaves_its_place() {
    let dir = TempDir::new().unwrap();
    let back = dir.path().join("back");
    let listen = format!("{FORK},max-children=1");
    let other = format!("unix:{},retry=forever,interval=0.05", back.display());
    let link = Running::start(&["--json", &listen, &other]);
    let client = link.client();
    link.says("trying again");
    reset(client);
    let line = link.says("\"ended\":\"open-failed\"");
    assert!(line.contains("hung up"), "{line}");

    let served = UnixListener::bind(&back).unwrap();
    let mut next = link.client();
    served.accept().unwrap().0.write_all(b"served").unwrap();
    let mut heard = String::new();
    next.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "served");
}

#[test]
fn a_unix_client_that_closes_while_the_other_end_opens_leaves_its_place() {
    let dir = TempDir::new().unwrap();
    let (front, back) = (dir.path().join("front"), dir.path().join("back"));
    let listen = format!("unix-listen:{},fork", front.display());
    let other = format!("unix:{},retry=forever,interval=0.05", back.display());
    let link = Running::start(&["--json", &listen, &other]);
    link.says("listening on ");
    let connect = || std::os::unix::net::UnixStream::connect(&front).unwrap();
    // A client that only ends its data still wants the answer.
    let half_closed = connect();
    half_closed.shutdown(Shutdown::Write).unwrap();
    drop(connect());
    link.says("\"ended\":\"open-failed\"");
    assert!(!link.said().contains("\"id\":1"), "a half-close is no hang-up:\n{}", link.said());
    drop(half_closed);
    link.says("\"id\":1");
}

/// What the server heard of a connection that `link` opened late, after a client had said all of
/// its data and closed.
fn heard_late(link: Running, back: &std::path::Path, gone: impl FnOnce(&Running)) -> String {
    link.says("trying again");
    gone(&link);
    // The link learns of the close before anybody serves it.
    link.says_times("trying again", 4);
    let mut stream = UnixListener::bind(back).unwrap().accept().unwrap().0;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    drop(stream);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    heard
}

#[test]
fn what_a_program_said_before_it_exited_is_heard_though_the_other_end_opens_later() {
    for program in ["exec:'echo hello'", "exec:'echo hello',pipes", "exec:'echo hello',crnl"] {
        for way in [&[][..], &["-u"]] {
            let dir = TempDir::new().unwrap();
            let back = dir.path().join("back");
            let other = format!("unix:{},retry=forever,interval=0.05", back.display());
            let link = Running::start(&[way, &[program, &other]].concat());
            assert_eq!(heard_late(link, &back, |_| ()), "hello\n", "{way:?} {program}");
        }
    }
}

#[test]
fn what_a_unix_client_said_before_it_closed_is_heard_though_the_other_end_opens_later() {
    for (way, words) in [(&[][..], "hello"), (&["-u"], "hello"), (&["-u"], "")] {
        let dir = TempDir::new().unwrap();
        let (front, back) = (dir.path().join("front"), dir.path().join("back"));
        let listen = format!("unix-listen:{}", front.display());
        let other = format!("unix:{},retry=forever,interval=0.05", back.display());
        let link = Running::start(&[way, &[&listen, &other]].concat());
        link.says("listening on ");
        let mut client = std::os::unix::net::UnixStream::connect(&front).unwrap();
        client.write_all(words.as_bytes()).unwrap();
        assert_eq!(heard_late(link, &back, |_| drop(client)), words, "{way:?}");
    }
}
