//! `gush link --metrics`: valid Prometheus text, and true.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Instant;

use crate::common::link::{PATIENCE, Running, ask, echo, eventually};
use gush_test::Port;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

/// The samples of an exposition by name and labels, after a check of the grammar
/// (prometheus.io/docs/instrumenting/exposition_formats).
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeMap::new();
    let mut samples = BTreeMap::new();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    };
    assert!(text.ends_with('\n'), "the last line must end");
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').unwrap();
            let (name, what) = rest.split_once(' ').unwrap();
            assert!(is_name(name), "{line}");
            if kind == "TYPE" {
                assert!(["counter", "gauge", "histogram"].contains(&what), "{line}");
                assert!(types.insert(name.to_owned(), what.to_owned()).is_none(), "twice: {line}");
            } else {
                assert_eq!(kind, "HELP", "{line}");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
            None => (series, ""),
        };
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (key, quoted) = label.split_once('=').expect(line);
            assert!(is_name(key) && quoted.len() >= 2, "{line}");
            assert!(quoted.starts_with('"') && quoted.ends_with('"'), "{line}");
        }
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|name| types.contains_key(*name)))
            .unwrap_or(name);
        let kind = types.get(family).unwrap_or_else(|| panic!("no TYPE before {line}"));
        assert!(is_name(name) && (kind != "counter" || name.ends_with("_total")), "{line}");
        let value: f64 = value.parse().unwrap();
        assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    for (name, _) in types.iter().filter(|(_, kind)| *kind == "histogram") {
        let bucket = |le: &str| samples[&format!("{name}_bucket{{le=\"{le}\"}}")];
        assert_eq!(bucket("+Inf"), samples[&format!("{name}_count")]);
        let bounds =
            samples.iter().filter(|(series, _)| series.starts_with(&format!("{name}_bucket")));
        assert!(
            bounds.clone().count() > 2 && bounds.clone().all(|(_, &count)| count <= bucket("+Inf"))
        );
    }
    samples
}

/// The answer to `request`: head and body.
fn http(place: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn place_of_metrics(link: &Running) -> String {
    let line = link.says("metrics at http://");
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

fn scrape(place: &str) -> BTreeMap<String, f64> {
    let (head, body) = http(place, "GET /metrics HTTP/1.1\r\nHost: gush\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    samples(&body)
}

#[test]
fn metrics_count_what_happened() {
    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, &format!("tcp:{}", echo())]);
    let place = place_of_metrics(&link);
    let empty = scrape(&place);
    assert_eq!(empty["gush_link_connections_accepted_total"], 0.0);
    assert_eq!(empty["gush_link_connections_failed_total{reason=\"open-failed\"}"], 0.0);

    let mut open = link.client();
    open.write_all(b"12345").unwrap();
    open.read_exact(&mut [0; 5]).unwrap();
    let live = scrape(&place);
    assert_eq!(live["gush_link_connections_active"], 1.0);
    assert_eq!(live["gush_link_bytes_total{direction=\"forward\"}"], 5.0, "while it is open");

    assert_eq!(ask(link.client(), b"1234567"), b"1234567");
    drop(open);
    eventually("both have ended", || scrape(&place)["gush_link_connections_active"] == 0.0);
    let after = scrape(&place);
    assert_eq!(after["gush_link_connections_accepted_total"], 2.0);
    assert_eq!(after["gush_link_connections_ended_total{reason=\"closed\"}"], 2.0);
    assert_eq!(after["gush_link_bytes_total{direction=\"forward\"}"], 12.0);
    assert_eq!(after["gush_link_bytes_total{direction=\"back\"}"], 12.0);
    assert_eq!(after["gush_link_connection_duration_seconds_count"], 2.0);
    assert!(after["gush_link_pipe_budget_bytes"] > 0.0);
}

#[test]
fn metrics_count_failures_and_refusals_by_reason() {
    let listen = format!("{LISTEN},range=192.0.2.0/24");
    let link = Running::start(&["--metrics", "127.0.0.1:0", &listen, "null:"]);
    let mut stranger = link.client();
    // Closed at once, as an end or a reset.
    assert!(!matches!(stranger.read(&mut [0]), Ok(1..)));
    let place = place_of_metrics(&link);
    eventually("it is counted", || {
        scrape(&place)["gush_link_connections_refused_total{reason=\"range\"}"] == 1.0
    });
    assert_eq!(scrape(&place)["gush_link_connections_accepted_total"], 0.0);

    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, "unix:/nobody/is/here"]);
    let _ = link.client().read(&mut [0]);
    let place = place_of_metrics(&link);
    eventually("it is counted", || {
        scrape(&place)["gush_link_connections_failed_total{reason=\"open-failed\"}"] == 1.0
    });
}

#[test]
fn other_requests_are_answered_as_http_wants() {
    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, "null:"]);
    let place = place_of_metrics(&link);
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n", "200"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        ("rubbish\r\n\r\n", "400"),
    ] {
        let (head, _) = http(&place, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
    }
    assert!(!scrape(&place).is_empty(), "and it goes on");
}

/// A socket that is closed with unread bytes sends a reset, which may overtake the answer
/// (`tcp_close` of net/ipv4/tcp.c).
#[test]
fn an_answer_arrives_also_where_the_request_goes_on_after_it() {
    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, "null:"]);
    let place = place_of_metrics(&link);
    // More than the kernel keeps between two programs.
    let much = "x".repeat(64_000_000);
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nX: {much}\r\n\r\n"), "431"),
        (format!("POST /metrics HTTP/1.1\r\nContent-Length: 64000000\r\n\r\n{much}"), "405"),
        (format!("GET / HTTP/1.1\r\n\r\n{much}"), "200"),
    ] {
        let (head, _) = http(&place, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {head}");
    }
}

#[test]
fn a_place_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    let (status, _, said) = Running::start(&["--metrics", &place, LISTEN, "null:"]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(
        said.starts_with(&format!(
            "gush: link: metrics at {place}: listen: Address already in use"
        )),
        "{said}"
    );
}

#[test]
fn a_limit_that_is_reached_is_reported_once_and_counted() {
    let listen = format!("{LISTEN},max-children=1");
    let link = Running::start(&["--metrics", "127.0.0.1:0", &listen, &format!("tcp:{}", echo())]);
    let waits = "gush_link_waits_total{limit=\"max-children\"}";
    assert_eq!(scrape(&place_of_metrics(&link))[waits], 0.0);
    for _ in 0..3 {
        let (first, second) = (link.client(), link.client());
        drop(first);
        assert_eq!(ask(second, b"?"), b"?");
    }
    eventually("it is counted", || scrape(&place_of_metrics(&link))[waits] >= 1.0);
    link.says_just("are taken", 1);
}

#[test]
fn idle_connections_do_not_keep_a_scrape_waiting() {
    let link = Running::start(&["--metrics", "127.0.0.1:0", LISTEN, "null:"]);
    let place = place_of_metrics(&link);
    // Sixteen have a place, each for ten seconds at most: all in turn would keep theirs for two
    // minutes.
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(&place).unwrap()).collect();
    let mut stream = TcpStream::connect(&place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).expect("an answer before an idle connection is given up");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop(idle);
}

#[test]
fn a_port_that_the_link_itself_wants_twice_is_reported_as_that() {
    let port = Port::reserve();
    let place = port.place();
    let listen = format!("tcp-listen:{place}");
    let (status, _, said) = Running::start(&["--metrics", &place, &listen, "null:"]).finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("this process itself"), "{said}");
}

/// Their connections are numbered and counted like all; of the warnings five a second are enough.
#[test]
fn clients_that_fail_before_the_other_end_opens_are_reported_a_few_times_and_counted() {
    let link = Running::start(&[
        "--metrics",
        "127.0.0.1:0",
        "--proxy-protocol",
        "accept",
        LISTEN,
        "null:",
    ]);
    let began = Instant::now();
    for _ in 0..200 {
        let mut client = link.client();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(!matches!(client.read(&mut [0]), Ok(1..)));
    }
    let failed = "gush_link_connections_failed_total{reason=\"proxy-header\"}";
    eventually("all are counted", || scrape(&place_of_metrics(&link))[failed] == 200.0);
    link.says("PROXY header");
    let said = link.said();
    let reported = said.matches("PROXY header").count();
    let most = 5 * (began.elapsed().as_secs() as usize + 1);
    assert!(reported <= most, "{reported} warnings of 200 clients, not {most}: {said}");
}

/// Nine small ones after the first wait with their sender, and of large ones no more than 1 MiB
/// with all senders.
#[test]
fn datagrams_that_wait_for_a_place_are_bounded_and_the_others_are_counted() {
    for (senders, each, bytes, dropped) in [(1, 30, 1, 20.0), (3, 10, 60_000, 10.0)] {
        let listen = "udp-listen:127.0.0.1:0,fork,max-children=1";
        // null: ends at once, and without -t its sender would be given up half a second later: the
        // place would be free.
        let link = Running::start(&["-t", "600", "--metrics", "127.0.0.1:0", listen, "null:"]);
        let (at, place) = (place_of_metrics(&link), link.place().to_owned());
        let port: u16 = place.rsplit(':').next().unwrap().parse().unwrap();
        let send = |client: &UdpSocket, datagram: &[u8]| {
            client.send_to(datagram, &place).unwrap();
            // One by one: the kernel drops nothing, then.
            eventually("it is taken", || queue_bytes(port) == Some(0));
        };
        let served = UdpSocket::bind("127.0.0.1:0").unwrap();
        send(&served, b"first");
        link.says(": connected");
        for _ in 0..senders {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..each).for_each(|_| send(&client, &vec![0; bytes]));
        }
        let counter = "gush_link_datagrams_dropped_total";
        eventually("they are counted", || scrape(&at)[counter] >= dropped);
        assert_eq!(scrape(&at)[counter], dropped, "{senders} senders, {each} of {bytes} bytes");
    }
}

/// The bytes that wait in the kernel for the socket at a UDP port of 127.0.0.1 (proc_net_udp(5));
/// none where the table has left the socket out, as happens while others come and go.
fn queue_bytes(port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!("0100007F:{port:04X}");
    let line = table.lines().find(|line| line.contains(&local))?;
    let queues = line.split_whitespace().nth(4).expect("tx_queue:rx_queue");
    Some(u64::from_str_radix(queues.split(':').nth(1).unwrap(), 16).unwrap())
}
