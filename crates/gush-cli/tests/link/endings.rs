//! How lives of `gush link` end, and who learns of that: the bytes that arrive, the exit status, and whether the other side
//! sees an end or a reset. The table is in `docs/endings.md`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::link::{PATIENCE, Running, eventually, server};
use crate::common::{gush, noise};
use rustix::net::sockopt;
use rustix::process::Signal;
use tempfile::TempDir;

const ONCE: &str = "tcp-listen:127.0.0.1:0";
const FORK: &str = "tcp-listen:127.0.0.1:0,fork";

/// The bytes that a reader saw, and whether a reset rather than an end came behind them.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Seen {
    End(usize),
    Reset(usize),
}

fn seen(stream: &mut impl Read) -> Seen {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => Seen::End(all.len()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Seen::Reset(all.len()),
        Err(error) => panic!("{error} after {} bytes", all.len()),
    }
}

/// Closes without an end: lingering for no time (socket(7)).
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

/// A listener and the address by which a link connects to that.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    // A link that hangs must fail the test, and not hold it.
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn file_of(dir: &TempDir, bytes: usize) -> String {
    let path = dir.path().join("file");
    fs::write(&path, noise(bytes, 1)).unwrap();
    path.display().to_string()
}

fn code(args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut command = gush();
    command.arg("link").args(args).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Whether anybody reads it is the link's business.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

// What was sent arrives.

#[test]
fn an_upload_is_whole_though_nobody_reads_what_the_server_says() {
    const BYTES: usize = 8 << 20;
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, BYTES);
    let (arrived, counts) = std::sync::mpsc::channel();
    let target = server(move |mut stream| {
        let mut buffer = vec![0; 64 << 10];
        let mut all = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            all += count;
            let _ = stream.write_all(b"so far");
        }
        arrived.send(all).unwrap();
    });
    // More than once, since the order of the server's bytes and the link's close is left to chance.
    for round in 0..5 {
        let (status, said) = code(&["-u", &file, &format!("tcp:{target}")], b"");
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(counts.recv().unwrap(), BYTES, "round {round}");
    }
}

#[test]
fn a_server_that_resets_after_the_last_byte_has_not_got_it() {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 100_000);
    let (listener, target) = listener();
    let link = Running::start(&["--json", "-u", &file, &target]);
    let mut served = accept(&listener);
    served.write_all(b"unread").unwrap();
    // Some bytes have come: the link has begun to send.
    served.read_exact(&mut [0; 10]).unwrap();
    reset(served);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("\"ended\":\"relay-failed\""), "{said}");
}

/// A socket that is only waited for is read no more: the error is found by asking.
#[test]
fn a_server_that_has_ended_and_then_resets_has_not_got_it_either() {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 1 << 20);
    let (listener, target) = listener();
    // Small at the reader and large at the link: the file lies in the kernel, and not at the server.
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let link = Running::start(&["--json", &file, &format!("{target},sndbuf=4M")]);
    let mut served = accept(&listener);
    served.shutdown(Shutdown::Write).unwrap();
    served.read_exact(&mut [0; 10]).unwrap();
    let place = |socket: std::net::SocketAddr| format!("{:04X} ", socket.port());
    let (ours, theirs) = (place(served.local_addr().unwrap()), place(served.peer_addr().unwrap()));
    eventually("the link has sent its end", || {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        // In LAST_ACK (9), and in CLOSING (11) where the link's was first, both ends of data are sent
        // (proc_net_tcp.rst).
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1).map(|word| format!("{word} "));
            let (local, remote) = (words.next().unwrap(), words.next().unwrap());
            local.ends_with(&theirs)
                && remote.ends_with(&ours)
                && ["09 ", "0B "].contains(&words.next().unwrap().as_str())
        })
    });
    reset(served);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("Connection reset by peer"), "{said}");
}

#[test]
fn a_server_that_acknowledges_and_stays_is_left_after_the_linger_limit() {
    let dir = TempDir::new().unwrap();
    // The kernel acknowledges as much even before the server is accepted.
    let file = file_of(&dir, 10_000);
    let (listener, target) = listener();
    let link = Running::start(&["-t", "0.3", "-u", &file, &target]);
    let mut served = accept(&listener);
    assert_eq!(seen(&mut served), Seen::End(10_000));
    assert_eq!(link.finish().0.code(), Some(0));
}

#[test]
fn bytes_that_are_not_acknowledged_in_time_fail_the_link() {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 1 << 20);
    let (listener, target) = listener();
    // Set on the listener: the window is agreed on before accept(2) returns (tcp(7)).
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let target = format!("{target},sndbuf=4M");
    let link = Running::start(&["-t", "0.3", "-u", &file, &target]);
    let served = accept(&listener);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains(" bytes were not acknowledged in time"),
        "nobody knows what was sent: {said}"
    );
    // The link has gone, and the kernel goes on sending: a reader that is only slow gets all.
    let mut served = served;
    assert_eq!(seen(&mut served), Seen::End(1 << 20));
}

// Failures do not look like success.

#[test]
fn a_clients_reset_reaches_the_server_behind_what_came_before_it() {
    let (listener, target) = listener();
    let link = Running::start(&[ONCE, &target]);
    let mut client = link.client();
    let mut served = accept(&listener);
    client.write_all(&noise(1 << 20, 2)).unwrap();
    let mut some = vec![0; 1 << 20];
    served.read_exact(&mut some).unwrap();
    reset(client);
    assert_eq!(seen(&mut served), Seen::Reset(0));
    assert_eq!(link.finish().0.code(), Some(1));
}

#[test]
fn a_servers_reset_reaches_the_client() {
    let (listener, target) = listener();
    let link = Running::start(&[ONCE, &target]);
    let mut client = link.client();
    let mut served = accept(&listener);
    served.write_all(b"begun").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    reset(served);
    assert_eq!(seen(&mut client), Seen::Reset(0));
    assert_eq!(link.finish().0.code(), Some(1));
}

/// The call that finds a reset takes the error, and the next read answers 0: that is no end.
#[test]
fn a_reset_that_a_write_finds_first_is_no_end_for_the_client() {
    let (listener, target) = listener();
    let link = Running::start(&[FORK, &target]);
    let mut looked = 0;
    // A delay that grows by 10 us: some round hits the moment between the link's read and write.
    for round in 0..60 {
        let mut client = link.client();
        let served = accept(&listener);
        let resetting = thread::spawn(move || {
            thread::sleep(Duration::from_micros(round * 10));
            reset(served);
        });
        // The client's own write takes the error likewise, if the reset has come there already.
        if client.write_all(&noise(20_000, round)).is_ok() {
            assert_eq!(seen(&mut client), Seen::Reset(0), "round {round}");
            looked += 1;
        }
        resetting.join().unwrap();
    }
    assert!(looked > 0, "each reset came before the client had written");
}

#[test]
fn a_half_closed_client_that_resets_is_told_to_a_silent_server() {
    let (listener, target) = listener();
    let link = Running::start(&[ONCE, &target]);
    let client = link.client();
    let mut served = accept(&listener);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(seen(&mut served), Seen::End(0));
    reset(client);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    // The server has read the client's end, so only what it sends learns of the reset.
    eventually("sending fails", || served.write_all(b"?").is_err());
}

#[test]
fn a_reset_while_the_source_is_silent_ends_a_link_of_one_direction() {
    let (listener, target) = listener();
    let mut command = gush();
    command.args(["link", "-u", "-", &target]).stdin(Stdio::piped());
    // Standard input stays open and silent, so only the reset can end the link.
    let mut link = Running::of(command);
    let stdin = link.stdin();
    reset(accept(&listener));
    assert_eq!(link.finish().0.code(), Some(1));
    drop(stdin);
}

#[test]
fn a_silence_beyond_the_limit_is_an_error_that_both_sides_see() {
    let (listener, target) = listener();
    let link = Running::start(&["-T", "1", "--json", ONCE, &target]);
    let mut client = link.client();
    let mut served = accept(&listener);
    client.write_all(b"last words").unwrap();
    assert_eq!(seen(&mut client), Seen::Reset(0));
    assert_eq!(seen(&mut served), Seen::Reset(10));
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("\"ended\":\"idle\"") && said.contains("nothing moved for 1 s"),
        "{said}"
    );
}

#[test]
fn bytes_that_a_stalled_reader_leaves_are_told_as_lost() {
    // More than any buffer on the way holds; made before the silence is counted.
    let content = vec![7; 64 << 20];
    let (listener, target) = listener();
    let link = Running::start(&["-T", "2", "--json", ONCE, &target]);
    let mut client = link.client();
    let served = accept(&listener);
    let sender = thread::spawn(move || {
        let sent = client.write_all(&content);
        sent.unwrap_err().kind()
    });
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("bytes taken and not delivered"), "{said}");
    assert!(matches!(sender.join().unwrap(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    drop(served);
}

#[test]
fn bytes_that_a_stalled_reader_leaves_behind_its_own_end_are_told_as_lost() {
    // More than any buffer on the way holds; made before the silence is counted.
    let content = vec![7; 64 << 20];
    let (listener, target) = listener();
    let link = Running::start(&["-t", "1", "--json", ONCE, &target]);
    let client = link.client();
    let mut served = accept(&listener);
    let sender = thread::spawn(move || served.write_all(&content).unwrap_err().kind());
    eventually("bytes come", || rustix::io::ioctl_fionread(&client).unwrap() > 0);
    client.shutdown(Shutdown::Write).unwrap();
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("\"ended\":\"lingered\"") && said.contains("nothing moved for 1 s"),
        "{said}"
    );
    assert!(said.contains("bytes taken and not delivered"), "{said}");
    assert!(matches!(sender.join().unwrap(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    drop(client);
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_in_a_reset() {
    const BYTES: u64 = 64 << 20;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    // A hole: 64 MiB take no time to write.
    file.set_len(BYTES).unwrap();
    let (listener, target) = listener();
    let link = Running::start(&["-u", "--json", &path.display().to_string(), &target]);
    let mut served = accept(&listener);
    served.read_exact(&mut [0; 4096]).unwrap();
    file.set_len(4096).unwrap();
    let rest = seen(&mut served);
    assert!(matches!(rest, Seen::Reset(_)), "{rest:?}");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("shrank"), "{said}");
}

#[test]
fn a_target_that_cannot_be_opened_is_told_to_the_client_by_a_reset() {
    let link = Running::start(&[ONCE, "unix:/nonexistent/socket"]);
    assert_eq!(seen(&mut link.client()), Seen::Reset(0));
    assert_eq!(link.finish().0.code(), Some(1));
}

// Programs.

#[test]
fn the_exit_status_of_a_program_is_the_links() {
    for (program, status) in [("exec:false", 1), ("exec:true", 0), ("shell:'exit 3'", 1)] {
        // Whether the program still reads when the bytes come is left to chance, the status is not.
        for input in [&b""[..], b"some", &noise(1 << 20, 3)] {
            for args in
                [&["-u", "-", program][..], &["-", program], &[program, "-"], &["-u", program, "-"]]
            {
                let (got, said) = code(args, input);
                assert_eq!(got, Some(status), "{args:?} {} bytes: {said}", input.len());
                assert_eq!(said.contains("the program ended: exit status"), status != 0, "{said}");
            }
        }
    }
}

#[test]
fn a_program_killed_by_a_signal_has_failed() {
    let (status, said) = code(&["-", "shell:'kill -9 $$'"], b"");
    assert_eq!(status, Some(1));
    assert!(said.contains("SIGKILL"), "{said}");
}

/// head(1) reads one line and exits; yes(1) never stops.
#[test]
fn a_program_whose_reader_has_exited_fails_only_if_sigpipe_kills_it() {
    let ignores = "exec:sh -c \"trap '' PIPE; yes 2>/dev/null; exit 0\"";
    for (writer, expected, ended) in [("exec:yes", 1, "program-failed"), (ignores, 0, "closed")] {
        let (status, said) = code(&["--json", "-u", writer, "exec:head -1"], b"");
        assert_eq!(status, Some(expected), "{writer}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{writer}: {said}");
    }
}

/// The first client sends something else, the second ends its data, and the third sends half a header and waits.
#[test]
fn what_a_program_leaves_unread_is_told() {
    let dir = TempDir::new().unwrap();
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    fs::write(&small, vec![7; 10_000]).unwrap();
    fs::write(&large, vec![7; 8 << 20]).unwrap();
    let (small, large) = (small.to_str().unwrap(), large.to_str().unwrap());
    // Reads one byte of the whole file, which is in the pipe by then.
    let one = "exec:dd bs=1 count=1 of=/dev/null status=none";
    // Who holds the pipe beside the program ends with the test, and not before: at the end of this FIFO.
    let hold = dir.path().join("hold");
    rustix::fs::mkfifoat(rustix::fs::CWD, &hold, rustix::fs::Mode::RWXU).unwrap();
    let _held = File::options().read(true).write(true).open(&hold).unwrap();
    let holder =
        format!("shell:'exec 3<&0 4<{}; cat <&4 >/dev/null 2>&1 & exit 0'", hold.display());
    let cases = [
        (small, one, "the program left 9999 bytes "),
        (large, one, " bytes or more of its input unread"),
        (small, "exec:cat", ""),
        (large, "exec:cat", ""),
        // Whoever reads in the program's place may still come to the rest.
        (small, &holder, ""),
    ];
    for (file, program, told) in cases {
        let done = gush().args(["link", "-u", file, program]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program}: {said}");
        assert_eq!(said.contains("unread"), !told.is_empty(), "{program}: {said}");
        assert!(said.contains(told), "{program}: {said}");
    }
}

/// Of many clients it may be the usual end.
#[test]
fn what_a_program_of_one_of_many_clients_leaves_unread_is_no_warning() {
    let link = Running::start(&["-u", FORK, "exec:dd bs=1 count=1 of=/dev/null status=none"]);
    link.client().write_all(&[7; 10_000]).unwrap();
    let line = link.says("of its input unread");
    assert!(line.contains("the program left 9999 bytes"), "{line}");
    assert!(!line.contains("warning"), "{line}");
}

#[test]
fn the_pipe_of_a_program_that_exits_is_told_in_bytes() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("large"), vec![7; 8 << 20]).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("hold"), rustix::fs::Mode::RWXU).unwrap();
    let held = File::options().read(true).write(true).open(path("hold")).unwrap();
    // In the background, because a shell may put the FIFO in the place of its own standard input.
    let program = "shell:'exec 4<hold; echo $$ >new; mv new pid; cat <&4 & wait'";
    let mut command = gush();
    command.args(["link", "-u", "large", program]).current_dir(dir.path());
    let link = Running::of(command);
    eventually("the program runs", || path("pid").exists());
    let pid = fs::read_to_string(path("pid")).unwrap();
    let pipe =
        File::options().read(true).write(true).open(format!("/proc/{}/fd/0", pid.trim())).unwrap();
    let held_bytes = || rustix::io::ioctl_fionread(&pipe).unwrap();
    eventually("the pipe has more than a page", || held_bytes() > 4096);
    let (least_bytes, most_bytes) =
        (held_bytes(), rustix::pipe::fcntl_getpipe_size(&pipe).unwrap());
    // The program alone has the pipe then, and comes to the end of the FIFO.
    drop(pipe);
    drop(held);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    let told = said.split("the program left ").nth(1).unwrap_or_else(|| panic!("{said}"));
    let (bytes, rest) = told.split_once(' ').unwrap();
    assert!(rest.starts_with("bytes or more of its input unread"), "{said}");
    let range = least_bytes..=most_bytes as u64;
    assert!(range.contains(&bytes.parse().unwrap()), "{range:?}: {said}");
}

#[test]
fn a_client_without_a_proxy_header_is_reset_and_the_other_address_is_not_opened() {
    for (sent, ends) in [("GET / HTTP/1.1\r\n\r\n", false), ("", true), ("PROXY TCP4", false)] {
        let (backend, address) = listener();
        let link =
            Running::start(&["--json", "-T", "1", "--proxy-protocol", "accept", ONCE, &address]);
        let mut client = link.client();
        client.write_all(sent.as_bytes()).unwrap();
        if ends {
            client.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(seen(&mut client), Seen::Reset(0), "{sent:?}");
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{sent:?}: {said}");
        assert!(said.contains("\"ended\":\"proxy-header\""), "{sent:?}: {said}");
        // The link has ended: whoever is not in the queue by now does not come.
        backend.set_nonblocking(true).unwrap();
        assert_eq!(backend.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{sent:?}");
    }
}

#[test]
fn a_client_whose_proxy_header_cannot_be_sent_is_reset() {
    let dir = TempDir::new().unwrap();
    let full = format!("file:{}", gush_test::device("full", dir.path()).display());
    let link = Running::start(&["--json", "--proxy-protocol", "send", ONCE, &full]);
    assert_eq!(seen(&mut link.client()), Seen::Reset(0));
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the PROXY header cannot be sent"), "{said}");
    assert!(said.contains("\"ended\":\"proxy-header\""), "{said}");
}

#[test]
fn the_end_of_a_program_that_fails_is_no_end_for_its_client() {
    for (program, expected) in [
        ("shell:'printf half; exit 3'", Seen::Reset(4)),
        ("shell:'printf whole'", Seen::End(5)),
        ("shell:'printf half; exit 3',pipes", Seen::Reset(4)),
    ] {
        let link = Running::start(&["--json", ONCE, program]);
        let mut client = link.client();
        assert_eq!(seen(&mut client), expected, "{program}");
        drop(client);
        let (status, _, said) = link.finish();
        let failed = matches!(expected, Seen::Reset(_));
        assert_eq!(status.code(), Some(i32::from(failed)), "{said}");
        assert_eq!(said.contains("\"ended\":\"program-failed\""), failed, "{said}");
    }
}

#[test]
fn a_program_that_reads_no_more_goes_on_writing() {
    let program = "shell:'exec <&-; sleep 0.2; printf late',pipes";
    let mut command = gush();
    command.args(["link", "-", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(&noise(1 << 20, 4));
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "late");
    assert!(output.status.success());
}

/// Bytes that the link has sent, and a slow client not read yet, would be lost by a reset at once.
#[test]
fn what_a_program_wrote_before_it_failed_reaches_a_slow_client() {
    const BYTES: usize = 1_000_000;
    let dir = TempDir::new().unwrap();
    let done = dir.path().join("done");
    let program = format!("shell:'head -c {BYTES} /dev/zero; touch {}; exit 3'", done.display());
    let link = Running::start(&[&format!("{FORK},sndbuf=4M"), &program]);
    // The link waits for 1 s at most, which a client on a busy machine may miss.
    let arrives = |_| {
        let mut client = link.client();
        sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
        eventually("the program has written all", || done.exists());
        fs::remove_file(&done).unwrap();
        // The program has exited by then, and the link would have reset the connection.
        thread::sleep(Duration::from_millis(200));
        seen(&mut client) == Seen::Reset(BYTES)
    };
    assert!((0..10).any(arrives), "never all of it: {}", link.said());
}

/// A program may leave its end to a child, as one that goes into the background does.
#[test]
fn a_program_that_leaves_its_end_to_its_child_is_still_served() {
    // In a background list standard input is /dev/null; a zombie is a process that has exited.
    let program = "shell:'exec 3<&0; (until grep -q \"^State:.Z\" /proc/$$/status; do sleep 0.01; done; \
                   echo gone; cat <&3) & exit 0'";
    for options in ["", ",pipes"] {
        let link = Running::start(&["--json", ONCE, &format!("{program}{options}")]);
        let mut client = link.client();
        let mut gone = [0; 5];
        client.read_exact(&mut gone).unwrap();
        assert_eq!(&gone, b"gone\n");
        let question = noise(300_000, 5);
        let mut asking = client.try_clone().unwrap();
        let (answer, sent) = thread::scope(|scope| {
            let sent = scope.spawn(|| {
                asking.write_all(&question).and_then(|()| asking.shutdown(Shutdown::Write))
            });
            let mut answer = Vec::new();
            let read = client.read_to_end(&mut answer);
            (read.map(|_| answer), sent.join().unwrap())
        });
        assert!(sent.is_ok() && answer.unwrap() == question, "{options}: {}", link.said());
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{said}");
    }
}

#[test]
fn a_program_that_has_exited_keeps_no_place_for_its_client() {
    let link = Running::start(&[
        "--json",
        "tcp-listen:127.0.0.1:0,fork,max-children=1",
        "exec:'echo done'",
    ]);
    // They read the end, and do not close.
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let mut client = link.client();
            assert_eq!(seen(&mut client), Seen::End(5));
            client
        })
        .collect();
    // One place for three clients: each was given back although its client stays.
    link.says_times("\"ended\":\"closed\"", clients.len());
}

// Datagrams.

#[test]
fn a_refused_datagram_ends_the_link() {
    // Connected to itself, it hears nobody else: the kernel refuses as if nobody were there, and the port is taken.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = deaf.local_addr().unwrap();
    deaf.connect(place).unwrap();
    // Streams around the socket, where a read tells of no error, and sockets that are only written.
    let shaped = |option: &str| format!("udp:{place},{option}");
    let mut targets = vec![format!("udp:{place}")];
    targets.extend(["crlf", "cr", "ignoreeof", "shut-none", "escape=29"].map(shaped));
    targets.extend(["crlf,escape=29", "ignoreeof,escape=29"].map(shaped));
    let silent = server(|mut stream| drop(stream.read(&mut [0])));
    targets.push(format!("tcp:{silent}!!udp:{place}"));
    targets.push(format!("tcp:{silent}!!{}", shaped("crlf")));
    for args in targets.iter().flat_map(|to| [vec!["-", to], vec!["-u", "-", to]]) {
        let mut command = gush();
        command.arg("link").args(&args).stdin(Stdio::piped());
        let mut link = Running::of(command);
        let mut stdin = link.stdin();
        stdin.write_all(b"anybody?").unwrap();
        // Standard input stays open: nothing else ends the link.
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("Connection refused"), "{args:?}: {said}");
        assert!(!said.contains("epoll_wait"), "no such call has failed: {args:?}: {said}");
        drop(stdin);
    }
}

#[test]
fn the_end_of_standard_input_ends_a_link_to_datagrams() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("udp:{}", target.local_addr().unwrap());
    for args in [&["-", to.as_str()][..], &["-u", "-", &to]] {
        let (status, said) = code(args, b"query");
        assert_eq!(status, Some(0), "{said}");
        let mut query = [0; 10];
        assert_eq!(target.recv(&mut query).unwrap(), 5);
    }
}

#[test]
fn a_silence_is_the_proper_end_of_datagrams() {
    let link = Running::start(&["-u", "-T", "0.3", "udp-listen:127.0.0.1:0", "-"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"one", link.place()).unwrap();
    let (status, output, said) = link.finish();
    assert_eq!((status.code(), output.as_slice()), (Some(0), &b"one"[..]), "{said}");
}

// Signals.

#[test]
fn a_link_that_serves_one_peer_ends_at_the_first_sigterm() {
    for (listen, other) in [("udp-listen:127.0.0.1:0", "-"), (ONCE, "pipe:")] {
        for is_connected in [false, true] {
            let link = Running::start(&[listen, other]);
            let place = link.place();
            let client = is_connected.then(|| match listen == ONCE {
                true => drop_later(link.client()),
                false => {
                    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                    client.send_to(b"one", place).unwrap();
                    drop_later(client)
                }
            });
            if is_connected {
                link.says("connected");
            }
            link.signal(Signal::TERM);
            let (status, _, said) = link.finish();
            assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{listen}: {said}");
            drop(client);
        }
    }
}

fn drop_later<T: 'static>(kept: T) -> Box<dyn std::any::Any> {
    Box::new(kept)
}

#[test]
fn draining_ends_in_time_and_says_how_many_it_cut() {
    let (listener, target) = listener();
    let link = Running::start(&["--drain", "0.3", "--json", FORK, &target]);
    let mut clients: Vec<_> = (0..2).map(|_| link.client()).collect();
    let mut served: Vec<_> = (0..2).map(|_| accept(&listener)).collect();
    link.says_times("connected", 2);
    link.signal(Signal::TERM);
    for stream in clients.iter_mut().chain(&mut served) {
        assert_eq!(seen(stream), Seen::Reset(0));
    }
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("2 connections were cut"), "{said}");
    assert_eq!(said.matches("\"ended\":\"interrupted\"").count(), 2, "{said}");
}

/// Whoever came before the signal is served if there is somebody in time, and counted if not.
#[test]
fn draining_does_not_cancel_opens() {
    let dir = TempDir::new().unwrap();
    let back = dir.path().join("back");
    let other = format!("unix:{},retry=forever,interval=0.05", back.display());
    let link = Running::start(&["--drain", "1h", "--json", FORK, &other]);
    let mut client = link.client();
    link.says("trying again");
    link.signal(Signal::TERM);
    link.says("draining");
    let served = UnixListener::bind(&back).unwrap();
    served.accept().unwrap().0.write_all(b"served").unwrap();
    assert_eq!(seen(&mut client), Seen::End(6));
    drop(client);
    assert_eq!(link.finish().0.code(), Some(0));

    let link = Running::start(&["--drain", "0.3", "--json", FORK, "unix:/no/such,retry=forever"]);
    let mut client = link.client();
    link.says("trying again");
    link.signal(Signal::TERM);
    assert_eq!(seen(&mut client), Seen::Reset(0));
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("1 connection was cut"), "{said}");
}

/// Datagrams say no end: a link that drains waits for no silence of a minute.
#[test]
fn draining_ends_senders_of_datagrams_that_rest() {
    let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = format!("udp:{}", echo.local_addr().unwrap());
    let link = Running::start(&["--drain", "1h", "--json", "udp-listen:127.0.0.1:0,fork", &other]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"question", link.place()).unwrap();
    echo.recv_from(&mut [0; 8]).unwrap();
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("\"ended\":\"idle\""), "{said}");
}

/// The rate limit makes a pause of 2 s behind the first datagram, and a copy without room one as long as nobody reads the copy.
#[test]
fn a_pause_of_the_links_own_is_no_rest_of_datagrams_while_it_drains() {
    let (server, other) = listener();
    let listen = "udp-listen:127.0.0.1:0,fork";
    let link = Running::start(&["--drain", "1h", "--limit", "20K", "--json", listen, &other]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(link.place()).unwrap();
    for bytes in [40_000, 20_000] {
        client.send(&vec![b'x'; bytes]).unwrap();
    }
    let mut stream = accept(&server);
    stream.read_exact(&mut [0]).unwrap();
    link.signal(Signal::TERM);
    assert_eq!(seen(&mut stream), Seen::End(59_999));
    drop(stream);
    assert_eq!(link.finish().0.code(), Some(0));

    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut copy = File::options().read(true).write(true).open(&fifo).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = format!("udp:{}", receiver.local_addr().unwrap());
    let tee = fifo.display().to_string();
    let link = Running::start(&["--drain", "1h", "--tee", &tee, "--json", FORK, &other]);
    let (mut client, sent) = (link.client(), 4 << 20);
    let sending = thread::spawn(move || {
        client.write_all(&noise(sent, 7)).unwrap();
        client
    });
    eventually("the FIFO is full", || {
        rustix::io::ioctl_fionread(&copy).is_ok_and(|bytes| bytes >= 60 << 10)
    });
    link.signal(Signal::TERM);
    link.says("draining");
    thread::sleep(Duration::from_millis(1500));
    let mut copied = vec![0; sent];
    copy.read_exact(&mut copied).unwrap();
    assert!(copied == noise(sent, 7));
    drop(sending.join().unwrap());
    assert_eq!(link.finish().0.code(), Some(0));
}

/// A program ended in the middle of its work has not finished the work.
#[test]
fn a_program_that_outlives_the_idle_limit_is_a_failure_and_one_that_outlives_the_linger_limit_is_told()
 {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 10);
    let program = "shell:'cat >/dev/null; sleep 100; exit 7'";
    for (limit, code, ended) in [("-T", 1, "idle"), ("-t", 0, "lingered")] {
        let link = Running::start(&["--json", "-u", limit, "0.3", &file, program]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{limit}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{limit}: {said}");
        assert!(said.contains("still at work"), "{limit}: {said}");
    }
}

/// One limit is there for both: each program that is still at work then is told. Within a limit of its own, which begins behind that of
/// the first, the second program would end.
#[test]
fn two_programs_have_one_limit() {
    let programs = ["sleep 100", "sleep 8"];
    let [one, other] =
        programs.map(|sleeps| format!("shell:'exec >/dev/null </dev/null; {sleeps}'"));
    let cases = [("-T", 1, "idle"), ("-t", 0, "lingered")].map(|(limit, code, ended)| {
        // The end of a program's output is passed on after a second, within the idle limit.
        let link = Running::start(&["--json", limit, "4", &one, &other]);
        (link, limit, code, ended)
    });
    for (link, limit, code, ended) in cases {
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(code), "{limit}: {said}");
        assert!(said.contains(&format!("\"ended\":\"{ended}\"")), "{limit}: {said}");
        for program in programs {
            let told = |line: &str| line.contains(program) && line.contains("still at work");
            assert!(said.lines().any(told), "{limit}, {program}: {said}");
        }
    }
}

/// As the first program's failure ends the second, so does the second one's end the first.
#[test]
fn a_program_that_fails_is_told_while_the_other_goes_on() {
    let goes_on = "shell:'exec >/dev/null </dev/null; sleep 100'";
    let fails = "shell:'exec >/dev/null </dev/null; sleep 1.5; exit 3'";
    for programs in [[goes_on, fails], [fails, goes_on]] {
        let (status, _, said) = Running::start(&["--json", programs[0], programs[1]]).finish();
        assert_eq!(status.code(), Some(1), "{programs:?}: {said}");
        assert!(said.contains("\"ended\":\"program-failed\""), "{programs:?}: {said}");
    }
}

/// The program reads on for ever, and is told of no end: all bytes are read, and nothing comes back.
#[test]
fn a_program_on_a_terminal_without_an_end_is_ended_once_it_has_read_all() {
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, 10);
    for program in ["exec:cat,pty,raw,shut-none", "shell:'cat >/dev/null',pty,raw,shut-none"] {
        let (status, _, said) = Running::start(&["--json", "-u", &file, program]).finish();
        assert_eq!(status.code(), Some(0), "{program}: {said}");
        assert!(said.contains("\"ended\":\"closed\""), "{program}: {said}");
    }
}

#[test]
fn a_program_on_a_terminal_ends_with_its_reader_also_one_way() {
    for reader in ["exec:true", "exec:'head -1'"] {
        let link = Running::start(&["--json", "-u", "exec:yes,pty", reader]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{reader}: {said}");
        assert!(said.contains("\"ended\":\"program-failed\""), "{reader}: {said}");
    }
}

/// In one direction nobody was ever to read what the program says: it is hung up for no words of its own.
#[test]
fn a_program_on_a_terminal_may_go_on_talking_where_the_data_goes_one_way() {
    let dir = TempDir::new().unwrap();
    let done = dir.path().join("done");
    let program = format!(
        "shell:'cat >/dev/null; for n in 1 2 3 4 5 6 7 8; do echo word; sleep 0.25; done; touch {}',pty",
        done.display()
    );
    let (status, said) = code(&["-u", "-", &program], b"data");
    assert_eq!(status, Some(0), "{said}");
    assert!(done.exists(), "{said}");
}

// Clients that hang up.

/// The client's end was overlooked, the reset is not.
#[test]
fn a_client_that_resets_behind_an_overlooked_end_leaves_its_place() {
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

/// What the server heard of a connection that `link` opened late, after a client had said all of its data and closed.
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

#[test]
fn a_reader_of_standard_output_that_leaves_ends_the_link_as_it_ends_filters() {
    let mut command = Command::new("sh");
    let line = "\"$0\" link -u zero: - | head -c 10 | wc -c; echo ${PIPESTATUS:-}";
    command.args(["-c", line, env!("CARGO_BIN_EXE_gush")]);
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("10"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
