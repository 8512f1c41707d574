//! Standard descriptors that are closed, or open for the other direction: an error, never bytes
//! lost or a hang.

use std::fs;
use std::path::Path;

use crate::common::cp::{names, script, stderr, with_files};

/// Runs a script that must fail with status 1, and returns the messages. `timeout` ends a hang with
/// status 124.
fn fails(dir: &Path, text: &str) -> String {
    let output = script(dir, &format!("g() {{ timeout 60 \"$G\" \"$@\"; }}; {text}"));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}: {said}");
    said
}

#[test]
fn a_name_of_a_closed_standard_descriptor_is_an_error_and_no_byte_is_lost() {
    let dir = with_files(&[("a", b"wanted")]);
    for (name, to) in [
        ("in", "/dev/stdin"),
        ("out", "/dev/stdout"),
        ("further", "out"),
        ("fds", "/proc/self/fd"),
        ("err", "/dev/stderr"),
    ] {
        std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    }
    for (text, said) in [
        ("g cp a /dev/stdout >&-", "cannot create regular file '/dev/stdout': Bad file descriptor"),
        ("g cp a /dev/fd/1 >&-", "cannot create regular file '/dev/fd/1': Bad file descriptor"),
        (
            "g cp a /proc/self/fd/1 >&-",
            "cannot create regular file '/proc/self/fd/1': Bad file descriptor",
        ),
        (
            "g cp a /proc/thread-self/fd/1 >&-",
            "cannot create regular file '/proc/thread-self/fd/1': Bad file descriptor",
        ),
        ("g cp a further >&-", "cannot create regular file 'further': Bad file descriptor"),
        ("g cp -f a out >&-", "cannot create regular file 'out': Bad file descriptor"),
        ("g cp a fds/1 >&-", "cannot create regular file 'fds/1': Bad file descriptor"),
        ("g cp /dev/stdin c <&-", "cannot open '/dev/stdin' for reading: Bad file descriptor"),
        ("g cp /dev/fd/0 c <&-", "cannot open '/dev/fd/0' for reading: Bad file descriptor"),
        ("g cp in c <&-", "cannot open 'in' for reading: Bad file descriptor"),
        ("g cat /dev/stdin <&-", "cat: /dev/stdin: Bad file descriptor"),
        ("g cat -n in <&-", "cat: in: Bad file descriptor"),
        ("g tee /dev/stdout <a >&-", "tee: /dev/stdout: Bad file descriptor"),
        ("g tee further </dev/null >&-", "tee: further: Bad file descriptor"),
        (
            "g pv -o /dev/stdout a >&- || exit 1",
            "pv: /dev/stdout: open failed: Bad file descriptor",
        ),
        ("g pv -U out a >&- | cat; exit $((PIPESTATUS[0] == 2))", "Bad file descriptor"),
        ("g link -u a /dev/stdout >&-", "standard output is closed"),
        ("g link -u file:out a >&-", "standard output is closed"),
        ("g link -u /dev/stdin - <&-", "standard input is closed"),
        ("g lab --report /dev/stderr 2>&-", ""),
        ("g lab pipe --report /dev/fd/1 --no-store >&-", "/dev/fd/1: standard output is closed"),
        ("g lab report --report further >&-", "further: standard output is closed"),
        ("g lab explain pipe:write-read --flame out >&-", "out: standard output is closed"),
        ("g link -u --tee=/dev/stdout a /dev/null >&-", "Bad file descriptor"),
    ] {
        assert!(fails(dir.path(), text).contains(said), "{text}: {}", fails(dir.path(), text));
    }
    // There is nowhere to report to.
    fails(dir.path(), "g cp a err 2>&-");
    fails(dir.path(), "g tee err <a 2>&-");
    assert_eq!(names(dir.path()), ["a", "err", "fds", "further", "in", "out"]);
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"wanted");
}

#[test]
fn the_same_names_serve_where_the_descriptor_is_open_or_another_is_closed() {
    let dir = with_files(&[("a", b"wanted")]);
    for text in [
        "\"$G\" cp a /dev/stdout | cmp - a",
        "\"$G\" cp a /dev/stdout <&- | cmp - a",
        "\"$G\" cp /dev/stdin b <a >&- && cmp a b",
        "\"$G\" cp a /dev/null >&-",
        "\"$G\" cp /dev/null b <&- && ! test -s b",
        "\"$G\" cat /dev/stdin <a | cmp - a",
        "\"$G\" link -u a /dev/stdout <&- | cmp - a",
    ] {
        let output = script(dir.path(), &format!("set -o pipefail; {text}"));
        assert!(output.status.success(), "{text}: {}", stderr(&output));
    }
}

#[test]
fn the_wrong_end_of_a_pipe_as_standard_input_or_output_is_an_error() {
    let dir = with_files(&[("a", b"wanted")]);
    for text in [
        "g cat 0> >(cat)",
        "g cat -n 0> >(cat)",
        "g cat a 1< <(sleep 1)",
        "g cat -n a 1< <(sleep 1)",
        "g link -u - /dev/null 0> >(cat)",
        "g link -u a - 1< <(sleep 1)",
    ] {
        let said = fails(dir.path(), text);
        let names = ["Bad file descriptor", "it can only be"];
        assert!(names.iter().any(|name| said.contains(name)), "{text}: {said}");
    }
}
