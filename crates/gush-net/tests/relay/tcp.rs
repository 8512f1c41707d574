//! TCP sockets that are known for such: no call is made in vain, and none that is due is left out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::thread;

use crate::common::{Peer, Wire, pair, run};
use gush_net::{Conduit, Direction, Relay, RelayOptions, Totals};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendFlags, sockopt};
use tokio::io::AsyncReadExt;

fn nonblocking(peer: Peer) -> OwnedFd {
    rustix::io::ioctl_fionbio(&peer, true).expect("a socket");
    peer.into()
}

/// A relay between an accepted socket and one that was connected.
async fn relayed(near: Peer, far: Peer) -> Totals {
    let mut a = Conduit::of_accepted_tcp(nonblocking(near));
    let mut b = Conduit::of_connected_tcp(nonblocking(far));
    Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await.expect("no failure")
}

/// A read ends at an urgent byte, with fewer bytes than it asked for, and the bytes after it cause
/// no edge of their own.
#[test]
fn bytes_after_an_urgent_one_are_not_waited_for() {
    for in_line in [false, true] {
        for before in [0, 1, 100] {
            let ((mut client, near), (far, server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
            sockopt::set_socket_oobinline(&near, in_line).expect("SO_OOBINLINE");
            // All of it is there before the relay begins.
            client.write_all(&vec![b'a'; before]).expect("room");
            assert_eq!(rustix::net::send(&client, b"!", SendFlags::OOB), Ok(1));
            client.write_all(b"beyond").expect("room");
            let heard = run(async move {
                let Peer::Tcp(server) = server else { unreachable!("a pair of TCP") };
                server.set_nonblocking(true).expect("a socket");
                let mut server = tokio::net::TcpStream::from_std(server).expect("registered");
                let talk = async {
                    let mut heard = vec![0; before + usize::from(in_line) + 6];
                    server.read_exact(&mut heard).await.expect("all of it");
                    // The relay waits, and learns of these together: nobody else runs on this
                    // thread meanwhile.
                    client.write_all(b"and").expect("room");
                    assert_eq!(rustix::net::send(&client, b"?", SendFlags::OOB), Ok(1));
                    client.write_all(b"after").expect("room");
                    let mut more = vec![0; 8 + usize::from(in_line)];
                    server.read_exact(&mut more).await.expect("what follows, too");
                    client.finish();
                    assert_eq!(server.read(&mut [0]).await.expect("no failure"), 0);
                    drop(server);
                    heard.append(&mut more);
                    String::from_utf8(heard).expect("a text")
                };
                tokio::join!(relayed(near, far), talk).1
            });
            let marks = if in_line { ["!", "?"] } else { ["", ""] };
            let before = "a".repeat(before);
            assert_eq!(heard, format!("{before}{}beyondand{}after", marks[0], marks[1]));
        }
    }
}

/// Whoever speaks first, and however late, is heard: the first call is made without a notice of
/// readiness.
#[test]
fn the_first_words_of_either_side_are_heard_early_or_late() {
    for first in Direction::ALL {
        for late in [false, true] {
            let ((client, near), (far, server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
            let (mut speaker, mut hearer) = match first {
                Direction::Forward => (client, server),
                Direction::Back => (server, client),
            };
            let (begun, begins) = std::sync::mpsc::channel();
            if !late {
                speaker.write_all(b"first words").expect("room");
            }
            let talk = thread::spawn(move || {
                begins.recv().expect("the relay begins");
                if late {
                    // Long enough for the relay to wait.
                    thread::sleep(std::time::Duration::from_millis(20));
                    speaker.write_all(b"first words").expect("room");
                }
                let mut heard = [0; 11];
                hearer.read_exact(&mut heard).expect("all of it");
                hearer.write_all(&heard).expect("room");
                speaker.read_exact(&mut heard).expect("the echo");
                for peer in [&speaker, &hearer] {
                    peer.finish();
                }
                heard
            });
            let totals = run(async {
                begun.send(()).expect("it listens");
                relayed(near, far).await
            });
            assert_eq!(&talk.join().expect("no panic"), b"first words");
            assert_eq!((totals.forward.bytes, totals.back.bytes), (11, 11), "{first:?} {late}");
        }
    }
}

/// An end of data that comes together with bytes, or right after them, is seen.
#[test]
fn an_end_right_after_short_bytes_is_passed_on() {
    for round in 0..200 {
        let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
        let talk = thread::spawn(move || {
            client.write_all(b"question").expect("room");
            if round % 2 == 0 {
                thread::yield_now();
            }
            client.finish();
            let mut heard = String::new();
            server.read_to_string(&mut heard).expect("the end");
            server.write_all(b"answer").expect("room");
            drop(server);
            client.read_to_string(&mut heard).expect("the end");
            heard
        });
        run(relayed(near, far));
        assert_eq!(talk.join().expect("no panic"), "questionanswer");
    }
}

/// How many segments the kernel has received for a TCP socket, as ss(8) of iproute2 prints.
fn segments_received(socket: &TcpStream) -> Option<u64> {
    let port = socket.local_addr().expect("an address").port();
    let output = Command::new("ss").args(["-tinH", &format!("sport = :{port}")]).output().ok()?;
    let output = String::from_utf8(output.stdout).expect("a text");
    // The program may be another one of this name, or too old.
    let count = output.split_whitespace().find_map(|word| word.strip_prefix("segs_in:"))?;
    Some(count.parse().expect("a number"))
}

/// The last words and the end after them are one packet, and one wake-up for the receiver.
#[test]
fn an_end_that_has_come_leaves_with_the_last_bytes() {
    let ((client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let Peer::Tcp(mut client) = client else { unreachable!("a pair of TCP") };
    let Some(before) = segments_received(&client) else {
        return gush_test::skipped("ss of iproute2 prints no segments");
    };
    // Both are there before the relay begins.
    server.write_all(b"last words").expect("room");
    server.finish();
    let totals = run(async {
        let mut a = Conduit::of_accepted_tcp(nonblocking(near)).write_only();
        let mut b = Conduit::of_connected_tcp(nonblocking(far)).read_only();
        let totals =
            Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await.expect("no failure");
        assert_eq!(segments_received(&client), Some(before + 1));
        totals
    });
    let mut heard = String::new();
    client.read_to_string(&mut heard).expect("the end");
    assert_eq!((heard.as_str(), totals.back.bytes), ("last words", 10));
}

/// A reset ends the source, too, and no end follows that would send the bytes before it.
#[test]
fn last_bytes_before_a_reset_wait_for_no_end() {
    let ((client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let Peer::Tcp(client) = client else { unreachable!("a pair of TCP") };
    let Some(before) = segments_received(&client) else {
        return gush_test::skipped("ss of iproute2 prints no segments");
    };
    let (near, far) = (nonblocking(near), nonblocking(far));
    let asked = near.try_clone().expect("a descriptor");
    sockopt::set_tcp_nodelay(&asked, false).expect("TCP_NODELAY");
    server.write_all(b"last words").expect("room");
    sockopt::set_socket_linger(&server, Some(std::time::Duration::ZERO)).expect("SO_LINGER");
    drop(server);
    let mut reset = [PollFd::new(&far, PollFlags::empty())];
    rustix::event::poll(&mut reset, None).expect("the reset comes");
    run(async {
        let mut a = Conduit::of_accepted_tcp(near).write_only();
        let mut b = Conduit::of_connected_tcp(far).read_only();
        let error =
            Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await.expect_err("a reset");
        assert_eq!(error.passed(Direction::Back).bytes, 10);
        assert_eq!(segments_received(&client), Some(before + 1), "{error}");
        assert_eq!(sockopt::tcp_nodelay(&asked), Ok(false));
    });
}

/// With a rate limit the end comes later than the bytes, which wait for nothing.
#[test]
fn last_bytes_wait_for_no_end_that_a_rate_limit_holds_back() {
    let ((client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let Peer::Tcp(client) = client else { unreachable!("a pair of TCP") };
    let Some(before) = segments_received(&client) else {
        return gush_test::skipped("ss of iproute2 prints no segments");
    };
    server.write_all(b"last words").expect("room");
    server.finish();
    run(async {
        let mut a = Conduit::of_accepted_tcp(nonblocking(near)).write_only();
        let mut b = Conduit::of_connected_tcp(nonblocking(far)).read_only();
        let limit = gush::Rate::bytes_per_second(1 << 20).expect("a rate");
        Relay::new(&RelayOptions { limit: Some(limit), ..RelayOptions::new() })
            .run(&mut a, &mut b)
            .await
            .expect("no failure");
        assert_eq!(segments_received(&client), Some(before + 2));
    });
}

/// A layer above TCP in the kernel, such as TLS, keeps bytes that wait for more in a record of its
/// own, which a shutdown does not send: only a socket that is known to have none gets its last
/// bytes so.
#[test]
fn last_bytes_for_a_socket_that_may_have_a_layer_wait_for_no_end() {
    let ((client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let Peer::Tcp(client) = client else { unreachable!("a pair of TCP") };
    let Some(before) = segments_received(&client) else {
        return gush_test::skipped("ss of iproute2 prints no segments");
    };
    server.write_all(b"last words").expect("room");
    server.finish();
    run(async {
        let mut a = Conduit::of_stream_socket(nonblocking(near)).write_only();
        let mut b = Conduit::of_connected_tcp(nonblocking(far)).read_only();
        Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await.expect("no failure");
        assert_eq!(segments_received(&client), Some(before + 2));
    });
}
