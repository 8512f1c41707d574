//! The PROXY protocol with HAProxy at the other end, which invented it.

mod open_common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gush_net::open::Peer;
use gush_net::proxy::{Header, Version, accept, send};
use open_common::{listener, one, run, skipped, socket_of, talk, until};

/// HAProxy with these lines of configuration; ends with the test.
struct Haproxy(Child);

impl Haproxy {
    fn start(dir: &std::path::Path, lines: &str, ports: &[u16]) -> Option<Self> {
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
                let listens = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
                until(|| ports.iter().all(listens), "HAProxy does not listen");
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn what_haproxy_sends_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    run(async {
        let mut server = listener("tcp-listen:127.0.0.1:0,fork").await.unwrap();
        let to = socket_of(&server);
        let (v1, v2) = (free_port(), free_port());
        let part = |port, word| {
            format!("listen p{port}\n mode tcp\n bind 127.0.0.1:{port}\n server s {to} {word}\n")
        };
        let lines =
            part(v1, "send-proxy") + &part(v2, "send-proxy-v2 proxy-v2-options unique-id,crc32c");
        let Some(_haproxy) = Haproxy::start(dir.path(), &lines, &[]) else {
            return;
        };
        for port in [v1, v2] {
            let mut client = tokio::task::spawn_blocking(move || {
                loop {
                    match TcpStream::connect(("127.0.0.1", port)) {
                        Ok(client) => break client,
                        Err(_) => std::thread::sleep(Duration::from_millis(5)),
                    }
                }
            })
            .await
            .unwrap();
            client.write_all(b"behind the header").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut served = server.accept().await.unwrap();
            let fd = served.conduit.read_fd().unwrap();
            let header = accept(fd, Duration::from_secs(20)).await.unwrap();
            assert_eq!(header.source, Some(Peer::Ip(client.local_addr().unwrap())));
            assert_eq!(header.destination, Some(Peer::Ip(client.peer_addr().unwrap())));
            assert_eq!(talk(&mut served.conduit, b"").await, b"behind the header");
        }
    });
}

#[test]
fn haproxy_understands_what_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let lines = format!(
        "frontend f\n mode http\n bind 127.0.0.1:{port} accept-proxy\n \
         http-request return status 200 content-type text/plain lf-string \"client %[src]:%[src_port] to %[dst]:%[dst_port]\"\n"
    );
    let Some(_haproxy) = Haproxy::start(dir.path(), &lines, &[port]) else {
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
                let mut end = one(&format!("tcp:127.0.0.1:{port}")).await.unwrap();
                send(end.conduit.write_fd().unwrap(), &header, version).await.unwrap();
                talk(&mut end.conduit, b"GET / HTTP/1.0\r\n\r\n").await
            });
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let told = format!("client {source} to {destination}").replace(['[', ']'], "");
            assert!(answer.ends_with(&told), "{version:?}: {answer}");
        }
    }
    // Not even HAProxy takes a connection without one.
    let mut bare = TcpStream::connect(("127.0.0.1", port)).unwrap();
    bare.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = bare.read_to_string(&mut answer);
    assert!(!answer.contains("client"), "{answer}");
}
