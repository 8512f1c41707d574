//! Addresses that stand together: `A!!B`, which reads from one and writes to the other, and `A|B`,
//! the first that opens.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::link::{Running, ask, client_of, echo, eventually, server};
use crate::common::tls::Pki;
use crate::common::{gush, skipped, strace};
use crate::terminals::{line, opened};
use gush_test::Port;
use rustix::net::sockopt;
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

fn link(args: &[&str]) -> Output {
    gush().arg("link").args(args).output().unwrap()
}

#[test]
fn one_address_is_read_and_the_other_is_written_as_by_socat() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("in"), "question\n").unwrap();
    let ends = format!("file:{},rdonly!!file:{},create", path("in"), path("ours"));
    let done = link(&[&ends, "shell:'tr a-z A-Z'"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read(path("ours")).unwrap(), b"QUESTION\n");
    let socat = format!("OPEN:{},rdonly!!CREATE:{}", path("in"), path("theirs"));
    match Command::new("socat").args([&socat, "SYSTEM:tr a-z A-Z"]).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return skipped("no socat to compare with"),
    }
    assert_eq!(fs::read(path("theirs")).unwrap(), fs::read(path("ours")).unwrap());
}

#[test]
fn each_end_of_data_of_a_joined_end_is_passed_on() {
    let dir = TempDir::new().unwrap();
    let answer = dir.path().join("answer");
    fs::write(&answer, "answer").unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let heard = server(move |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        sender.send(bytes).unwrap();
    });
    let other = format!("file:{},rdonly!!tcp:{heard}", answer.display());
    let link = Running::start(&[LISTEN, &other]);
    assert_eq!(ask(link.client(), b"question"), b"answer");
    assert_eq!(receiver.recv().unwrap(), b"question");
}

/// Of two halves only one is read: nothing else shows the other's reset.
#[test]
fn a_reset_of_the_half_that_is_written_fails_the_link() {
    let silent = format!("tcp:{}", server(|mut stream| drop(stream.read(&mut [0]))));
    for resets_after_the_end in [false, true] {
        for option in ["", ",crlf", ",shut-none"] {
            let place = server(move |mut stream| {
                let mut question = vec![0; 8];
                match resets_after_the_end && option != ",shut-none" {
                    true => assert_eq!(stream.read_to_end(&mut question).unwrap(), 8),
                    false => stream.read_exact(&mut question).unwrap(),
                }
                sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            });
            let source = if resets_after_the_end { "null:" } else { &silent };
            let mut command = gush();
            command.args(["link", "--json", "-", &format!("{source}!!tcp:{place}{option}")]);
            command.stdin(Stdio::piped());
            let mut link = Running::of(command);
            let mut stdin = link.stdin();
            stdin.write_all(b"question").unwrap();
            // Otherwise standard input stays open: nothing else ends the link.
            let stdin = (!resets_after_the_end).then_some(stdin);
            let (status, _, said) = link.finish();
            assert_eq!(status.code(), Some(1), "{source}{option}: {said}");
            assert!(said.contains("\"ended\":\"relay-failed\""), "{source}{option}: {said}");
            assert!(!said.contains("os error"), "{source}{option}: {said}");
            drop(stdin);
        }
    }
}

/// A waiting server, and the error at the end of the connection.
fn waiter() -> (String, std::sync::mpsc::Receiver<Option<ErrorKind>>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let place = server(move |mut stream| {
        sender.send(stream.read(&mut [0]).err().map(|error| error.kind())).unwrap();
    });
    (place, receiver)
}

#[test]
fn both_halves_are_reset_where_the_link_fails() {
    let refuses = Port::reserve();
    let refusing = format!("tcp:{}", refuses.place());
    let silent = format!("tcp:{}", server(|mut stream| drop(stream.read(&mut [0]))));
    let leaves = format!("tcp:{}", server(|mut stream| stream.read_exact(&mut [0]).unwrap()));
    let cases: [(&[&str], &str, &str, bool); 4] = [
        (&[], "", &refusing, false),
        (&["-T", "1"], "", &silent, false),
        (&["-T", "1"], ",crlf", &silent, false),
        (&[], "", &leaves, true),
    ];
    for (words, option, target, asks) in cases {
        let (place, receiver) = waiter();
        let other = format!("tcp:{place}{option}!!{target}");
        let link = Running::start(&[words, &["tcp-listen:127.0.0.1:0", &other]].concat());
        let mut client = link.client();
        // Who has left is found out by the bytes after it.
        while asks && client.write_all(b"?").is_ok() {}
        let heard = receiver.recv().unwrap();
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{words:?} {other}: {said}");
        assert_eq!(heard, Some(ErrorKind::ConnectionReset), "{words:?} {other}: {said}");
    }
}

#[test]
fn one_way_only_the_half_that_is_used_is_opened() {
    let done = link(&["-u", "shell:'echo in'!!file:/no/such/file", "-"]);
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"in\n"[..]), "{done:?}");
    let done = link(&["-u", "shell:'echo in'", "file:/no/such/file!!-"]);
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"in\n"[..]), "{done:?}");
    let done = link(&["-!!null:", "shell:'echo out; cat'"]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0), "{done:?}");
}

#[test]
fn what_cannot_stand_together_is_pointed_at() {
    let cases = [
        ("null:!!-!!-", "A!!B", "          ^^"),
        ("tcp-listen:1!!-", "clients come to it", "  ^^^^^^^^^^^^"),
        ("exec:a!!exec:b", "may be a program, not both", "          ^^^^^^"),
        ("tcp:a:1|tcp-listen:1", "clients come to it", "          ^^^^^^^^^^^^"),
        ("tcp:a:1|udp:a:1", "whether or not a peer is there", "          ^^^^^^^"),
        ("tcp:a:1|tcp:b:70000", "ports end at 65535", "                ^^^^^"),
        ("null:!!tcp:b:70000", "ports end at 65535", "               ^^^^^"),
        ("tcp:a:1|", "an address is missing here", "          ^"),
    ];
    for (address, why, place) in cases {
        let said = link(&[address, "null:"]);
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(1), "{address}: {text}");
        let mut lines = text.lines();
        assert!(lines.next().unwrap().contains(why), "{address}: {text}");
        assert_eq!(lines.next().unwrap().trim(), address);
        assert_eq!(lines.next().unwrap(), place, "{address}: {text}");
    }
}

#[test]
fn a_bar_within_a_command_or_quotes_separates_nothing() {
    let done = link(&["-u", "shell:echo a | tr a b", "-"]);
    assert_eq!(done.stdout, b"b\n", "{done:?}");
    let dir = TempDir::new().unwrap();
    let quoted = format!("'{}/a|b!!c'", dir.path().display());
    assert!(link(&["-u", "shell:echo a", &quoted]).status.success());
    assert_eq!(fs::read(dir.path().join("a|b!!c")).unwrap(), b"a\n");
}

#[test]
fn the_log_and_the_account_name_the_first_that_answers() {
    let (port, echo) = (Port::reserve(), echo());
    let nobody = port.place();
    let link =
        Running::start(&["--json", LISTEN, &format!("tcp:{nobody}|tcp:{echo}|tcp:{nobody}")]);
    assert_eq!(ask(link.client(), b"?"), b"?");
    link.says(&format!("tcp:{nobody}: connect to {nobody}: Connection refused"));
    link.says(&format!("tcp:{echo} answers, of tcp:{nobody}|tcp:{echo}|tcp:{nobody}"));
    link.says(&format!("\"second\":\"tcp:{echo}\""));
}

#[test]
fn every_client_begins_with_the_first_target() {
    let (port, echo) = (Port::reserve(), echo());
    let late = port.place();
    let link = Running::start(&[LISTEN, &format!("tcp:{late}|tcp:{echo}")]);
    assert_eq!(ask(link.client(), b"?"), b"?");
    let now_there = TcpListener::bind(&late).unwrap();
    let client = link.client();
    let (mut first, _) = now_there.accept().unwrap();
    first.write_all(b"first").unwrap();
    drop(first);
    assert_eq!(ask(client, b""), b"first");
    assert!(!link.said().contains("warning"), "{}", link.said());
}

#[test]
fn where_nobody_answers_every_target_is_reported() {
    let ports = [Port::reserve(), Port::reserve()];
    let [one, other] = ports.each_ref().map(Port::place);
    let said = link(&["null:", &format!("tcp:{one}|tcp:{other}")]);
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    for place in [&one, &other] {
        assert!(text.contains(&format!("connect to {place}: Connection refused")), "{text}");
    }
    assert!(text.contains("(nothing listens there; start the server"), "{text}");
    // A program can be the last resort.
    let done = link(&["-u", &format!("tcp:{one}|shell:'echo instead'"), "-"]);
    assert_eq!(done.stdout, b"instead\n", "{done:?}");
}

/// A server for one client, which learns nothing of the link and receives all: the server's
/// address, and the text received.
fn listener() -> (String, std::sync::mpsc::Receiver<String>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let place = server(move |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        sender.send(String::from_utf8_lossy(&bytes).into_owned()).unwrap();
    });
    (place, receiver)
}

#[test]
fn a_proxy_header_goes_to_whichever_part_gets_the_clients_bytes() {
    let reserved = Port::reserve();
    let nobody = reserved.place();
    for other in [
        "tcp:NOBODY|tcp:PLACE",
        "tcp:NOBODY|tcp:PLACE,crlf",
        "null:!!tcp:PLACE",
        "null:!!tcp:PLACE,crlf",
        "tcp:PLACE,crlf",
        "null:!!tcp:PLACE,shut-none",
    ] {
        let (place, receiver) = listener();
        let link = Running::start(&[
            "--proxy-protocol",
            "send",
            LISTEN,
            &other.replace("NOBODY", &nobody).replace("PLACE", &place),
        ]);
        let client = link.client();
        let port = client.local_addr().unwrap().port();
        ask(client, b"data\n");
        let heard = receiver.recv().unwrap();
        assert!(heard.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{other}: {heard}");
        assert!(heard.contains(&format!(" {port} ")), "{other}: {heard}");
        let data = if other.contains("crlf") { "\r\ndata\r\n" } else { "\r\ndata\n" };
        assert!(heard.ends_with(data) && heard.matches("PROXY").count() == 1, "{other}: {heard:?}");
    }
    // Who gets none of the client's bytes learns nothing.
    let (sender, receiver) = std::sync::mpsc::channel();
    let place = server(move |mut stream| {
        stream.write_all(b"news").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut bytes = Vec::new();
        // The link closes without having sent anything.
        stream.read_to_end(&mut bytes).unwrap();
        sender.send(bytes).unwrap();
    });
    let other = format!("tcp:{place}!!null:");
    let link = Running::start(&["--proxy-protocol", "send", LISTEN, &other]);
    assert_eq!(ask(link.client(), b"data"), b"news");
    assert_eq!(receiver.recv().unwrap(), b"");
}

#[test]
fn a_proxy_header_comes_before_the_handshake_of_a_part() {
    let pki = Pki::new();
    let inner = Running::start(&[
        "--proxy-protocol",
        "accept",
        &pki.listen("server", ",fork"),
        "shell:cat >/dev/null; echo $PEERADDR",
    ]);
    let question = b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000\r\nhello";
    let there = pki.connect(&inner.place(), "");
    // The first one takes the header, and leaves.
    let (sender, receiver) = std::sync::mpsc::channel();
    let rude = server(move |stream| {
        let mut header = String::new();
        BufReader::new(&stream).read_line(&mut header).unwrap();
        sender.send(header).unwrap();
    });
    let parts = format!("{}|{there}", pki.connect(&rude, ""));
    let outer = Running::start(&["--proxy-protocol", "accept,send", LISTEN, &parts]);
    assert_eq!(ask(outer.client(), question), b"192.0.2.7\n");
    assert!(receiver.recv().unwrap().starts_with("PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000"));

    let inner = Running::start(&[
        "--json",
        "--proxy-protocol",
        "accept",
        &pki.listen("server", ",fork"),
        "null:",
    ]);
    let parts = format!("null:!!{}", pki.connect(&inner.place(), ""));
    let outer = Running::start(&["--proxy-protocol", "accept,send", LISTEN, &parts]);
    assert_eq!(ask(outer.client(), question), b"");
    let account = inner.says("\"first\":\"192.0.2.7:1000\"");
    assert!(account.contains("\"forward_bytes\":5"), "{account}");
}

#[test]
fn what_is_no_socket_begins_with_a_proxy_header_too() {
    for program in ["shell:cat,pipes", "exec:cat", "exec:cat,pty,raw,echo=0"] {
        let link = Running::start(&["-t", "1", "--proxy-protocol", "send", LISTEN, program]);
        let heard = String::from_utf8(ask(link.client(), b"data")).unwrap();
        assert!(heard.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{program}: {heard}");
        assert!(heard.ends_with("\r\ndata"), "{program}: {heard}");
    }
}

#[test]
fn a_server_that_only_sends_learns_who_its_clients_are() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let place = server(move |mut stream| {
        let mut header = String::new();
        BufReader::new(&stream).read_line(&mut header).unwrap();
        stream.write_all(b"news").unwrap();
        sender.send(header).unwrap();
    });
    for other in [format!("tcp:{place}"), format!("tcp:{place}!!null:")] {
        let link = Running::start(&["--proxy-protocol", "send", "-u", &other, LISTEN]);
        let mut heard = String::new();
        link.client().read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "news", "{other}");
        assert!(receiver.recv().unwrap().starts_with("PROXY TCP4 127.0.0.1"), "{other}");
    }
}

#[test]
fn a_proxy_header_is_no_datagram_of_a_part() {
    for other in ["null:!!udp:127.0.0.1:9", "-!!udp:127.0.0.1:9"] {
        let done = link(&["--proxy-protocol", "send", "tcp-listen:127.0.0.1:0", other]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && said.contains("datagrams"), "{done:?}");
    }
}

/// The streams are left to the end alone, and so the reader at the other end learns of the end of
/// the data.
#[test]
fn an_end_of_data_reaches_standard_output_also_where_that_is_a_part() {
    let place = server(|mut stream| {
        stream.write_all(b"answer").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    for streams in ["-", "-|null:", "file:/no/such/file|-", "stdin!!stdout"] {
        let mut command = gush();
        command.args(["link", &format!("tcp:{place}"), streams]).stdin(Stdio::piped());
        let mut link = Running::of(command);
        let (stdin, mut stdout) = (link.stdin(), link.stdout());
        let heard = std::thread::spawn(move || {
            let mut answer = String::new();
            stdout.read_to_string(&mut answer).unwrap();
            answer
        });
        eventually(streams, || heard.is_finished());
        assert_eq!(heard.join().unwrap(), "answer", "{streams}");
        drop(stdin);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{streams}: {said}");
    }
}

#[test]
fn when_nobody_reads_standard_output_it_ends_silently_also_as_a_part() {
    for streams in ["-|null:", "null:!!-", "fd:1"] {
        let mut command = gush();
        command.args(["link", "-u", "zero:", streams]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [1; 10]).unwrap();
        let output = child.wait_with_output().unwrap();
        let signal = Some(rustix::process::Signal::PIPE.as_raw());
        assert_eq!(output.status.signal(), signal, "{streams}: {output:?}");
        assert!(output.stderr.is_empty(), "{streams}: {output:?}");
    }
}

/// A line has no end of data, and sees none.
#[test]
fn a_link_to_a_line_ends_once_no_answer_comes_also_where_that_is_a_part() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "question").unwrap();
    for whole in ["LINE|null:", "file:/no/such/line|file:LINE", "LINE!!LINE", "LINE,crlf|null:"] {
        let (ours, name) = line();
        // Without any opener a pseudo-terminal's master has an error instead of silence.
        let _kept = opened(&name);
        let address = whole.replace("LINE", &format!("{},raw", name.display()));
        let link = Running::start(&["--json", file.to_str().unwrap(), &address]);
        let mut heard = [0; 8];
        fs::File::from(ours.try_clone().unwrap()).read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"question", "{whole}");
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{whole}: {said}");
        assert!(said.contains("\"ended\":\"lingered\""), "{whole}: {said}");
    }
}

#[test]
fn the_places_for_clients_of_several_targets_fit_into_the_limit_of_descriptors() {
    for other in ["file:/no/such/file|exec:cat,pipes", "zero:!!exec:cat,pipes"] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 40; exec \"$0\" link --log info --threads 1 \"$@\""]);
        command.args([env!("CARGO_BIN_EXE_gush"), LISTEN, other]);
        let link = Running::of(command);
        let mut clients: Vec<_> = (0..20).map(|_| link.client()).collect();
        for client in &mut clients {
            client.write_all(b"?").unwrap();
        }
        // In the order of their arrival, and each makes room for one that waits.
        for (number, mut client) in clients.into_iter().enumerate() {
            let answered = client.read_exact(&mut [1]);
            assert!(answered.is_ok(), "{other}, client {number}: {answered:?}: {}", link.said());
        }
    }
}

/// A want of descriptors is no fault of a target's: the next one is not taken for that.
#[test]
fn a_client_waits_for_descriptors_of_the_first_target() {
    let says = |words: &'static [u8]| server(move |mut stream| drop(stream.write_all(words)));
    let other = format!("tcp:{}|tcp:{}", says(b"first"), says(b"second"));
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("calls");
    // The first socket is the listener's, the next ones are the target's.
    let inject = ["-D", "-e", "inject=socket:error=EMFILE:when=2..4", "-o", log.to_str().unwrap()];
    let mut command = match strace(&inject) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    command.args(["link", "--log", "info", "--threads", "1", LISTEN, &other]);
    let link = Running::of(command);
    let mut answer = String::new();
    client_of(&link.place()).read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "first", "{}", link.said());
}

/// Half a second of silence ends datagrams, and no data that only an option makes endless.
#[test]
fn a_late_answer_of_a_part_whose_end_is_overlooked_comes() {
    let place = server(|mut stream| {
        let question = stream.read_to_end(&mut Vec::new());
        // Far longer than the answers of datagrams are waited for.
        std::thread::sleep(Duration::from_millis(1500));
        drop(question.and_then(|_| stream.write_all(b"late")));
    });
    let other = format!("tcp:{place},ignoreeof|null:");
    let link = Running::start(&[LISTEN, &other]);
    let mut client = link.client();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"late", "{}", link.said());
}

#[test]
fn a_part_that_is_the_other_ends_file_is_refused_though_its_data_is_shaped() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "again and again").unwrap();
    let file = file.display();
    // Slow, so that a link which reads its own output leaves little.
    let (source, target) = (format!("file:{file},crlf|null:"), format!("file:{file},append"));
    let (status, _, said) = Running::start(&["--limit", "100k", "-u", &source, &target]).finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("input is output"), "{said}");
}
