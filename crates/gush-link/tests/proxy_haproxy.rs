//! The PROXY protocol with HAProxy at the other end, which invented it.

mod open_common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gush_link::open::Peer;
use gush_link::proxy::{Header, Version, accept, send};
use open_common::{listener, one, run, skipped, socket_of, talk, until};

/// HAProxy with these lines of configuration; ends with the test.
struct Haproxy(Child);

impl Haproxy {
    fn start(dir: &std::path::Path, lines: &str, places: &[SocketAddrV4]) -> Option<Self> {
        let file = dir.join("haproxy.cfg");
        let defaults = "global\n maxconn 64\ndefaults\n timeout connect 20s\n timeout client 20s\n timeout server 20s\n";
        std::fs::write(&file, format!("{defaults}{lines}")).unwrap();
        let mut command = Command::new("haproxy");
        command
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                let haproxy = Self(child);
                let listens = |place: &SocketAddrV4| TcpStream::connect(place).is_ok();
                until(|| places.iter().all(listens), "HAProxy does not listen");
                Some(haproxy)
            }
            Err(error) => {
                skipped(&format!("haproxy: {error}"));
                None
            }
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A free place for HAProxy, which cannot be asked which one it took, on an address of loopback
/// that is this call's alone: nobody else takes its port meanwhile.
fn free_place() -> SocketAddrV4 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // The number of a process has 22 bits at most (proc_sys_kernel(5)), an address of loopback 24.
    let number = std::process::id() << 2 | CALLS.fetch_add(1, Ordering::Relaxed) & 3;
    let address =
        Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) & 0xff00_0000 | number & 0x00ff_ffff);
    let listener = TcpListener::bind((address, 0)).unwrap();
    SocketAddrV4::new(address, listener.local_addr().unwrap().port())
}

#[test]
fn what_haproxy_sends_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,fork").await.unwrap();
        let to = socket_of(&server);
        let (v1, v2) = (free_place(), free_place());
        let part = |place: SocketAddrV4, word| {
            format!("listen p{place}\n mode tcp\n bind {place}\n server s {to} {word}\n")
        };
        let lines =
            part(v1, "send-proxy") + &part(v2, "send-proxy-v2 proxy-v2-options unique-id,crc32c");
        let Some(_haproxy) = Haproxy::start(dir.path(), &lines, &[]) else {
            return;
        };
        for place in [v1, v2] {
            let mut client = tokio::task::spawn_blocking(move || {
                loop {
                    match TcpStream::connect(place) {
                        Ok(client) => break client,
                        Err(_) => std::thread::sleep(Duration::from_millis(5)),
                    }
                }
            })
            .await
            .unwrap();
            client.write_all(b"after the header").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut served = server.accept().await.unwrap();
            let fd = served.conduit.read_fd().unwrap();
            let header = accept(fd, Duration::from_secs(20)).await.unwrap();
            assert_eq!(header.source, Some(Peer::Ip(client.local_addr().unwrap())));
            assert_eq!(header.destination, Some(Peer::Ip(client.peer_addr().unwrap())));
            assert_eq!(talk(&mut served.conduit, b"").await, b"after the header");
        }
    });
}

#[test]
fn haproxy_understands_what_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let place = free_place();
    let lines = format!(
        "frontend f\n mode http\n bind {place} accept-proxy\n \
         http-request return status 200 content-type text/plain lf-string \"client %[src]:%[src_port] to %[dst]:%[dst_port]\"\n"
    );
    let Some(_haproxy) = Haproxy::start(dir.path(), &lines, &[place]) else {
        return;
    };
    let cases = [("192.0.2.1:4000", "192.0.2.9:80"), ("[2001:db8::1]:4000", "[2001:db8::9]:80")];
    for version in [Version::V1, Version::V2] {
        for (source, destination) in cases {
            let header = Header::new(
                Some(Peer::Ip(source.parse().unwrap())),
                Some(Peer::Ip(destination.parse().unwrap())),
            );
            let answer = run(async {
                let mut end = one(&format!("tcp:{place}")).await.unwrap();
                send(end.conduit.write_fd().unwrap(), &header, version).await.unwrap();
                talk(&mut end.conduit, b"GET / HTTP/1.0\r\n\r\n").await
            });
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let reported = format!("client {source} to {destination}").replace(['[', ']'], "");
            assert!(answer.ends_with(&reported), "{version:?}: {answer}");
        }
    }
    // Not even HAProxy takes a connection without one.
    let mut bare = TcpStream::connect(place).unwrap();
    bare.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = bare.read_to_string(&mut answer);
    assert!(!answer.contains("client"), "{answer}");
}
