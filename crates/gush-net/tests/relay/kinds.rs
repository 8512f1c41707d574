//! Everything that can be one end of a relay, and a method asked for by name there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Wire, numbered, pair, read_numbered, run, spawn_relay, write_numbered};
use gush::{Choice, MethodName};
use gush_net::{Conduit, Direction, End, EndReason, Relay, RelayOptions, Totals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn relay(a: Conduit, b: Conduit, options: &RelayOptions) -> Result<Totals, gush_net::Error> {
    run(async {
        let (mut a, mut b) = (a, b);
        Relay::new(options).run(&mut a, &mut b).await
    })
}

fn one(fd: impl Into<OwnedFd>) -> Conduit {
    Conduit::new(fd.into()).expect("a conduit")
}

fn wait(mut child: Child) {
    assert!(child.wait().expect("a status").success());
}

#[test]
fn a_child_on_two_pipes_answers_and_ends_with_the_stream() {
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let (mut client, near) = pair(Wire::Tcp);
    let relay = std::thread::spawn(move || {
        let cat = Conduit::of_two(output.into(), input.into()).unwrap();
        relay(one(near), cat, &RelayOptions::new())
    });
    // Written by a second thread: with all buffers full, writing waits for reading.
    let mut writing = client.try_clone();
    let writer = std::thread::spawn(move || {
        write_numbered(&mut writing, 8 << 20).unwrap();
        writing.finish();
    });
    assert_eq!(read_numbered(&mut client).unwrap(), 8 << 20);
    writer.join().unwrap();
    let totals = relay.join().unwrap().expect("no failure");
    assert_eq!((totals.forward.bytes, totals.back.bytes), (8 << 20, 8 << 20));
    assert_eq!(totals.forward.method, Some(MethodName::Splice));
    wait(child);
}

/// Of 20 KiB a first read of 16 would copy the larger part.
#[test]
fn a_long_message_that_has_come_goes_by_reference_from_its_first_byte() {
    const LONG_BYTES: usize = 20 << 10;
    for wire in [Wire::Tcp, Wire::Unix] {
        for (bytes, method) in
            [(LONG_BYTES, MethodName::Splice), (LONG_BYTES / 2, MethodName::ReadWrite)]
        {
            let ((mut client, near), (mut server, far)) = (pair(wire), pair(wire));
            client.write_all(&vec![7; bytes]).unwrap();
            client.finish();
            server.finish();
            let near: OwnedFd = near.into();
            while rustix::io::ioctl_fionread(&near).unwrap() < bytes as u64 {
                std::thread::yield_now();
            }
            let totals = relay(one(near), one(far), &RelayOptions::new()).expect("no failure");
            assert_eq!(totals.forward.method, Some(method), "{wire:?}, {bytes} bytes");
            let mut heard = Vec::new();
            server.read_to_end(&mut heard).unwrap();
            assert!(heard == vec![7; bytes], "{wire:?}: {} of {bytes} bytes", heard.len());
        }
    }
}

#[test]
fn a_child_on_a_pseudo_terminal_sees_the_end_as_a_user_would_type_it() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let child = Command::new("cat").stdin(slave()).stdout(slave()).spawn().unwrap();
    let (mut client, near) = pair(Wire::Unix);
    let relay = spawn_relay(near.into(), master, RelayOptions::new());
    client.write_all(b"typed\n").unwrap();
    client.finish();
    let mut shown = String::new();
    client.read_to_string(&mut shown).unwrap();
    // The terminal echoes what is typed, and cat says it again.
    assert_eq!(shown.matches("typed").count(), 2, "{shown:?}");
    assert_eq!(relay.join().unwrap().expect("no failure").ended, EndReason::Closed);
    wait(child);
}

/// A pseudo-terminal without echo that keeps lines: the master, and the slave, which nobody reads
/// yet.
fn silent_terminal() -> (OwnedFd, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut settings = tcgetattr(&slave).unwrap();
    // An echo would come back to the relay, and fill the other direction.
    settings.local_modes -= LocalModes::ECHO;
    tcsetattr(&slave, OptionalActions::Now, &settings).unwrap();
    (master, slave)
}

/// The end is sent as a character, and a full terminal has no room for one more. The room depends
/// on when the kernel moves the bytes on to the slave's line discipline; one of these sizes just
/// fits.
#[test]
fn a_full_terminal_gets_the_end_once_it_has_room() {
    for bytes in (11_768..11_784).chain(4092..4100) {
        let (master, mut slave) = silent_terminal();
        let (mut client, near) = pair(Wire::Unix);
        let options = RelayOptions::new();
        let counts = options.counts();
        let relay = spawn_relay(near.into(), master, options);
        let line = [&[b'x'; 62][..], b"\n"].concat();
        let typed: Vec<u8> = line.iter().copied().cycle().take(bytes).collect();
        client.write_all(&typed).unwrap();
        client.finish();
        // Until the relay has done what it can before somebody reads.
        let mut before = None;
        while before != Some(counts.delivered_bytes(Direction::Forward)) {
            before = Some(counts.delivered_bytes(Direction::Forward));
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut seen = Vec::new();
        slave.read_to_end(&mut seen).expect("the end that was typed");
        assert!(seen == typed, "{} of {bytes} bytes", seen.len());
        drop(slave);
        assert_eq!(relay.join().unwrap().expect("no failure").ended, EndReason::Closed);
    }
}

#[test]
fn files_and_devices_are_ends_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, numbered(0, 1 << 20)).unwrap();

    // File to socket: inside the kernel.
    let (mut client, near) = pair(Wire::Tcp);
    // A reader next to the relay: the file is larger than a socket takes.
    let reader = std::thread::spawn(move || read_numbered(&mut client).unwrap());
    let totals = relay(one(File::open(&path).unwrap()), one(near), &RelayOptions::new()).unwrap();
    assert_eq!(totals.forward.method, Some(MethodName::Sendfile));
    assert_eq!(reader.join().unwrap(), 1 << 20);

    // Socket to a new file.
    let (mut client, near) = pair(Wire::Tcp);
    write_numbered(&mut client, 100_000).unwrap();
    // The end of the data, without which the relay would not end.
    drop(client);
    let copy = dir.path().join("copy");
    let totals = relay(one(near), one(File::create(&copy).unwrap()), &RelayOptions::new()).unwrap();
    assert_eq!((totals.forward.bytes, totals.back.bytes), (100_000, 0));
    assert!(std::fs::read(&copy).unwrap() == numbered(0, 100_000));

    // A device that never ends, limited by who reads.
    let (client, near) = pair(Wire::Tcp);
    let reader = std::thread::spawn(move || {
        let mut client = client;
        let mut zeros = vec![1; 3 << 20];
        client.read_exact(&mut zeros).unwrap();
        assert!(zeros.iter().all(|byte| *byte == 0));
    });
    let error = relay(one(File::open("/dev/zero").unwrap()), one(near), &RelayOptions::new());
    assert_eq!(error.expect_err("the reader leaves").end(), Some(End::B));
    reader.join().unwrap();
}

#[test]
fn the_true_error_of_a_full_target_is_reported() {
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let (mut client, near) = pair(Wire::Tcp);
        client.write_all(&[7; 200_000]).unwrap();
        let full = one(File::create("/dev/full").unwrap());
        let error = relay(one(near), full, &RelayOptions { method: choice, ..RelayOptions::new() })
            .unwrap_err();
        let io = error.io_error().expect("the system said so");
        assert_eq!(io.kind(), std::io::ErrorKind::StorageFull, "{error}");
        // The device refuses a splice for another reason: the error must be that of the write.
        assert_eq!((error.end(), error.call()), (Some(End::B), Some("write")));
        assert!(
            error.passed(Direction::Forward).in_flight_bytes > 0,
            "taken and not delivered: {error}"
        );
    }
}

#[test]
fn a_fifo_is_spliced_directly_and_its_end_is_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    let status = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(status.success());
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || {
            write_numbered(&mut File::options().write(true).open(path).unwrap(), 4 << 20).unwrap();
        })
    };
    let fifo = File::open(&path).unwrap();
    let (mut client, near) = pair(Wire::Tcp);
    let reader = std::thread::spawn(move || read_numbered(&mut client).unwrap());
    let totals = relay(one(fifo), one(near), &RelayOptions::new()).unwrap();
    assert_eq!(totals.forward.method, Some(MethodName::Splice));
    assert_eq!(reader.join().unwrap(), 4 << 20);
    writer.join().unwrap();
}

#[test]
fn an_inherited_descriptor_keeps_its_flags_and_never_blocks_the_relay() {
    let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Unix));
    let (near, far): (OwnedFd, OwnedFd) = (near.into(), far.into());
    // The flags belong to the open file: a duplicate shows them.
    let (witness, target) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let relay = std::thread::spawn(move || {
        let (a, b) = (Conduit::inherited(near).unwrap(), Conduit::inherited(far).unwrap());
        relay(a, b, &RelayOptions::new())
    });
    let mut writing = client.try_clone();
    let writer = std::thread::spawn(move || {
        write_numbered(&mut writing, 8 << 20).unwrap();
        writing.finish();
    });
    let has_room =
        || poll(&mut [PollFd::new(&target, PollFlags::OUT)], Some(&AT_ONCE)).unwrap() > 0;
    while has_room() {
        std::thread::yield_now();
    }
    // Nobody reads what is sent to the server, and the other direction goes on: as often as a relay
    // that is held by the full socket would have to be lucky.
    set_socket_timeout(&client, Timeout::Recv, Some(Duration::from_secs(30))).unwrap();
    for round in 0..100 {
        let mut heard = [0; 10];
        server.write_all(numbered(round * 10, 10)).unwrap();
        client.read_exact(&mut heard).expect("the full target holds the relay");
        assert_eq!(heard, *numbered(round * 10, 10));
    }
    assert!(!has_room());
    assert_eq!(read_numbered(&mut server).unwrap(), 8 << 20);
    let flags = rustix::fs::fcntl_getfl(&witness).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK));
    drop((server, target));
    writer.join().unwrap();
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
    let totals = relay.join().unwrap().expect("no failure");
    assert_eq!((totals.forward.bytes, totals.back.bytes), (8 << 20, 1000));
    assert_eq!(totals.forward.method, Some(MethodName::ReadWrite));
}

#[test]
fn a_method_asked_for_by_name_is_used_or_refused() {
    let refused =
        [MethodName::Vmsplice, MethodName::Sendfile, MethodName::CopyFileRange, MethodName::Uring];
    for method in refused {
        let ((_client, near), (far, _server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
        let options = RelayOptions { method: Choice::Only(method), ..RelayOptions::new() };
        let error = relay(one(near), one(far), &options).expect_err("refused");
        assert!(error.is_refused() && error.to_string().contains(method.as_str()), "{error}");
        assert!(error.hint().is_some());
    }
    let dir = tempfile::tempdir().unwrap();
    let append = File::options().append(true).create(true).open(dir.path().join("log")).unwrap();
    let (_client, near) = pair(Wire::Tcp);
    let options = RelayOptions { method: Choice::Only(MethodName::Splice), ..RelayOptions::new() };
    let error = relay(one(near), one(append), &options).expect_err("O_APPEND takes no splices");
    assert!(error.is_refused() && error.to_string().contains("O_APPEND"), "{error}");
}

#[test]
fn an_observer_sees_every_byte_that_was_delivered() {
    let seen = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let shared = Arc::clone(&seen);
    let options = RelayOptions {
        observe: Some(Arc::new(move |way: Direction, bytes: &[u8]| {
            shared.lock().unwrap()[way as usize].extend_from_slice(bytes);
        })),
        ..RelayOptions::new()
    };
    let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let relay = spawn_relay(near.into(), far.into(), options);
    let writer = std::thread::spawn(move || {
        write_numbered(&mut client, 2 << 20).unwrap();
        client.finish();
        read_numbered(&mut client).unwrap()
    });
    assert_eq!(read_numbered(&mut server).unwrap(), 2 << 20);
    server.write_all(numbered(0, 100)).unwrap();
    drop(server);
    writer.join().unwrap();
    let totals = relay.join().unwrap().expect("no failure");
    assert_eq!(totals.forward.method, Some(MethodName::ReadWrite));
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].len(), seen[1].len()), (2 << 20, 100));
    assert!(seen[0][..1 << 20] == *numbered(0, 1 << 20));
}

#[test]
fn owned_halves_of_tokio_streams_are_ends_too() {
    run(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let (far, mut server) = tokio::net::UnixStream::pair().unwrap();
        let ((mut source, _keep), (_kept, mut target)) = (near.into_split(), far.into_split());
        client.write_all(numbered(0, 300_000)).await.unwrap();
        client.shutdown().await.unwrap();
        let copying = tokio::spawn(async move {
            let totals =
                Relay::new(&RelayOptions::new()).copy(&mut source, &mut target).await.unwrap();
            (totals, target)
        });
        let mut arrived = vec![0; 300_000];
        server.read_exact(&mut arrived).await.unwrap();
        assert!(arrived == numbered(0, 300_000));
        let (totals, target) = copying.await.unwrap();
        assert_eq!(totals.forward.bytes, 300_000);
        // The target was left open.
        let nothing = tokio::time::timeout(Duration::from_millis(50), server.read_u8()).await;
        assert!(nothing.is_err());
        drop(target);
    });
}

#[test]
fn a_conduit_may_go_on_on_another_runtime() {
    let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let (mut a, mut b) = (one(near), one(far));
    for round in 0..3_u8 {
        client.write_all(&[round; 10]).unwrap();
        let mut relay = Relay::new(&RelayOptions::new());
        let soon = Duration::from_millis(50);
        run(async { tokio::time::timeout(soon, relay.run(&mut a, &mut b)).await }).unwrap_err();
        let mut arrived = [9; 10];
        server.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, [round; 10]);
    }
}
