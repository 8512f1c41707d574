//! Sockets of datagrams that are not connected, and the size of datagrams.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::link::{PATIENCE, Running, eventually};
use crate::common::{file_of, gush, noise, not_applicable, skipped};
use gush_test::Port;
use rustix::process::Signal;
use tempfile::TempDir;

/// A link with `-` as its first address, and its two pipes.
fn talking(args: &[&str]) -> (Running, ChildStdin, ChildStdout) {
    let mut command = gush();
    command.args(["link", "--log", "info", "-"]).args(args).stdin(Stdio::piped());
    let mut link = Running::of(command);
    let (stdin, stdout) = (link.stdin(), link.stdout());
    (link, stdin, stdout)
}

fn receiver() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2048];
    let count = socket.recv(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn a_broadcast_address_asks_for_its_option() {
    for kind in ["udp-datagram", "udp-sendto"] {
        let link = || format!("{kind}:127.255.255.255:9");
        let mut command = gush();
        command.args(["link", "-u", "-", &link()]).stdin(file_of(b"x"));
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let ends = "Permission denied after 0 bytes; 1 more were read but not delivered \
                    (a broadcast address takes the option broadcast; a route or a firewall \
                    forbids any other)\n";
        assert!(said.ends_with(ends), "{said}");
        let mut command = gush();
        command.args(["link", "-u", "-", &(link() + ",broadcast")]).stdin(file_of(b"x"));
        assert!(command.output().unwrap().status.success());
    }
}

/// A log shipper goes on when its receiver has restarted; a connected socket fails at the first
/// answer of ICMP.
#[test]
fn a_receiver_that_restarts_misses_only_what_was_sent_meanwhile() {
    // On a busy machine what was read meanwhile may be sent only to the second receiver.
    assert!((0..5).any(|_| first_heard_after_a_restart() == b"after\n"));
}

fn first_heard_after_a_restart() -> Vec<u8> {
    let first = receiver();
    let place = first.local_addr().unwrap();
    let (link, mut lines, stdout) = talking(&[&format!("udp-sendto:{place}")]);
    let mut send = |line: &str| {
        lines.write_all(line.as_bytes()).unwrap();
        let until = Instant::now() + PATIENCE;
        while rustix::io::ioctl_fionread(&lines).unwrap() > 0 {
            assert!(Instant::now() < until, "{line:?} is not read");
            thread::sleep(Duration::from_millis(1));
        }
    };
    send("before\n");
    assert_eq!(heard(&first), b"before\n");
    drop(first);
    for _ in 0..3 {
        send("nobody hears\n");
        thread::sleep(Duration::from_millis(50));
    }
    let second = UdpSocket::bind(place).unwrap();
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    send("after\n");
    let first_heard = heard(&second);
    drop((lines, stdout));
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    first_heard
}

#[test]
fn only_the_peers_answers_are_taken_by_sendto_and_everyones_by_datagram() {
    for (kind, expected) in [("udp-sendto", "peer"), ("udp-datagram", "strangerpeer")] {
        let peer = receiver();
        let target = format!("{kind}:{}", peer.local_addr().unwrap());
        let (_link, mut stdin, mut stdout) = talking(&[&target]);
        stdin.write_all(b"question").unwrap();
        let mut room = [0; 64];
        let (count, link_place) = peer.recv_from(&mut room).unwrap();
        assert_eq!(&room[..count], b"question");
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(b"stranger", link_place).unwrap();
        peer.send_to(b"peer", link_place).unwrap();
        let mut answer = vec![0; expected.len()];
        stdout.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), expected, "{kind}");
    }
}

#[test]
fn a_stream_becomes_datagrams_of_the_size_of_b() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("data"), noise(3_000, 1)).unwrap();
    let data = dir.path().join("data");
    let name = dir.path().join("s");
    let unix = UnixDatagram::bind(&name).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    let udp = receiver();
    let place = udp.local_addr().unwrap();
    for target in [
        format!("udp-sendto:{place}"),
        format!("udp:{place}"),
        format!("unix-sendto:{}", name.display()),
    ] {
        let link = Running::start(&["-u", "-b", "1400", data.to_str().unwrap(), &target]);
        let (status, _, said) = link.finish();
        assert!(status.success(), "{said}");
        let sizes = [(); 3].map(|()| match target.starts_with("unix") {
            true => unix.recv(&mut [0; 4096]).unwrap(),
            false => udp.recv(&mut [0; 4096]).unwrap(),
        });
        assert_eq!(sizes, [1400, 1400, 200], "{target}");
    }
    for wrong in ["abc", "0", "65537"] {
        let refused = gush().args(["link", "-b", wrong, "null:", "null:"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{wrong}: {refused:?}");
    }
    // Nothing is opened for a size that UDP does not have; what is only read has its own.
    for (args, is_refused) in [
        (["-u", "null:", "udp:192.0.2.1:1"], true),
        (["-u", "null:", "null:!!udp:192.0.2.1:1"], true),
        (["-U", "udp:192.0.2.1:1", "null:"], true),
        (["-U", "null:", "udp-recv:192.0.2.1:1"], false),
    ] {
        let output = gush().args(["link", "-b", "65508"]).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let why = "192.0.2.1:1: a datagram there has at most 65507 bytes (-b 65507)";
        assert_eq!(said.contains(why), is_refused, "{args:?}: {said}");
    }
}

#[test]
fn a_port_receives_from_all_senders_within_its_range() {
    let mut link = Running::start(&["-u", "udp-recv:127.0.0.1:0,range=127.0.0.1", "-"]);
    let place = link.says("receiving at ");
    let place = place.split_whitespace().last().unwrap();
    for (from, text) in [("127.0.0.1", "one "), ("127.0.0.2", "no "), ("127.0.0.1", "two")] {
        let sender = UdpSocket::bind((from, 0)).unwrap();
        sender.send_to(text.as_bytes(), place).unwrap();
    }
    let mut read = [0; 7];
    link.stdout().read_exact(&mut read).unwrap();
    assert_eq!(&read, b"one two");
}

/// Two members of a group on the loopback interface.
#[test]
fn a_group_gets_what_is_sent_to_it() {
    let member = "udp-datagram:224.255.0.9:";
    let options = "multicast-if=127.0.0.1,membership=224.255.0.9:127.0.0.1,reuseaddr";
    let reserved = Port::reserve();
    let port = reserved.number();
    let address = format!("{member}{port},bind=:{port},{options}");
    let mut hears = Running::start(&["-u", &address, "-"]);
    hears.says("connected");
    let (_sends, mut stdin, _stdout) = talking(&[&address]);
    stdin.write_all(b"all").unwrap();
    let mut read = [0; 3];
    hears.stdout().read_exact(&mut read).unwrap();
    assert_eq!(&read, b"all");
}

#[test]
fn unix_datagrams_are_answered_each_and_by_name() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let server =
        Running::start(&[&format!("unix-recvfrom:{},fork", at("s")), "shell:'tr a-z A-Z'"]);
    server.says("listening on");
    for kind in ["unix-sendto", "unix-client"] {
        let own = format!("{kind}:{},bind={}", at("s"), at(kind));
        let (client, mut stdin, mut stdout) = talking(&[&own]);
        for word in ["one", "two"] {
            stdin.write_all(word.as_bytes()).unwrap();
            let mut answer = [0; 3];
            stdout.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *word.to_uppercase().as_bytes(), "{kind}");
        }
        client.signal(Signal::TERM);
        client.finish();
        assert!(!dir.path().join(kind).exists(), "{kind}");
    }
}

#[test]
fn a_unix_datagram_longer_than_any_of_udp_arrives_whole() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("all");
    let mut receiver = Running::start(&["-u", &format!("unix-recv:{}", name.display()), "-"]);
    let long = noise(150_000, 5);
    eventually("the name is there", || name.exists());
    let sender = UnixDatagram::unbound().unwrap();
    sender.send_to(&long, name).unwrap();
    let mut read = vec![0; long.len()];
    receiver.stdout().read_exact(&mut read).unwrap();
    assert!(read == long);
}

/// socat exits with 1, too. Such errors are this machine's: what ICMP says of the peer is not
/// reported to a socket that is not connected.
#[test]
fn what_could_not_be_sent_makes_the_status_1() {
    // In a network of its own no address can be reached.
    let mut command = Command::new("unshare");
    command.arg("-rn").arg(gush().get_program());
    command.args(["link", "-", "udp-sendto:192.0.2.1:9"]).stdin(Stdio::piped());
    let mut link = Running::of(command);
    let (mut stdin, stdout) = (link.stdin(), link.stdout());
    for _ in 0..2 {
        if stdin.write_all(b"lost").is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    drop((stdin, stdout));
    let (status, _, said) = link.finish();
    if said.contains("unshare:") {
        return skipped("no user namespaces");
    }
    assert!(said.contains("cannot be sent: Network is unreachable"), "{said}");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(" could not be sent"), "{said}");
}

#[test]
fn a_unix_socket_without_a_receiver_is_called_a_socket() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("s");
    drop(UnixDatagram::bind(&name).unwrap());
    std::fs::write(dir.path().join("data"), "x").unwrap();
    let data = dir.path().join("data");
    let target = format!("unix-sendto:{}", name.display());
    let link = Running::start(&["-u", data.to_str().unwrap(), &target]);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("socket)"), "{said}");
}

#[test]
fn an_empty_datagram_ends_the_data_where_both_sides_say_so() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("s").display().to_string();
    for (receive, send) in [
        (format!("unix-recv:{name},null-eof"), format!("unix-sendto:{name},shut-null")),
        ("udp-recv:127.0.0.1:0,null-eof".to_owned(), "udp:PLACE,shut-null".to_owned()),
        ("udp-recv:127.0.0.1:0,null-eof".to_owned(), "udp-sendto:PLACE,shut-null".to_owned()),
    ] {
        let receiver = Running::start(&["-u", &receive, "-"]);
        let place = match receive.starts_with("udp") {
            true => receiver.says("receiving at ").split_whitespace().last().unwrap().to_owned(),
            false => {
                eventually("the socket is there", || std::path::Path::new(&name).exists());
                String::new()
            }
        };
        let (sender, mut stdin, _stdout) = talking(&["-u", &send.replace("PLACE", &place)]);
        stdin.write_all(b"all").unwrap();
        drop(stdin);
        let (status, output, said) = receiver.finish();
        assert!(status.success() && output == b"all", "{send}: {said}");
        assert!(sender.finish().0.success());
    }
}

#[test]
fn without_the_options_an_empty_datagram_ends_nothing_and_none_is_sent() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("s").display().to_string();
    for receive in ["udp-recv:127.0.0.1:0", &format!("unix-recv:{name}")] {
        let mut receiver = Running::start(&["-u", receive, "-"]);
        let mut stdout = receiver.stdout();
        let send = |bytes: &[u8]| match receive.starts_with("udp") {
            true => {
                let place = receiver.says("receiving at ");
                let place = place.split_whitespace().last().unwrap();
                UdpSocket::bind("127.0.0.1:0").unwrap().send_to(bytes, place).unwrap();
            }
            false => {
                eventually("the socket is there", || std::path::Path::new(&name).exists());
                UnixDatagram::unbound().unwrap().send_to(bytes, &name).unwrap();
            }
        };
        for bytes in [&b"first"[..], b"", b"second"] {
            send(bytes);
        }
        let mut all = [0; 11];
        stdout.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"firstsecond", "{receive}");
    }
    for (option, expected) in [("", &[&b"all"[..]][..]), (",shut-null", &[b"all", b""])] {
        for send in ["udp", "udp-sendto"] {
            let socket = receiver();
            let to = format!("{send}:{}{option}", socket.local_addr().unwrap());
            let (sender, mut stdin, _stdout) = talking(&["-u", &to]);
            stdin.write_all(b"all").unwrap();
            drop(stdin);
            assert!(sender.finish().0.success());
            // What was sent over loopback is there.
            socket.set_nonblocking(true).unwrap();
            let mut bytes = [0; 9];
            let all = std::iter::from_fn(|| {
                let count = socket.recv(&mut bytes).ok()?;
                Some(bytes[..count].to_vec())
            });
            assert_eq!(all.collect::<Vec<_>>(), expected, "{to}");
        }
    }
}

#[test]
fn what_the_kernel_reports_of_a_datagram_is_logged_and_given_to_programs() {
    let program =
        "shell:'echo $SOCAT_IP_TTL $SOCAT_IP_TOS $SOCAT_IP_IF $SOCAT_IP_DSTADDR $SOCAT_TIMESTAMP'";
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.set_ttl(53).unwrap();
    sender.set_read_timeout(Some(PATIENCE)).unwrap();
    for fork in ["", ",fork"] {
        let listen = format!("udp-recvfrom:127.0.0.1:0,ancillary{fork}");
        let link = Running::start(&[&listen, program]);
        sender.send_to(b"x", link.place()).unwrap();
        let answer = String::from_utf8(heard(&sender)).unwrap();
        assert!(
            answer.starts_with("53 0 lo 127.0.0.1 ") && answer.ends_with(" usecs\n"),
            "{answer}"
        );
        link.says("ancillary message: IP_TTL: ttl=53");
    }
    let link = Running::start(&["-u", "udp-recv:127.0.0.1:0,ancillary", "-"]);
    let place = link.says("receiving at ").split_whitespace().last().unwrap().to_owned();
    sender.send_to(b"x", place).unwrap();
    link.says("ancillary message: IP_PKTINFO: if=lo");
}

#[test]
fn datagrams_of_udp_lite_are_answered() {
    let lite = rustix::net::ipproto::UDPLITE;
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM);
    if rustix::net::socket(family, kind, Some(lite)).is_err() {
        return not_applicable("the kernel has no UDP-Lite");
    }
    for fork in ["", ",fork"] {
        let echo = Running::start(&[&format!("udp-listen:127.0.0.1:0,udplite{fork}"), "pipe:"]);
        let (_link, mut stdin, mut stdout) = talking(&[&format!("udp:{},udplite", echo.place())]);
        stdin.write_all(b"lite").unwrap();
        let mut answer = [0; 4];
        stdout.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"lite");
    }
}
