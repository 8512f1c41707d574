//! `gush pv` moves every byte, also where calls fail, and the status shows the kind of failure.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::cp::with_files;
use crate::common::link::eventually;
use crate::common::shell::{MUCH_BYTES, said, shell, source};
use crate::common::{gush, noise, skipped, strace};
use crate::pairs::every_byte_arrives;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn pv(dir: &Path, args: &[&str]) -> Command {
    let mut command = gush();
    command.arg("pv").args(args).current_dir(dir);
    command
}

#[test]
fn every_byte_arrives_by_every_way() {
    every_byte_arrives(&[
        "",
        "-C",
        "-B 1000",
        "-B 1000000",
        "-l",
        "-0",
        "-L 1G",
        "-A 5",
        "-F %L",
        "-T",
        "-f",
        "-n",
        "-c -f",
        "-E",
        "-EE -Z 4096",
        "-Y",
        "-i 0.1 -f",
        "-S -s 1G",
        "-l -S -s 1G",
        "-v -f",
        "-m 1",
        "-u block -f",
        "-8k -f",
        "-g -f",
    ]);
}

#[test]
fn several_inputs_follow_each_other() {
    let (dir, bytes) = source();
    let line = "set -o pipefail; cat source | $G pv source - source | cat >got";
    let output = shell(dir.path(), line);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(dir.path().join("got")).unwrap() == [&bytes[..]; 3].concat());
}

#[test]
fn the_transfer_stops_at_its_size() {
    let (dir, bytes) = source();
    for line in ["$G pv -S -s 1000001 source", "cat source source | $G pv -S -s 1000001"] {
        let output = shell(dir.path(), line);
        assert!(output.status.success() && output.stdout == bytes[..1_000_001], "{line}");
    }
    let output = shell(dir.path(), "seq 100000 | $G pv -l -S -s 70000 -q");
    let expected: String = (1..=70_000).map(|number| format!("{number}\n")).collect();
    assert!(output.stdout == expected.as_bytes());
    // Lines after the last stay in a file.
    let output = shell(dir.path(), "seq 10 >ten; ($G pv -l -S -s 3 -q; cat) <ten");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
}

#[test]
fn a_discarded_input_is_counted() {
    let (dir, bytes) = source();
    let output = pv(dir.path(), &["-X", "-n", "-b", "source"]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(said(&output).ends_with(&format!("{}\n", bytes.len())), "{}", said(&output));
}

#[test]
fn a_size_can_be_that_of_a_file_or_of_a_directory() {
    let (dir, _) = source();
    fs::create_dir_all(dir.path().join("d/e")).unwrap();
    fs::write(dir.path().join("d/a"), [0; 60]).unwrap();
    fs::write(dir.path().join("d/e/b"), [0; 140]).unwrap();
    for (size, percent) in [("@d", "50\n"), ("@d/e/b", "71\n"), ("400", "25\n")] {
        // An interval that never comes: the one line is that of the end.
        let line = format!("head -c 100 source | $G pv -n -i 600 -s {size} >/dev/null");
        assert_eq!(said(&shell(dir.path(), &line)), percent, "{size}");
    }
    let output = shell(dir.path(), "$G pv -s @nowhere source >/dev/null");
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("-s: nowhere: No such file or directory"), "{}", said(&output));
}

#[test]
fn each_failure_is_in_the_status_and_reported() {
    let (dir, _) = source();
    for (line, status, words) in [
        ("$G pv nofile", 2, "gush: pv: nofile: open failed: No such file or directory\n"),
        ("$G pv nofile source nofile2 | cmp - source && exit ${PIPESTATUS[0]}", 2, "nofile2"),
        ("$G pv source >>source", 4, "gush: pv: input file is output file: source\n"),
        ("$G pv source -o source", 4, "gush: pv: input file is output file: source\n"),
        (
            "$G pv / source | cmp - source && exit ${PIPESTATUS[0]}",
            16,
            "/: read failed after 0 bytes: Is a directory",
        ),
        (
            "$G pv source >/dev/full",
            16,
            "gush: pv: standard output: write failed after 0 bytes: No space left on device",
        ),
        (
            "$G pv source -o /dev/full",
            16,
            "gush: pv: /dev/full: write failed after 0 bytes: No space left on device",
        ),
        (
            "$G pv source -U /dev/full",
            16,
            "gush: pv: /dev/full (-U): write failed after 0 bytes: No space left on device",
        ),
        (
            "ulimit -f 1; trap '' XFSZ; $G pv source -U -",
            16,
            "gush: pv: the -U file: write failed after ",
        ),
        ("cat source | $G pv >/dev/full", 16, "No space left on device"),
        ("cat source | $G pv -l >/dev/full", 16, "No space left on device"),
        ("cat source | $G pv -l -S -s 5 >/dev/full", 16, "No space left on device"),
        ("$G pv source >&-", 2, "gush: pv: standard output: Bad file descriptor\n"),
        ("$G pv <&-", 2, "(stdin): open failed: Bad file descriptor"),
        ("$G pv -o nodir/x source", 2, "nodir/x: open failed: No such file or directory"),
        ("$G pv nofile source >>source", 6, "nofile"),
        ("$G pv -P nodir/x source", 1, "nodir/x: open failed: No such file or directory"),
        ("$G pv --nope", 64, "unrecognized option '--nope'"),
        ("$G pv -s x", 64, "invalid --size 'x'"),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
    }
    assert_eq!(fs::read(dir.path().join("source")).unwrap().len(), MUCH_BYTES);
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let dir = TempDir::new().unwrap();
    let output =
        shell(dir.path(), "yes | $G pv -q | head -c 100000 | wc -c; echo ${PIPESTATUS[1]}");
    assert_eq!(said(&output), "");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "100000\n0\n");
}

#[test]
fn faulty_and_denied_calls_lose_no_byte() {
    let (dir, bytes) = source();
    for fault in [
        "splice:error=EINTR:when=1+2",
        "splice:error=EPERM",
        "write:error=EINTR:when=1+2",
        "copy_file_range,sendfile:error=EPERM",
    ] {
        for args in [&["pv", "source"][..], &["pv", "-l", "source"], &["pv", "-C", "source"]] {
            let inject = format!("inject={fault}");
            let mut traced = match strace(&["-e", &inject]) {
                Ok(traced) => traced,
                Err(why) => return skipped(&why),
            };
            let output = traced.args(args).current_dir(dir.path()).output().unwrap();
            assert!(output.status.success(), "{fault} {args:?}: {}", said(&output));
            assert!(output.stdout == bytes, "{fault} {args:?}: {} bytes", output.stdout.len());
        }
    }
}

#[test]
fn read_errors_are_skipped_and_reported() {
    let (dir, bytes) = source();
    let path = dir.path().join("source");
    let path = path.to_str().unwrap();
    for (words, block, reported) in
        [(&["-E"][..], 1, 3), (&["-E", "-Z", "10000"], 10_000, 3), (&["-EE", "-Z", "512"], 512, 1)]
    {
        let fault = "inject=read,pread64,preadv2:error=EIO:when=2..4";
        let mut traced = match strace(&["-P", path, "-e", fault]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let command = traced.arg("pv").args(words).arg(path);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(16), "{words:?}: {}", said(&output));
        assert_eq!(said(&output).lines().count(), reported, "{words:?}: {}", said(&output));
        let got = output.stdout;
        assert_eq!(got.len(), bytes.len(), "{words:?}");
        let differs = |at: &usize| got[*at] != bytes[*at];
        let first = (0..got.len()).find(differs).unwrap();
        let last = (0..got.len()).rev().find(differs).unwrap();
        assert!(got[first..=last].iter().all(|byte| *byte == 0), "{words:?}");
        assert!(last - first < 3 * block && last - first >= block, "{words:?}: {first} {last}");
    }
    let output = pv(dir.path(), &["-E", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(16), "{}", said(&output));
}

#[test]
fn a_signal_ends_the_transfer_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let dir = TempDir::new().unwrap();
        let mut child = pv(dir.path(), &["-f", "-i", "0.1", "-P", "pid"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut arrived = [0; 5];
        input.write_all(b"bytes").unwrap();
        // A byte has arrived, so the transfer has begun and signals are watched.
        child.stdout.as_mut().unwrap().read_exact(&mut arrived).unwrap();
        let number = fs::read_to_string(dir.path().join("pid")).unwrap();
        assert_eq!(number, format!("{}\n", child.id()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(32), "{signal:?}: {:?}", output.status);
        assert!(!dir.path().join("pid").exists(), "{signal:?}");
        drop(input);
    }
}

/// The pipe of a tracing instance is a regular file whose read waits, and of which poll(2) says
/// nothing.
#[test]
fn a_read_that_waits_in_a_file_is_ended() {
    let dir = TempDir::new().unwrap();
    let mounted = shell(dir.path(), "mkdir T && unshare -m mount -t tracefs none T");
    if !mounted.status.success() {
        return skipped(&format!("no tracefs: {}", said(&mounted)));
    }
    let own = "mount -t tracefs none T; own=T/instances/gush-$$; mkdir $own || exit 99; trap 'rmdir $own' EXIT";
    // Whoever does not end is killed, so that only this test fails. A pv that has ended by itself
    // has no state any more.
    let waits = "pid=$!; (sleep 60; kill -KILL $pid) >/dev/null 2>&1 & while grep -q '^State:.[RD]' /proc/$pid/status 2>got.err; do sleep 0.01; done; sleep 0.2";
    for (words, end, status) in [
        ("-q", "kill -TERM $pid", 32),
        ("-q -l", "kill -INT $pid", 32),
        ("-q -l -L 1", "kill -TERM $pid", 32),
        ("-q -C", "kill -HUP $pid", 32),
        ("-q --stall-timeout 0.1", "true", 16),
        ("-q --stall-timeout 0.1 -- cat", "true", 16),
        // The thread that waits is not the first one, and no descriptor is left to look for it.
        ("-q -- cat", "prlimit --nofile=1: --pid $pid || kill -KILL $pid; kill -TERM $pid", 32),
    ] {
        let (options, command) = words.split_once(" -- ").unwrap_or((words, ""));
        let command = if command.is_empty() { String::new() } else { format!("-- {command}") };
        // Job control, so that SIGINT is not ignored in the background.
        let line = format!(
            "{own}; set -m; $G pv {options} $own/trace_pipe {command} >got & {waits}; {end}; wait $pid; status=$?; kill %2; rmdir $own || exit 98; exit $status"
        );
        fs::write(dir.path().join("line"), line).unwrap();
        let output = shell(dir.path(), "exec unshare -m bash line");
        if output.status.code() == Some(99) {
            return skipped(&format!("no tracing instance: {}", said(&output)));
        }
        assert_eq!(output.status.code(), Some(status), "{words}: {}", said(&output));
    }
}

#[test]
fn a_signal_ends_the_waiting_for_the_writer_of_a_fifo() {
    let dir = TempDir::new().unwrap();
    assert!(shell(dir.path(), "mkfifo fifo").status.success());
    let mut child = pv(dir.path(), &["-P", "pid", "fifo"]).spawn().unwrap();
    eventually("the file of -P", || dir.path().join("pid").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut ended = None;
    eventually("the end", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    let status = ended.unwrap();
    // The signal came before the FIFO was opened, or while it was.
    assert!(status.signal() == Some(15) || status.code() == Some(32), "{status:?}");
    assert!(!dir.path().join("pid").exists(), "{status:?}");
}

#[test]
fn a_transfer_that_stalls_ends_with_an_error() {
    let dir = TempDir::new().unwrap();
    let mut child = pv(dir.path(), &["--stall-timeout", "0.3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"bytes").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(16));
    // On a busy machine the first byte may come too late.
    let arrived = output.stdout.len();
    assert!(arrived == 0 || output.stdout == b"bytes");
    let words = format!("no byte moved for 300 ms after {arrived} bytes (--stall-timeout)\n");
    assert!(said(&output).ends_with(&words), "{}", said(&output));
    drop(input);
}

/// A pipe has no room for more before a whole page of it was read, nor a socket before a third of
/// its buffer has left.
#[test]
fn a_reader_that_takes_bytes_without_making_room_does_not_stall_the_transfer() {
    let dir = TempDir::new().unwrap();
    let (pipe, into_pipe) = std::io::pipe().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // A small window: a large one is opened again in large steps.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).unwrap();
    let into_socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = listener.accept().unwrap().0;
    let readers: [(Box<dyn Read>, Stdio, usize); 2] = [
        (Box::new(pipe), into_pipe.into(), 50),
        (Box::new(socket), std::os::fd::OwnedFd::from(into_socket).into(), 5000),
    ];
    for (mut reader, output, piece) in readers {
        let mut command = pv(dir.path(), &["-q", "--stall-timeout", "0.5"]);
        command.stdin(File::open("/dev/zero").unwrap()).stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(command);
        for _ in 0..70 {
            reader.read_exact(&mut vec![0; piece]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(25));
            assert!(child.try_wait().unwrap().is_none(), "{child:?} has ended");
        }
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert!(!said(&output).contains("--stall-timeout"), "{}", said(&output));
    }
}

/// The output is asked by a second descriptor, which closes with the first.
#[test]
fn a_command_sees_the_end_of_its_input_although_stalls_are_watched() {
    let dir = TempDir::new().unwrap();
    let output = shell(dir.path(), "echo bytes | $G pv -q --stall-timeout 20 -- cat");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"bytes\n"[..]), "{output:?}");
}

#[test]
fn a_command_that_stalls_is_ended_and_one_that_writes_is_not() {
    let dir = TempDir::new().unwrap();
    // The command has read its input, and hangs.
    let line =
        "echo bytes | $G pv -q --stall-timeout 0.3 -- sh -c 'cat >/dev/null; exec sleep 600'";
    for side in ["", "-M in", "-M out"] {
        let output = shell(dir.path(), &line.replace("-q", &format!("-q {side}")));
        assert_eq!(output.status.code(), Some(16), "{side}: {}", said(&output));
        let words = "no byte moved for 300 ms after 0 bytes (--stall-timeout)\n";
        assert!(said(&output).ends_with(words), "{side}: {}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "once: {}", said(&output));
    }
    // No input comes, and the output moves all the time, for several times the limit.
    let line = "sleep 7 | $G pv -q --stall-timeout 3 -- sh -c 'for at in $(seq 60); do echo x; sleep 0.1; done'";
    let output = shell(dir.path(), line);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(output.stdout, "x\n".repeat(60).as_bytes());
}

#[test]
fn bytes_that_went_with_the_store_are_counted() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), vec![b'x'; 300_000]).unwrap();
    let output = shell(dir.path(), "cat source | $G pv -q -U - >/dev/full");
    assert_eq!(output.status.code(), Some(16));
    let words = "\ngush: pv: 300000 bytes were stored but not delivered\n";
    assert!(said(&output).ends_with(words), "{}", said(&output));
    // A file with a name stays, with all of them.
    let output = shell(dir.path(), "cat source | $G pv -q -U store >/dev/full; wc -c <store");
    assert!(!said(&output).contains("stored") && output.stdout == b"300000\n", "{}", said(&output));
    // A signal while bytes are stored: more than a pipe holds are there once the writer has written
    // them all.
    let line = "mkfifo f; (cat source; : >written; exec sleep 600) >f & pid=$!; exec 3<f
        $G pv -q -U - <&3 & until [ -e written ]; do sleep 0.05; done
        kill -TERM $!; wait $!; echo $?; kill $pid";
    let output = shell(dir.path(), line);
    assert_eq!(output.stdout, b"32\n", "{}", said(&output));
    assert!(said(&output).contains(" bytes were stored but not delivered"), "{}", said(&output));
}

#[test]
fn sizes_and_a_closed_output_are_as_with_pv() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), vec![b'x'; 4096]).unwrap();
    for (size, bytes) in
        [("1,5k", 1536), ("1.5", 1), ("5.", 5), ("1.k", 1024), ("99999999999999999999", 4096)]
    {
        let output = shell(dir.path(), &format!("$G pv -q -S -s {size} source | wc -c"));
        assert_eq!(output.stdout, format!("{bytes}\n").as_bytes(), "{size}: {}", said(&output));
    }
    // pv has no units that large, and refuses them, too.
    for wrong in ["", "1.5.5", "1,5,5", "x", "10Q", "17E", "1ZB"] {
        for option in ["-s", "-L"] {
            let output = shell(dir.path(), &format!("$G pv -q {option} '{wrong}' source"));
            assert_eq!(output.status.code(), Some(64), "{option} {wrong}: {}", said(&output));
        }
    }
    let output = shell(dir.path(), "$G pv -q source >&-");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output), "gush: pv: standard output: Bad file descriptor\n");
}

#[test]
fn bytes_that_are_left_out_are_no_stall() {
    // Bytes come all the time, and none is delivered for several times the limit.
    let dir = TempDir::new().unwrap();
    let line = "(for at in $(seq 45); do echo 12345678; sleep 0.1; done; echo end) | \
                $G pv -q --skip 405 --stall-timeout 3";
    let output = shell(dir.path(), line);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "end\n", "{}", said(&output));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_rate_limit_is_no_stall() {
    let dir = TempDir::new().unwrap();
    // Between two bytes a second passes.
    let line = "printf ab >two
        stalls() { $G pv -q -L 1 --stall-timeout 0.8 $2 two >out$1 2>&1; echo $? >>out$1; }
        stalls 1 & stalls 2 -C & stalls 3 '-l -S -s 9' & stalls 4 '-O --skip 0' & wait; cat out?";
    let output = shell(dir.path(), line);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ab0\n".repeat(4));
    // An input that gives nothing is one, under a limit, too.
    let line = "mkfifo idle; exec 3<>idle; $G pv -q -L 1k --stall-timeout 0.3 <idle";
    let output = shell(dir.path(), line);
    assert_eq!(output.status.code(), Some(16), "{}", said(&output));
    assert!(said(&output).contains("after 0 bytes (--stall-timeout)"), "{}", said(&output));
}

#[test]
fn the_rate_is_kept() {
    let dir = TempDir::new().unwrap();
    let started = std::time::Instant::now();
    let output = shell(dir.path(), "head -c 300000 /dev/zero | $G pv -q -L 200k | wc -c");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "300000\n");
    // 300,000 bytes at 200 KiB/s take 1.46 s; a limit may let a piece go at once.
    assert!(started.elapsed().as_secs_f64() > 1.3, "{:?}", started.elapsed());
}

#[test]
fn pipes_have_their_size_again_at_the_end() {
    let dir = TempDir::new().unwrap();
    // Less than a pipe's 64 KiB: pv ends though nobody reads.
    fs::write(dir.path().join("short"), noise(30_000, 3)).unwrap();
    mknodat(CWD, dir.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let fifo = File::options().read(true).write(true).open(dir.path().join("fifo")).unwrap();
    let size = || rustix::pipe::fcntl_getpipe_size(&fifo).unwrap();
    let before = size();
    for (words, from) in [
        (&["short"][..], Stdio::null()),
        (&["short", "-o", "fifo"], Stdio::null()),
        (&["short", "-o", "fifo", "--", "cat"], Stdio::null()),
        (&["-S", "-s", "30000", "fifo"], Stdio::null()),
        (&["-S", "-s", "30000"], Stdio::from(fifo.try_clone().unwrap())),
    ] {
        let is_read = words[0] == "-S";
        if is_read {
            (&fifo).write_all(&noise(30_000, 5)).unwrap();
        }
        let mut command = pv(dir.path(), words);
        command.stdin(from);
        if words == ["short"] {
            command.stdout(fifo.try_clone().unwrap());
        }
        assert!(command.output().unwrap().status.success(), "{words:?}");
        // Nothing was read: all of it fits into the old size.
        assert_eq!(size(), before, "{words:?}");
        if !is_read {
            (&fifo).read_exact(&mut [0; 30_000]).unwrap();
        }
    }
}

#[test]
fn progress_is_shown_while_the_input_waits_and_the_output_is_full() {
    // Nobody reads: the pipe fills, and the display goes on.
    let dir = TempDir::new().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = pv(dir.path(), &["-n", "-b", "-i", "0.1", "/dev/zero"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut readings = Vec::new();
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let shown: u64 = line.trim().parse().expect("a number, and no end of the display");
        // What is shown has been delivered.
        let held = rustix::io::ioctl_fionread(&reader).unwrap();
        assert!(shown <= held, "{shown} of {held}");
        readings.push(shown);
        // Five times the same, and all that the pipe holds: it is full, and the display still
        // speaks.
        if shown == held && readings.ends_with(&[held; 5]) {
            break;
        }
    }
    // It waits for room that never comes.
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_file_keeps_its_position_after_what_was_taken() {
    let (dir, bytes) = source();
    let file = File::open(dir.path().join("source")).unwrap();
    let output = pv(dir.path(), &["-S", "-s", "1000"]).stdin(file.try_clone().unwrap()).output();
    assert!(output.unwrap().stdout == bytes[..1000]);
    let mut rest = Vec::new();
    { file }.read_to_end(&mut rest).unwrap();
    assert!(rest == bytes[1000..]);
}

#[test]
fn explain_says_of_each_input_how_it_was_moved() {
    let dir = with_files(&[("a", &noise(300_000, 1)), ("b", b"one\ntwo\n".as_slice())]);
    let account_of = |line: &str| {
        let output = shell(dir.path(), line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        said(&output)
    };
    let two = account_of("$G pv -q --explain --no-splice a b | cat >c");
    let picked: Vec<_> = two.lines().filter(|line| line.contains("picked read-write: ")).collect();
    let begins = |line: &str, name: &str| line.starts_with(&format!("gush: pv: {name}: "));
    assert!(picked.len() == 2 && begins(picked[0], "a") && begins(picked[1], "b"), "{two}");
    let lines = account_of("$G pv -q --explain -l -L 1000 <b | cat >c");
    assert_eq!(lines, "gush: pv: (stdin): read-write, counting whole lines\n");
    let holes = account_of("cat a | $G pv -q --explain -O -o c");
    assert_eq!(holes, "gush: pv: (stdin): read-write, looking for zeros\n");
    let command = account_of("$G pv -q --explain a -- cat | cat >c");
    assert!(command.contains("gush: pv: the command's output: picked "), "{command}");
    assert!(command.contains("gush: pv: a: picked "), "{command}");
    assert_eq!(account_of("$G pv -q a | cat >c"), "");
}

#[test]
fn an_input_refused_as_the_output_is_not_overwritten_by_the_next() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("fx"), "x\n").unwrap();
    fs::write(dir.path().join("fy"), "y\n").unwrap();
    let output = shell(dir.path(), "$G pv -q fx fy 1<>fx");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(said(&output), "gush: pv: input file is output file: fx\n");
    assert_eq!(fs::read_to_string(dir.path().join("fx")).unwrap(), "x\n");
}

/// Three standard streams, and one descriptor for the input.
#[test]
fn a_transfer_needs_no_more_descriptors_than_its_input() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), "some bytes").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    for most in 4..=9 {
        for line in [
            "(ulimit -n %; exec $G pv -q source) >got",
            "(ulimit -n %; exec $G pv -q source empty) | cat >got",
            "(ulimit -n %; exec $G pv -q) <source >got",
            "(ulimit -n %; exec $G pv -q) <source | cat >got",
            "(ulimit -n %; exec $G pv -f source) 2>shown | cat >got; tr '\\r' '\\n' <shown | grep -q 10.0",
        ] {
            let line = line.replace('%', &most.to_string());
            let output = shell(dir.path(), &format!("set -o pipefail; {line}"));
            assert!(output.status.success(), "{line}: {}", said(&output));
            assert_eq!(said(&output), "", "{line}");
            assert_eq!(fs::read_to_string(dir.path().join("got")).unwrap(), "some bytes", "{line}");
        }
    }
}

/// The thread that ends a stall and the watch of signals have one each; the look at the output's
/// reader is optional.
#[test]
fn a_stall_timeout_leaves_a_descriptor_for_the_input() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), "some bytes").unwrap();
    for most in 6..=9 {
        let line = format!("(ulimit -n {most}; exec $G pv -q --stall-timeout 9 source) >got");
        let output = shell(dir.path(), &line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        assert_eq!(fs::read_to_string(dir.path().join("got")).unwrap(), "some bytes", "{line}");
    }
}
