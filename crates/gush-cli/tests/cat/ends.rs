//! `gush cat` between every kind of descriptor, with and without a text flag.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::common::{gush, noise, skipped};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tempfile::TempDir;

/// More than any pipe, buffer or socket takes at once.
const MUCH_BYTES: usize = 3_000_001;

/// The engine's way and the formatter's, which shows bytes below 128 without line ends as they are.
const WAYS: [&str; 2] = ["-u", "-s"];

/// No two line ends in a row, so that `-s` has nothing to squeeze.
fn stream() -> Vec<u8> {
    let mut bytes = noise(MUCH_BYTES, 7);
    bytes.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'.');
    bytes
}

fn cat(flag: &str) -> Command {
    let mut command = gush();
    command.args(["cat", flag]);
    command
}

/// Feeds a child's end from a thread, as a slow peer would: in pieces of odd size.
fn feed(mut end: impl Write + Send + 'static, bytes: Vec<u8>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for piece in bytes.chunks(77_777) {
            end.write_all(piece).unwrap();
        }
    })
}

fn drain(mut end: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        end.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn set_nonblocking(fd: impl AsFd) {
    let flags = fcntl_getfl(&fd).unwrap();
    // The flag belongs to the open file: the command inherits it, as a shell's child does.
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
}

fn succeeded(mut child: Child) {
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file with `bytes`, at offset 0.
fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Pipe,
    NonBlockingPipe,
    Socket,
    NonBlockingSocket,
}

const KINDS: [Kind; 5] =
    [Kind::File, Kind::Pipe, Kind::NonBlockingPipe, Kind::Socket, Kind::NonBlockingSocket];

/// A descriptor of `kind` that will give `bytes`.
fn giver(kind: Kind, bytes: &[u8]) -> OwnedFd {
    let fd: OwnedFd = match kind {
        Kind::File => file_of(bytes).into(),
        Kind::Pipe | Kind::NonBlockingPipe => {
            let (ours, theirs) = io::pipe().unwrap();
            feed(theirs, bytes.to_vec());
            ours.into()
        }
        Kind::Socket | Kind::NonBlockingSocket => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            feed(theirs, bytes.to_vec());
            ours.into()
        }
    };
    if matches!(kind, Kind::NonBlockingPipe | Kind::NonBlockingSocket) {
        set_nonblocking(&fd);
    }
    fd
}

/// A descriptor of `kind`, and a function that returns at last the bytes taken.
fn taker(kind: Kind) -> (OwnedFd, Box<dyn FnOnce() -> Vec<u8>>) {
    let (fd, drained): (OwnedFd, _) = match kind {
        Kind::File => {
            let mut file = tempfile::tempfile().unwrap();
            let target = file.try_clone().unwrap().into();
            let learn = move || {
                let mut bytes = Vec::new();
                file.rewind().unwrap();
                file.read_to_end(&mut bytes).unwrap();
                bytes
            };
            return (target, Box::new(learn));
        }
        Kind::Pipe | Kind::NonBlockingPipe => {
            let (ours, theirs) = io::pipe().unwrap();
            (theirs.into(), drain(ours))
        }
        Kind::Socket | Kind::NonBlockingSocket => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (theirs.into(), drain(ours))
        }
    };
    if matches!(kind, Kind::NonBlockingPipe | Kind::NonBlockingSocket) {
        set_nonblocking(&fd);
    }
    (fd, Box::new(move || drained.join().unwrap()))
}

#[test]
fn every_byte_arrives_between_all_kinds_of_descriptors() {
    let bytes = stream();
    for flag in WAYS {
        for from in KINDS {
            for to in KINDS {
                let (stdout, taken) = taker(to);
                // The command keeps its own copies of the descriptors: gone with it, or no reader
                // sees the end.
                let child = cat(flag).stdin(giver(from, &bytes)).stdout(stdout).spawn().unwrap();
                succeeded(child);
                assert!(taken() == bytes, "{flag} {from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn every_method_delivers_every_byte_or_says_why_not() {
    let bytes = stream();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("source");
    fs::write(&path, &bytes).unwrap();
    for method in gush::MethodName::ALL {
        for to in KINDS {
            let (stdout, taken) = taker(to);
            let mut command = gush();
            command
                .args(["cat", "--method", method.as_str()])
                .arg(&path)
                .stdout(stdout)
                .stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            // It holds the target's descriptor, and the reader would see no end.
            drop(command);
            let output = child.wait_with_output().unwrap();
            let got = taken();
            if output.status.success() {
                assert!(got == bytes, "{method} to {to:?}");
            } else {
                assert_eq!(output.status.code(), Some(1));
                assert!(
                    said(&output).contains(method.as_str()) && got.is_empty(),
                    "{method} to {to:?}: {output:?}"
                );
            }
        }
    }
}

#[test]
fn a_method_that_does_not_exist_is_refused_with_those_that_do() {
    let output = gush().args(["cat", "--method=rsync"]).output().unwrap();
    assert!(said(&output).contains("copy-file-range"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_named_method_is_not_replaced_by_the_formatter() {
    let output = gush().args(["cat", "-n", "--method=splice", "/proc/version"]).output().unwrap();
    assert!(said(&output).contains("--method") && output.stdout.is_empty(), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_is_appended_comes_after_what_was_there() {
    let dir = TempDir::new().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    fs::write(&source, stream()).unwrap();
    for flag in WAYS {
        fs::write(&target, "before").unwrap();
        let stdout = File::options().append(true).open(&target).unwrap();
        succeeded(cat(flag).arg(&source).arg(&source).stdout(stdout).spawn().unwrap());
        assert!(
            fs::read(&target).unwrap() == [b"before".as_slice(), &stream(), &stream()].concat(),
            "{flag}"
        );
    }
}

#[test]
fn output_goes_on_where_the_descriptor_stands() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "aa").unwrap();
    fs::write(dir.path().join("b"), "bbb").unwrap();
    for flag in WAYS {
        let mut target = file_of(b"0123456789");
        target.seek(SeekFrom::Start(2)).unwrap();
        let stdout = target.try_clone().unwrap();
        succeeded(cat(flag).args(["a", "b"]).current_dir(&dir).stdout(stdout).spawn().unwrap());
        assert_eq!(target.stream_position().unwrap(), 7);
        target.rewind().unwrap();
        assert_eq!(io::read_to_string(target).unwrap(), "01aabbb789");
    }
}

#[test]
fn standard_input_is_read_from_where_it_stands() {
    for flag in WAYS {
        let mut source = file_of(b"0123456789");
        source.seek(SeekFrom::Start(4)).unwrap();
        let output = cat(flag).stdin(source.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.stdout, b"456789");
        assert_eq!(source.stream_position().unwrap(), 10);
    }
}

#[test]
fn files_of_size_0_that_have_content_are_shown() {
    for flag in WAYS {
        for path in [
            "/proc/cpuinfo",
            "/proc/self/maps",
            "/proc/version",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            if !fs::exists(path).unwrap() {
                skipped(&format!("no {path}"));
                continue;
            }
            let output = cat(flag).arg(path).output().unwrap();
            assert!(output.status.success() && !output.stdout.is_empty(), "{path}: {output:?}");
        }
        let output = cat(flag).arg("/proc/version").output().unwrap();
        assert_eq!(output.stdout, fs::read("/proc/version").unwrap());
    }
}

#[test]
fn a_fifo_is_read_to_its_writers_end() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    for flag in WAYS {
        let child = cat(flag).arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
        // The open waits for the command's own (fifo(7)), so it comes after the start.
        let writer = feed(File::options().write(true).open(&fifo).unwrap(), stream());
        assert!(child.wait_with_output().unwrap().stdout == stream(), "{flag}");
        writer.join().unwrap();
    }
}

#[test]
fn lines_show_as_soon_as_they_are_there() {
    for flag in ["-u", "-n"] {
        let mut child = cat(flag).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for word in ["one", "two"] {
            writeln!(stdin, "{word}").unwrap();
            // -n puts seven columns before each line.
            let mut shown = vec![0; if flag == "-n" { 11 } else { 4 }];
            stdout.read_exact(&mut shown).unwrap();
            assert!(shown.ends_with(format!("{word}\n").as_bytes()));
        }
        drop(stdin);
        succeeded(child);
    }
}

#[test]
fn a_full_target_is_an_error() {
    for flag in WAYS {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let output = cat(flag).arg("/proc/version").stdout(full()).output().unwrap();
        let line = "gush: cat: write error: No space left on device (after 0 bytes of /proc/version; \
            the target is full: ";
        assert!(said(&output).starts_with(line), "{flag}: {}", said(&output));
        assert_eq!(output.status.code(), Some(1));
        let empty = cat(flag).stdout(full()).output().unwrap();
        assert!(empty.status.success(), "nothing to write is no error: {empty:?}");
    }
}

#[test]
fn a_reader_that_left_ends_it_silently_by_sigpipe() {
    for flag in WAYS {
        let (ours, theirs) = io::pipe().unwrap();
        let child =
            cat(flag).arg("/dev/zero").stdout(theirs).stderr(Stdio::piped()).spawn().unwrap();
        drop(ours);
        let output = child.wait_with_output().unwrap();
        // GNU cat dies of SIGPIPE (13) too; a message would appear in every `cat | head`.
        assert_eq!(output.status.signal(), Some(13), "{flag}: {output:?}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn of_nothing_nobody_need_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    // A pipe without a writer, a device, a file, and a file after them.
    let ended = || Stdio::from(io::pipe().unwrap().0);
    for flag in WAYS {
        for operands in [&["-"][..], &["/dev/null"], &["empty"], &["-", "/dev/null", "empty"]] {
            for first in ["", "trap '' PIPE; "] {
                let (ours, theirs) = io::pipe().unwrap();
                drop(ours);
                let gush = env!("CARGO_BIN_EXE_gush");
                let script = format!("{first}exec \"$0\" cat \"$@\"");
                let mut shell = Command::new("sh");
                shell.args(["-c", &script, gush, flag]).args(operands).current_dir(&dir);
                let output = shell.stdin(ended()).stdout(theirs).output().unwrap();
                assert!(output.status.success(), "{flag} {operands:?} {first}: {output:?}");
                assert_eq!(said(&output), "", "{flag} {operands:?} {first}");
            }
        }
    }
}

/// A reset is the source's failure, also where nobody reads the output.
#[test]
fn a_source_that_fails_is_reported_though_nobody_reads() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&far, Some(std::time::Duration::ZERO)).unwrap();
    drop(far);
    // poll(2) without events waits for the error alone.
    let mut reset = [rustix::event::PollFd::new(&near, rustix::event::PollFlags::empty())];
    rustix::event::poll(&mut reset, None).unwrap();
    let (ours, theirs) = io::pipe().unwrap();
    drop(ours);
    let output = cat("-u").stdin(OwnedFd::from(near)).stdout(theirs).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("Connection reset by peer"), "{}", said(&output));
}

#[test]
fn a_limit_holds_back_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("source");
    fs::write(&path, &stream()[..200_000]).unwrap();
    for flag in WAYS {
        let start = std::time::Instant::now();
        let output = cat(flag).arg("--limit=1MB/s").arg(&path).output().unwrap();
        assert!(output.stdout == stream()[..200_000], "{flag}");
        // Never faster than the limit allows, but for the first burst.
        assert!(start.elapsed().as_millis() >= 100, "{flag}: {:?}", start.elapsed());
    }
}

#[test]
fn what_cannot_be_spliced_follows_what_was() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("source");
    fs::write(&path, stream()).unwrap();
    let output = cat("-u").arg(&path).arg("/proc/version").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let expected = [stream(), fs::read("/proc/version").unwrap(), stream()].concat();
    assert!(output.stdout == expected, "{} bytes", output.stdout.len());
}

#[test]
fn explain_and_json_print_to_standard_error() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "aa\n").unwrap();
    let output = gush().args(["cat", "--explain", "a"]).current_dir(&dir).output().unwrap();
    assert_eq!(output.stdout, b"aa\n");
    assert!(
        said(&output).starts_with("gush: cat: a: ") && said(&output).contains("picked "),
        "{output:?}"
    );

    let output =
        gush().args(["cat", "--json", "a", "gone", "."]).current_dir(&dir).output().unwrap();
    let reported = said(&output);
    let objects = reported.lines().filter(|line| line.starts_with('{'));
    let records: Vec<serde_json::Value> =
        objects.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&records[0]["source"], &records[0]["bytes"]), (&"a".into(), &3.into()));
    assert!(records[0]["error"].is_null() && records[0]["method"].is_string());
    let what = |at: usize| (&records[at]["error"]["errno"], &records[at]["error"]["what"]);
    assert_eq!(what(1), (&2.into(), &"open failed".into()));
    assert_eq!(what(2), (&21.into(), &"read failed".into()), "a directory can be opened");
}

/// A read that goes beyond the largest offset, 2^63 - 1, is refused, also where bytes are left
/// before it.
#[test]
fn the_last_bytes_before_the_largest_offset_are_shown_with_and_without_text_flags() {
    let file = rustix::fs::memfd_create("largest", rustix::fs::MemfdFlags::CLOEXEC);
    let file = File::from(file.unwrap());
    let from = i64::MAX as u64 - 5;
    rustix::io::pwrite(&file, b"abcd\n", from).unwrap();
    for flag in WAYS {
        (&file).seek(SeekFrom::Start(from)).unwrap();
        let output = cat(flag).stdin(file.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.stdout, b"abcd\n", "{flag}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{flag}");
    }
}
