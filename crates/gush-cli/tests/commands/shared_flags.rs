//! The file status flags of an inherited open file belong to everybody who shares the open file: no
//! command sets one.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{gush, noise, skipped, strace, within};

/// More than a socket takes at once.
const MUCH_BYTES: usize = 3_000_001;

/// Asserts that the traced `gush WORDS` sets no flag of its standard streams, which are one socket
/// that gives `noise` as long as this and then the end, and returns what the command wrote.
fn assert_sets_none(words: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("trace");
    let options = ["-y", "-e", "trace=fcntl,ioctl", "-e", "signal=none", "-o"];
    let mut command = match strace(&[&options[..], &[log.to_str().unwrap()]].concat()) {
        Ok(command) => command,
        Err(why) => {
            skipped(&why);
            return Vec::new();
        }
    };
    let bytes = noise(MUCH_BYTES, 1);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    let (far, near) = UnixStream::pair().unwrap();
    let inode = rustix::fs::fstat(&near).unwrap().st_ino;
    let copy = || Stdio::from(OwnedFd::from(near.try_clone().unwrap()));
    command.args(words).current_dir(dir.path()).stdin(copy()).stdout(copy()).stderr(copy());
    let mut child = command.spawn().unwrap();
    drop((command, near));
    let mut feeder = far.try_clone().unwrap();
    let fed = thread::spawn(move || {
        // A command that does not read its input ends before it has all.
        let _ = feeder.write_all(&bytes);
        let _ = feeder.shutdown(std::net::Shutdown::Write);
    });
    let mut written = Vec::new();
    // A command that leaves input unread resets the connection.
    let _ = (&far).take(2 * MUCH_BYTES as u64).read_to_end(&mut written);
    // `yes` ends when nobody reads any more.
    let _ = far.shutdown(std::net::Shutdown::Both);
    child.wait().unwrap();
    fed.join().unwrap();
    assert_untouched(&fs::read_to_string(&log).unwrap(), inode, words);
    written
}

fn assert_untouched(trace: &str, inode: u64, words: &[&str]) {
    let is_set = |line: &&str| {
        (line.contains("F_SETFL") || line.contains("FIONBIO"))
            && line.contains(&format!("socket:[{inode}]"))
    };
    let set: Vec<_> = trace.lines().filter(is_set).collect();
    assert!(set.is_empty(), "{words:?}: {set:#?}");
}

#[test]
fn cat_sets_no_flag_of_a_shared_socket() {
    assert_sets_none(&["cat"]);
    assert_sets_none(&["cat", "-n", "source"]);
}

#[test]
fn cp_sets_no_flag_of_a_shared_socket() {
    assert_sets_none(&["cp", "--progress", "source", "/dev/stdout"]);
}

#[test]
fn pv_sets_no_flag_of_a_shared_socket() {
    for words in [&["pv", "-q"][..], &["pv", "-q", "source"], &["pv", "-f", "-i", "0.1", "source"]]
    {
        let written = assert_sets_none(words);
        assert!(written.is_empty() || written.len() >= MUCH_BYTES, "{words:?}: {}", written.len());
    }
    assert_sets_none(&["pv", "-q", "--", "sh", "-c", "cat; echo message >&2"]);
}

#[test]
fn tee_sets_no_flag_of_a_shared_socket() {
    for words in [&["tee", "copy"][..], &["tee", "--buffer=1M", "copy"]] {
        let written = assert_sets_none(words);
        assert!(written.is_empty() || written.len() == MUCH_BYTES, "{words:?}: {}", written.len());
    }
}

#[test]
fn yes_sets_no_flag_of_a_shared_socket() {
    assert_sets_none(&["yes"]);
}

#[test]
fn link_sets_no_flag_of_a_shared_socket() {
    for words in
        [&["link", "-", "exec:cat"][..], &["link", "fd:0", "null:"], &["link", "file:source", "-"]]
    {
        assert_sets_none(words);
    }
}

/// Starts `gush link WORDS` with this descriptor as number 3.
fn link_with(fd: &impl AsFd, words: &[&str], log: &std::path::Path) -> Result<Child, String> {
    // With -D the link is our child.
    let options = ["-D", "-y", "-e", "trace=fcntl,ioctl", "-o", log.to_str().unwrap()];
    let traced = strace(&options)?;
    let mut shell = within(&["sh", "-c", "exec \"$@\" 3<&0 0</dev/null", "sh"], &traced);
    let fd = fd.as_fd().try_clone_to_owned().unwrap();
    Ok(shell.args(words).stdin(fd).spawn().unwrap())
}

#[test]
fn listen_fd_sets_no_flag_of_the_shared_listener() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("trace");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let inode = rustix::fs::fstat(&listener).unwrap().st_ino;
    let words = ["link", "listen-fd:3,fork,max-children=2", "exec:cat"];
    let mut child = match link_with(&listener, &words, &log) {
        Ok(child) => child,
        Err(why) => return skipped(&why),
    };
    for _ in 0..3 {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"ping").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ping");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_untouched(&fs::read_to_string(&log).unwrap(), inode, &words);
}

/// Each sees every client, and one of them takes it: accept4(2) holds the other until the next
/// client.
#[test]
fn two_links_share_a_blocking_listener_and_end_on_a_signal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let links: Vec<Child> = (0..2)
        .map(|_| {
            let mut shell = gush();
            shell.args(["link", "listen-fd:3,fork", "exec:cat"]);
            let mut shell = within(&["sh", "-c", "exec \"$@\" 3<&0 0</dev/null", "sh"], &shell);
            shell.stdin(OwnedFd::from(listener.try_clone().unwrap())).spawn().unwrap()
        })
        .collect();
    for round in 0..40 {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"ping").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ping", "client {round}");
    }
    for link in &links {
        let pid = rustix::process::Pid::from_child(link);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    for mut link in links {
        let begun = Instant::now();
        while link.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(20));
        }
        // One that is held does not end, and must not outlive its test.
        let _ = link.kill();
        let status = link.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
    }
}

/// `{ (sleep; echo end) | gush pv & seq; } >/dev/tcp/HOST/PORT`, where the reader is slow.
#[test]
fn a_program_that_shares_a_socket_with_a_waiting_command_writes_all_its_bytes() {
    for words in [&["pv", "-q"][..], &["tee"], &["cat"]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let (input, mut feeder) = std::io::pipe().unwrap();
        let copy = OwnedFd::from(near.try_clone().unwrap());
        let mut command = gush();
        let mut child = command.args(words).stdin(input).stdout(copy).spawn().unwrap();
        drop(command);
        feeder.write_all(b"begun").unwrap();
        let mut first = [0; 5];
        far.read_exact(&mut first).unwrap();
        let bytes = noise(40_000_000, 2);
        let expected_bytes = bytes.len();
        let mut other = near;
        let writer = thread::spawn(move || {
            let written = other.write_all(&bytes);
            drop(other);
            written
        });
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).map(|_| rest)
        });
        let written = writer.join().unwrap();
        feeder.write_all(b"end").unwrap();
        drop(feeder);
        assert!(child.wait().unwrap().success(), "{words:?}");
        let rest = reader.join().unwrap().unwrap();
        written.unwrap_or_else(|error| panic!("{words:?}: the other writer: {error}"));
        assert_eq!(rest.len(), expected_bytes + 3, "{words:?}");
        assert!(rest.ends_with(b"end"), "{words:?}");
    }
}
