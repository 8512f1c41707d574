//! Urgent data (tcp(7), MSG_OOB) neither stops a move, nor ends it, nor makes the move spin: a TCP
//! socket at the urgent mark polls readable and answers a splice with EAGAIN or 0, and only a read
//! gets past it.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use common::{SourceKind, TargetKind, open_source, open_target, within};
use gush::{Choice, MethodName, Mover, Rate, Report, Wait};
use rustix::fs::OFlags;
use rustix::net::SendFlags;

const CHOICES: [Choice; 5] = [
    Choice::Auto,
    Choice::Only(MethodName::Splice),
    Choice::Only(MethodName::Sendfile),
    Choice::Only(MethodName::Vmsplice),
    Choice::Only(MethodName::ReadWrite),
];

fn urgent(peer: &TcpStream) -> std::io::Result<()> {
    rustix::net::send(peer, b"!", SendFlags::OOB)?;
    Ok(())
}

/// Bytes, an urgent one, and more, again and again, with the reader in step and then all at once.
fn talk(mut peer: TcpStream, arrivals: &mut impl Read, rounds: usize) -> std::io::Result<()> {
    for _ in 0..rounds {
        peer.write_all(&[b'a'; 5000])?;
        urgent(&peer)?;
        peer.write_all(&[b'b'; 7000])?;
        let mut piece = [0; 12_000];
        arrivals.read_exact(&mut piece)?;
        assert!(piece[..5000].iter().all(|byte| *byte == b'a'), "before the mark: other bytes");
        assert!(piece[5000..].iter().all(|byte| *byte == b'b'), "after the mark: other bytes");
    }
    peer.write_all(b"last")?;
    urgent(&peer)?;
    peer.write_all(b"words")?;
    peer.shutdown(std::net::Shutdown::Write)?;
    let mut rest = Vec::new();
    arrivals.read_to_end(&mut rest)?;
    assert_eq!(rest, b"lastwords");
    Ok(())
}

fn moved(choice: Choice, to: TargetKind, nonblocking: bool) -> Result<Report, gush::Error> {
    let (source, far) = open_source(SourceKind::Tcp).expect("a connection");
    let far = TcpStream::from(far.expect("a far end"));
    let (target, reader): (OwnedFd, OwnedFd) = open_target(to).expect("a target");
    if nonblocking {
        for fd in [&source, &target] {
            rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK).expect("O_NONBLOCK");
        }
    }
    let mover = std::thread::spawn(move || Mover::new(&source, &target).method(choice).run());
    let mut reader = std::fs::File::from(reader);
    let talked = talk(far, &mut reader, 20);
    let moved = mover.join().expect("the mover");
    // A move that is refused closes the target.
    assert!(talked.is_ok() || moved.is_err(), "{talked:?}");
    moved
}

#[test]
fn urgent_data_does_not_stop_a_move_nor_make_it_spin() {
    let targets = [TargetKind::Pipe, TargetKind::UnixStream, TargetKind::Tcp];
    let choices = common::served_here(&CHOICES);
    for (to, &choice) in targets.into_iter().flat_map(|to| choices.iter().map(move |one| (to, one)))
    {
        for nonblocking in [true, false] {
            let name = format!("{choice}: TCP -> {to:?}, non-blocking {nonblocking}");
            match within(30, &name, move || moved(choice, to, nonblocking)) {
                Ok(report) => {
                    assert_eq!(report.bytes, 20 * 12_000 + 9, "{name}");
                    // A few for each of the pieces that 12,000 bytes come in; a spin makes
                    // thousands.
                    let calls: u64 = report
                        .methods
                        .iter()
                        .flat_map(|used| used.calls.iter())
                        .map(|(_, count)| count)
                        .sum();
                    assert!(calls < 3000, "{name}: {calls} calls: {}", report.explain());
                }
                Err(error) => {
                    let sendfile = choice == Choice::Only(MethodName::Sendfile);
                    assert!(error.is_refused() && sendfile, "{name}: {error}");
                }
            }
        }
    }
}

/// The peer sends nothing after the urgent byte for a while: the move sleeps.
#[test]
fn a_peer_that_is_silent_after_urgent_data_is_waited_for_asleep() {
    for choice in common::served_here(&[Choice::Auto, Choice::Only(MethodName::Splice)]) {
        for to in [TargetKind::Pipe, TargetKind::UnixStream] {
            let report = within(30, &format!("{choice} -> {to:?}"), move || {
                let (source, far) = open_source(SourceKind::Tcp).expect("a connection");
                let mut far = TcpStream::from(far.expect("a far end"));
                let (target, reader) = open_target(to).expect("a target");
                rustix::fs::fcntl_setfl(&source, OFlags::NONBLOCK).expect("O_NONBLOCK");
                far.write_all(b"before").expect("sent");
                urgent(&far).expect("urgent");
                // Without the looks of `Wait::Auto`, which are calls, too.
                let mover = std::thread::spawn(move || {
                    Mover::new(&source, &target).method(choice).wait(Wait::Block).run()
                });
                let mut reader = std::fs::File::from(reader);
                let mut text = [0; 6];
                reader.read_exact(&mut text).expect("what came before the mark");
                // Long enough for a spin to show in the calls.
                std::thread::sleep(std::time::Duration::from_millis(200));
                far.write_all(b"beyond").expect("sent");
                reader.read_exact(&mut text).expect("what came after the mark");
                assert_eq!(&text, b"beyond");
                drop(far);
                mover.join().expect("the mover").expect("a move")
            });
            let used = report.methods.iter().flat_map(|used| used.calls.iter());
            let calls: u64 = used.map(|(_, count)| count).sum();
            assert!(calls < 50, "{choice} -> {to:?}: {calls} calls: {}", report.explain());
        }
    }
}

/// Bytes after an urgent byte are counted, hashed and limited like everything else.
#[test]
fn a_length_a_digest_and_a_rate_hold_across_urgent_data() {
    const ROUNDS: usize = 6;
    const LEN: u64 = ROUNDS as u64 * 12_000;
    for choice in common::served_here(&CHOICES)
        .into_iter()
        .filter(|choice| *choice != Choice::Only(MethodName::Sendfile))
    {
        for (digest, rate) in [(true, None), (false, Some(120_000))] {
            let name = format!("{choice}, digest {digest}, rate {rate:?}");
            let (report, took, arrived, rest) = within(30, &name, move || {
                let (source, far) = open_source(SourceKind::Tcp).expect("a connection");
                let mut far = TcpStream::from(far.expect("a far end"));
                let (target, reader) = open_target(TargetKind::UnixStream).expect("a target");
                let mut reader = std::fs::File::from(reader);
                // In step: an urgent byte that a later one overtakes becomes one of the stream's
                // (tcp(7)).
                let talk = std::thread::spawn(move || {
                    let mut arrived = vec![0; LEN as usize];
                    for (round, piece) in arrived.chunks_mut(12_000).enumerate() {
                        far.write_all(&[b'a'; 5000]).expect("sent");
                        urgent(&far).expect("urgent");
                        let more: &[u8] = if round + 1 == ROUNDS { b"more" } else { b"" };
                        far.write_all(&[&[b'b'; 7000], more].concat()).expect("sent");
                        reader.read_exact(piece).expect("what was moved");
                    }
                    far.shutdown(std::net::Shutdown::Write).expect("shut down");
                    reader.read_to_end(&mut arrived).expect("the end");
                    arrived
                });
                let mut mover =
                    Mover::new(&source, &target).method(choice).digest(digest).length_bytes(LEN);
                if let Some(rate) = rate.and_then(Rate::bytes_per_second) {
                    mover = mover.limit(rate);
                }
                let began = std::time::Instant::now();
                let report = mover.run().expect("a move");
                let took = began.elapsed();
                drop(target);
                let arrived = talk.join().expect("the peer");
                let mut rest = Vec::new();
                TcpStream::from(source).read_to_end(&mut rest).expect("what was left");
                (report, took, arrived, rest)
            });
            let wanted = [vec![b'a'; 5000], vec![b'b'; 7000]].concat().repeat(ROUNDS);
            assert!(arrived == wanted, "{name}: {} bytes or other ones", arrived.len());
            assert_eq!(report.bytes, LEN, "{name}");
            assert_eq!(rest, b"more", "{name}: taken from after the length");
            if digest {
                let hash = blake3::hash(&wanted).to_string();
                match report.digest {
                    Some(digest) => assert_eq!(digest.to_string(), hash, "{name}"),
                    // It sees no bytes.
                    None => assert_eq!(choice, Choice::Only(MethodName::Splice), "{name}"),
                }
            }
            // The first twentieth of a second is free; the rest takes half a second and more.
            assert!(rate.is_none() || took.as_millis() > 400, "{name}: {took:?}");
        }
    }
}
