//! Absent servers, networks that are down, unknown names: reported, and waited for with `retry=`.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::open_common::{listener, one, run, skipped, socket_of};
use gush_link::open::{End, OpenError};
use gush_test::Port;
use rustix::net::{AddressFamily, SocketType, socket};

#[test]
fn a_refused_connection_says_where_and_what_to_do() {
    let reserved = Port::reserve();
    let port = reserved.number();
    let error = run(one(&format!("tcp:127.0.0.1:{port}"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("tcp:127.0.0.1:{port}: connect to 127.0.0.1:{port}: Connection refused")
    );
    assert_eq!(
        error.hint(),
        Some("nothing listens there; start the server, or wait for it with retry=N")
    );
    assert!(error.passes());
}

#[test]
fn each_failed_address_of_a_name_is_reported() {
    let port = Port::reserve();
    let error = run(one(&format!("tcp:localhost:{}", port.number()))).unwrap_err();
    if !error.to_string().contains("[::1]") {
        return gush_test::not_applicable("localhost has one address here");
    }
    assert_eq!(error.to_string().matches("Connection refused").count(), 2, "{error}");
}

#[test]
fn retries_are_counted_and_then_the_failure_is_reported() {
    let started = Instant::now();
    let port = Port::reserve();
    let text = format!("tcp:{},retry=4,interval=20ms", port.place());
    let error = run(one(&text)).unwrap_err();
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(80), "four pauses");
}

#[test]
fn a_server_that_comes_later_is_reached() {
    let reserved = Port::reserve();
    let port = reserved.number();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    run(async {
        let retry = "retry=forever,interval=10ms";
        let (tcp, unix) =
            (format!("tcp:127.0.0.1:{port},{retry}"), format!("unix:{},{retry}", path.display()));
        let tcp = tokio::spawn(async move { one(&tcp).await });
        let unix = tokio::spawn(async move { one(&unix).await });
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(!tcp.is_finished() && !unix.is_finished());
        let _tcp_server = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let _unix_server = std::os::unix::net::UnixListener::bind(&path).unwrap();
        tcp.await.unwrap().unwrap();
        unix.await.unwrap().unwrap();
    });
}

/// A server binds first, and changes the mode afterwards.
#[test]
fn a_server_that_lets_clients_in_later_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _server = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let set_mode = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    set_mode(0);
    gush_test::without_privilege(|| {
        run(async {
            let text = format!("unix:{},retry=forever,interval=10ms", path.display());
            let waiting = tokio::spawn(async move { one(&text).await });
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(!waiting.is_finished());
            set_mode(0o600);
            waiting.await.unwrap().unwrap();
        });
    });
}

#[test]
fn a_taken_port_is_waited_for() {
    run(async {
        let holder = listener("tcp-listen:127.0.0.1:0").await.unwrap();
        let text = format!("tcp-listen:{},retry=forever,interval=10ms", socket_of(&holder));
        let waiting = tokio::spawn(async move { listener(&text).await });
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(!waiting.is_finished());
        drop(holder);
        waiting.await.unwrap().unwrap();
    });
}

#[test]
fn what_no_waiting_helps_is_not_tried_again() {
    let error = run(one("file:/etc/passwd/x,retry=forever")).unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
}

/// A TCP port that does not answer: the queue is full of unaccepted clients, and the kernel drops
/// further ones.
struct Silent {
    address: std::net::SocketAddr,
    _held: (OwnedFd, Vec<End>),
}

impl Silent {
    async fn new() -> Self {
        let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&full, &"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let address =
            std::net::SocketAddr::try_from(rustix::net::getsockname(&full).unwrap()).unwrap();
        let text = format!("tcp:{address},connect-timeout=2");
        let mut reached = Vec::new();
        while let Ok(end) = one(&text).await {
            reached.push(end);
            assert!(reached.len() < 100, "the queue is never full");
        }
        Self { address, _held: (full, reached) }
    }
}

#[test]
fn a_host_that_does_not_answer_is_given_up_in_time() {
    run(async {
        let silent = Silent::new().await;
        let error = one(&format!("tcp:{},connect-timeout=100ms", silent.address)).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("Connection timed out"), "{error}");
        assert!(error.hint().unwrap().contains("nothing answers"), "{error}");
    });
}

/// Opens an address while the clock stands still and goes to the next timer when there is nothing
/// else to do: how many seconds are waited in vain, and what is said then.
async fn waited_in_vain(text: &str) -> (u64, OpenError) {
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let opened = match one(text).await {
        Ok(end) => end.handshake().await.map(drop),
        Err(error) => Err(error),
    };
    let waited = began.elapsed();
    tokio::time::resume();
    (waited.as_secs(), opened.unwrap_err())
}

#[tokio::test]
async fn what_never_answers_is_given_up_by_itself() {
    let silent = Silent::new().await;
    let (waited, error) = waited_in_vain(&format!("tcp:{}", silent.address)).await;
    assert_eq!(waited, 30, "{error}");
    assert!(error.to_string().contains("Connection timed out"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let text = format!("unix-listen:{},backlog=1,fork", path.display());
    let _server = listener(&text).await.unwrap();
    let text = format!("unix:{}", path.display());
    let _queued = [one(&text).await.unwrap(), one(&text).await.unwrap()];
    let (waited, error) = waited_in_vain(&text).await;
    assert_eq!(waited, 30, "{error}");
    assert!(error.hint().unwrap().contains("its queue is full"), "{error}");
}

/// A client that is accepted, and hears nothing.
#[tokio::test]
async fn a_peer_that_says_nothing_in_a_handshake_is_given_up_by_itself() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = mute.local_addr().unwrap();
    for (text, expected) in [
        (format!("socks5:{place}:example.org:80"), 60),
        (format!("http-connect:{place}:example.org:80"), 60),
        #[cfg(feature = "tls")]
        (format!("tls:{place},verify=0"), 10),
    ] {
        let (waited, error) = waited_in_vain(&text).await;
        assert_eq!(waited, expected, "{text}: {error}");
    }
}

#[test]
fn a_refused_udp_peer_does_not_fail_the_opening() {
    // Connected to itself, it hears nobody else, and the port is taken.
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = deaf.local_addr().unwrap();
    deaf.connect(place).unwrap();
    run(one(&format!("udp:{place}"))).unwrap();
}

/// Runs `work` in a network of its own, which has no interface that is up; `None` without the right
/// to make one.
fn without_a_network(work: impl AsyncFnOnce() -> OpenError + Send + 'static) -> Option<OpenError> {
    let thread = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).ok()?;
        Some(run(work()))
    });
    let error = thread.join().unwrap();
    if error.is_none() {
        skipped("making a network namespace takes root");
    }
    error
}

#[test]
fn an_unreachable_network_is_reported() {
    let Some(error) = without_a_network(async || {
        one("tcp:192.0.2.1:80,retry=1,interval=10ms").await.unwrap_err()
    }) else {
        return;
    };
    assert_eq!(
        error.to_string(),
        "tcp:192.0.2.1:80: connect to 192.0.2.1:80: Network is unreachable"
    );
    assert!(error.passes() && error.hint().unwrap().contains("no route"), "{error}");
}

/// The kernel gives a socket that connects the only local port there is, which is the one that it
/// connects to.
#[test]
fn a_socket_connected_to_itself_has_no_server() {
    if std::process::Command::new("ip").arg("-V").output().is_err() {
        return skipped("iproute2 is missing");
    }
    for kind in ["tcp", "udp"] {
        let error = without_a_network(async move || {
            let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
            assert!(up.unwrap().success());
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40000").unwrap();
            one(&format!("{kind}:127.0.0.1:40000,retry=2,interval=10ms")).await.unwrap_err()
        });
        let Some(error) = error else { return };
        assert!(error.passes() && error.to_string().ends_with("Connection refused"), "{error}");
    }
}

#[test]
fn a_socket_is_connected_to_itself_if_its_address_says_so() {
    let reserved = gush_test::Port::reserve();
    let place = reserved.place();
    for address in [format!("tcp:{place},reuseaddr"), format!("udp:{place}")] {
        run(one(&format!("{address},bind={place}"))).unwrap();
    }
}

#[test]
fn a_name_that_cannot_be_resolved_is_reported() {
    let text = "tcp:no-such-host.invalid:80";
    let Some(error) = without_a_network(async move || one(text).await.unwrap_err()) else {
        return;
    };
    assert!(
        error
            .to_string()
            .starts_with("tcp:no-such-host.invalid:80: resolve no-such-host.invalid: "),
        "{error}"
    );
    assert!(error.passes() && error.hint().is_some(), "{error}");
}

#[test]
fn a_low_port_is_for_root() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() <= 1 {
        return gush_test::not_applicable(
            "ip_unprivileged_port_start: all ports are for everybody",
        );
    }
    gush_test::without_privilege(|| {
        let error = run(listener("tcp-listen:127.0.0.1:1")).unwrap_err();
        assert!(error.hint().unwrap().contains("below 1024"), "{error}");
    });
}
