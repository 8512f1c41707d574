//! An idle relay sleeps, whatever its ends are.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gush_net::{Conduit, Relay, RelayOptions};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::common::{Wire, pair, run};

/// More than a sleeping relay has, and far fewer than one that spins.
const FEW_POLLS: u32 = 4;

/// The peer's two sides of an end.
struct Far {
    write: File,
    read: File,
}

/// How an end is opened, once the runtime is there.
type Open = Box<dyn FnOnce() -> Conduit>;

type End = (Open, Far);

/// Lets both peers talk through a relay, and counts the polls of the relay's future while they are
/// silent.
fn polls_of_silence([(a, mut client), (b, mut server)]: [End; 2]) -> u32 {
    let polls = Arc::new(AtomicU32::new(0));
    let (silent, silence) = tokio::sync::oneshot::channel();
    let seen = Arc::clone(&polls);
    let peers = thread::spawn(move || {
        let mut heard = [0; 5];
        for _ in 0..3 {
            client.write.write_all(b"there").unwrap();
            server.read.read_exact(&mut heard).unwrap();
            server.write.write_all(b"again").unwrap();
            client.read.read_exact(&mut heard).unwrap();
        }
        // The relay has still to find out that there is no more.
        thread::sleep(Duration::from_millis(50));
        let before = seen.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(200));
        silent.send(seen.load(Ordering::Relaxed) - before).unwrap();
        (client, server)
    });
    let counted = run(async {
        let (mut a, mut b) = (a(), b());
        let options = RelayOptions::new();
        let mut relaying = pin!(async { Relay::new(&options).run(&mut a, &mut b).await });
        let relayed = poll_fn(|cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            relaying.as_mut().poll(cx)
        });
        tokio::select! {
            ended = relayed => panic!("the peers are there: {ended:?}"),
            counted = silence => counted.expect("no panic of the peers"),
        }
    });
    drop(peers.join().unwrap());
    counted
}

/// An end with one descriptor, whose peer has `far`.
fn end(near: OwnedFd, far: OwnedFd, open: fn(OwnedFd) -> Conduit) -> End {
    let read = far.try_clone().expect("a second descriptor").into();
    (Box::new(move || open(near)), Far { read, write: far.into() })
}

fn any(fd: OwnedFd) -> Conduit {
    Conduit::new(fd).expect("an end")
}

fn socket(wire: Wire, open: fn(OwnedFd) -> Conduit) -> End {
    let (far, near) = pair(wire);
    rustix::io::ioctl_fionbio(&near, true).expect("O_NONBLOCK");
    end(near.into(), far.into(), open)
}

fn stream(fd: OwnedFd) -> Conduit {
    Conduit::of_stream(tokio::net::UnixStream::from_std(fd.into()).expect("registered"))
}

fn pipes() -> End {
    let [(read, write), (far_read, far_write)] = [(); 2].map(|()| std::io::pipe().expect("a pipe"));
    let open = move || Conduit::of_two(read.into(), far_write.into()).expect("an end");
    let far = Far { write: OwnedFd::from(write).into(), read: OwnedFd::from(far_read).into() };
    (Box::new(open), far)
}

fn terminal() -> End {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let near = openpt(flags).expect("a terminal");
    grantpt(&near).expect("granted");
    unlockpt(&near).expect("unlocked");
    let far = ioctl_tiocgptpeer(&near, flags).expect("the other side");
    let mut raw = tcgetattr(&far).expect("settings");
    raw.make_raw();
    tcsetattr(&far, OptionalActions::Now, &raw).expect("raw");
    end(near, far, any)
}

fn datagrams() -> End {
    let (near, far) = UnixDatagram::pair().expect("a pair");
    end(near.into(), far.into(), any)
}

#[test]
fn an_idle_relay_sleeps() {
    type Kind = (&'static str, fn() -> End);
    let kinds: [Kind; 9] = [
        ("TCP", || socket(Wire::Tcp, any)),
        ("accepted TCP", || socket(Wire::Tcp, Conduit::of_accepted_tcp)),
        ("connected TCP", || socket(Wire::Tcp, Conduit::of_connected_tcp)),
        ("Unix sockets", || socket(Wire::Unix, any)),
        ("accepted Unix sockets", || socket(Wire::Unix, Conduit::of_stream_socket)),
        ("streams", || socket(Wire::Unix, stream)),
        ("datagrams", datagrams),
        ("pipes", pipes),
        ("terminals", terminal),
    ];
    for (kind, open) in kinds {
        let polls = polls_of_silence([open(), open()]);
        assert!(polls <= FEW_POLLS, "{kind}: {polls} polls");
    }
}
