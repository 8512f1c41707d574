//! `gush::Repeat`: the pattern goes on, byte for byte, into every kind of target.

#[macro_use]
mod common;

use std::fs::File;
use std::io::{Read, Seek};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use gush::{Cancel, Errno, Repeat};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The pattern's bytes from the first on, so many.
fn expected(pattern: &[u8], bytes: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(bytes).collect()
}

fn patterns() -> [Vec<u8>; 5] {
    let long = |bytes: u32| (0..bytes).map(|at| (at ^ (at >> 8)) as u8).collect();
    // The last one is longer than a pipe of 1 MiB holds in slots of a page.
    [b"y\n".to_vec(), b"abc".to_vec(), long(4097), long(70_001), long(3 << 20)]
}

fn tcp() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
    let (far, _) = listener.accept().expect("a client");
    (near.into(), far.into())
}

/// A message has a size that UDP takes, and each begins where the last one ended.
#[test]
fn datagrams_of_a_pattern_follow_one_another() {
    let (near, far) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    udp.connect(udp.local_addr().expect("a name")).expect("itself");
    let length = 20_001;
    assert_eq!(Repeat::new(b"one two\n").length_bytes(length).run(&near).expect("room"), length);
    assert_eq!(Repeat::new(b"one two\n").length_bytes(length).run(&udp).expect("room"), length);
    near.shutdown(std::net::Shutdown::Both).expect("a socket");
    let mut got = Vec::new();
    while got.len() < length as usize {
        let mut message = [0; 65_536];
        let bytes = far.recv(&mut message).expect("a message");
        assert!((1..=8192).contains(&bytes), "{bytes} bytes in a message");
        got.extend_from_slice(&message[..bytes]);
    }
    let expected: Vec<u8> = b"one two\n".iter().copied().cycle().take(length as usize).collect();
    assert!(got == expected, "other bytes");
}

#[test]
fn every_stream_gets_the_pattern_again_and_again() {
    type Ends = fn() -> (OwnedFd, OwnedFd);
    let pipe: Ends = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (writer.into(), reader.into())
    };
    let unix: Ends = || {
        let (near, far) = UnixStream::pair().expect("a pair");
        (near.into(), far.into())
    };
    for (name, ends) in [("pipe", pipe), ("unix", unix), ("tcp", tcp)] {
        for pattern in patterns() {
            for (nonblocking, bytes) in [(false, 5_000_001), (true, 5_000_001), (false, 1)] {
                let (target, reader) = ends();
                if nonblocking {
                    let flags = fcntl_getfl(&target).expect("flags");
                    fcntl_setfl(&target, flags | OFlags::NONBLOCK).expect("a flag");
                }
                let reader = thread::spawn(move || {
                    let mut all = Vec::new();
                    File::from(reader).read_to_end(&mut all).expect("bytes");
                    all
                });
                let written = Repeat::new(&pattern).length_bytes(bytes).run(&target);
                assert_eq!(written.expect("room"), bytes, "{name}");
                drop(target);
                let all = reader.join().expect("no panic");
                let wanted = expected(&pattern, bytes as usize);
                assert!(all == wanted, "{name}, a pattern of {} bytes", pattern.len());
            }
        }
    }
}

#[test]
fn a_file_gets_it_too_from_its_own_position_on_and_at_its_end() {
    for append in [false, true] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"before").expect("room");
        let mut target = File::options().write(true).open(file.path()).expect("a file");
        if append {
            target = File::options().append(true).open(file.path()).expect("a file");
        } else {
            target.seek(std::io::SeekFrom::End(0)).expect("a position");
        }
        assert_eq!(
            Repeat::new(b"abc").length_bytes(1_000_000).run(&target).expect("room"),
            1_000_000
        );
        let all = std::fs::read(file.path()).expect("a file");
        assert_eq!(&all[..6], b"before");
        assert!(all[6..] == expected(b"abc", 1_000_000)[..], "append: {append}");
        assert_eq!(target.stream_position().expect("a position"), 1_000_006, "append: {append}");
    }
}

/// Pages in a pipe are the reservoir's own: a reader that keeps them by reference sees the pattern
/// for ever.
#[test]
fn a_reader_that_splices_on_keeps_what_it_took() {
    needs!(splice);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let (mut kept, keeper) = std::io::pipe().expect("a pipe");
    let writing = thread::spawn(move || Repeat::new(b"first\n").length_bytes(40_000).run(&writer));
    let (from, to) = (&reader, &keeper);
    let mut taken = 0;
    while taken < 40_000 {
        let flags = rustix::pipe::SpliceFlags::empty();
        taken += rustix::pipe::splice(from, None, to, None, 40_000 - taken, flags).expect("bytes");
    }
    writing.join().expect("no panic").expect("room");
    let (mut other, sink) = std::io::pipe().expect("a pipe");
    Repeat::new(b"second").length_bytes(40_000).run(&sink).expect("room");
    drop((sink, keeper));
    let (mut all, mut second) = (Vec::new(), Vec::new());
    kept.read_to_end(&mut all).expect("bytes");
    other.read_to_end(&mut second).expect("bytes");
    assert!(all == expected(b"first\n", 40_000) && second == expected(b"second", 40_000));
}

#[test]
fn failures_report_the_bytes_before() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let error = Repeat::new(b"y\n").run(&full).expect_err("no room");
    assert_eq!((error.errno(), error.delivered_bytes()), (Some(Errno::NOSPC), 0));

    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let reading = thread::spawn(move || reader.read_exact(&mut [0; 1000]).map(|()| drop(reader)));
    let error = Repeat::new(b"y\n").run(&writer).expect_err("the reader leaves");
    assert_eq!(error.errno(), Some(Errno::PIPE));
    assert!(error.delivered_bytes() >= 1000, "{}", error.delivered_bytes());
    reading.join().expect("no panic").expect("bytes");

    let read_only = File::open("/dev/null").expect("/dev/null");
    let error = Repeat::new(b"y\n").run(&read_only).expect_err("it is open for reading");
    assert_eq!(error.errno(), Some(Errno::BADF));
}

#[test]
fn an_empty_pattern_writes_nothing_and_ends() {
    let file = tempfile::tempfile().expect("a file");
    assert_eq!(Repeat::new(b"").run(&file).expect("nothing to do"), 0);
    assert_eq!(file.metadata().expect("metadata").len(), 0);
}

#[test]
fn it_can_be_ended_from_another_thread_while_nobody_reads() {
    for kind in ["pipe", "unix"] {
        let (near, far): (OwnedFd, OwnedFd) = match kind {
            "pipe" => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                (writer.into(), reader.into())
            }
            _ => {
                let (near, far) = UnixStream::pair().expect("a pair");
                (near.into(), far.into())
            }
        };
        let cancel = Cancel::new();
        let error = thread::scope(|scope| {
            let writing = scope.spawn(|| Repeat::new(b"abc").cancelled_by(&cancel).run(&near));
            thread::sleep(std::time::Duration::from_millis(20));
            cancel.cancel();
            writing.join().expect("no panic").expect_err("cancelled")
        });
        assert!(error.is_cancelled(), "{kind}: {error}");
        drop(near);
        let mut all = Vec::new();
        File::from(far).read_to_end(&mut all).expect("bytes");
        assert_eq!(all.len() as u64, error.delivered_bytes(), "{kind}");
        assert!(all == expected(b"abc", all.len()), "{kind}");
    }
}
