//! Addresses that stand together: `A!!B`, which reads from one and writes to the other, and `A|B`, the first that opens.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

use common::link::{Running, ask, echo, server};
use common::{gush, skipped};
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

fn link(args: &[&str]) -> Output {
    gush().arg("link").args(args).output().unwrap()
}

/// A port that nobody listens at, until somebody does.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn one_address_is_read_and_the_other_is_written_as_by_socat() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("in"), "question\n").unwrap();
    let ends = format!("file:{},rdonly!!file:{},create", path("in"), path("ours"));
    let done = link(&[&ends, "shell:'tr a-z A-Z'"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read(path("ours")).unwrap(), b"QUESTION\n");
    let socat = format!("OPEN:{},rdonly!!CREATE:{}", path("in"), path("theirs"));
    match Command::new("socat").args([&socat, "SYSTEM:tr a-z A-Z"]).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return skipped("no socat to compare with"),
    }
    assert_eq!(fs::read(path("theirs")).unwrap(), fs::read(path("ours")).unwrap());
}

#[test]
fn each_end_of_data_of_a_joined_end_is_passed_on() {
    let dir = TempDir::new().unwrap();
    let answer = dir.path().join("answer");
    fs::write(&answer, "answer").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let heard = server(move |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        tell.send(bytes).unwrap();
    });
    let other = format!("file:{},rdonly!!tcp:{heard}", answer.display());
    let link = Running::start(&[LISTEN, &other]);
    assert_eq!(ask(link.client(), b"question"), b"answer");
    assert_eq!(told.recv().unwrap(), b"question");
}

#[test]
fn one_way_only_the_half_that_is_used_is_opened() {
    let done = link(&["-u", "shell:'echo in'!!file:/no/such/file", "-"]);
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"in\n"[..]), "{done:?}");
    let done = link(&["-u", "shell:'echo in'", "file:/no/such/file!!-"]);
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"in\n"[..]), "{done:?}");
    let done = link(&["-!!null:", "shell:'echo out; cat'"]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0), "{done:?}");
}

#[test]
fn what_cannot_stand_together_is_pointed_at() {
    let cases = [
        ("null:!!-!!-", "A!!B", "          ^^"),
        ("tcp-listen:1!!-", "clients come to it", "  ^^^^^^^^^^^^"),
        ("exec:a!!exec:b", "may be a program, not both", "          ^^^^^^"),
        ("tcp:a:1|tcp-listen:1", "clients come to it", "          ^^^^^^^^^^^^"),
        ("tcp:a:1|udp:a:1", "whoever is there", "          ^^^^^^^"),
        ("tcp:a:1|tcp:b:70000", "ports end at 65535", "                ^^^^^"),
        ("null:!!tcp:b:70000", "ports end at 65535", "               ^^^^^"),
        ("tcp:a:1|", "an address is missing here", "          ^"),
    ];
    for (address, why, place) in cases {
        let said = link(&[address, "null:"]);
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(1), "{address}: {text}");
        let mut lines = text.lines();
        assert!(lines.next().unwrap().contains(why), "{address}: {text}");
        assert_eq!(lines.next().unwrap().trim(), address);
        assert_eq!(lines.next().unwrap(), place, "{address}: {text}");
    }
}

#[test]
fn a_bar_within_a_command_or_quotes_separates_nothing() {
    let done = link(&["-u", "shell:echo a | tr a b", "-"]);
    assert_eq!(done.stdout, b"b\n", "{done:?}");
    let dir = TempDir::new().unwrap();
    let quoted = format!("'{}/a|b!!c'", dir.path().display());
    assert!(link(&["-u", "shell:echo a", &quoted]).status.success());
    assert_eq!(fs::read(dir.path().join("a|b!!c")).unwrap(), b"a\n");
}

#[test]
fn the_first_that_answers_is_told_in_the_log_and_in_the_account() {
    let (nobody, echo) = (free_port(), echo());
    let link =
        Running::start(&["--json", LISTEN, &format!("tcp:{nobody}|tcp:{echo}|tcp:{nobody}")]);
    assert_eq!(ask(link.client(), b"?"), b"?");
    link.says(&format!("tcp:{nobody}: connect to {nobody}: Connection refused"));
    link.says(&format!("tcp:{echo} answers, of tcp:{nobody}|tcp:{echo}|tcp:{nobody}"));
    link.says(&format!("\"second\":\"tcp:{echo}\""));
}

#[test]
fn every_client_begins_with_the_first_target() {
    let (late, echo) = (free_port(), echo());
    let link = Running::start(&[LISTEN, &format!("tcp:{late}|tcp:{echo}")]);
    assert_eq!(ask(link.client(), b"?"), b"?");
    let now_there = TcpListener::bind(&late).unwrap();
    let client = link.client();
    let (mut first, _) = now_there.accept().unwrap();
    first.write_all(b"first").unwrap();
    drop(first);
    assert_eq!(ask(client, b""), b"first");
    assert!(!link.said().contains("warning"), "{}", link.said());
}

#[test]
fn where_nobody_answers_every_target_is_told() {
    let (one, other) = (free_port(), free_port());
    let said = link(&["null:", &format!("tcp:{one}|tcp:{other}")]);
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    for place in [&one, &other] {
        assert!(text.contains(&format!("connect to {place}: Connection refused")), "{text}");
    }
    assert!(text.contains("(nobody listens there; start the server"), "{text}");
    // A program can be the last resort.
    let done = link(&["-u", &format!("tcp:{one}|shell:'echo instead'"), "-"]);
    assert_eq!(done.stdout, b"instead\n", "{done:?}");
}
