//! Many peers that want nothing good from `gush link`, while somebody is served; and iperf3 as a
//! witness from outside.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::link::{Killed, PATIENCE, Running, ask, echo, eventually};
use crate::common::skipped;
use gush_test::Port;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

/// The bytes that iperf3 sends first on each connection, not counted as data.
const COOKIE_BYTES: u64 = 37;
const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

#[test]
fn proxy_headers_that_trickle_in_are_cut_in_time_while_others_are_served() {
    let target = format!("tcp:{}", echo());
    let link =
        Running::start(&["--json", "-T", "4", "--proxy-protocol", "accept", LISTEN, &target]);
    let slow: Vec<_> = (0..20).map(|_| link.client()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            // Never as long without a byte as the limit, and never a whole header.
            for byte in b"PROXY TCP4 192.0.2.1 192.0.2.2 ".iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                for mut client in &slow {
                    let _ = client.write_all(&[*byte]);
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        let question = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nserved";
        assert_eq!(ask(link.client(), question), b"served");
        link.says_times("\"ended\":\"proxy-header\"", slow.len());
    });
}

#[test]
fn requests_for_metrics_that_trickle_in_keep_no_scrape_waiting() {
    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, "null:"]);
    let line = link.says("metrics");
    let place = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let slow: Vec<_> = (0..100).map(|_| TcpStream::connect(&place).unwrap()).collect();
    for _ in 0..5 {
        for mut client in &slow {
            // One that was given up is no matter.
            let _ = client.write_all(b"G");
        }
        let mut stream = TcpStream::connect(&place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}

/// Sets a flag on drop, also by a test that fails: the threads that look at the flag hang nobody
/// then.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connects from 127.0.0.2, and waits until the link closes the connection. Was the connection let
/// in at all?
fn come_as_a_stranger(place: SocketAddr) -> bool {
    let stranger = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stranger, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))).unwrap();
    if connect(&stranger, &place).is_err() {
        return false;
    }
    let mut stream = TcpStream::from(stranger);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = stream.read(&mut [0]);
    let is_silence = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    assert!(!matches!(read, Ok(1..)), "a stranger is served");
    assert!(!read.as_ref().is_err_and(is_silence), "a stranger is kept");
    true
}

#[test]
fn a_flood_of_strangers_starves_no_client() {
    let listen = format!("{LISTEN},range=127.0.0.1/32");
    let link = Running::start(&[&listen, &format!("tcp:{}", echo())]);
    let place: SocketAddr = link.place().parse().unwrap();
    let mut client = link.client();
    let (is_over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    refused.fetch_add(come_as_a_stranger(place).into(), Ordering::Relaxed);
                }
            });
        }
        eventually("the flood has begun", || refused.load(Ordering::Relaxed) > 50);
        for question in 0..200_u8 {
            client.write_all(&[question]).unwrap();
            let mut answer = [0];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [question]);
        }
        // Who comes amid the flood is served, too.
        assert_eq!(ask(link.client(), b"new"), b"new");
    });
    link.says_just(": connected", 2);
}

#[test]
fn iperf3_counts_what_a_link_counts() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        return skipped("iperf3 is missing");
    }
    let port = Port::reserve();
    let number = port.number().to_string();
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off", "--json", "--bind", "127.0.0.1", "--port", &number]);
    let server = server.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Killed(server);
    // It says nothing when it listens; the link waits for it.
    let target = format!("tcp:{},retry=forever,interval=0.05", port.place());
    let link = Running::start(&["--json", LISTEN, &target]);
    let place = link.place();
    let port = place.rsplit(':').next().unwrap();
    let mut client = Command::new("timeout");
    client.args(["60", "iperf3", "--client", "127.0.0.1", "--port", port, "--json"]);
    let output = client.args(["--bytes", "20M"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let mut heard = String::new();
    server.0.stdout.take().unwrap().read_to_string(&mut heard).unwrap();
    assert!(server.0.wait().unwrap().success(), "{heard}");
    let bytes = |text: &str, key: &str| {
        let report: Value = serde_json::from_str(text).unwrap();
        report["end"][key]["bytes"].as_u64().unwrap_or_else(|| panic!("no {key}: {text}"))
    };
    let (sent, received) = (bytes(&said, "sum_sent"), bytes(&heard, "sum_received"));
    // The server stops when it is asked to next to the data, which may still be on the way.
    assert!(sent >= 20 << 20 && (1..=sent).contains(&received), "{received} of {sent}");
    link.says_times("\"ended\":", 2);
    let records = link.said();
    let records = records.lines().filter(|line| line.starts_with('{'));
    let forward = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["forward_bytes"].as_u64().unwrap()
    };
    let passed = records.map(forward).max().unwrap();
    assert!((received..=sent + COOKIE_BYTES).contains(&passed), "{received} {passed} {sent}");
}
