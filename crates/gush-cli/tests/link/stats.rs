//! The reports of `gush link`: accounts, logs, progress.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::link::{Running, ask, echo, eventually};
use crate::common::{gush, noise, skipped};
use rustix::process::Signal;
use serde_json::Value;

const ONCE: &str = "tcp-listen:127.0.0.1:0";

#[test]
fn stats_as_text_are_a_line_a_connection() {
    let link = Running::start(&["--stats", ONCE, &format!("tcp:{}", echo())]);
    assert_eq!(ask(link.client(), &noise(2048, 1)), noise(2048, 1));
    let (_, output, said) = link.finish();
    let line =
        said.lines().find(|line| line.starts_with("gush: link: 1: 127.0.0.1:")).expect(&said);
    assert!(line.contains(" to tcp:127.0.0.1:"), "{line}");
    assert!(line.contains(": 2 KiB forward, 2 KiB back in "), "{line}");
    assert!(line.ends_with("; both ends had finished"), "{line}");
    assert!(output.is_empty());
}

#[test]
fn pipes_are_no_larger_than_asked_for() {
    let bytes_a_pipe = |options: &[&str]| {
        let target = format!("tcp:{}", echo());
        let words = [&["--stats", "--explain"], options, &[ONCE, &target]].concat();
        let link = Running::start(&words);
        ask(link.client(), &noise(4 << 20, 1));
        let (_, _, said) = link.finish();
        let (_, pipes) = said.split_once("pipes of this process: ").expect(&said);
        let numbers: Vec<usize> = pipes.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [in_use, idle, bytes, ..] = numbers[..] else { panic!("{said}") };
        bytes / (in_use + idle)
    };
    assert_eq!(bytes_a_pipe(&["--pipe-size", "64K"]), 64 << 10);
    assert!(bytes_a_pipe(&[]) > 64 << 10);
}

/// A peer outside of the link's namespace of process numbers has none that the kernel could report.
#[test]
fn a_peer_whose_process_cannot_be_seen_is_reported_without_a_number() {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child"];
    let tried = Command::new(unshare[0]).args(&unshare[1..3]).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        return skipped("no process number namespaces");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let mut command = Command::new(unshare[0]);
    command.args(&unshare[1..]).arg(env!("CARGO_BIN_EXE_gush"));
    let address = format!("unix-listen:{}", path.display());
    command.args(["link", "--stats", "--log", "info", &address, "pipe:"]);
    let link = Running::of(command);
    eventually("it listens", || path.exists());
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"abc").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    drop(client);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    assert!(said.contains("gush: link: 1: unix to pipe"), "{said}");
}

/// A connection that is cut has no method in the account, and the bytes have moved all the same.
#[test]
fn stats_of_a_connection_that_is_cut_say_what_has_moved() {
    let link = Running::start(&["--stats", "--explain", ONCE, &format!("tcp:{}", echo())]);
    let mut client = link.client();
    client.write_all(b"abc").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    link.signal(Signal::TERM);
    let (_, _, said) = link.finish();
    assert!(said.contains("gush: link: 1: forward 3 bytes, back 3 bytes; "), "{said}");
    let line =
        said.lines().find(|line| line.starts_with("gush: link: 1: 127.0.0.1:")).expect(&said);
    assert!(line.contains(": 3 B forward, 3 B back in "), "{line}");
    assert!(line.ends_with(" s; the link was ended"), "{line}");
}

#[test]
fn stats_as_json_have_the_promised_fields() {
    for words in [&["--stats=json"][..], &["--json"], &["--stats=text", "--json"]] {
        let target = format!("tcp:{}", echo());
        let link = Running::start(&[words, &[ONCE, &target]].concat());
        assert_eq!(ask(link.client(), b"abc"), b"abc");
        let said = link.finish().2;
        let line = said.lines().find(|line| line.starts_with('{')).expect(&said);
        let record: Value = serde_json::from_str(line).unwrap();
        let mut fields: Vec<&str> =
            record.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let expected = [
            "back_bytes",
            "back_lost_bytes",
            "back_method",
            "ended",
            "error",
            "first",
            "forward_bytes",
            "forward_lost_bytes",
            "forward_method",
            "id",
            "second",
            "seconds",
        ];
        assert_eq!(fields, expected);
        assert_eq!(record["id"], 1);
        assert_eq!(record["error"], Value::Null);
        assert!(record["forward_method"].is_string());
    }
}

#[test]
fn a_connection_that_failed_has_stats() {
    let output = gush().args(["link", "--json", "null:", "unix:/nobody/is/here"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let record: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(record["ended"], "open-failed");
    assert_eq!(record["error"]["errno"], 2);
    assert!(
        said.lines().last().unwrap().starts_with("gush: link: unix:/nobody/is/here: "),
        "{said}"
    );
}

#[test]
fn logs_have_levels_and_formats() {
    let link = |args: &[&str]| {
        let all = [&["link"], args, &["-u", "null:", "null:"]].concat();
        let output = gush().args(all).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(link(&[]), "");
    assert_eq!(link(&["--log", "error"]), "");
    let said = link(&["--log", "info"]);
    assert!(said.lines().all(|line| line.starts_with("gush: link: info: ")), "{said}");
    assert!(said.contains("connected id=1 client=null:"), "{said}");
    let said = link(&["--log", "debug", "--log-format", "timed"]);
    assert!(
        said.lines().all(|line| line.starts_with("20") && line.contains("Z gush: link: ")),
        "{said}"
    );
    for line in link(&["--log", "info", "--log-format", "json"]).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["level"], "INFO");
        assert!(event["message"].is_string() && event["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn progress_is_reported_in_lines_where_there_is_no_terminal_and_always_is_asked() {
    let said = |when: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), noise(300_000, 1)).unwrap();
        let args =
            ["link", "-u", "--limit", "200K", when, &file.path().display().to_string(), "null:"];
        let output = gush().args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said("--progress"), "");
    assert_eq!(said("--progress=never"), "");
    let said = said("--progress=always");
    assert!(said.contains(" forward (") && said.contains("1 open, 1 in all"), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("gush: link: 293 KiB forward, 0 B back, 1 in all, "), "{last}");
}
