//! Bad weather around `gush link`: nobody there, no way there, somebody there already.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::link::{PATIENCE, Running, ask, echo, eventually, server};
use crate::common::{noise, skipped};
use gush_test::Port;
use rustix::net::SendFlags;
use tempfile::TempDir;

const ONCE: &str = "tcp-listen:127.0.0.1:0";

/// A shell in new network and mount namespaces, where `$0` is gush and no interface is up; none
/// without the right.
fn apart(dir: &Path, script: &str) -> Option<Output> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount"]);
        command.current_dir(dir).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command
    };
    let probe = unshare().args(["ip", "link", "show", "lo"]).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        skipped("no networks of one's own: unshare or ip is missing, or not allowed");
        return None;
    }
    // A script that waits for words which never come ends as a failure.
    let words = ["timeout", "60", "sh", "-c", script, env!("CARGO_BIN_EXE_gush")];
    Some(unshare().args(words).output().unwrap())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_refused_connection_is_reported_at_once_and_waited_out_with_retry() {
    let port = Port::reserve();
    let place = port.place();
    let (status, _, said) = Running::start(&["-u", "null:", &format!("tcp:{place}")]).finish();
    assert_eq!(status.code(), Some(1));
    let expected = format!("gush: link: tcp:{place}: connect to {place}: Connection refused");
    assert!(said.contains(&expected) && said.contains("retry=N"), "{said}");

    let patient = format!("tcp:{place},retry=2,interval=20ms");
    let (status, _, said) = Running::start(&["-u", "null:", &patient]).finish();
    assert_eq!(status.code(), Some(1));
    assert_eq!(said.matches("trying again in 20 ms").count(), 2, "{said}");
    assert!(said.ends_with("(nothing listens there; start the server)\n"), "{said}");

    let endless = format!("tcp:{place},retry=forever,interval=20ms");
    let link = Running::start(&["-u", "exec:'echo at last'", &endless]);
    link.says_times("trying again", 3);
    let listener = TcpListener::bind(&place).unwrap();
    let mut heard = String::new();
    listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "at last\n");
    assert!(link.finish().0.success());
}

#[test]
fn an_address_in_use_says_by_whom_and_is_waited_for_with_retry() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    for args in
        [&[&format!("tcp-listen:{place}"), "null:"][..], &["--metrics", &place, "null:", "null:"]]
    {
        let (status, _, said) = Running::start(args).finish();
        assert_eq!(status.code(), Some(1));
        assert!(said.contains("Address already in use"), "{said}");
        assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
    }
    let listen = format!("tcp-listen:{place},retry=forever,interval=20ms");
    let link = Running::start(&[&listen, &format!("tcp:{}", echo())]);
    link.says("trying again");
    drop(taken);
    assert_eq!(ask(link.client(), b"mine"), b"mine");
}

#[test]
fn a_missing_unix_socket_is_waited_for() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("late");
    let link = Running::start(&[
        "-u",
        "exec:'echo here'",
        &format!("unix:{},retry=forever,interval=20ms", path.display()),
    ]);
    assert!(link.says("trying again").contains("No such file or directory"));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut heard = String::new();
    listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "here\n");
}

#[test]
fn an_unreachable_network_is_reported_and_waited_for() {
    let dir = TempDir::new().unwrap();
    let script = "
        \"$0\" link -u null: tcp:192.0.2.1:80 && exit 91
        \"$0\" link -u tcp-listen:7000 file:got,create &
        \"$0\" link --log info -u exec:'echo through' tcp:127.0.0.1:7000,retry=forever,interval=20ms 2>log &
        until grep -q 'trying again' log; do sleep 0.02; done
        ip link set lo up
        wait
        ip route add unreachable 198.51.100.0/24
        \"$0\" link -u null: tcp:198.51.100.1:80 && exit 92
        cat log >&2";
    let Some(output) = apart(dir.path(), script) else { return };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("tcp:192.0.2.1:80: connect to 192.0.2.1:80: Network is unreachable"));
    assert!(said.contains("no route there"), "{said}");
    assert!(said.contains("connect to 198.51.100.1:80: No route to host"), "{said}");
    assert!(said.contains("connect to 127.0.0.1:7000: Network is unreachable"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("got")).unwrap(), "through\n");
}

#[test]
fn a_name_that_cannot_be_resolved_is_reported_and_waited_for() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("hosts"), "127.0.0.1 localhost\n").unwrap();
    let script = "
        mount --bind hosts /etc/hosts || exit 90
        ip link set lo up
        \"$0\" link -u null: tcp:late.invalid:7000 && exit 91
        \"$0\" link -u tcp-listen:7000 file:got,create &
        \"$0\" link --log info -u exec:'echo known' tcp:late.invalid:7000,retry=forever,interval=20ms 2>log &
        until grep -q 'trying again' log; do sleep 0.02; done
        echo '127.0.0.1 late.invalid' >>hosts
        wait
        cat log >&2";
    let Some(output) = apart(dir.path(), script) else { return };
    let said = text(&output);
    if output.status.code() == Some(90) {
        return skipped("/etc/hosts cannot be replaced here");
    }
    assert!(output.status.success(), "{said}");
    let expected = "gush: link: tcp:late.invalid:7000: resolve late.invalid: ";
    assert!(said.contains(expected), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("got")).unwrap(), "known\n");
}

/// The first address is of IPv6, on a network that swallows everything; the limit is longer than
/// the test.
#[test]
fn a_host_is_reached_though_its_first_address_does_not_answer() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("hosts"), "127.0.0.1 two.invalid\n2001:db8::1 two.invalid\n")
        .unwrap();
    let script = "
        mount --bind hosts /etc/hosts || exit 90
        ip link set lo up
        ip link add void type veth peer name nobody || exit 91
        ip addr add 2001:db8::2/64 dev void nodad
        ip addr add fe80::7/64 dev void nodad
        ip link set void up
        ip link set nobody up
        ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev void
        \"$0\" link -u tcp-listen:7000 file:got,create &
        \"$0\" link -u exec:'echo reached' tcp:two.invalid:7000,retry=99,interval=20ms,connect-timeout=1h
        wait
        \"$0\" link -u 'tcp6-listen:[fe80::7%void]:7001' file:zone,create &
        \"$0\" link -u exec:'echo in a zone' 'tcp:[fe80::7%void]:7001,bind=[fe80::7%void]:7002,retry=99,interval=20ms'
        wait";
    let Some(output) = apart(dir.path(), script) else { return };
    match output.status.code() {
        Some(90) => return skipped("/etc/hosts cannot be replaced here"),
        Some(91) => return skipped("no network interface can be made here"),
        _ => assert!(output.status.success(), "{}", text(&output)),
    }
    let got = |file| fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!((got("got"), got("zone")), ("reached\n".into(), "in a zone\n".into()));
}

/// A name server that never answers, and forty clients who wait for the same lookup.
#[test]
fn a_flood_of_lookups_takes_few_threads() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:20\n")
        .unwrap();
    let script = "
        mount --bind resolv.conf /etc/resolv.conf || exit 90
        ip link set lo up
        exec 3>&1 >/dev/null
        trap 'kill -9 $server $link $clients' EXIT; trap exit TERM
        \"$0\" link -u udp-listen:127.0.0.1:53,fork null: 2>/dev/null 3>&- &
        server=$!
        \"$0\" link --log debug tcp-listen:127.0.0.1:7000,fork tcp:never.invalid:1 2>log 3>&- &
        link=$!
        until grep -q 'listening on' log; do sleep 0.02; done
        bash -c 'for at in {1..40}; do exec {fd}<>/dev/tcp/127.0.0.1/7000; done; exec sleep 60' 2>&1 3>&- &
        clients=$!
        until [ $(grep -c 'phase=Open' log) -eq 40 ]; do sleep 0.02; done
        lookups() { cat /proc/$link/task/*/comm | grep -c gush-lookup; }
        until [ $(lookups) -ge 16 ]; do sleep 0.02; done
        sleep 0.3
        lookups >&3";
    let Some(output) = apart(dir.path(), script) else { return };
    if output.status.code() == Some(90) {
        return skipped("/etc/resolv.conf cannot be replaced here");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "16\n", "{}", text(&output));
}

#[test]
fn a_host_that_does_not_answer_is_given_up_after_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Only one waits in the queue then; what comes later is not answered (listen(2),
    // tcp_abort_on_overflow).
    rustix::net::listen(&listener, 0).unwrap();
    let place = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&place, Duration::from_secs(2)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    let target = format!("tcp:{place},connect-timeout=0.2");
    let (status, _, said) = Running::start(&["-u", "null:", &target]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("Connection timed out") && said.contains("nothing answers"), "{said}");
}

#[test]
fn a_datagram_larger_than_a_page_stays_one_datagram() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = format!("udp:{}", target.local_addr().unwrap());
    let link = Running::start(&["udp-listen:127.0.0.1:0", &to]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(link.place()).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for size in [1, 4096, 4097, 20_000, 65_507] {
        let datagram = noise(size, size as u64);
        client.send(&datagram).unwrap();
        let (count, relay) = target.recv_from(&mut buffer).unwrap();
        assert!(buffer[..count] == datagram, "{size} bytes became {count}");
        target.send_to(&datagram, relay).unwrap();
        let count = client.recv(&mut buffer).unwrap();
        assert!(buffer[..count] == datagram, "{size} bytes came back as {count}");
    }
}

#[test]
fn urgent_data_stops_no_stream() {
    let link = Running::start(&[ONCE, &format!("tcp:{}", echo())]);
    let mut client = link.client();
    client.write_all(b"before ").unwrap();
    rustix::net::send(&client, b"!", SendFlags::OOB).unwrap();
    client.write_all(b"after").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    // The urgent byte itself stands next to the stream (tcp(7), SO_OOBINLINE).
    assert_eq!(heard, "before after");
    assert!(link.finish().0.success());
}

#[test]
fn a_stream_of_single_bytes_arrives() {
    let link = Running::start(&[ONCE, &format!("tcp:{}", echo())]);
    let client = link.client();
    client.set_nodelay(true).unwrap();
    let sent = noise(30_000, 3);
    let mut heard = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for byte in &sent {
                (&client).write_all(std::slice::from_ref(byte)).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        (&client).read_to_end(&mut heard).unwrap();
    });
    assert!(heard == sent);
}

#[test]
fn at_the_limit_of_descriptors_it_sleeps_until_one_is_free() {
    let mut command = Command::new("sh");
    let target = format!("tcp:{}", server(|mut stream| drop(stream.read(&mut [0]))));
    let line = "ulimit -n 64; exec \"$0\" link --log info \"$@\"";
    command.args(["-c", line, env!("CARGO_BIN_EXE_gush")]);
    command.args(["tcp-listen:127.0.0.1:0,fork", &target]);
    let link = Running::of(command);
    // Some are served, the others wait in the kernel's queue.
    let clients: Vec<_> = (0..40).map(|_| link.client()).collect();
    let connected = || link.said().matches(": connected").count();
    eventually("no more are taken", || {
        let before = connected();
        thread::sleep(Duration::from_millis(200));
        before > 0 && connected() == before
    });
    assert!(connected() < clients.len());
    assert!(gush_test::comes_to_rest([4], || [link.processor_ticks()]), "it spins");
    drop(clients);
    link.says_times(": connected", 40);
    assert_eq!(ask_for_end(link.client()), 0);
}

/// How many bytes came until the end, after one was sent.
fn ask_for_end(mut stream: TcpStream) -> usize {
    stream.write_all(b"?").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap()
}

#[test]
fn a_receiver_that_dies_is_reported_and_a_writer_to_a_dead_pipe_ends() {
    let (mut read, write) = std::io::pipe().unwrap();
    let mut command = crate::common::gush();
    command.args(["link", "-u", "zero:", "fd:1"]).stdout(write).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    read.read_exact(&mut [0; 100]).unwrap();
    drop(read);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(output.status.code().is_none() || text(&output).contains("Broken pipe"), "{output:?}");
}
