//! How lives of `gush link` end, and who learns of that: the bytes that arrive, the exit status,
//! and whether the other side sees an end or a reset. The table is in `docs/endings.md`.

mod clients_that_leave;
mod datagrams;
mod draining;
mod graceful;
mod programs;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use tempfile::TempDir;

use crate::common::link::{PATIENCE, Running, eventually, server};
use crate::common::{gush, noise, skipped, strace};

const ONCE: &str = "tcp-listen:127.0.0.1:0";
const FORK: &str = "tcp-listen:127.0.0.1:0,fork";

/// The bytes that a reader saw, and whether a reset rather than an end came after them.
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

/// A connection that has ended has no peer any more, either.
#[test]
fn a_server_that_takes_the_last_byte_between_two_questions_has_got_it() {
    const BYTES: usize = 1 << 20;
    let dir = TempDir::new().unwrap();
    let file = file_of(&dir, BYTES);
    let (listener, target) = listener();
    // Small at the reader and large at the link: the file lies in the kernel, and not at the
    // server.
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    // Nearly all the time the link is between the count of its bytes and the question for the peer.
    let inject = "inject=getpeername:delay_enter=500000";
    let mut command = match strace(&["-D", "-e", inject]) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    command.args(["link", "-u", &file, &format!("{target},sndbuf=4M")]);
    let link = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut served = accept(&listener);
    served.read_exact(&mut [0; 10]).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(seen(&mut served), Seen::End(BYTES - 10));
    drop(served);
    let output = link.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
    // Small at the reader and large at the link: the file lies in the kernel, and not at the
    // server.
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let link = Running::start(&["--json", &file, &format!("{target},sndbuf=4M")]);
    let mut served = accept(&listener);
    served.shutdown(Shutdown::Write).unwrap();
    served.read_exact(&mut [0; 10]).unwrap();
    let place = |socket: std::net::SocketAddr| format!("{:04X} ", socket.port());
    let (ours, theirs) = (place(served.local_addr().unwrap()), place(served.peer_addr().unwrap()));
    eventually("the link has sent its end", || {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        // In LAST_ACK (9), and in CLOSING (11) where the link's was first, both ends of data are
        // sent (proc_net_tcp.rst).
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
fn a_clients_reset_reaches_the_server_after_what_came_before_it() {
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
fn a_silent_server_sees_the_reset_of_a_half_closed_client() {
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
fn bytes_that_a_stalled_reader_leaves_are_reported_as_lost() {
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
    assert!(said.contains("bytes read but not delivered"), "{said}");
    assert!(matches!(sender.join().unwrap(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    drop(served);
}

#[test]
fn bytes_that_a_stalled_reader_leaves_after_its_own_end_are_reported_as_lost() {
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
    assert!(said.contains("bytes read but not delivered"), "{said}");
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
fn a_target_that_cannot_be_opened_resets_the_client() {
    let link = Running::start(&[ONCE, "unix:/nonexistent/socket"]);
    assert_eq!(seen(&mut link.client()), Seen::Reset(0));
    assert_eq!(link.finish().0.code(), Some(1));
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
        // The link has ended: a client that is not in the queue by now does not come.
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
fn a_reader_of_standard_output_that_leaves_ends_the_link_as_it_ends_filters() {
    let mut command = Command::new("sh");
    let line = "\"$0\" link -u zero: - | head -c 10 | wc -c; echo ${PIPESTATUS:-}";
    command.args(["-c", line, env!("CARGO_BIN_EXE_gush")]);
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("10"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
