//! `gush link` as a server: who is served, how many, and the files that are left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::common::link::{PATIENCE, Running, ask, client_of, echo, eventually, server};
use crate::common::{noise, skipped, strace};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

#[test]
fn a_port_is_forwarded_to_every_client_in_turn() {
    let link = Running::start(&[LISTEN, &format!("tcp:{}", echo())]);
    for seed in 0..20 {
        let question = noise(100_000 + seed, seed as u64);
        assert!(ask(link.client(), &question) == question, "client {seed}");
    }
}

#[test]
fn a_unix_socket_is_served_on_tcp_and_the_other_way_round() {
    let dir = TempDir::new().unwrap();
    let (front, back) = (dir.path().join("front"), dir.path().join("back"));
    let listener = UnixListener::bind(&back).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            stream.write_all(question.to_uppercase().as_bytes()).unwrap();
        }
    });
    let link = Running::start(&[LISTEN, &format!("unix:{}", back.display())]);
    assert_eq!(ask(link.client(), b"hello"), b"HELLO");

    let unix = format!("unix-listen:{},fork,mode=600", front.display());
    let other = Running::start(&[&unix, &format!("tcp:{}", link.place())]);
    other.says("listening on ");
    let mode = std::os::unix::fs::PermissionsExt::mode(&front.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&front).unwrap();
    stream.write_all(b"both").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "BOTH");
}

#[test]
fn without_fork_one_client_is_served_and_nobody_else() {
    let link = Running::start(&["tcp-listen:127.0.0.1:0", &format!("tcp:{}", echo())]);
    let place = link.place();
    let mut client = link.client();
    client.write_all(b"first").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert!(TcpStream::connect(place).is_err(), "nobody listens any more");
    drop(client);
    let (status, output, said) = link.finish();
    assert!(status.success() && output.is_empty(), "{said}");
}

#[test]
fn fork_may_stand_at_the_second_address() {
    let link = Running::start(&["--stats", &format!("tcp:{}", echo()), LISTEN]);
    assert_eq!(ask(link.client(), b"to the second"), b"to the second");
    assert_eq!(ask(link.client(), b"again"), b"again");
    let line = link.says("gush: link: 1: tcp:");
    assert!(line.contains("13 B forward, 13 B back"), "{line}");
}

/// Where the two listeners of a link listen, in the order of the addresses or of the roles.
fn both_places(link: &Running) -> [String; 2] {
    link.says_times("listening on ", 2);
    let said = link.said();
    let place =
        |line: &str| line.split_once("listening on ")?.1.split(' ').next().map(str::to_owned);
    let mut places = said.lines().filter_map(place);
    [places.next().unwrap(), places.next().unwrap()]
}

#[test]
fn two_listeners_are_connected_to_each_other() {
    let link = Running::start(&["tcp-listen:127.0.0.1:0", "tcp-listen:127.0.0.1:0"]);
    let places = both_places(&link);
    let mut first = TcpStream::connect(&places[0]).unwrap();
    let mut second = TcpStream::connect(&places[1]).unwrap();
    second.write_all(b"up").unwrap();
    first.write_all(b"down").unwrap();
    let (mut up, mut down) = ([0; 2], [0; 4]);
    first.read_exact(&mut up).unwrap();
    second.read_exact(&mut down).unwrap();
    assert_eq!((&up, &down), (b"up", b"down"));
}

#[test]
fn two_listeners_pair_their_clients_in_the_order_of_their_arrival() {
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork", "tcp-listen:127.0.0.1:0"]);
    let [fronts, backs] = both_places(&link);
    let front: Vec<_> = (0..100).map(|_| client_of(&fronts)).collect();
    link.says_times(": connected", 100);
    let back: Vec<_> = (0..100).map(|_| client_of(&backs)).collect();
    for (at, mut client) in (0..100_u8).zip(&front) {
        client.write_all(&[at]).unwrap();
    }
    let heard = back.iter().map(|mut client| {
        let mut from = [0];
        client.read_exact(&mut from).unwrap();
        from[0]
    });
    assert_eq!(heard.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_failing_connect_ends_that_client_and_not_the_listener() {
    let dir = TempDir::new().unwrap();
    let back = dir.path().join("back");
    let link = Running::start(&[LISTEN, &format!("unix:{}", back.display())]);
    let hear = || {
        let mut heard = String::new();
        link.client().read_to_string(&mut heard).map(|_| heard).map_err(|error| error.kind())
    };
    assert_eq!(hear(), Err(std::io::ErrorKind::ConnectionReset), "not served");
    let line = link.says("warning: ");
    assert!(line.contains("No such file or directory") && line.contains("client"), "{line}");

    let listener = UnixListener::bind(&back).unwrap();
    thread::spawn(move || listener.accept().unwrap().0.write_all(b"now"));
    assert_eq!(hear().as_deref(), Ok("now"));
}

/// Two clients of `link` that stay, on a thread each: a further thread starts for the second.
fn two_that_stay(link: &Running) -> [TcpStream; 2] {
    [0, 1].map(|_| {
        let mut client = link.client();
        assert!(echoes(&mut client), "served");
        client
    })
}

/// Does an echo come back?
fn echoes(client: &mut TcpStream) -> bool {
    let mut answer = [0];
    client.write_all(b"?").and_then(|()| client.read_exact(&mut answer)).is_ok()
}

#[test]
fn a_further_thread_takes_clients_itself() {
    let dir = TempDir::new().unwrap();
    let calls = dir.path().join("calls");
    let traced = ["-D", "-e", "trace=accept4", "-o", calls.to_str().unwrap()];
    let mut command = match strace(&traced) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    command.args(["link", "--threads=2", "--log=info", LISTEN, &format!("tcp:{}", echo())]);
    let link = Running::of(command);
    let stay = two_that_stay(&link);
    let takers = || -> BTreeSet<String> {
        let calls = fs::read_to_string(&calls).unwrap();
        let taken = calls.lines().filter(|call| call.contains("sa_family"));
        taken.filter_map(|call| Some(call.split_whitespace().next()?.to_owned())).collect()
    };
    assert_eq!(takers().len(), 1, "the accepting thread takes the first client");
    // Both threads are woken for each, and now one is faster and now the other.
    eventually("the further thread takes a client", || {
        assert!(echoes(&mut link.client()));
        takers().len() == 2
    });
    drop(stay);
}

#[test]
fn a_link_that_drains_refuses_clients_on_all_its_threads() {
    let link = Running::start(&["--threads=2", LISTEN, &format!("tcp:{}", echo())]);
    let place = link.place();
    let mut stay = two_that_stay(&link);
    link.signal(Signal::TERM);
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    eventually("the listener is closed", || TcpStream::connect(&place).is_err_and(refused));
    assert!(stay.iter_mut().all(echoes), "each served client goes on");
    drop(stay);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
}

#[test]
fn a_listener_that_fails_ends_the_link_once_the_clients_of_all_threads_have_gone() {
    let dir = TempDir::new().unwrap();
    let (name, tcp) =
        (dir.path().join("name"), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let (unix, place) = (UnixListener::bind(&name).unwrap(), tcp.local_addr().unwrap().to_string());
    let tcp_client = || -> OwnedFd { client_of(&place).into() };
    let unix_client = || -> OwnedFd {
        let client = UnixStream::connect(&name).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.into()
    };
    let kinds: [(OwnedFd, &dyn Fn() -> OwnedFd); 2] =
        [(tcp.into(), &tcp_client), (unix.into(), &unix_client)];
    for (listener, client) in kinds {
        rustix::io::fcntl_setfd(&listener, FdFlags::empty()).unwrap();
        let accept = format!("accept-fd:{},fork", listener.as_raw_fd());
        let link = Running::start(&["--threads=2", &accept, &format!("tcp:{}", echo())]);
        // An echo needs nothing but read(2) and write(2).
        let mut stay = [0; 4].map(|_| TcpStream::from(client()));
        assert!(stay.iter_mut().all(echoes), "served");
        // The socket that both threads accept from listens no more.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        link.says("no new clients are accepted, connected ones finish");
        assert!(stay.iter_mut().all(echoes), "each served client goes on");
        drop(stay);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{said}");
    }
}

#[test]
fn at_the_cap_a_client_waits_until_another_goes() {
    let listen = "tcp-listen:127.0.0.1:0,fork,max-children=2";
    let link = Running::start(&[listen, &format!("tcp:{}", echo())]);
    let mut clients: Vec<_> = (0..3).map(|_| link.client()).collect();
    for client in &mut clients {
        client.write_all(b"?").unwrap();
    }
    let mut answer = [0];
    clients[0].read_exact(&mut answer).unwrap();
    clients[1].read_exact(&mut answer).unwrap();
    clients[2].set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(clients[2].read(&mut answer).is_err(), "a third is not served");
    drop(clients.remove(0));
    let third = &mut clients[1];
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    third.read_exact(&mut answer).unwrap();
}

#[test]
fn more_clients_than_descriptors_wait_and_are_all_served() {
    let mut command = Command::new("sh");
    let line = "ulimit -n 80; exec \"$0\" \"$@\"";
    let target = format!("tcp:{}", echo());
    command.args([
        "-c",
        line,
        env!("CARGO_BIN_EXE_gush"),
        "link",
        "--log",
        "info",
        LISTEN,
        &target,
    ]);
    let link = Running::of(command);
    let place = link.place();
    let together = Barrier::new(100);
    thread::scope(|scope| {
        for seed in 0..100 {
            let (place, together) = (&place, &together);
            scope.spawn(move || {
                let stream = TcpStream::connect(place).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                together.wait();
                let question = noise(10_000, seed);
                assert!(ask(stream, &question) == question, "client {seed}");
            });
        }
    });
    let warnings: Vec<_> =
        link.said().lines().filter(|line| line.contains("warning")).map(str::to_owned).collect();
    assert!(warnings.len() <= 1, "the limit is reported once: {warnings:#?}");
    assert!(warnings.iter().all(|line| line.contains("limit of open files")), "{warnings:#?}");
}

/// Set for the process of its own.
const ALONE: &str = "GUSH_ALONE";

#[test]
fn a_thousand_connections_at_once_keep_every_byte() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves::alone_a_thousand_connections_at_once_keep_every_byte"])
        .args(["--ignored", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    assert!(gush_test::one_test_ran(&output), "{output:?}");
}

/// The test holds both far ends of every connection: the limit is raised for this process, and not
/// for the other tests.
#[test]
#[ignore = "run by a_thousand_connections_at_once_keep_every_byte"]
fn alone_a_thousand_connections_at_once_keep_every_byte() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    const CLIENTS: usize = 1000;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let link = Running::start(&[LISTEN, &format!("tcp:{}", echo())]);
    let place = link.place();
    assert_eq!(ask(link.client(), b"warm"), b"warm");
    let before_kib = link.anonymous_kib();
    let (connected, go) =
        (Arc::new(Barrier::new(CLIENTS + 1)), Arc::new(Barrier::new(CLIENTS + 1)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|seed| {
            let (place, connected, go) = (place.clone(), Arc::clone(&connected), Arc::clone(&go));
            let body = move || {
                let mut stream = TcpStream::connect(place).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let question = noise(128 << 10, seed as u64);
                stream.write_all(&question[..1000]).unwrap();
                let mut answer = vec![0; 1000];
                stream.read_exact(&mut answer).unwrap();
                connected.wait();
                go.wait();
                let mut answered = blake3::Hasher::new();
                answered.update(&answer);
                answered.update(&ask(stream, &question[1000..]));
                assert_eq!(answered.finalize(), blake3::hash(&question), "client {seed}");
            };
            thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap()
        })
        .collect();
    connected.wait();
    let each_kib = link.anonymous_kib().saturating_sub(before_kib) / CLIENTS as u64;
    assert!(each_kib <= 64, "{each_kib} KiB of memory each");
    go.wait();
    for client in clients {
        client.join().unwrap();
    }
}

/// Opens and closes `count` connections, eight at a time, and looks for lost bytes and for
/// descriptors left open.
fn short_connections(count: usize) {
    let target = server(|mut stream| {
        let mut question = [0; 8];
        if stream.read_exact(&mut question).is_ok() {
            let _ = stream.write_all(&question);
        }
    });
    let link = Running::start(&["--json", LISTEN, &format!("tcp:{target}")]);
    let place = link.place();
    let one = |number: usize| {
        let mut stream = TcpStream::connect(&place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&number.to_le_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, number.to_le_bytes());
    };
    (0..16).for_each(one);
    link.says_times("\"ended\":", 16);
    let before = link.descriptors();
    thread::scope(|scope| {
        for lane in 0..8 {
            scope.spawn(move || (lane..count).step_by(8).for_each(one));
        }
    });
    link.says_times("\"ended\":\"closed\"", 16 + count);
    // Each lane may have left its pipes in the pool.
    eventually("as few descriptors as before", || link.descriptors() <= before + 2 * 16);
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert!(status.success() && !said.contains("warning"), "{status}");
    assert_eq!(said.matches("\"error\":null").count(), 16 + count);
}

#[test]
fn two_thousand_short_connections_lose_nothing_and_leak_nothing() {
    short_connections(2000);
}

/// Somebody who may write to the directory puts a link to another's file in the place of the new
/// one, before the mode is set.
#[test]
fn a_mode_is_never_given_through_a_link_that_has_taken_the_name() {
    for (call, kind, mode) in [("bind", "unix-listen", "666"), ("mknodat", "pipe", "622,umask=0")] {
        let dir = TempDir::new().unwrap();
        let names = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        // Of the kind that is made: only the link itself knows that the file is another's.
        let victim = TempDir::new().unwrap();
        let victim = victim.path().join("victim");
        let made = match call {
            "bind" => FileType::Socket,
            _ => FileType::Fifo,
        };
        mknodat(CWD, &victim, made, Mode::from_raw_mode(0o600), 0).unwrap();
        // Long enough for a busy machine to come to the swap meanwhile.
        let delay = format!("inject={call}:delay_exit=2000000:when=1");
        let mut command = match strace(&["-D", "-e", &format!("trace={call}"), "-e", &delay]) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        let address = format!("{kind}:{}/name,mode={mode}", dir.path().display());
        command.args(["link", "-u", &address, "null:"]);
        let link = Running::of(command);
        eventually("the file is made", || names().next().is_some());
        let name = names().next().unwrap();
        symlink(&victim, dir.path().join("trap")).unwrap();
        fs::rename(dir.path().join("trap"), &name).unwrap();
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("another process has replaced it"), "{said}");
        assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{kind}");
    }
}

#[test]
#[ignore = "a campaign: cargo test -p gush-cli --test link serves -- --ignored"]
fn ten_thousand_short_connections_lose_nothing_and_leak_nothing() {
    short_connections(10_000);
}
