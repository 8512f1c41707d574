//! `gush pv` beside the pv of this machine: where both mean the same, the last line of progress, the output and the
//! status are the same bytes.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{gush_as, not_applicable, skipped};
use tempfile::TempDir;

/// The installed pv, if that version's display is the one to compare with.
fn installed() -> Option<&'static str> {
    let version = Command::new("pv").arg("--version").output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match text {
        Ok(text) if text.starts_with("pv 1.6.") => Some("pv"),
        Ok(text) => {
            let first = text.lines().next().unwrap_or_default().to_owned();
            not_applicable(&format!("this pv is no 1.6: {first}"));
            None
        }
        Err(error) => {
            skipped(&format!("no pv on this machine: {error}"));
            None
        }
    }
}

/// Runs a program with the bytes as a pipe at standard input. Only the end is shown, however slow the machine is.
fn fed(mut command: Command, args: &[&str], bytes: &[u8], dir: &Path) -> Output {
    command.args(args).args(["-i", "600"]).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = bytes.to_owned();
    // A program that ends early leaves bytes in the pipe.
    let feeder = std::thread::spawn(move || input.write_all(&bytes).ok());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

/// The same words and bytes for both.
fn agrees(words: &str, bytes: &[u8]) {
    agrees_with(words, bytes, |said| said.to_owned());
}

fn agrees_with(words: &str, bytes: &[u8], compared: impl Fn(&str) -> String) {
    let Some(pv) = installed() else { return };
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), b"hello\nfile\n").unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    let args: Vec<&str> = words.split_whitespace().collect();
    let theirs = fed(Command::new(pv), &args, bytes, dir.path());
    let _ = std::fs::remove_file(dir.path().join("made"));
    let ours = fed(gush_as("pv", dir.path()), &args, bytes, dir.path());
    let said = |output: &Output| compared(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(said(&theirs), said(&ours), "{words}, {} bytes", bytes.len());
    assert_eq!(theirs.stdout.len(), ours.stdout.len(), "{words}, {} bytes", bytes.len());
    assert!(theirs.stdout == ours.stdout, "{words}, {} bytes", bytes.len());
    assert_eq!(theirs.status.code(), ours.status.code(), "{words}, {} bytes", bytes.len());
}

#[test]
fn bars_are_the_same_at_every_width() {
    for width in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 20, 33, 40, 80, 200] {
        for bytes in [0, 1, 33, 50, 99, 100, 101, 150, 1000] {
            agrees(&format!("-f -p -s 100 -w {width}"), &vec![0; bytes]);
        }
        agrees(&format!("-f -p -w {width}"), b"some bytes");
        agrees(&format!("-f -pb -N name -w {width}"), b"some bytes");
        agrees(&format!("-f -pbe -s 20 -w {width}"), b"twenty bytes, twenty");
    }
}

#[test]
fn amounts_are_the_same() {
    for bytes in [0, 1, 99, 100, 999, 1000, 1023, 1024, 10_000, 10_239, 99_999, 102_300, 1 << 20] {
        agrees("-f -b", &vec![0; bytes]);
        agrees("-f -l -b", &vec![b'\n'; bytes]);
        agrees("-f -0 -b", &vec![0; bytes]);
    }
}

#[test]
fn numbers_are_the_same() {
    for words in
        ["-n", "-n -s 100", "-n -b", "-n -b -l", "-n -l -s 4", "-n -N name", "-q", "-n -b -0"]
    {
        agrees(words, b"one\ntwo\nthree\n");
    }
}

#[test]
fn what_options_do_together_is_the_same() {
    for words in [
        "-f -b -H 30",
        "-f -b -H 0",
        "-f -b -w 0",
        "-f -c -b",
        "-f -T",
        "-f -T -b",
        "-f -pb -s 18 -w 40 -c",
        "-n -s 18 file",
        "-n -b file -",
        "-f -b -l -s 4",
        "-f -p -l -s 8 -w 30",
        "-f -b -0",
        "-f -b -W -s 5",
        "-f -b -D 0",
        "-B 1",
        "-B 100k file",
        "-C -B 7 file -",
        "-S -s 100",
        "-S -s 0",
        "-S -s 1 file file",
        "-l -S -s 0",
        "-L 1k file",
        "-L 0 file",
        "-f -N name -p -w 25 -s 9",
        "-f -N averyverylongname -b",
        "-f -w 10 -N name -b",
        "-f -F %",
        "-f -F %b%b",
        "-f -F [%p] -w 20 -s 18",
        "-f -F %N:%b -N x",
        "-q -n",
        "-q -b -f",
        "-n -q",
        "-f -e",
        "-f -I",
        "-f -b -s 18k",
        "-f -b -s 1m",
        "-s 1T -n",
        "-s 5k -n",
        "-f -bb",
        "--bytes --force",
        "--byt -f",
        "-w 99999 -f -b",
        "file -f -b",
        "- - -f -b",
        "nofile d",
        "-P /nodir/x file",
        "-p -t -e -r -b -f -F %b",
        "-f -b -p -w 12",
        "-f -pb -w 13",
        "-f -pb -w 14 -s 18",
        "-f -a -F %b",
    ] {
        agrees(words, b"one\ntwo\nthree\nfour");
    }
}

#[test]
fn formats_are_the_same() {
    for words in ["-F %b%%%N:%p -w 30 -s 42", "-F %x%y%", "-F <%N%b> -N name", "-F %p%b -w 20"] {
        agrees(&format!("-f {words}"), b"one\ntwo\n");
    }
}

#[test]
fn what_is_not_shown_is_the_same() {
    for words in ["", "-p", "-f -D 500", "-f -W -b", "-q -f"] {
        agrees(words, b"one\n");
    }
    agrees("-f -W", b"");
}

#[test]
fn files_failures_and_statuses_are_the_same() {
    for words in [
        "file",
        "file file",
        "file -",
        "- file",
        "nofile file",
        "d",
        "d file",
        "-q file nofile d",
        "-f -b file nofile",
        "-S -s 3",
        "-S -s 3 file -",
        "-l -S -s 2",
        "-l -S -s 9 file -",
        "-S -l -s 1 file",
        "-L 1M",
        "-B 2 file",
        "-C file",
        "-E file",
        "-EE file",
        "-P made file",
        "-d 2147483646",
        "-d 2147483646:1",
        "-R 2147483646 -L 1M",
    ] {
        agrees(words, b"one\ntwo\nthree\nfour");
    }
}

#[test]
fn without_any_input_nothing_is_shown() {
    // The status of pv 1.6 has an 8 then, for closing what was never open.
    let dir = TempDir::new().unwrap();
    for words in ["-f -b nofile", "-n nofile nofile2", "-f -pb -N x nofile"] {
        let args: Vec<&str> = words.split_whitespace().collect();
        let Some(pv) = installed() else { return };
        let theirs = fed(Command::new(pv), &args, b"", dir.path());
        let ours = fed(gush_as("pv", dir.path()), &args, b"", dir.path());
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said(&theirs), said(&ours), "{words}");
        assert_eq!(ours.status.code(), Some(2), "{words}");
    }
}

#[test]
fn misuse_has_the_same_status() {
    for words in ["--nope", "-s x", "-s", "-i x", "-L x", "-B x", "-Z", "-w x"] {
        agrees_with(words, b"", |_| String::new());
    }
}
