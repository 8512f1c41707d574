//! Parting from a socket, or from the stream over one: all that was sent has arrived, or the socket
//! is reset.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{Peer, Wire, numbered, pair, run};
use crate::forwards::forwards;
use crate::halting::Halting;
use crate::streams::Over;
use gush_net::{Conduit, Direction, Facts, Layer, LingerTimeouts, Relay, RelayOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Two sockets in one end: a sender on one must not take the connection for ended because the other
/// failed.
#[test]
fn both_sockets_of_an_end_are_reset() {
    run(async {
        let end = |socket| Conduit::new(OwnedFd::from(socket)).expect("an end");
        // As descriptors, and as streams over them.
        for wrap in [std::convert::identity, |end: Conduit| Conduit::of_layer(Over(end))] {
            let ((source, sender), (target, receiver)) = (pair(Wire::Tcp), pair(Wire::Tcp));
            let joined = Conduit::joined(wrap(end(source)), wrap(end(target)));
            joined.reset_on_close();
            drop(joined);
            for (far, name) in [(sender, "the sender"), (receiver, "the receiver")] {
                let cut = end(far).read(&mut [0]).await.expect_err("a reset");
                assert_eq!(cut.kind(), ErrorKind::ConnectionReset, "{name}");
            }
        }
    });
}

/// Another process has a copy, as after a handover that failed, or one that went well.
#[test]
fn a_shared_conduit_ends_its_connection_and_one_that_was_given_away_does_not() {
    run(async {
        for (is_shared, resets) in [(true, false), (true, true), (false, false)] {
            let (near, far) = pair(Wire::Tcp);
            let near = OwnedFd::from(near);
            let copy = near.try_clone().expect("a copy");
            let conduit = Conduit::new(near).expect("an end");
            conduit.set_shared(true);
            conduit.set_shared(is_shared);
            if resets {
                conduit.reset_on_close();
            }
            drop(conduit);
            if !is_shared {
                Conduit::new(copy).expect("an end").write_all(b"on").await.expect("open");
            }
            let mut heard = Vec::new();
            let mut far = Conduit::new(far.into()).expect("an end");
            match far.read_to_end(&mut heard).await {
                Ok(_) => assert_eq!((heard.is_empty(), resets), (is_shared, false)),
                Err(error) => assert!(resets && error.kind() == ErrorKind::ConnectionReset),
            }
        }
    });
}

/// A layer that has its own message for the end: the peer has all data though it never acknowledges
/// that word.
#[test]
fn what_says_the_end_of_a_layer_is_no_data_that_has_not_arrived() {
    struct Worded(Conduit, u64);
    impl AsyncRead for Worded {
        forwards!(poll_read);
    }
    impl AsyncWrite for Worded {
        forwards!(poll_write, poll_flush);

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let written = std::task::ready!(Pin::new(&mut self.0).poll_write(cx, b"good bye"))?;
            self.1 = written as u64;
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }
    impl Layer for Worded {
        fn facts(&self) -> Facts<'_> {
            Facts { end_bytes: self.1, ..self.0.facts() }
        }
    }
    run(async {
        for (data_bytes, arrives) in [(0, true), (5, false)] {
            let (near, far) = pair(Wire::Tcp);
            let near = Conduit::new(near.into()).expect("an end");
            let mut near = Conduit::of_layer(Worded(near, 0));
            // The peer has closed: it answers what comes by a reset, and acknowledges none of it.
            drop(far);
            near.write_all(numbered(0, data_bytes)).await.expect("room");
            // The reset of the data may have come already.
            let _ = near.shutdown().await;
            let patience = LingerTimeouts::of(Some(Duration::from_millis(100)));
            let seen_off = near.linger(true, patience).await;
            assert_eq!(seen_off.is_ok(), arrives, "{data_bytes} bytes: {seen_off:?}");
        }
    });
}

/// The socket under a stream has bytes nobody has read: a close would reset the connection before
/// the last bytes are sent.
#[test]
fn a_stream_over_a_socket_is_seen_off_through_the_stream() {
    run(async {
        let (near, far) = pair(Wire::Tcp);
        let conduit = Conduit::new(near.into()).expect("an end");
        let stream = Halting::keeping(conduit, 3000, 16 << 10);
        let mut near = Conduit::of_stream(stream);
        assert!(near.facts().socket.is_none());
        let far = OwnedFd::from(far);
        let mut far = Conduit::new(far).expect("an end");

        far.write_all(b"nobody wants this").await.expect("room");
        near.write_all(b"the last bytes").await.expect("room");
        near.flush().await.expect("room");
        near.shutdown().await.expect("open");
        let patience = LingerTimeouts::of(Some(Duration::from_secs(60)));
        let (seen_off, heard) = tokio::join!(near.linger(false, patience), async {
            let mut heard = String::new();
            far.read_to_string(&mut heard).await.expect("no reset");
            far.shutdown().await.expect("open");
            heard
        });
        seen_off.expect("all has arrived");
        assert_eq!(heard, "the last bytes");
    });
}

#[test]
fn a_stream_that_names_its_socket_is_parted_from_like_the_socket() {
    run(async {
        let (near, far) = pair(Wire::Tcp);
        let conduit = Conduit::new(near.into()).expect("an end");
        // The reader does nothing: the kernel on the other side acknowledges what it has room for.
        let mut near = Conduit::of_layer(Over(conduit));
        assert!(near.read_fd().is_none() && near.write_fd().is_none());
        near.write_all(numbered(0, 50_000)).await.expect("room");
        near.arrived(Duration::from_secs(60)).await;
        let socket = near.facts().socket.expect("a socket");
        assert_eq!(gush::unacknowledged_bytes(&socket).expect("a socket"), 0);

        // More than the two sockets hold is never acknowledged, and a patience of nothing says so.
        let piece = vec![7; 256 << 10];
        let mut full = false;
        while !full {
            let written = tokio::time::timeout(Duration::from_millis(50), near.write_all(&piece));
            full = written.await.is_err();
        }
        let late = near.linger(true, LingerTimeouts::none()).await.expect_err("unread bytes");
        assert!(matches!(late, gush_net::LingerError::Late(_)), "{late}");

        near.reset_on_close();
        drop(near);
        let mut far = Conduit::new(far.into()).expect("an end");
        let cut = tokio::io::copy(&mut far, &mut tokio::io::sink()).await.expect_err("a reset");
        assert_eq!(cut.kind(), ErrorKind::ConnectionReset);
    });
}

/// The clock stands still, and goes to the next timer when there is nothing else to do.
#[tokio::test]
async fn by_default_a_peer_has_half_a_minute_to_acknowledge_and_a_second_to_end() {
    for (is_read, seconds) in [(false, 30), (true, 1)] {
        let (near, mut far) = pair(Wire::Tcp);
        let mut near = Conduit::new(near.into()).expect("an end");
        let piece = vec![7; 256 << 10];
        if !is_read {
            let filled = tokio::time::timeout(Duration::from_millis(50), async {
                while near.write(&piece).await.is_ok() {}
            });
            filled.await.expect_err("the peer reads nothing");
        }
        near.shutdown().await.expect("open");
        let reader = std::thread::spawn(move || {
            // Its own end never comes.
            is_read.then(|| io::Read::read_to_end(&mut far, &mut Vec::new()).expect("open"));
            far
        });
        let far = reader.join().expect("no panic");
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let seen_off = near.linger(false, LingerTimeouts::of(None)).await;
        let waited = began.elapsed();
        tokio::time::resume();
        assert_eq!(waited.as_secs(), seconds, "{seen_off:?}");
        assert_eq!(
            matches!(seen_off, Err(gush_net::LingerError::Late(1..))),
            !is_read,
            "{seen_off:?}"
        );
        assert_eq!(seen_off.is_ok(), is_read);
        drop(far);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_on_sending_has_half_a_minute() {
    // A Unix socket has the bytes at once: the clock does not run ahead of them.
    let (near, mut far) = pair(Wire::Unix);
    let mut near = Conduit::new(near.into()).expect("an end");
    near.shutdown().await.expect("open");
    let sends = async {
        loop {
            tokio::time::sleep(Duration::from_millis(250)).await;
            far.write_all(b"more").expect("room");
        }
    };
    let began = tokio::time::Instant::now();
    tokio::select! {
        seen_off = near.linger(false, LingerTimeouts::of(None)) => seen_off.expect("all arrived"),
        () = sends => {}
    }
    assert_eq!(began.elapsed().as_secs(), 30);
}

/// A socket that was reset keeps the count of bytes that nobody will acknowledge any more.
#[test]
fn nobody_waits_for_what_a_reset_socket_has_sent() {
    run(async {
        let (near, far) = pair(Wire::Tcp);
        let mut near = Conduit::new(near.into()).expect("an end");
        let piece = vec![7; 256 << 10];
        let written = tokio::time::timeout(Duration::from_millis(50), async {
            while near.write_all(&piece).await.is_ok() {}
        });
        written.await.expect_err("the peer reads nothing");
        far.reset();
        // As a relay's write or read does, this takes the error (SO_ERROR).
        while near.write(&piece).await.is_ok() {}
        let unacknowledged = gush::unacknowledged_bytes(&near.facts().socket.expect("a socket"));
        assert!(unacknowledged.expect("a socket") > 0);
        let day = Duration::from_secs(24 * 60 * 60);
        near.arrived(day).await;
        let seen_off = near.linger(true, LingerTimeouts::of(Some(day))).await;
        assert!(matches!(seen_off, Err(gush_net::LingerError::Failed(_))), "{seen_off:?}");
    });
}

/// Relays with the last end left to close(2): the client has ended before, so that the last end is
/// the one that goes to the client.
async fn relayed_to_the_last_end(
    wire: Wire,
    change: impl FnOnce(&mut Relay),
) -> ([Conduit; 2], Peer) {
    let ((client, a), (b, mut server)) = (pair(wire), pair(wire));
    let end = |socket: Peer| {
        let socket = OwnedFd::from(socket);
        rustix::io::ioctl_fionbio(&socket, true).expect("a socket");
        match wire {
            Wire::Tcp => Conduit::of_accepted_tcp(socket),
            Wire::Unix => Conduit::of_stream_socket(socket),
        }
    };
    let (mut a, mut b) = (end(a), end(b));
    client.finish();
    server.write_all(b"answer").expect("room");
    server.finish();
    let mut relay = Relay::new(&RelayOptions { close_sends_last_fin: true, ..RelayOptions::new() });
    change(&mut relay);
    relay.run(&mut a, &mut b).await.expect("both have ended");
    ([a, b], client)
}

/// Has the peer got an end after the answer? On one machine everything that was sent has come.
fn has_end(peer: &Peer) -> bool {
    use rustix::net::{RecvFlags, recv};
    let mut room = [0; 64];
    let got = recv(peer, &mut room[..], RecvFlags::DONTWAIT).expect("the answer").0;
    assert_eq!(&room[..got], b"answer");
    recv(peer, &mut room[..], RecvFlags::DONTWAIT).is_ok_and(|(got, _)| got == 0)
}

#[test]
fn the_last_end_is_said_by_the_close_that_it_is_left_to() {
    run(async {
        let ([a, b], mut client) = relayed_to_the_last_end(Wire::Tcp, |_| ()).await;
        assert!(!has_end(&client), "shutdown(2) was called for nothing");
        assert!(!a.needs_linger(true) && !b.needs_linger(true));
        drop((a, b));
        assert_eq!(client.read(&mut [0]).expect("an end, and no reset"), 0);
    });
}

#[test]
fn seeing_off_says_the_end_that_was_left_to_the_close() {
    run(async {
        let ([mut a, _b], mut client) = relayed_to_the_last_end(Wire::Tcp, |_| ()).await;
        assert!(!has_end(&client));
        a.linger(true, LingerTimeouts::of(None)).await.expect("it has arrived");
        // The conduit is open still.
        assert_eq!(client.read(&mut [0]).expect("an end"), 0);
    });
}

/// A close with unread bytes would be a reset, and on other sockets than those of TCP nothing is
/// known to be saved.
#[test]
fn no_end_is_left_to_the_close_of_a_socket_that_was_not_read_to_its_end() {
    run(async {
        let abandon = |relay: &mut Relay| relay.abandon(Direction::Forward);
        let ([_a, _b], client) = relayed_to_the_last_end(Wire::Tcp, abandon).await;
        assert!(has_end(&client), "abandoned");
        let end = |relay: &mut Relay| relay.end(Direction::Forward);
        let ([_a, _b], client) = relayed_to_the_last_end(Wire::Tcp, end).await;
        assert!(has_end(&client), "taken for ended");
        let ([_a, _b], client) = relayed_to_the_last_end(Wire::Unix, |_| ()).await;
        assert!(has_end(&client), "a Unix socket");
    });
}

/// What is read there ends, and says nothing of the peer that is written to: bytes of that one may
/// still come, or be there.
#[test]
fn no_end_is_left_to_the_close_of_a_socket_that_nobody_reads() {
    run(async {
        let ((mut client, a), (b, server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
        let end = |socket: Peer| {
            let socket = OwnedFd::from(socket);
            rustix::io::ioctl_fionbio(&socket, true).expect("a socket");
            Conduit::of_accepted_tcp(socket)
        };
        let nothing = std::fs::File::open("/dev/null").expect("a device");
        let nothing = Conduit::new(nothing.into()).expect("an end");
        let (mut a, mut b) = (end(a), Conduit::joined(nothing, end(b)));
        client.write_all(b"answer").expect("room");
        let mut relay =
            Relay::new(&RelayOptions { close_sends_last_fin: true, ..RelayOptions::new() });
        let client = async {
            use rustix::net::{RecvFlags, recv};
            // The other direction has ended by then.
            while recv(&client, &mut [0; 1][..], RecvFlags::DONTWAIT).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            client.finish();
            client
        };
        let (relayed, _client) = tokio::join!(relay.run(&mut a, &mut b), client);
        relayed.expect("both have ended");
        assert!(has_end(&server));
    });
}

/// Bytes that nobody acknowledges: closing at once would leave them to luck.
#[test]
fn what_has_not_arrived_is_not_seen_off() {
    run(async {
        let ([a, _b], client) = relayed_to_the_last_end(Wire::Tcp, |_| ()).await;
        let mut a = a;
        let piece = [0; 64 << 10];
        let full = |end: &Conduit| {
            let fd = end.write_fd().expect("a socket");
            let flags = rustix::net::SendFlags::DONTWAIT;
            while rustix::net::send(fd, &piece, flags).is_ok() {}
        };
        full(&a);
        assert!(a.needs_linger(true));
        let patience = LingerTimeouts::of(Some(Duration::from_millis(50)));
        a.linger(true, patience).await.expect_err("nobody reads");
        drop(client);
    });
}

#[test]
fn a_byte_that_has_not_arrived_is_not_taken_for_an_end_that_is_owed() {
    use rustix::net::{SendFlags, send};
    run(async {
        loop {
            let ([a, _b], _client) = relayed_to_the_last_end(Wire::Tcp, |_| ()).await;
            a.arrived(Duration::from_secs(60)).await;
            let fd = a.write_fd().expect("a socket");
            // The kernel keeps it back for 200 ms.
            send(fd, b"x", SendFlags::MORE).expect("room");
            let needs_linger = a.needs_linger(true);
            if gush::unacknowledged_bytes(&fd).expect("a socket") == 1 {
                return assert!(needs_linger);
            }
        }
    });
}
