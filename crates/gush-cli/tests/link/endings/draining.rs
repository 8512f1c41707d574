//! How links end at a signal: those that serve many clients drain.

use std::fs::File;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{FORK, ONCE, Seen, accept, listener, seen};
use crate::common::link::{Running, eventually};
use crate::common::noise;

#[test]
fn a_link_that_serves_one_peer_ends_at_the_first_sigterm() {
    for (listen, other) in [("udp-listen:127.0.0.1:0", "-"), (ONCE, "pipe:")] {
        for is_connected in [false, true] {
            let link = Running::start(&[listen, other]);
            let place = link.place();
            let client = is_connected.then(|| match listen == ONCE {
                true => drop_later(link.client()),
                false => {
                    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                    client.send_to(b"one", place).unwrap();
                    drop_later(client)
                }
            });
            if is_connected {
                link.says("connected");
            }
            link.signal(Signal::TERM);
            let (status, _, said) = link.finish();
            assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{listen}: {said}");
            drop(client);
        }
    }
}

fn drop_later<T: 'static>(kept: T) -> Box<dyn std::any::Any> {
    Box::new(kept)
}

#[test]
fn draining_ends_in_time_and_says_how_many_it_cut() {
    let (listener, target) = listener();
    let link = Running::start(&["--drain", "0.3", "--json", FORK, &target]);
    let mut clients: Vec<_> = (0..2).map(|_| link.client()).collect();
    let mut served: Vec<_> = (0..2).map(|_| accept(&listener)).collect();
    link.says_times("connected", 2);
    link.signal(Signal::TERM);
    for stream in clients.iter_mut().chain(&mut served) {
        assert_eq!(seen(stream), Seen::Reset(0));
    }
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("2 connections were cut"), "{said}");
    assert_eq!(said.matches("\"ended\":\"interrupted\"").count(), 2, "{said}");
}

/// Whoever came before the signal is served if there is somebody in time, and counted if not.
#[test]
fn draining_does_not_cancel_opens() {
    let dir = TempDir::new().unwrap();
    let back = dir.path().join("back");
    let other = format!("unix:{},retry=forever,interval=0.05", back.display());
    let link = Running::start(&["--drain", "1h", "--json", FORK, &other]);
    let mut client = link.client();
    link.says("trying again");
    link.signal(Signal::TERM);
    link.says("draining");
    let served = UnixListener::bind(&back).unwrap();
    served.accept().unwrap().0.write_all(b"served").unwrap();
    assert_eq!(seen(&mut client), Seen::End(6));
    drop(client);
    assert_eq!(link.finish().0.code(), Some(0));

    let link = Running::start(&["--drain", "0.3", "--json", FORK, "unix:/no/such,retry=forever"]);
    let mut client = link.client();
    link.says("trying again");
    link.signal(Signal::TERM);
    assert_eq!(seen(&mut client), Seen::Reset(0));
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("1 connection was cut"), "{said}");
}

/// Datagrams say no end: a link that drains waits for no silence of a minute.
#[test]
fn draining_ends_senders_of_datagrams_that_rest() {
    let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = format!("udp:{}", echo.local_addr().unwrap());
    let link = Running::start(&["--drain", "1h", "--json", "udp-listen:127.0.0.1:0,fork", &other]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"question", link.place()).unwrap();
    echo.recv_from(&mut [0; 8]).unwrap();
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("\"ended\":\"idle\""), "{said}");
}

/// The rate limit makes a pause of 2 s after the first datagram, and a copy without room one as
/// long as nobody reads the copy.
#[test]
fn a_pause_of_the_links_own_is_no_rest_of_datagrams_while_it_drains() {
    let (server, other) = listener();
    let listen = "udp-listen:127.0.0.1:0,fork";
    let link = Running::start(&["--drain", "1h", "--limit", "20K", "--json", listen, &other]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(link.place()).unwrap();
    for bytes in [40_000, 20_000] {
        client.send(&vec![b'x'; bytes]).unwrap();
    }
    let mut stream = accept(&server);
    stream.read_exact(&mut [0]).unwrap();
    link.signal(Signal::TERM);
    assert_eq!(seen(&mut stream), Seen::End(59_999));
    drop(stream);
    assert_eq!(link.finish().0.code(), Some(0));

    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut copy = File::options().read(true).write(true).open(&fifo).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = format!("udp:{}", receiver.local_addr().unwrap());
    let tee = fifo.display().to_string();
    let link = Running::start(&["--drain", "1h", "--tee", &tee, "--json", FORK, &other]);
    let (mut client, sent) = (link.client(), 4 << 20);
    let sending = thread::spawn(move || {
        client.write_all(&noise(sent, 7)).unwrap();
        client
    });
    eventually("the FIFO is full", || {
        rustix::io::ioctl_fionread(&copy).is_ok_and(|bytes| bytes >= 60 << 10)
    });
    link.signal(Signal::TERM);
    link.says("draining");
    thread::sleep(Duration::from_millis(1500));
    let mut copied = vec![0; sent];
    copy.read_exact(&mut copied).unwrap();
    assert!(copied == noise(sent, 7));
    drop(sending.join().unwrap());
    assert_eq!(link.finish().0.code(), Some(0));
}
