//! `gush link` among limits and hostile neighbours: few descriptors, refused calls, readers that
//! are not there.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::link::{
    Killed, PATIENCE, Running, ask, client_of, echo, eventually, server, unread,
};
use crate::common::{denier, gush, noise, skipped, strace};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

/// A link that a shell starts after `before`.
fn after(before: &str, args: &[&str]) -> Running {
    let mut command = Command::new("sh");
    let line = format!("{before}; exec \"$0\" link --log info \"$@\"");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_gush")]).args(args);
    Running::of(command)
}

#[test]
fn a_program_gets_the_limit_of_descriptors_that_the_link_was_given() {
    let link = after("ulimit -Sn 200", &[LISTEN, "shell:'ulimit -Sn'"]);
    assert_eq!(ask(link.client(), b""), b"200\n");
}

#[test]
fn as_many_clients_are_served_as_there_are_descriptors() {
    let link = after("ulimit -n 64", &[LISTEN, &format!("tcp:{}", echo())]);
    let before = {
        link.place();
        link.descriptors()
    };
    let clients: Vec<_> = (0..60).map(|_| link.client()).collect();
    // Two for each; some are kept free for threads, and so that each accepted client can be
    // connected on.
    let threads = std::thread::available_parallelism().unwrap().get();
    let served = (64 - before - 12 - 4 * (threads - 1)) / 2;
    link.says_times(": connected", served);
    let warnings = || link.said().matches("the limit of open files is reached").count();
    eventually("the limit is reported", || warnings() > 0);
    drop(clients);
    link.says_times(": connected", 60);
    assert_eq!(warnings(), 1, "{}", link.said());
}

#[test]
fn a_client_that_waits_for_descriptors_as_the_link_drains_is_reset_with_a_warning() {
    for threads in ["1", "2"] {
        let words = ["--threads", threads, LISTEN, &format!("tcp:{}", echo())];
        let link = after("ulimit -n 64", &words);
        let served: Vec<_> = (0..12).map(|_| link.client()).collect();
        for mut client in &served {
            client.write_all(b"hello").unwrap();
            client.read_exact(&mut [0; 5]).unwrap();
        }
        // One more than are open, not counting the directory of `descriptors`.
        let most = Rlimit { current: Some(link.descriptors() as u64 + 1), maximum: Some(64) };
        prlimit(Some(link.pid()), Resource::Nofile, most).unwrap();
        let mut waits = link.client();
        let name = waits.local_addr().unwrap();
        link.says("the limit of open files is reached: new peers wait");
        link.signal(Signal::TERM);
        link.says(&format!("{name} is given up"));
        assert_eq!(waits.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(served);
        assert!(link.finish().0.success());
    }
}

/// Both sides of each terminal are open: the kernel would hang the terminal up without its other
/// side.
#[test]
fn the_places_for_clients_with_terminals_fit_into_the_limit_of_descriptors() {
    let link = after("ulimit -n 64", &["--threads", "1", LISTEN, "pty,raw"]);
    let before = {
        link.place();
        link.descriptors()
    };
    let _clients: Vec<_> = (0..60).map(|_| link.client()).collect();
    let line = link.says("wait for one of ");
    let places = line.split("one of ").nth(1).unwrap().split(' ').next().unwrap();
    let each = 1 + 2;
    let at_most = before + each * places.parse::<usize>().unwrap();
    assert!(at_most <= 64, "{places} places, and {before} descriptors at first");
    // The link may have had the directory of its descriptors open, to count them, when the first
    // were counted here.
    eventually("every place is taken", || link.descriptors() + 1 >= at_most);
}

/// Descriptors that others hold for a moment are waited for, while the client keeps its place.
#[test]
fn a_client_waits_for_descriptors_of_the_other_end_for_a_while() {
    // The first socket is the listener's; the next ones are the target's.
    for (failing, is_served) in [("2..4", true), ("2+", false)] {
        let dir = TempDir::new().unwrap();
        let log = dir.path().join("calls");
        let inject = format!("inject=socket:error=EMFILE:when={failing}");
        // With -D strace is the child: signals of the test reach the link itself.
        let strace = strace(&["-D", "-e", &inject, "-o", log.to_str().unwrap()]);
        let mut command = match strace {
            Ok(strace) => strace,
            Err(why) => return skipped(&why),
        };
        let to = format!("tcp:{}", echo());
        // One thread, or the number of a call would depend on which thread made it.
        command.args(["link", "--log", "info", "--threads", "1", LISTEN, &to]);
        let link = Running::of(command);
        let answer = ask_as_far_as(link.client(), b"question");
        assert_eq!(answer == b"question", is_served, "{answer:?}: {}", link.said());
        match is_served {
            true => assert!(!link.said().contains("Too many open files"), "{}", link.said()),
            false => drop(link.says("Too many open files")),
        }
        let calls = std::fs::read_to_string(&log).unwrap();
        let injected = calls.matches("EMFILE").count();
        assert!(if is_served { injected == 3 } else { injected > 3 }, "{injected}: {calls}");
    }
}

/// Descriptors are free, and yet the kernel has no memory for one more socket: nothing else may
/// starve meanwhile.
#[test]
fn a_link_whose_every_client_is_refused_for_want_of_memory_still_drains() {
    let senders = "udp-listen:127.0.0.1:0,fork";
    for (call, listen) in [("accept4", LISTEN), ("socketpair", senders)] {
        for error in ["ENOBUFS", "ENFILE"] {
            let inject = format!("inject={call}:error={error}");
            let strace = strace(&["-D", "-e", &inject, "-o", "/dev/null"]);
            let mut command = match strace {
                Ok(strace) => strace,
                Err(why) => return skipped(&why),
            };
            command.args(["link", "--log", "info", listen, "null:"]);
            let link = Running::of(command);
            let place = link.place();
            let _client = match call {
                "accept4" => Some(link.client()),
                _ => {
                    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                    sender.send_to(b"datagram", &place).unwrap();
                    None
                }
            };
            link.says("again and again; trying ever less often");
            link.signal(Signal::TERM);
            let (status, _, said) = link.finish();
            assert_eq!(status.code(), Some(0), "{call} {error}: {said}");
        }
    }
}

/// The answer, which a link that has given up cuts.
fn ask_as_far_as(mut client: TcpStream, question: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; question.len()];
    let asked = client.write_all(question).and_then(|()| client.read(&mut answer));
    answer.truncate(asked.unwrap_or(0));
    answer
}

#[test]
fn a_file_at_the_limit_of_files_fails_its_client_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file").display().to_string();
    let link = after("ulimit -f 100", &["--json", "-u", LISTEN, &format!("file:{path},create")]);
    let mut client = link.client();
    // The link resets the connection where the file is full, perhaps while the client still sends.
    let _ = client.write_all(&vec![7; 1 << 20]);
    link.says("File too large");
    drop(client);
    let mut client = link.client();
    client.write_all(b"a small one").unwrap();
    drop(client);
    link.says("\"ended\":\"closed\"");
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(&std::fs::read(&path).unwrap()[..11], b"a small one");
}

#[test]
fn a_copy_at_the_limit_of_files_ends_and_the_link_goes_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("copy").display().to_string();
    let program = "shell:'ulimit -f unlimited; head -c 1000000 /dev/zero'";
    let words = ["--json", "-u", "--tee", &path, program, "null:"];
    let (status, _, said) = after("ulimit -S -f 100", &words).finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("File too large") && said.contains("\"forward_bytes\":1000000"),
        "{said}"
    );
}

/// The link itself is not ended by SIGXFSZ.
#[test]
fn a_program_is_ended_at_the_limit_of_files_as_ever() {
    let words = ["-u", "null:", "exec:'sh -c \"kill -XFSZ \\$\\$\"'"];
    let (status, _, said) = Running::start(&words).finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("SIGXFSZ"), "{said}");
}

#[test]
fn a_firewall_that_refuses_every_client_makes_no_link_spin() {
    const ACCEPT4: &str = "288";
    let dir = TempDir::new().unwrap();
    let denier = match denier(dir.path()) {
        Ok(denier) => denier,
        Err(why) => return skipped(&why),
    };
    let mut command = Command::new(denier);
    command.args(["1", ACCEPT4, env!("CARGO_BIN_EXE_gush"), "link", "--log", "info"]);
    command.args([LISTEN, "null:"]);
    let link = Running::of(command);
    let _client = link.client();
    link.says("Operation not permitted");
    assert!(gush_test::comes_to_rest([4], || [link.processor_ticks()]), "it spins");
}

#[test]
fn refused_strangers_are_reported_a_few_times_and_counted() {
    // A range for documentation (RFC 5737): every client here is a stranger.
    let listen = format!("{LISTEN},range=192.0.2.0/24");
    let began = Instant::now();
    let link = Running::start(&[&listen, "null:"]);
    for _ in 0..200 {
        assert!(!matches!(link.client().read(&mut [0]), Ok(1..)));
    }
    link.says("outside range=");
    let reported = link.said().matches("outside range=").count();
    // One a second is reported.
    let most = began.elapsed().as_secs() as usize + 1;
    assert!(reported <= most, "{reported} warnings of 200 strangers, not {most}");
}

#[test]
fn a_log_that_nobody_reads_stops_no_client() {
    let (_child, _stderr, place) = unread(&["--log", "debug", LISTEN, &format!("tcp:{}", echo())]);
    // Each client is reported in some lines; a pipe holds 64 KiB of them.
    for _ in 0..1500 {
        assert_eq!(ask(client_of(&place), b"?"), b"?");
    }
}

#[test]
fn records_that_nobody_reads_stop_no_client_and_no_end() {
    for records in ["--json", "--stats", "--explain"] {
        let to = format!("tcp:{}", echo());
        let (mut link, stderr, place) =
            unread(&["--log", "info", "--drain", "1", records, LISTEN, &to]);
        // The smallest pipe, so that few lines fill it.
        fcntl_setpipe_size(&stderr, 4096).unwrap();
        for _ in 0..100 {
            assert_eq!(ask(client_of(&place), b"?"), b"?", "{records}");
        }
        ends(&mut link, records);
    }
}

/// A pipe that is ready takes 4096 bytes at once. These lines are longer than the whole pipe.
#[test]
fn long_log_lines_that_nobody_reads_stop_no_client_and_no_end() {
    let to = format!("exec:'false {}'", "x".repeat(20_000));
    let (mut link, stderr, place) =
        unread(&["--log", "info", "--threads", "1", "--drain", "1", LISTEN, &to]);
    fcntl_setpipe_size(&stderr, 8192).unwrap();
    for _ in 0..40 {
        // The end, or a reset: the program has failed.
        if let Err(error) = client_of(&place).read(&mut [0]) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
    ends(&mut link, "long lines");
}

#[test]
fn progress_that_nobody_reads_keeps_no_link_running() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let bytes = fcntl_setpipe_size(&writer, 4096).unwrap();
    // Full before the start: the very first line finds no room.
    (&writer).write_all(&vec![b'x'; bytes]).unwrap();
    let mut command = gush();
    command.args(["link", "--progress=always", "null:", "null:"]).stderr(writer);
    let mut link = Killed(command.spawn().unwrap());
    eventually("it ends", || link.0.try_wait().unwrap().is_some());
    assert!(link.0.wait().unwrap().success());
}

/// SIGTERM ends `link`, in order.
fn ends(link: &mut Killed, case: &str) {
    kill_process(Pid::from_child(&link.0), Signal::TERM).unwrap();
    eventually(&format!("SIGTERM ends it: {case}"), || link.0.try_wait().unwrap().is_some());
    assert!(link.0.wait().unwrap().success(), "{case}");
}

#[test]
fn a_copy_into_a_fifo_without_a_reader_is_refused() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (status, _, said) =
        Running::start(&["-u", "--tee", fifo.to_str().unwrap(), "null:", "null:"]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("has no reader"), "{said}");
}

/// On one thread: a client who is not copied is served while a copy has no room.
#[test]
fn a_copy_whose_reader_is_slow_loses_nothing_and_keeps_no_other_client_waiting() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Opened both ways: an open for reading alone would wait for the writer (fifo(7)).
    let mut reader = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let place = server(|mut stream| {
        let _ = stream.write_all(b"!");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let to = format!("tcp:{place}");
    let link = Running::start(&["--threads", "1", "--tee", fifo.to_str().unwrap(), LISTEN, &to]);
    let sent = noise(4 << 20, 11);
    let (mut client, bytes) = (link.client(), sent.clone());
    let copied = std::thread::spawn(move || {
        client.write_all(&bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut greeting = Vec::new();
        client.read_to_end(&mut greeting).unwrap();
        greeting
    });
    eventually("the FIFO is full", || {
        // Not all of 64 KiB: a page that is written in part counts as used.
        rustix::io::ioctl_fionread(&reader).is_ok_and(|bytes| bytes >= 60 << 10)
    });
    link.client().read_exact(&mut [0]).unwrap();
    assert!(!link.said().contains("the copy ends here"), "{}", link.said());
    let mut copy = vec![0; sent.len()];
    reader.read_exact(&mut copy).unwrap();
    assert!(copy == sent, "the copy is another");
    assert_eq!(copied.join().unwrap(), b"!");
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
}

#[test]
fn a_copy_that_the_end_of_the_link_cuts_is_reported() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _unread = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let source = "shell:'head -c 500000 /dev/zero'";
    let link = Running::start(&["-u", "--tee", &fifo.display().to_string(), source, "null:"]);
    link.says("ending=\"closed\"");
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{said}");
    assert!(said.contains("the copy is not whole"), "{said}");
    assert!(!said.contains("the link continues"), "{said}");
}

#[test]
fn json_has_a_line_also_where_nothing_could_be_opened() {
    for (args, name) in [
        (["file:/no/such/file", "null:"], "file:/no/such/file"),
        (["unix-listen:/no/such/dir/socket", "null:"], "unix-listen:/no/such/dir/socket"),
    ] {
        let mut command = gush();
        let output = command.args(["link", "--json"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let reported =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8_lossy(&output.stdout);
        assert!(reported.contains("\"ended\":\"open-failed\""), "{reported}");
        assert!(reported.contains(&format!("\"first\":\"{name}\"")), "{reported}");
    }
}

#[test]
fn a_proxy_header_is_refused_where_there_is_no_stream() {
    for args in [
        ["--proxy-protocol", "send", "tcp-listen:127.0.0.1:0", "udp:127.0.0.1:9"],
        ["--proxy-protocol", "accept", "udp-listen:127.0.0.1:0", "null:"],
    ] {
        let (status, _, said) = Running::start(&args).finish();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("datagrams"), "{said}");
    }
}

#[test]
fn a_malformed_proxy_header_brings_no_line_ends_into_the_log() {
    let link = Running::start(&["--proxy-protocol", "accept", LISTEN, "null:"]);
    let headers = [
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
        "PROXY \x1b[31m\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
    ];
    for header in headers {
        let mut client = link.client();
        client.write_all(header.as_bytes()).unwrap();
        let _ = client.read(&mut [0]);
    }
    link.says_times("malformed", 3);
    let said = link.said();
    assert!(said.lines().all(|line| line.starts_with("gush: link: ")), "{said}");
    assert!(!said.contains(['\r', '\x1b']), "{said:?}");
}

#[test]
fn a_program_that_does_not_end_is_gone_when_the_link_is() {
    let program = "shell:'trap \"\" TERM; echo $$; while :; do sleep 1; done'";
    let mut command = gush();
    // The program has so long for its first words.
    command.args(["link", "-T", "5", "-", program]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // An end of standard input would end the link before its idle limit.
    let _kept_open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    let pid = String::from_utf8(output.stdout).unwrap();
    let process = format!("/proc/{}", pid.trim());
    assert!(pid.trim().parse::<u32>().is_ok() && !Path::new(&process).exists(), "{pid}");
}

/// A stopped process sees SIGTERM only after SIGCONT (signal(7)).
#[test]
fn a_stopped_program_is_asked_to_end_not_killed() {
    let link = Running::start(&["-T", "0.3", "tcp-listen:127.0.0.1:0", "shell:'kill -STOP $$'"]);
    let _client = link.client();
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("nothing moved for 300 ms") && !said.contains("is killed"), "{said}");
}

#[test]
fn a_program_that_asks_at_the_terminal_gets_the_answer() {
    // The outer link gives the inner one a terminal; its program asks there, as ssh does for a
    // password.
    let asks = "\"shell:read answer </dev/tty; echo got $answer >/dev/tty\"";
    for ends in [format!("{asks} null:"), format!("null: {asks}")] {
        let inner = format!("exec:'{} link {ends}',pty,echo=0", env!("CARGO_BIN_EXE_gush"));
        let mut command = gush();
        command.args(["link", "-", &inner]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Killed(command.spawn().unwrap());
        let mut stdin = child.0.stdin.take().unwrap();
        stdin.write_all(b"secret\n").unwrap();
        let mut stdout = child.0.stdout.take().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut heard = String::new();
            stdout.read_to_string(&mut heard).unwrap();
            sender.send(heard).unwrap();
        });
        let heard = receiver.recv_timeout(PATIENCE);
        drop(child);
        drop(stdin);
        assert_eq!(heard.as_deref().map(str::trim), Ok("got secret"), "{ends}");
        reader.join().unwrap();
    }
}

#[test]
fn options_of_standard_input_are_not_options_of_the_command() {
    let output = gush().args(["link", "-,fork", "-"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("- takes no option 'fork'"), "{said}");
}

#[test]
fn a_finished_program_gives_its_clients_place_back() {
    let listen = format!("{LISTEN},max-children=1");
    for program in ["exec:'echo done'", "exec:'echo done',pipes"] {
        let link = Running::start(&[&listen, program]);
        let mut kept_open = Vec::new();
        for _ in 0..5 {
            let mut client = link.client();
            let mut heard = String::new();
            client.read_to_string(&mut heard).expect("an answer, although others are connected");
            assert_eq!(heard, "done\n");
            kept_open.push(client);
        }
    }
}

#[test]
fn a_program_learns_who_its_client_is() {
    let program = "shell:'echo $PEERADDR $PEERPORT $SOCKADDR $SOCKPORT $SOCAT_PEERPORT'";
    let link = Running::start(&[LISTEN, program]);
    let client = link.client();
    let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    let reported = String::from_utf8(ask(client, b"")).unwrap();
    let (peer, local) = (from.port(), to.port());
    assert_eq!(reported, format!("127.0.0.1 {peer} 127.0.0.1 {local} {peer}\n"));

    let link = Running::start(&["--proxy-protocol", "accept", LISTEN, program]);
    // 2001:db8::/32 is for documentation (RFC 3849), so nothing real is meant.
    let header = b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n";
    let reported = String::from_utf8(ask(link.client(), header)).unwrap();
    assert_eq!(reported, "2001:db8::7 4711 2001:db8::1 443 4711\n");

    // A client without a name has no variable, least of all another's.
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket").display().to_string();
    let link = after("export PEERADDR=stale", &[&format!("unix-listen:{socket},fork"), program]);
    link.says("listening on");
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut reported = String::new();
    stream.read_to_string(&mut reported).unwrap();
    assert_eq!(reported, format!("{socket}\n"));
}

/// The link knows kind and flags of a socket that it has just made.
#[test]
fn a_short_connection_asks_nothing_of_its_sockets() {
    const CONNECTIONS: usize = 40;
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("calls");
    let asked = "trace=fcntl,fstat,getsockopt,prlimit64";
    let mut command = match strace(&["-D", "-e", asked, "-o", log.to_str().unwrap()]) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    let to = format!("tcp:{}", echo());
    command.args(["link", "--log", "info", LISTEN, &to]);
    // With -D the link is the child, and strace ends with the link.
    let link = Running::of(command);
    // The standard library asks F_GETFD of each descriptor that a debug build closes.
    let counts = |line: &&str| !line.contains("F_GETFD");
    let asked_until_now = || std::fs::read_to_string(&log).unwrap().lines().filter(counts).count();
    // The first clients start the threads.
    let clients = |count| {
        for _ in 0..count {
            assert_eq!(ask(link.client(), b"question"), b"question");
        }
    };
    clients(10);
    link.says_times(": ended", 10);
    let before = asked_until_now();
    clients(CONNECTIONS);
    link.says_times(": ended", 10 + CONNECTIONS);
    let asked = asked_until_now() - before;
    // Some where a call was interrupted, or a thread began.
    assert!(asked <= CONNECTIONS / 2, "{asked} calls of {CONNECTIONS} connections");
}

/// Fewer bytes than a read asked for are all there were: the next read waits until there are more.
#[test]
fn a_message_there_and_back_causes_no_read_that_finds_nothing() {
    const MESSAGES: usize = 100;
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("calls");
    let mut command = match strace(&["-D", "-e", "trace=recvfrom", "-o", log.to_str().unwrap()]) {
        Ok(strace) => strace,
        Err(why) => return skipped(&why),
    };
    command.args(["link", "--log", "info", LISTEN, &format!("tcp:{}", echo())]);
    let link = Running::of(command);
    let mut client = link.client();
    for _ in 0..MESSAGES {
        client.write_all(b"a message").unwrap();
        client.read_exact(&mut [0; 9]).unwrap();
    }
    drop(client);
    link.says_times(": ended", 1);
    let calls = std::fs::read_to_string(&log).unwrap();
    let (reads, vain) = (calls.lines().count(), calls.matches("EAGAIN").count());
    assert!(reads >= 2 * MESSAGES, "{reads} reads of {MESSAGES} messages");
    assert!(vain <= MESSAGES / 10, "{vain} of {reads} reads found nothing");
}
