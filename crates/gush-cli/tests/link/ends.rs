//! How connections of `gush link` end: half-closes, limits, resets, readers and writers that go.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::link::{Running, ask, echo, server};
use crate::common::{gush, noise};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const ONCE: &str = "tcp-listen:127.0.0.1:0";

/// The account of the only connection that `said` reports.
fn record(said: &str) -> Value {
    let mut records = said.lines().filter(|line| line.starts_with('{'));
    let record = serde_json::from_str(records.next().expect("a record")).unwrap();
    assert!(records.next().is_none(), "{said}");
    record
}

/// Resets the connection: lingering for no time (socket(7)).
fn reset(stream: TcpStream) {
    let none = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, none).unwrap();
}

#[test]
fn a_half_close_is_passed_on_and_the_late_answer_comes() {
    let data = noise(16 << 20, 1);
    let answer = noise(16 << 20, 2);
    let (expected, late) = (blake3::hash(&data), answer.clone());
    let target = server(move |mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        assert_eq!(blake3::hash(&question), expected);
        stream.write_all(&late).unwrap();
    });
    let link = Running::start(&["--json", ONCE, &format!("tcp:{target}")]);
    assert!(ask(link.client(), &data) == answer);
    let (status, _, said) = link.finish();
    assert!(status.success());
    let record = record(&said);
    assert_eq!(record["ended"], "closed");
    assert_eq!(record["forward_bytes"], 16 << 20);
    assert_eq!(record["back_bytes"], 16 << 20);
}

#[test]
fn a_server_that_closes_first_still_gets_everything() {
    let (got, is_got) = std::sync::mpsc::channel();
    let target = server(move |mut stream| {
        stream.write_all(b"greeting").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        got.send(blake3::hash(&all)).unwrap();
    });
    let link = Running::start(&[ONCE, &format!("tcp:{target}")]);
    let mut client = link.client();
    let mut greeting = String::new();
    client.read_to_string(&mut greeting).unwrap();
    assert_eq!(greeting, "greeting");
    let data = noise(8 << 20, 3);
    client.write_all(&data).unwrap();
    drop(client);
    assert_eq!(is_got.recv().unwrap(), blake3::hash(&data));
    assert!(link.finish().0.success());
}

#[test]
fn a_client_that_says_nothing_is_ended_by_the_idle_limit() {
    let listen = format!("{ONCE},fork");
    // The next client has so long for its words.
    let link = Running::start(&["-T", "3", "--json", &listen, &format!("tcp:{}", echo())]);
    let mut silent = link.client();
    let error = silent.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    link.says("\"ended\":\"idle\"");
    assert_eq!(ask(link.client(), b"next"), b"next");
}

#[test]
fn a_side_that_never_ends_is_ended_by_the_linger_limit() {
    let target = server(|mut stream| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        thread::sleep(crate::common::link::PATIENCE);
    });
    let link = Running::start(&["-t", "0.3", "--json", ONCE, &format!("tcp:{target}")]);
    let client = link.client();
    client.shutdown(Shutdown::Write).unwrap();
    let (status, _, said) = link.finish();
    assert!(status.success());
    assert_eq!(record(&said)["ended"], "lingered");
}

/// As by Ctrl-Z, or in a paused container: once the link goes on, the limit is over, and bytes
/// wait.
#[test]
fn a_stop_longer_than_the_limit_ends_no_connection_whose_bytes_wait() {
    for limit in ["-T", "-t"] {
        let (speak, speaks) = std::sync::mpsc::channel::<()>();
        let speaks = std::sync::Mutex::new(speaks);
        let target = server(move |mut stream| {
            let mut heard = [0; 8];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(b"answer").unwrap();
            while speaks.lock().unwrap().recv().is_ok() {
                stream.write_all(b"more").unwrap();
            }
        });
        let link = Running::start(&[limit, "0.5", ONCE, &format!("tcp:{target}")]);
        let mut client = link.client();
        let stopped = |meanwhile: &mut dyn FnMut()| {
            link.signal(Signal::STOP);
            thread::sleep(Duration::from_millis(700));
            meanwhile();
            link.signal(Signal::CONT);
        };
        let question = || (&client).write_all(b"question").unwrap();
        // With -t the limit counts once one side has ended.
        match limit {
            "-T" => stopped(&mut || question()),
            _ => {
                question();
                client.shutdown(Shutdown::Write).unwrap();
            }
        }
        let mut heard = [0; 6];
        client.read_exact(&mut heard).expect("the link lives");
        for _ in 0..3 {
            stopped(&mut || speak.send(()).unwrap());
            client.read_exact(&mut heard[..4]).expect("the link lives");
        }
        drop(speak);
        // ENOTCONN where both directions have ended already, as with -t.
        let _ = client.shutdown(Shutdown::Write);
        assert_eq!(client.read(&mut heard).unwrap(), 0);
        assert!(link.finish().0.success());
    }
}

#[test]
fn a_stop_longer_than_its_limit_refuses_no_proxy_header_that_waits() {
    let limited = ["-T", "0.5", "--proxy-protocol", "accept", ONCE];
    let link = Running::start(&[&limited[..], &[&format!("tcp:{}", echo())]].concat());
    let mut client = link.client();
    link.says("connected");
    // The link waits for the header by then.
    thread::sleep(Duration::from_millis(200));
    link.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(700));
    client.write_all(b"PROXY UNKNOWN\r\nquestion").unwrap();
    link.signal(Signal::CONT);
    let mut heard = [0; 8];
    client.read_exact(&mut heard).expect("the link lives");
    assert_eq!(&heard, b"question");
}

#[test]
fn lingering_is_counted_from_the_end_of_the_data() {
    let target = server(|mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        thread::sleep(Duration::from_millis(200));
        stream.write_all(b"late").unwrap();
    });
    let link = Running::start(&["-T", "60", "-t", "5", ONCE, &format!("tcp:{target}")]);
    let mut client = link.client();
    client.write_all(b"question").unwrap();
    // Silence before the end is no silence after it.
    thread::sleep(Duration::from_millis(5500));
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "late");
    assert!(link.finish().0.success());
}

#[test]
fn a_pause_of_the_rate_limit_is_no_silence_of_the_ends() {
    // All is there when the link begins: no end is silent.
    let (source, mut feed) = std::io::pipe().unwrap();
    feed.write_all(b"slow").unwrap();
    drop(feed);
    let mut command = gush();
    command.args(["link", "-T", "0.4", "--limit", "2", "--json", "-", "pipe:"]).stdin(source);
    let (status, output, said) = Running::of(command).finish();
    assert!(status.success(), "{said}");
    assert_eq!(output, b"slow");
    assert_eq!(record(&said)["ended"], "closed");
}

#[test]
fn a_reset_is_reported_with_the_bytes_that_had_passed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp:{}", listener.local_addr().unwrap());
    let link = Running::start(&["--json", ONCE, &target]);
    let mut client = link.client();
    client.write_all(&[7; 1000]).unwrap();
    let (mut served, _) = listener.accept().unwrap();
    let mut some = [0; 1000];
    served.read_exact(&mut some).unwrap();
    reset(served);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1));
    let record = record(&said);
    assert_eq!(record["ended"], "relay-failed");
    assert_eq!(record["forward_bytes"], 1000);
    assert!(record["error"]["message"].as_str().unwrap().contains("tcp:127.0.0.1:"), "{record}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("gush: link: tcp:127.0.0.1:") && last.contains("reset"), "{said}");
}

#[test]
fn a_killed_peer_ends_its_connection() {
    let listen = format!("{ONCE},fork");
    let link = Running::start(&["--json", &listen, &format!("tcp:{}", echo())]);
    let mut peer = gush();
    peer.args(["link", "zero:", &format!("tcp:{}", link.place())]);
    let mut peer = peer.stdout(Stdio::null()).spawn().unwrap();
    link.says("connected");
    peer.kill().unwrap();
    peer.wait().unwrap();
    link.says("\"ended\":");
    assert_eq!(ask(link.client(), b"next"), b"next");
}

#[test]
fn a_peer_that_stops_reading_stops_its_sender() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp:{}", listener.local_addr().unwrap());
    let link = Running::start(&[ONCE, &target]);
    let client = link.client();
    let (mut served, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    let (block, mut sent) = (noise(1 << 20, 5), 0_usize);
    let (mut stuck, mut hasher) = (0, blake3::Hasher::new());
    // Nothing was taken for a fifth of a second: it is full.
    while stuck < 20 {
        match (&client).write(&block[sent % block.len()..]) {
            Ok(count) => {
                let start = sent % block.len();
                hasher.update(&block[start..start + count]);
                (sent, stuck) = (sent + count, 0);
            }
            Err(_) => {
                stuck += 1;
                thread::sleep(Duration::from_millis(10));
            }
        }
        assert!(sent < 256 << 20, "it takes everything");
    }
    assert!(link.anonymous_kib() < 16 << 10, "{} KiB", link.anonymous_kib());
    drop(client);
    let mut all = blake3::Hasher::new();
    std::io::copy(&mut served, &mut all).unwrap();
    assert_eq!(all.count(), sent as u64);
    assert_eq!(all.finalize(), hasher.finalize());
}

#[test]
fn one_way_reads_nothing_from_the_second_address() {
    let target = server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"one way").unwrap();
    let link =
        Running::start(&["-u", "--json", &file.display().to_string(), &format!("tcp:{target}")]);
    let (status, output, said) = link.finish();
    assert!(status.success() && output.is_empty(), "{said}");
    assert_eq!(record(&said)["forward_bytes"], 7);
    assert_eq!(record(&said)["back_bytes"], 0);
}

#[test]
fn a_file_is_sent_and_received_whole() {
    let dir = TempDir::new().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    let data = noise(5_000_001, 6);
    fs::write(&source, &data).unwrap();
    let receive = Running::start(&["-u", ONCE, &format!("file:{},create", target.display())]);
    let send =
        Running::start(&["-u", &source.display().to_string(), &format!("tcp:{}", receive.place())]);
    assert!(send.finish().0.success() && receive.finish().0.success());
    assert!(fs::read(&target).unwrap() == data);
}

#[test]
fn standard_input_may_be_a_file_a_pipe_or_closed() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, noise(300_000, 7)).unwrap();
    let target = format!("tcp:{}", echo());
    let from_file = gush().args(["link", "-", &target]).stdin(File::open(&file).unwrap()).output();
    assert!(from_file.unwrap().stdout == noise(300_000, 7));

    let shell = |line: &str| {
        let program = env!("CARGO_BIN_EXE_gush");
        Command::new("sh").args(["-c", line, program, &target]).output().unwrap()
    };
    assert_eq!(shell("printf piped | \"$0\" link - \"$1\"").stdout, b"piped");
    let closed = shell("\"$0\" link - \"$1\" <&-");
    assert!(!closed.status.success());
    let said = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(said.starts_with("gush: link: ") && said.contains("closed"), "{said}");
}

#[test]
fn standard_input_reaches_standard_output_under_any_two_of_their_names() {
    for names in [
        ["-", "-"],
        ["-", "stdout"],
        ["-", "fd:1"],
        ["-", "fd:0"],
        ["stdin", "-"],
        ["stdin", "stdout"],
        ["fd:0", "-"],
        ["fd:0", "fd:1"],
    ] {
        let mut command = gush();
        command.arg("link").args(names).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feeder = thread::spawn(move || stdin.write_all(&noise(1_000_000, 9)).unwrap());
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        assert!(output.status.success(), "{names:?}");
        assert!(output.stdout == noise(1_000_000, 9), "{names:?}: {} bytes", output.stdout.len());
    }
}

#[test]
fn when_nobody_reads_standard_output_it_ends_silently() {
    let mut command = gush();
    command.args(["link", "-u", "zero:", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut some = [1; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(rustix::process::Signal::PIPE.as_raw()));
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_full_disk_is_an_error() {
    let output = gush().args(["link", "-u", "zero:", "/dev/full"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("gush: link: /dev/full: ") && said.contains("No space left"),
        "{said}"
    );
}

#[test]
fn a_limit_slows_down_and_a_named_method_is_used_or_refused() {
    let dir = TempDir::new().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    fs::write(&source, noise(200_000, 8)).unwrap();
    let (from, to) = (source.display().to_string(), format!("file:{},create", target.display()));
    for method in ["read-write", "splice"] {
        let args = ["-u", "--limit", "1M", "--method", method, "--json", "--explain", &from, &to];
        let (status, _, said) = Running::start(&args).finish();
        assert!(status.success(), "{said}");
        let record = record(&said);
        assert_eq!(record["forward_method"], method);
        // A fifth of a second at that rate, and never sooner.
        assert!(record["seconds"].as_f64().unwrap() > 0.1, "{record}");
        assert!(said.contains(&format!("forward 200000 bytes by {method}")), "{said}");
    }
    // A program's output comes through a socket, which sendfile(2) does not read.
    let args = ["-u", "--method", "sendfile", "exec:'echo refused'", &to];
    let (status, _, said) = Running::start(&args).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("sendfile cannot serve this: a stream is moved by"), "{said}");
    assert!(fs::read(&target).unwrap() == noise(200_000, 8), "a refusal has changed the target");
}

#[test]
fn a_tee_gets_a_copy_of_each_direction() {
    let dir = TempDir::new().unwrap();
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    fs::write(&there, "before ").unwrap();
    let target = server(|mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        stream.write_all(b"answer").unwrap();
    });
    let tees = [there.display().to_string(), back.display().to_string()];
    let link = Running::start(&[
        "--tee",
        &tees[0],
        "--tee-back",
        &tees[1],
        ONCE,
        &format!("tcp:{target}"),
    ]);
    assert_eq!(ask(link.client(), b"question"), b"answer");
    assert!(link.finish().0.success());
    assert_eq!(fs::read_to_string(there).unwrap(), "before question");
    assert_eq!(fs::read_to_string(back).unwrap(), "answer");
}

#[test]
fn a_tee_that_cannot_be_written_is_reported_and_the_link_goes_on() {
    let link = Running::start(&["--tee", "/dev/full", ONCE, &format!("tcp:{}", echo())]);
    assert_eq!(ask(link.client(), b"goes on"), b"goes on");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1));
    let why = "/dev/full: write: No space left on device (the target is full: ";
    let logged = format!("gush: link: error: {why}");
    let line = said.lines().find(|line| line.starts_with(&logged)).expect(&said);
    assert!(line.ends_with("); the copy ends here, the link continues"), "{line}");
    assert!(said.lines().last().unwrap().starts_with(&format!("gush: link: {why}")), "{said}");
}

#[test]
fn an_idle_link_costs_no_time() {
    let link = Running::start(&[&format!("{ONCE},fork"), &format!("tcp:{}", echo())]);
    let mut clients: Vec<_> = (0..10).map(|_| link.client()).collect();
    for client in &mut clients {
        client.write_all(b"?").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    let switches = || {
        let path = format!("/proc/{}/status", link.pid().as_raw_nonzero());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let sleeps = gush_test::comes_to_rest([4, 4], || [switches(), link.processor_ticks()]);
    assert!(sleeps, "it does not sleep");
}
