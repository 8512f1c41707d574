//! `gush link -v` and `-x`: the passing bytes, on standard error.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use crate::common::link::{Running, ask, client_of, echo, unread};
use crate::common::{gush, noise, skipped};

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

/// Every byte value, and lines that are longer and shorter than a column.
fn odd_text() -> Vec<u8> {
    let mut bytes = b"hello\r\nwor\tld\x01\\\nabcdefghijklmnopqrstuvwxyz0123\n\"".to_vec();
    bytes.extend(0..=255);
    bytes.extend(b"\nno end of line");
    bytes
}

/// The dump of `command` on standard error about the bytes between `input` and `cat`, without the
/// times.
fn dump_of(mut command: Command, words: &[&str], input: &[u8]) -> String {
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, input);
    let said = String::from_utf8(output.stderr).unwrap();
    said.split_inclusive('\n').map(without_time).collect()
}

/// A head's time stands between the direction's sign and two blanks. Where the text before has no
/// end of line the head follows at once.
fn without_time(line: &str) -> String {
    match line.split_once("  length=") {
        Some((before, after)) => {
            let (before, sign) = before.split_at(before.rfind(['>', '<']).unwrap());
            format!("{before}{}  length={after}", &sign[..1])
        }
        None => line.to_owned(),
    }
}

#[test]
fn dumps_are_those_of_socat() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    for flags in [&["-v"][..], &["-x"], &["-v", "-x"]] {
        for input in [odd_text(), b"x".to_vec(), vec![b'y'; 64]] {
            let mut link = gush();
            link.arg("link").args(flags);
            let ours = dump_of(link, &["-", "shell:cat"], &input);
            let mut socat = Command::new("socat");
            // By itself socat waits 0.5 s for the answer, and on a busy machine `cat` may not have
            // started by then.
            socat.args(["-t", "60"]).args(flags);
            let theirs = dump_of(socat, &["-", "SYSTEM:cat"], &input);
            assert_eq!(ours, theirs, "{flags:?} {input:?}");
            assert!(ours.starts_with(&format!(">  length={} from=0 to=", input.len())), "{ours}");
        }
    }
}

#[test]
fn each_connection_and_direction_has_offsets_of_its_own() {
    let link = Running::start(&["-v", LISTEN, &format!("tcp:{}", echo())]);
    for _ in 0..2 {
        let mut client = link.client();
        for word in ["one\n", "three\n"] {
            client.write_all(word.as_bytes()).unwrap();
            client.read_exact(&mut vec![0; word.len()]).unwrap();
        }
    }
    for sign in ["> ", "< "] {
        for offsets in ["length=4 from=0 to=3", "length=6 from=4 to=9"] {
            link.says_times(offsets, 4);
            let said = link.said();
            let heads = said.lines().filter(|line| line.starts_with(sign));
            assert_eq!(heads.filter(|line| line.ends_with(offsets)).count(), 2, "{said}");
        }
    }
}

#[test]
fn a_dump_that_nobody_reads_stops_no_client_and_says_what_is_missing() {
    let (_child, mut stderr, place) =
        unread(&["--log", "info", "-x", LISTEN, &format!("tcp:{}", echo())]);
    let question = noise(1 << 20, 1);
    assert_eq!(ask(client_of(&place), &question), question);
    let heard = thread::spawn(move || {
        let mut heard = String::new();
        while !heard.contains(" bytes are not shown: standard error was not read\n") {
            let mut bytes = [0; 4096];
            let count = stderr.read(&mut bytes).unwrap();
            assert!(count > 0, "not reported:\n{heard}");
            heard += &String::from_utf8_lossy(&bytes[..count]);
        }
    });
    while !heard.is_finished() {
        assert_eq!(ask(client_of(&place), b"?"), b"?");
    }
    heard.join().unwrap();
}
