//! Connections and listeners, as a user of `gush_link::open` sees them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use crate::open_common::{listener, one, port_of, run, skipped, socket_of, talk};
use gush_link::address::UnixName;
use gush_link::open::Peer;
use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn a_connection_is_made_to_every_kind_of_host() {
    let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = v4.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let end = run(one(&format!("tcp4:{host}:{port}"))).unwrap();
        assert_eq!(end.peer, Peer::Ip(v4.local_addr().unwrap()));
        let (_, from) = v4.accept().unwrap();
        assert_eq!(end.local(), Some(Peer::Ip(from)));
    }
    // Some containers have no IPv6.
    match TcpListener::bind("[::1]:0") {
        Ok(v6) => {
            let end = run(one(&format!("tcp:[::1]:{}", v6.local_addr().unwrap().port()))).unwrap();
            assert_eq!(end.peer, Peer::Ip(v6.local_addr().unwrap()));
        }
        Err(error) => skipped(&format!("IPv6: {error}")),
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    // Most machines know localhost as ::1 and as 127.0.0.1; only the second listens.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let end = run(one(&format!("tcp:localhost:{}", server.local_addr().unwrap().port()))).unwrap();
    assert_eq!(end.peer, Peer::Ip(server.local_addr().unwrap()));
}

#[test]
fn a_relay_is_not_held_up_by_nagle_on_either_side() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,keepalive").await.unwrap();
        let connect = format!("tcp:127.0.0.1:{},nodelay=0,rcvbuf=64K", port_of(&server));
        let (client, served) = tokio::join!(one(&connect), server.accept());
        let (client, served) = (client.unwrap(), served.unwrap());
        let fd = served.conduit.read_fd().unwrap();
        assert!(sockopt::tcp_nodelay(fd).unwrap() && sockopt::socket_keepalive(fd).unwrap());
        let fd = client.conduit.read_fd().unwrap();
        assert!(!sockopt::tcp_nodelay(fd).unwrap());
        // The kernel doubles what it is asked for (socket(7)).
        assert_eq!(sockopt::socket_recv_buffer_size(fd).unwrap(), 128 << 10);
    });
}

#[test]
fn bytes_pass_between_a_client_and_a_listener() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(socket_of(&server)).unwrap();
        let mut served = server.accept().await.unwrap();
        assert_eq!(served.peer, Peer::Ip(client.local_addr().unwrap()));
        client.write_all(b"ping").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(talk(&mut served.conduit, b"pong").await, b"ping");
        drop(served);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "pong");
    });
}

#[test]
fn a_listener_without_a_host_takes_both_versions() {
    run(async {
        let mut server = listener("tcp-listen:0").await.unwrap();
        let port = port_of(&server);
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // Nobody should have to know of ::ffff:127.0.0.1.
        assert_eq!(server.accept().await.unwrap().peer, Peer::Ip(client.local_addr().unwrap()));
        match TcpStream::connect(("::1", port)) {
            Ok(client) => {
                assert_eq!(
                    server.accept().await.unwrap().peer,
                    Peer::Ip(client.local_addr().unwrap())
                );
            }
            Err(error) => skipped(&format!("IPv6: {error}")),
        }
    });
}

#[test]
fn ipv6only_and_tcp4_listen_take_one_version() {
    run(async {
        if TcpListener::bind("[::1]:0").is_ok() {
            let six = listener("tcp6-listen:0,ipv6only").await.unwrap();
            assert!(TcpStream::connect(("127.0.0.1", port_of(&six))).is_err());
        }
        let four = listener("tcp4-listen:0").await.unwrap();
        assert!(TcpStream::connect(("::1", port_of(&four))).is_err());
    });
}

#[test]
fn bind_chooses_the_local_address_and_port() {
    run(async {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        // The port is free again as the listener goes; on 127.0.0.3 nobody else takes it meanwhile.
        let free = TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap();
        let end = one(&format!("tcp:127.0.0.1:{port},bind={free}")).await.unwrap();
        assert_eq!(server.accept().unwrap().1, free);
        drop(end);
        one(&format!("tcp:127.0.0.1:{port},bind=127.0.0.2")).await.unwrap();
        assert_eq!(server.accept().unwrap().1.ip().to_string(), "127.0.0.2");

        let error = one(&format!("tcp:127.0.0.1:{port},bind=[::1]")).await.unwrap_err();
        assert!(error.to_string().contains("another version of the protocol"), "{error}");
        // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
        let error = one(&format!("tcp:127.0.0.1:{port},bind=192.0.2.1")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("no such address"), "{error}");
    });
}

#[test]
fn options_of_the_internet_are_those_of_the_socket() {
    run(async {
        let options = "ttl=7,tos=16,priority=3,mss=1000,bindtodevice=lo,reuseport";
        let mut server = listener(&format!("tcp-listen:127.0.0.1:0,{options}")).await.unwrap();
        let connect = format!("tcp:127.0.0.1:{},{options}", port_of(&server));
        let (client, served) = tokio::join!(one(&connect), server.accept());
        for end in [client.unwrap(), served.unwrap()] {
            let fd = end.conduit.read_fd().unwrap();
            assert_eq!((sockopt::ip_ttl(fd).unwrap(), sockopt::ip_tos(fd).unwrap()), (7, 16));
            assert!(sockopt::socket_reuseport(fd).unwrap());
        }
    });
}

#[test]
fn strangers_are_closed_at_once_and_counted() {
    run(async {
        let mut server =
            listener("tcp-listen:127.0.0.1:0,fork,range=127.0.0.8/30+10.0.0.0/8").await.unwrap();
        let mut stranger = TcpStream::connect(socket_of(&server)).unwrap();
        // Every address in 127.0.0.0/8 is this machine: one host can play two peers.
        let friend = format!("tcp:{},bind=127.0.0.9", socket_of(&server));
        let (friend, served) = tokio::join!(one(&friend), server.accept());
        assert_eq!(served.unwrap().peer, friend.unwrap().local().unwrap());
        assert_eq!(server.strangers(), 1);
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)), "the stranger is not served");
    });
}

#[test]
fn a_buffer_may_be_asked_to_be_larger_than_any() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,sndbuf=1T,rcvbuf=1T").await.unwrap();
        let connect = format!("tcp:{},sndbuf=1T,rcvbuf=1T", socket_of(&server));
        let (client, served) = tokio::join!(one(&connect), server.accept());
        client.unwrap();
        served.unwrap();
    });
}

#[test]
fn an_ipv4_range_holds_on_a_socket_for_both_versions() {
    run(async {
        let mut server = listener("tcp-listen:0,fork,range=127.0.0.0/8").await.unwrap();
        let _client = TcpStream::connect(("127.0.0.1", port_of(&server))).unwrap();
        assert!(server.accept().await.unwrap().peer.ip().unwrap().is_ipv4());
        assert_eq!(server.strangers(), 0);
    });
}

#[test]
fn a_cancelled_accept_loses_nobody() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0").await.unwrap();
        let nobody = tokio::time::timeout(Duration::from_millis(20), server.accept()).await;
        assert!(nobody.is_err());
        let client = TcpStream::connect(socket_of(&server)).unwrap();
        assert_eq!(server.accept().await.unwrap().peer, Peer::Ip(client.local_addr().unwrap()));
    });
}

#[test]
fn a_taken_port_says_who_has_it() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let error = run(listener(&format!("tcp-listen:127.0.0.1:{port}"))).unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains(&format!("port {port} is in use by")), "{hint}");
    assert!(hint.contains(&format!("process {}", std::process::id())), "{hint}");
}

#[test]
fn a_port_can_be_taken_again_while_old_connections_linger() {
    run(async {
        // An address of its own: no other test takes the port meanwhile.
        let mut server = listener("tcp-listen:127.0.0.77:0").await.unwrap();
        let address = socket_of(&server);
        let client = TcpStream::connect(address).unwrap();
        // Who closes first lingers in TIME_WAIT.
        drop(server.accept().await.unwrap());
        drop(server);
        drop(client);
        listener(&format!("tcp-listen:{address}")).await.unwrap();
    });
}

#[test]
fn a_service_name_is_a_port() {
    let error = run(one("tcp:127.0.0.1:no-such-service")).unwrap_err();
    assert!(error.to_string().contains("no service is called no-such-service"), "{error}");
    if !std::fs::read_to_string("/etc/services").is_ok_and(|text| text.contains("\ndiscard")) {
        return skipped("/etc/services does not know discard");
    }
    let error = run(one("tcp:127.0.0.1:discard")).unwrap_err();
    assert!(error.to_string().contains("connect to 127.0.0.1:9"), "{error}");
}

#[test]
fn unix_sockets_are_served_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    run(async {
        let text = format!("unix-listen:{},mode=666", path.display());
        let mut server = listener(&text).await.unwrap();
        // More than the umask would leave.
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o666);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"ping").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut served = server.accept().await.unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        assert_eq!(served.peer, Peer::Unix { name: None, process: Some(us) });
        assert_eq!(talk(&mut served.conduit, b"").await, b"ping");

        let end = one(&format!("unix:{}", path.display())).await.unwrap();
        assert_eq!(end.peer.to_string(), format!("unix:{}", path.display()));
        drop(server);
        assert!(!path.exists());
    });
}

#[test]
fn unlink_close_0_leaves_the_socket_and_a_new_owner_keeps_his() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    run(async {
        drop(listener(&format!("unix-listen:{},unlink-close=0", path.display())).await.unwrap());
        assert!(path.exists());
        let first = listener(&format!("unix-listen:{},unlink", path.display())).await.unwrap();
        // As an impatient administrator does, who then starts another server.
        std::fs::remove_file(&path).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it is somebody else's now");
    });
}

#[test]
fn a_stale_socket_is_replaced_only_if_that_is_asked_for_and_a_live_one_never() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let text = format!("unix-listen:{}", path.display());
    run(async {
        drop(UnixListener::bind(&path).unwrap());
        let error = listener(&text).await.unwrap_err();
        assert!(error.hint().unwrap().contains("it has no listener"), "{error}");
        let live = listener(&format!("{text},unlink")).await.unwrap();

        let error = listener(&format!("{text},unlink")).await.unwrap_err();
        let hint = error.hint().unwrap();
        assert!(hint.contains("a live server answers there"), "{hint}");
        assert!(hint.contains(&format!("process {}", std::process::id())), "{hint}");
        drop(live);

        std::fs::write(&path, "precious").unwrap();
        let error = listener(&format!("{text},unlink")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("not a socket has this name"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    });
}

#[test]
fn a_second_start_does_not_disturb_the_server_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("unix-listen:{},unlink", dir.path().join("socket").display());
    run(async {
        let mut server = listener(&text).await.unwrap();
        listener(&text).await.unwrap_err();
        let client = tokio::time::timeout(Duration::from_millis(50), server.accept()).await;
        assert!(client.is_err(), "the second start was served as a client");
    });
}

#[test]
fn of_many_starts_at_once_one_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let text = format!("unix-listen:{},unlink", path.display());
    // Each round is a race of six; 30 of them meet most orders.
    for round in 0..30 {
        // A stale socket, as a killed server leaves it: all six want to replace it.
        drop(UnixListener::bind(&path).unwrap());
        let starts: Vec<_> = std::thread::scope(|scope| {
            let start = || run(async { listener(&text).await });
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let listening = starts.iter().filter(|start| start.is_ok()).count();
        assert_eq!(listening, 1, "round {round}: {starts:?}");
        UnixStream::connect(&path).unwrap();
        drop(starts);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }
}

#[test]
fn who_finds_a_socket_by_its_name_is_served() {
    let dir = tempfile::tempdir().unwrap();
    // The moment between the name and listen(2) is short: many rounds, or nobody hits it.
    for round in 0..100 {
        let path = dir.path().join(round.to_string());
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                loop {
                    match UnixStream::connect(&path) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                            std::hint::spin_loop();
                        }
                        connected => return connected.map(drop),
                    }
                }
            });
            let text = format!("unix-listen:{},unlink-close=0", path.display());
            let server = run(async { listener(&text).await }).unwrap();
            client.join().unwrap().unwrap();
            assert_eq!(server.local().unwrap().to_string(), format!("unix:{}", path.display()));
        });
    }
}

#[test]
fn a_unix_socket_in_a_deep_directory_listens() {
    let dir = tempfile::tempdir().unwrap();
    // As long as an address may be (unix(7)): no longer name fits next to it.
    let deep = dir.path().join("d".repeat(104 - dir.path().as_os_str().len()));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join("s");
    assert_eq!(path.as_os_str().len(), 107);
    run(async {
        let text = format!("unix-listen:{},mode=600", path.display());
        let mut server = listener(&text).await.unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let _client = UnixStream::connect(&path).unwrap();
        let served = server.accept().await.unwrap();
        assert_eq!(served.local().unwrap().to_string(), format!("unix:{}", path.display()));
    });
}

#[test]
fn a_regular_file_is_not_called_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, "data").unwrap();
    let error = run(one(&format!("unix:{}", path.display()))).unwrap_err();
    assert!(error.hint().unwrap().contains("not a socket"), "{error}: {:?}", error.hint());
}

#[test]
fn a_port_that_another_holds_on_one_version_is_in_use() {
    let holder = socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
    // The holder leaves IPv4 free: binding both versions must fail as a whole.
    sockopt::set_ipv6_v6only(&holder, true).unwrap();
    let any: std::net::SocketAddr = "[::]:0".parse().unwrap();
    if let Err(errno) = rustix::net::bind(&holder, &any) {
        return skipped(&format!("IPv6: {errno}"));
    }
    rustix::net::listen(&holder, 1).unwrap();
    let bound = rustix::net::getsockname(&holder).unwrap();
    let port = std::net::SocketAddr::try_from(bound).unwrap().port();
    let error = run(listener(&format!("tcp-listen:{port}"))).unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");

    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let error = run(listener(&format!("tcp-listen:localhost:{port}"))).unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
}

#[test]
fn abstract_names_need_no_file() {
    // No other process has this path, in whichever namespace of process numbers it is.
    let name = gush_test::own_dir().display();
    run(async {
        let mut server = listener(&format!("unix-listen:@{name}")).await.unwrap();
        let text = format!("ABSTRACT-CONNECT:{name}");
        let (client, served) = tokio::join!(one(&text), server.accept());
        assert_eq!(client.unwrap().peer.to_string(), format!("unix:@{name}"));
        let local = served.unwrap().local().unwrap();
        assert!(matches!(local, Peer::Unix { name: Some(UnixName::Abstract(_)), .. }), "{local:?}");
        let error = listener(&format!("unix-listen:@{name}")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("another server"), "{error}");
    });
}

#[test]
fn a_unix_server_with_a_full_queue_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    run(async {
        let mut server =
            listener(&format!("unix-listen:{},backlog=1,fork", path.display())).await.unwrap();
        let text = format!("unix:{}", path.display());
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let text = text.clone();
                tokio::spawn(async move { one(&text).await })
            })
            .collect();
        for _ in &clients {
            // A slow server: the queue of one is full, and connect(2) answers EAGAIN.
            tokio::time::sleep(Duration::from_millis(5)).await;
            server.accept().await.unwrap();
        }
        for client in clients {
            client.await.unwrap().unwrap();
        }
        let _queued = [one(&text).await.unwrap(), one(&text).await.unwrap()];
        let error = one(&format!("{text},connect-timeout=50ms")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("its queue is full"), "{error}");
    });
}

#[test]
fn datagrams_keep_their_boundaries_both_ways() {
    run(async {
        let mut server = listener("udp-listen:127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(socket_of(&server)).unwrap();
        client.send(b"one").unwrap();
        let mut served = server.accept().await.unwrap();
        assert_eq!(served.peer, Peer::Ip(client.local_addr().unwrap()));
        client.send(b"two").unwrap();
        // A stranger cannot get between the two any more.
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(b"evil", served.local().map(|l| l.to_string()).unwrap())
            .unwrap();
        let mut buffer = [0; 99];
        client.send(b"three").unwrap();
        for expected in ["one", "two", "three"] {
            let count = served.conduit.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], expected.as_bytes());
        }
        let error = server.accept().await.unwrap_err();
        assert!(error.to_string().contains("has its peer already"), "{error}");
    });
}

#[test]
fn datagrams_of_strangers_are_dropped() {
    run(async {
        let mut server = listener("udp-listen:127.0.0.1:0,range=127.0.0.9").await.unwrap();
        let to = socket_of(&server);
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"stranger", to).unwrap();
        let friend = UdpSocket::bind("127.0.0.9:0").unwrap();
        friend.send_to(b"friend", to).unwrap();
        let served = server.accept().await.unwrap();
        assert_eq!(served.peer, Peer::Ip(friend.local_addr().unwrap()));
        assert_eq!(server.strangers(), 1);
    });
}

#[test]
fn a_udp_port_is_shared_with_nobody_unless_asked() {
    let thief = || {
        let fd = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        sockopt::set_socket_reuseaddr(&fd, true).unwrap();
        fd
    };
    run(async {
        let server = listener("udp-listen:127.0.0.1:0").await.unwrap();
        let taken = rustix::net::bind(thief(), &socket_of(&server));
        assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE), "its datagrams could be had");
        let shared = listener("udp-listen:127.0.0.1:0,reuseaddr").await.unwrap();
        rustix::net::bind(thief(), &socket_of(&shared)).unwrap();
    });
}

#[test]
fn what_others_sent_before_the_peer_was_known_is_dropped_and_nothing_of_the_peer() {
    for range in ["", ",range=127.0.0.9"] {
        run(async {
            let mut server = listener(&format!("udp-listen:127.0.0.1:0{range}")).await.unwrap();
            let to = socket_of(&server);
            let peer = UdpSocket::bind("127.0.0.9:0").unwrap();
            let other = UdpSocket::bind("127.0.0.1:0").unwrap();
            peer.send_to(b"first", to).unwrap();
            other.send_to(b"evil", to).unwrap();
            // Empty datagrams are data too, and must be distinguished from nothing.
            peer.send_to(b"", to).unwrap();
            other.send_to(b"", to).unwrap();
            peer.send_to(b"second", to).unwrap();
            let mut served = server.accept().await.unwrap();
            assert_eq!(served.peer, Peer::Ip(peer.local_addr().unwrap()));
            peer.send_to(b"third", to).unwrap();
            let mut buffer = [0; 99];
            for expected in ["first", "", "second", "third"] {
                let count = served.conduit.read(&mut buffer).await.unwrap();
                assert_eq!(&buffer[..count], expected.as_bytes(), "{range}");
            }
            // Answers leave from the port that the peer knows.
            served.conduit.write_all(b"answer").await.unwrap();
            let (count, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..count], from), (&b"answer"[..], to), "{range}");
            assert_eq!(server.strangers(), if range.is_empty() { 0 } else { 2 });
        });
    }
}

#[test]
fn what_a_udp_peer_sent_before_it_was_known_arrives_whole() {
    run(async {
        let mut server = listener("udp-listen:127.0.0.1:0").await.unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = ["one", "", "three", "4"];
        sent.iter().for_each(|text| {
            peer.send_to(text.as_bytes(), socket_of(&server)).unwrap();
        });
        let mut served = server.accept().await.unwrap();
        let mut buffer = [0; 99];
        for expected in sent {
            let count = served.conduit.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], expected.as_bytes());
        }
    });
}

#[test]
fn a_udp_peer_is_connected() {
    run(async {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let end = one(&format!("udp:{}", server.local_addr().unwrap())).await.unwrap();
        rustix::io::write(end.conduit.write_fd().unwrap(), b"hello").unwrap();
        let mut buffer = [0; 9];
        let (count, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..count], Some(Peer::Ip(from))), (&b"hello"[..], end.local()));
    });
}

#[test]
fn a_vanished_client_does_not_end_the_listener() {
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,fork").await.unwrap();
        let to = socket_of(&server);
        for _ in 0..20 {
            // Closed with a reset before it is accepted.
            let client = TcpStream::connect(to).unwrap();
            sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        }
        let last = TcpStream::connect(to).unwrap();
        let wanted = Peer::Ip(last.local_addr().unwrap());
        // Those that were reset may be accepted or not: the kernel decides.
        while server.accept().await.unwrap().peer != wanted {}
    });
}

#[test]
fn a_vanished_peer_is_asked_for_as_the_user_says() {
    run(async {
        let options = "keepidle=7,keepintvl=3,keepcnt=4,user-timeout=2.5";
        let mut server = listener(&format!("tcp-listen:127.0.0.1:0,{options}")).await.unwrap();
        let connect = format!("tcp:127.0.0.1:{},{options}", port_of(&server));
        let (client, served) = tokio::join!(one(&connect), server.accept());
        for end in [client.unwrap(), served.unwrap()] {
            let fd = end.conduit.read_fd().unwrap();
            assert!(sockopt::socket_keepalive(fd).unwrap());
            assert_eq!(sockopt::tcp_keepidle(fd).unwrap(), Duration::from_secs(7));
            assert_eq!(sockopt::tcp_keepintvl(fd).unwrap(), Duration::from_secs(3));
            assert_eq!(sockopt::tcp_keepcnt(fd).unwrap(), 4);
            assert_eq!(sockopt::tcp_user_timeout(fd).unwrap(), 2500);
        }
        for text in ["tcp-listen:127.0.0.1:0,keepcnt=128", "tcp:127.0.0.1:9,keepidle=10h"] {
            let error = gush_link::open::open(&text.parse().unwrap(), &Default::default()).await;
            let hint = error.unwrap_err().hint().unwrap().to_owned();
            assert!(hint.contains("32767"), "{hint}");
        }
    });
}

#[test]
fn an_option_that_the_kernel_refuses_has_a_remedy() {
    run(async {
        for (address, why, remedy) in [
            ("tcp:127.0.0.1:1,interface=nosuch0", "set bindtodevice: No such device", "`ip link`"),
            ("udp-datagram:127.0.0.1:1,multicast-if=nosuch0", "set multicast-if", "`ip link`"),
            ("tcp:127.0.0.1:1,mss=87", "set mss: Invalid argument", "from 88 to 32767"),
            ("tcp-listen:127.0.0.1:0,mss=32768", "set mss: Invalid argument", "from 88 to 32767"),
            ("udp:127.255.255.255:1", "connect to 127.255.255.255:1: Permission", "with broadcast"),
        ] {
            let error = one(address).await.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(remedy)), "{address}: {error}");
        }
    });
    gush_test::without_privilege(|| {
        for (address, why, remedy) in [
            ("tcp:127.0.0.1:1,transparent", "set transparent: Operation not", "CAP_NET_RAW"),
            ("tcp:127.0.0.1:1,priority=7", "set priority: Operation not", "CAP_NET_ADMIN"),
            ("tcp:127.0.0.1:1,setsockopt=1:12:7", "=1:12:7: Operation not", "capability"),
            ("tcp:127.0.0.1:1,lowport", "bind to 0.0.0.0:1023: Permission", "below 1024"),
        ] {
            let error = run(one(address)).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(remedy)), "{address}: {error}");
        }
    });
}
