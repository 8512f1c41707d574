//! Options of sockets: whose peers are served, of which type and from which name.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use crate::common::link::{PATIENCE, Running, echo};
use crate::common::{gush, skipped};
use gush_test::Port;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustix::process::Signal;
use tempfile::TempDir;

/// The answer to a client that connects from `from`; none if it is refused.
fn answer(place: &str, from: u16) -> Option<String> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    let local: SocketAddr = ([127, 0, 0, 1], from).into();
    rustix::net::bind(&socket, &local).unwrap();
    rustix::net::connect(&socket, &place.parse::<SocketAddr>().unwrap()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(b"ping");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).ok()?;
    Some(String::from_utf8(answer.to_vec()).unwrap())
}

#[test]
fn only_clients_from_the_named_port_are_served() {
    let own = Port::reserve();
    let listen = format!("tcp-listen:127.0.0.1:0,fork,sourceport={}", own.number());
    let link = Running::start(&[&listen, &format!("tcp:{}", echo())]);
    let place = link.place();
    assert_eq!(answer(&place, 0), None);
    assert_eq!(answer(&place, own.number()).as_deref(), Some("ping"));
    link.says("(sourceport)");
}

#[test]
fn only_clients_with_a_port_of_roots_are_served_and_lowport_connects_from_one() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root binds ports below 1024");
    }
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork,lowport", &format!("tcp:{}", echo())]);
    let place = link.place();
    assert_eq!(answer(&place, 0), None);
    let mut client = gush();
    client.args(["link", "-", &format!("tcp:{place},lowport")]).stdin(Stdio::piped());
    let mut client = Running::of(client);
    let (mut stdin, mut stdout) = (client.stdin(), client.stdout());
    stdin.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stdout.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn datagrams_from_another_port_are_dropped() {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = sender.local_addr().unwrap().port();
    let mut link = Running::start(&["-u", &format!("udp-recv:127.0.0.1:0,sourceport={port}"), "-"]);
    let place = link.says("receiving at ");
    let place = place.split_whitespace().last().unwrap().to_owned();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"no", &place).unwrap();
    sender.send_to(b"yes", &place).unwrap();
    let mut read = [0; 3];
    link.stdout().read_exact(&mut read).unwrap();
    assert_eq!(&read, b"yes");
}

#[test]
fn what_others_sent_before_the_first_sender_was_known_is_reported_once_with_its_number() {
    let link = Running::start(&["udp-listen:127.0.0.1:0", "pipe:"]);
    let place = link.place();
    // All is there before the link looks.
    link.signal(Signal::STOP);
    let [first, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    first.send_to(b"one", &place).unwrap();
    (0..3).for_each(|_| assert_eq!(other.send_to(b"no", &place).unwrap(), 2));
    link.signal(Signal::CONT);
    let peer = first.local_addr().unwrap();
    let line = link.says("datagrams dropped");
    assert!(line.contains(&format!("3 datagrams dropped, which are not from {peer}")), "{line}");
    // What the pipe sends back is of the first sender alone.
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut answer = [0; 64];
        let bytes = first.recv(&mut answer).unwrap();
        answer[..bytes].to_vec()
    };
    assert_eq!(heard(), b"one");
    first.send_to(b"two", &place).unwrap();
    assert_eq!(heard(), b"two");
}

/// Each end by a link, and between them the boundaries of packets.
#[test]
fn packets_pass_between_unix_sockets_whole() {
    let dir = TempDir::new().unwrap();
    let name = dir.path().join("s");
    let listen = format!("unix-listen:{},seqpacket", name.display());
    let server = Running::start(&[&listen, "pipe:"]);
    server.says("listening on");
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    for packet in [&b"one"[..], b"and two"] {
        rustix::io::write(&socket, packet).unwrap();
        let mut answer = [0; 64];
        let count = rustix::io::read(&socket, &mut answer).unwrap();
        assert_eq!(&answer[..count], packet);
    }
}

#[test]
fn a_connection_has_the_name_that_it_is_bound_to_until_its_end() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let server = Running::start(&[
        &format!("unix-listen:{},fork", at("s")),
        "shell:'echo \"$SOCAT_PEERADDR\"'",
    ]);
    server.says("listening on");
    for client in ["unix", "unix-client"] {
        let bound = format!("{client}:{},bind={}", at("s"), at("own"));
        let output = gush().args(["link", "-U", "-", &bound]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), at("own"));
        assert!(!dir.path().join("own").exists());
    }
    let pattern = format!("unix:{},bind-tempname={}", at("s"), at("own-XXXXXX"));
    let names = [(); 2].map(|()| {
        let output = gush().args(["link", "-U", "-", &pattern]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    let own = names.each_ref().map(|name| name.strip_prefix(&at("own-")).unwrap());
    assert!(own.iter().all(|end| !end.contains('X')), "{own:?}");
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_sender_of_datagrams_is_answered_at_a_new_name() {
    let dir = TempDir::new().unwrap();
    let server = UnixDatagram::bind(dir.path().join("s")).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = format!(
        "unix-sendto:{},bind-tempname={}",
        dir.path().join("s").display(),
        dir.path().join("XXXXXX").display()
    );
    let mut link = gush();
    link.args(["link", "-", &address]).stdin(Stdio::piped());
    let mut link = Running::of(link);
    let (mut stdin, mut stdout) = (link.stdin(), link.stdout());
    stdin.write_all(b"question").unwrap();
    let (_, from) = server.recv_from(&mut [0; 64]).unwrap();
    server.send_to(b"answer", from.as_pathname().unwrap()).unwrap();
    let mut answer = [0; 6];
    stdout.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
}

#[test]
fn a_link_ends_when_no_client_comes_in_time() {
    for listen in ["tcp-listen:127.0.0.1:0", "tcp-listen:127.0.0.1:0,fork"] {
        let link = Running::start(&[&format!("{listen},accept-timeout=0.2"), "null:"]);
        let (status, _, said) = link.finish();
        assert!(status.success() && said.contains("no client has come for 200 ms"), "{said}");
    }
}

#[test]
fn an_option_of_a_socket_is_set_by_its_numbers() {
    let first = Running::start(&["tcp-listen:127.0.0.1:0,setsockopt=1:15:1", "pipe:"]);
    let listen = |options: &str| format!("tcp-listen:{}{options}", first.place());
    // Both have to share the port (SO_REUSEPORT).
    let alone = gush().args(["link", &listen(""), "pipe:"]).output().unwrap();
    assert!(!alone.status.success());
    let second = Running::start(&[&listen(",setsockopt=1:15:1"), "pipe:"]);
    assert_eq!(second.place(), first.place());
    let wrong = gush().args(["link", &listen(",setsockopt=1:9999:7"), "pipe:"]).output().unwrap();
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("set setsockopt=1:9999:7: Protocol not available"), "{said}");
}

#[test]
fn an_abstract_socket_of_any_type_is_found() {
    let name = format!("gush-test-{}", std::process::id());
    for (listen, echoed) in [
        (format!("unix-listen:@{name}"), &b"stream"[..]),
        (format!("unix-listen:@{name},seqpacket"), b"packet"),
        (format!("unix-recvfrom:@{name}"), b"datagram"),
    ] {
        let server = Running::start(&[&listen, "pipe:"]);
        server.says("listening on");
        let client = format!("unix-client:@{name},bind=@{name}-client");
        let mut client_link = gush();
        client_link.args(["link", "-t", "20", "-", &client]).stdin(Stdio::piped());
        let mut client = Running::of(client_link);
        client.stdin().write_all(echoed).unwrap();
        let mut answer = vec![0; echoed.len()];
        client.stdout().read_exact(&mut answer).unwrap();
        assert_eq!(answer, echoed, "{listen}");
    }
    let none = gush().args(["link", "-", &format!("unix-client:@{name}")]).output().unwrap();
    assert!(!none.status.success());
}

#[test]
fn a_pair_of_sockets_gives_messages_back() {
    let mut link = gush();
    link.args(["link", "-", "socketpair"]).stdin(Stdio::piped());
    let mut link = Running::of(link);
    link.stdin().write_all(b"there and back").unwrap();
    let (status, output, said) = link.finish();
    assert!(status.success() && output == b"there and back", "{said}");
    // Each of many messages that wait for the link comes back alone.
    let pair = || {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    };
    let ((input, stdin), (output, stdout)) = (pair(), pair());
    let message = |number: u8| vec![number; 1 + usize::from(number)];
    for number in 0..100 {
        rustix::io::write(&input, &message(number)).unwrap();
    }
    drop(input);
    let mut link = gush();
    link.args(["link", "-", "socketpair"]).stdin(stdin).stdout(stdout);
    let mut link = link.spawn().unwrap();
    let mut room = [0; 9999];
    for number in 0..100 {
        let count = rustix::io::read(&output, &mut room).unwrap();
        assert_eq!(room[..count], message(number));
    }
    assert!(link.wait().unwrap().success());
}
