//! Options that change the bytes or the ends of data: `crnl`, `cr`, `ignoreeof`, `shut-none`,
//! `escape`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::link::{PATIENCE, Running, ask, eventually, server};
use crate::common::{gush, noise, skipped};
use rustix::net::sockopt;
use tempfile::TempDir;

/// The bytes through `command` to the second address, and the bytes that come back.
fn through(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn lines_end_at_both_sides_as_socat_ends_them() {
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    let mut long = noise(300_000, 7);
    long.iter_mut().step_by(50).for_each(|byte| *byte = b'\n');
    let inputs: [&[u8]; 5] = [b"a\nb\n", b"a\r\nb\r\n\r", b"\n\n\r\r", b"none", &long];
    for option in ["crnl", "cr"] {
        for input in inputs {
            let dir = TempDir::new().unwrap();
            let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
            let address = |name: &std::path::Path| {
                format!("tee {}; printf 'x\\r\\ny\\rz\\n'", name.display())
            };
            let mut link = gush();
            link.args([
                "link",
                "-",
                &format!(
                    "shell:'{}',{option}",
                    address(&ours).replace('\'', "\"").replace('$', "\\$")
                ),
            ]);
            let mut socat = Command::new("socat");
            socat.args([
                "-t",
                "10",
                "-",
                &format!(
                    "SYSTEM:{},{option}",
                    address(&theirs).replace('\\', "\\\\").replace('\'', "\\\"")
                ),
            ]);
            let (ours_back, theirs_back) = (through(&mut link, input), through(&mut socat, input));
            assert_eq!(fs::read(&ours).unwrap(), fs::read(&theirs).unwrap(), "{option}");
            assert_eq!(ours_back.stdout, theirs_back.stdout, "{option} {}", input.len());
            if option == "crnl" {
                assert!(ours_back.stdout.ends_with(b"x\nyz\n"));
            }
        }
    }
}

#[test]
fn a_listener_takes_the_option_too() {
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork,crnl", "exec:cat"]);
    // As we send it there are carriage returns; they are gone inside, and there again on the way
    // back.
    assert_eq!(ask(link.client(), b"a\r\nb\n"), b"a\r\nb\r\n");
}

#[test]
fn a_file_that_grows_is_followed_and_does_not_end() {
    let dir = TempDir::new().unwrap();
    let (log, copy) = (dir.path().join("log"), dir.path().join("copy"));
    fs::write(&log, "one\n").unwrap();
    let source = format!("file:{},rdonly,ignoreeof", log.display());
    let target = format!("file:{},create", copy.display());
    let mut link = Running::start(&["-u", &source, &target]);
    let copied = |wanted: &[u8]| fs::read(&copy).is_ok_and(|found| found == wanted);
    eventually("the first line is copied", || copied(b"one\n"));
    fs::File::options().append(true).open(&log).unwrap().write_all(b"two\n").unwrap();
    eventually("the second line is copied", || copied(b"one\ntwo\n"));
    assert!(link.is_running());
    link.signal(rustix::process::Signal::TERM);
    link.finish();
}

#[test]
fn a_server_sees_no_end_and_answers_nevertheless() {
    const A_WHILE: Duration = Duration::from_millis(300);
    for (option, ended, patience) in [(",shut-none", false, A_WHILE), ("", true, PATIENCE)] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let place = server(move |mut stream| {
            let mut question = [0; 8];
            stream.read_exact(&mut question).unwrap();
            stream.set_read_timeout(Some(patience)).unwrap();
            sender.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
            stream.write_all(b"answer").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.set_read_timeout(None).unwrap();
            let _ = stream.read(&mut [0]);
        });
        let link =
            Running::start(&["tcp-listen:127.0.0.1:0,fork", &format!("tcp:{place}{option}")]);
        assert_eq!(ask(link.client(), b"question"), b"answer");
        let read = receiver.recv().unwrap();
        assert_eq!(read == Ok(0), ended, "{option}: {read:?}");
    }
}

#[test]
fn what_is_no_socket_is_written_in_one_direction_in_any_shape() {
    let dir = TempDir::new().unwrap();
    for (option, written) in [
        ("crnl", &b"line\r\n"[..]),
        ("cr", b"line\r"),
        ("shut-none", b"line\n"),
        ("ignoreeof", b"line\n"),
        ("escape=29", b"line\n"),
    ] {
        let path = dir.path().join(option);
        let file = path.display();
        for address in [
            format!("file:{file},create,{option}"),
            format!("shell:'cat >{file}',{option}"),
            format!("shell:'cat >{file}',pipes,{option}"),
        ] {
            let _ = fs::remove_file(&path);
            through(gush().args(["link", "-u", "-", &address]), b"line\n");
            assert_eq!(fs::read(&path).unwrap(), written, "{address}");
        }
    }
}

#[test]
fn a_socket_that_is_only_written_is_seen_off_in_any_shape() {
    for option in ["crnl", "shut-none", "ignoreeof"] {
        // More than the link reads: unread bytes would become a reset at its close.
        let place = server(|mut stream| {
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(&noise(10_000, 4)).unwrap();
        });
        let link = Running::start(&["-u", "exec:'printf line'", &format!("tcp:{place},{option}")]);
        let (status, _, said) = link.finish();
        assert!(status.success(), "{option}: {said}");
    }
}

/// The client, who says no end, must not keep its place for a program that has gone.
#[test]
fn a_program_that_has_exited_ends_its_connection_in_any_shape() {
    for shape in ["crnl", "cr", "shut-none", "escape=29"] {
        for kind in ["", ",pipes", ",pty,raw"] {
            let program = format!("exec:'printf answer'{kind},{shape}");
            for address in [program.clone(), format!("file:/no/such/file|{program}")] {
                let mut command = gush();
                command.args(["link", "--json", "-", &address]).stdin(Stdio::piped());
                let mut link = Running::of(command);
                let stdin = link.stdin();
                let (status, answer, said) = link.finish();
                assert_eq!(status.code(), Some(0), "{address}: {said}");
                assert_eq!(answer, b"answer", "{address}: {said}");
                drop(stdin);
            }
        }
    }
}

#[test]
fn a_program_at_a_terminal_that_sees_no_end_reads_all_before_it_is_ended() {
    let dir = TempDir::new().unwrap();
    let heard = dir.path().join("heard");
    let program = dir.path().join("program");
    // Nothing is read in the first half second: a hang-up would throw the lines away. Once the
    // second is read, the program may be ended.
    let text = format!("sleep 0.5; read one; echo $one >{}; read two", heard.display());
    fs::write(&program, text).unwrap();
    let address = format!("exec:sh {},pty,echo=0,shut-none", program.display());
    through(gush().args(["link", "-u", "-", &address]), b"one\ntwo\n");
    assert_eq!(fs::read(&heard).unwrap(), b"one\n");
}

#[test]
fn datagrams_keep_their_bounds_and_their_end_by_silence() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let place = receiver.local_addr().unwrap();
    let mut room = vec![0; 1 << 16];
    for (option, heard) in [
        ("crnl", &b"line\r\n"[..]),
        ("cr", b"line\r"),
        ("ignoreeof", b"line\n"),
        ("shut-none", b"line\n"),
        ("escape=29", b"line\n"),
    ] {
        // The end of standard input ends the link, as without the option.
        through(gush().args(["link", "-", &format!("udp:{place},{option}")]), b"line\n");
        let count = receiver.recv(&mut room).unwrap();
        assert_eq!(&room[..count], heard, "{option}");
    }
    through(gush().args(["link", "-u", "-", &format!("udp:{place},shut-none")]), &noise(30_000, 3));
    let mut all = Vec::new();
    while all.len() < 30_000 {
        let count = receiver.recv(&mut room).unwrap();
        assert!(count <= 8192, "{count} bytes in a datagram");
        all.extend_from_slice(&room[..count]);
    }
    assert!(all == noise(30_000, 3));
}

/// In both directions, at both addresses, beyond every piece of a stream and every limit.
#[test]
fn a_large_datagram_stays_one_in_any_shape() {
    let (long, short) = (vec![b'x'; 40_000], vec![b'y'; 20_000]);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let place = server.local_addr().unwrap();
    let mut room = vec![0; 1 << 16];
    for options in [",crnl", ",cr", ",escape=29", ",crnl,escape=29"] {
        for kind in ["udp-listen", "udp-listen,fork", "udp-recvfrom", "udp-recvfrom,fork"] {
            let (kind, fork) = kind.split_once(',').map_or((kind, ""), |(kind, _)| (kind, ",fork"));
            let listen = format!("{kind}:127.0.0.1:0{fork}");
            for (ours, theirs) in [(options, ""), ("", options)] {
                let (front, back) = (format!("{listen}{ours}"), format!("udp:{place}{theirs}"));
                let link = Running::start(&["--limit", "100K", "-t", "60", &front, &back]);
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                client.connect(link.place()).unwrap();
                client.send(&long).unwrap();
                let (bytes, from) = server.recv_from(&mut room).unwrap();
                assert!(room[..bytes] == long, "{front} {back}: {bytes} bytes");
                server.send_to(&short, from).unwrap();
                let bytes = client.recv(&mut room).unwrap();
                assert!(room[..bytes] == short, "{front} {back}: {bytes} bytes of the answer");
            }
        }
    }
}

#[test]
fn an_empty_datagram_ends_no_lines() {
    for options in ["crnl", "crnl,escape=29"] {
        let mut link = Running::start(&[&format!("udp-listen:127.0.0.1:0,{options}"), "-"]);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(link.place()).unwrap();
        for datagram in ["one\r\n", "", "two\r\n", "\x1d"] {
            sender.send(datagram.as_bytes()).unwrap();
        }
        let mut heard = [0; 8];
        link.stdout().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"one\ntwo\n");
        if options.contains("escape") {
            assert!(link.finish().0.success());
        }
    }
}

#[test]
fn a_pty_with_other_lines_ends_with_its_program() {
    let done = gush().args(["link", "-u", "exec:'printf a',pty,raw,crnl", "-"]).output().unwrap();
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"a"[..]), "{done:?}");
}

#[test]
fn data_ends_before_the_byte_that_ends_it() {
    let mut long = noise(300_000, 3);
    long.iter_mut().filter(|byte| **byte == 0x1d).for_each(|byte| *byte = 0);
    let after_byte = [&long[..], b"\x1dafter\x1d"].concat();
    let cases: [(&[u8], &[u8]); 4] =
        [(b"before\x1dafter", b"before"), (b"\x1d", b""), (b"none", b"none"), (&after_byte, &long)];
    for (input, wanted) in cases {
        for first in ["-,escape=0x1d", "-,escape=29,ignoreeof"] {
            if input == b"none" && first.ends_with("ignoreeof") {
                continue;
            }
            let mut link = gush();
            let output = through(link.args(["link", first, "exec:cat"]), input);
            assert!(output.stdout == wanted, "{first}: {} bytes", output.stdout.len());
        }
    }
}

/// The byte ends the data, not the connection: what the peer does afterwards counts as after any
/// other end.
#[test]
fn a_reset_after_the_byte_that_ends_the_data_is_a_failure() {
    let place = server(|mut stream| {
        stream.write_all(b"answer\x1d").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let mut command = gush();
    command.args(["link", "--json", "-", &format!("tcp:{place},escape=29")]);
    command.stdin(Stdio::piped());
    let mut link = Running::of(command);
    let mut answer = [0; 6];
    link.stdout().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    drop(link.stdin());
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("\"ended\":\"relay-failed\""), "{said}");
}

#[test]
fn a_key_lets_out_of_a_raw_terminal() {
    // The terminal's other side never ends by itself, and every key is passed on: Ctrl-C too.
    let dir = TempDir::new().unwrap();
    let (keys, line) = (dir.path().join("keys"), dir.path().join("line"));
    let other = |path: &std::path::Path| format!("pty,raw,link={}", path.display());
    let mut link =
        Running::start(&["-t", "0.2", &format!("{},escape=0x1d", other(&keys)), &other(&line)]);
    eventually("both terminals are there", || keys.exists() && line.exists());
    let open = |path| fs::File::options().read(true).write(true).open(path).unwrap();
    let (mut keys, mut line) = (open(&keys), open(&line));
    keys.write_all(b"\x03\x04").unwrap();
    let mut passed = [0; 2];
    line.read_exact(&mut passed).unwrap();
    assert_eq!(&passed, b"\x03\x04");
    assert!(link.is_running());
    keys.write_all(b"\x1d").unwrap();
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
}

#[test]
fn a_byte_that_is_none_is_refused() {
    let said = gush().args(["link", "-,escape=256", "null:"]).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("escape takes the number of a byte, such as 29 or 0x1d"), "{text}");
}

#[test]
fn a_program_on_a_terminal_with_other_lines_reads_all_before_the_terminal_hangs_up() {
    let dir = TempDir::new().unwrap();
    let (begins, heard) = (dir.path().join("begins"), dir.path().join("heard"));
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &begins, fifo, mode, 0).unwrap();
    // It reads nothing before everything was written to it.
    let program =
        format!("shell:'read x < {}; cat > {}',pty,crnl", begins.display(), heard.display());
    let link = Running::start(&["--log", "debug", "exec:'seq 1 300'", &program]);
    link.says("phase=Program");
    // Not for writing alone: that would wait for a program that has been hung up (fifo(7)).
    let mut begin = fs::File::options().read(true).write(true).open(&begins).unwrap();
    begin.write_all(b"now\n").unwrap();
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    // The terminal makes an end of a line of each carriage return, too.
    let heard = fs::read_to_string(&heard).unwrap();
    assert_eq!(heard.lines().filter(|line| !line.is_empty()).count(), 300);
}

#[test]
fn both_ends_of_lines_contradict_each_other() {
    let said = gush().args(["link", "-,cr,crnl", "null:"]).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("cr and crnl contradict each other"), "{text}");
}

/// Its peer, which is not told of the end, does not end itself.
#[test]
fn a_graceful_link_that_passes_no_end_on_does_not_wait_for_the_peers() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&name).unwrap();
    let target = format!("unix:{},shut-none", name.display());
    let link = Running::start(&["--graceful", "-t", "1000", "-u", "/dev/null", &target]);
    let peer = listener.accept().unwrap();
    assert!(link.finish().0.success());
    drop(peer);
}
