//! Datagrams arrive whole: empty ones end nothing, and no buffer, budget or length cuts one.

#[macro_use]
mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use common::{
    Source, SourceKind, TargetKind, noise, open_source, open_target, read_all, served_here, within,
};
use gush::{Choice, Control, Errno, MethodName, Mover, Progress, Rate, Report, Tuning};
use rustix::net::{RecvFlags, SendFlags};

const SOURCES: [SourceKind; 2] = [SourceKind::UnixDatagram, SourceKind::Udp];
const CHOICES: [Choice; 4] = [
    Choice::Auto,
    Choice::Only(MethodName::ReadWrite),
    Choice::Only(MethodName::Splice),
    Choice::Only(MethodName::Vmsplice),
];

/// A datagram socket with these messages inside, and the far end that sent them.
fn with_messages(from: SourceKind, sizes: &[usize]) -> (OwnedFd, OwnedFd) {
    let (near, far) = open_source(from).expect("sockets");
    let far = far.expect("a far end");
    for &size in sizes {
        let sent = rustix::net::send(&far, &message(size), SendFlags::empty()).expect("sent");
        assert_eq!(sent, size);
    }
    (near, far)
}

fn message(size: usize) -> Vec<u8> {
    // The content follows from the size: a message in another's place is noticed.
    noise(size as u64 + 1, size)
}

fn all_of(sizes: &[usize]) -> Vec<u8> {
    sizes.iter().flat_map(|&size| message(size)).collect()
}

/// The sizes of the messages that are still in a socket.
fn sizes_in(socket: &impl AsFd) -> Vec<usize> {
    // Larger than any message here, or recv(2) would cut it and hide a fault.
    let mut buf = vec![0; 300_000];
    let mut sizes = Vec::new();
    while let Ok((_, size)) = rustix::net::recv(socket, &mut buf[..], RecvFlags::DONTWAIT) {
        assert!(buf[..size] == message(size)[..], "a message of {size} bytes has others");
        sizes.push(size);
    }
    sizes
}

fn file() -> OwnedFd {
    tempfile::tempfile().expect("a file").into()
}

/// Moves messages into a file, and returns the result.
fn moved(
    from: SourceKind,
    sizes: &'static [usize],
    set: impl FnOnce(Mover<'_>) -> Mover<'_> + Send + 'static,
) -> (Result<Report, gush::Error>, Vec<u8>, Vec<usize>) {
    // A datagram socket has no end: a move that misses its length would wait for ever.
    within(30, &format!("{from:?} {sizes:?}"), move || {
        // The far end lives on: a socket whose peer has gone is another case.
        let (source, _far) = with_messages(from, sizes);
        let target = file();
        let result = set(Mover::new(&source, &target)).run();
        (result, read_all(&target), sizes_in(&source))
    })
}

#[test]
fn an_empty_datagram_does_not_end_a_move() {
    const SIZES: &[usize] = &[0, 5, 0, 0, 600, 0, 3];
    for (from, choice) in SOURCES
        .into_iter()
        .flat_map(|from| served_here(&CHOICES).into_iter().map(move |choice| (from, choice)))
    {
        let (result, arrived, _) =
            // The sum of the sizes; only a length ends a move out of a datagram socket.
            moved(from, SIZES, move |mover| mover.method(choice).length_bytes(608));
        let report = result.unwrap_or_else(|error| panic!("{choice} {from:?}: {error}"));
        assert_eq!(report.bytes, 608, "{choice} {from:?}");
        assert!(arrived == all_of(SIZES), "{choice} {from:?}: other bytes");
    }
}

#[test]
fn a_move_from_a_datagram_socket_ends_on_request_and_not_before() {
    for choice in served_here(&CHOICES) {
        let (result, arrived) = within(30, &choice.to_string(), move || {
            let (source, _far) = with_messages(SourceKind::Udp, &[0, 10, 0, 20, 0]);
            let target = file();
            let mut observer = |progress: &gush::Progress| {
                if progress.bytes == 30 { Control::Stop } else { Control::Continue }
            };
            let mover = Mover::new(&source, &target).method(choice).observe(&mut observer);
            (mover.run(), read_all(&target))
        });
        let error = result.expect_err("such a source has no end");
        assert!(error.is_stopped(), "{choice}: {error}");
        assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (30, 0), "{choice}");
        assert!(arrived == all_of(&[10, 20]), "{choice}: other bytes");
    }
}

#[test]
fn a_seqpacket_socket_ends_with_its_peer() {
    for choice in served_here(&CHOICES) {
        let (result, arrived) = within(30, &choice.to_string(), move || {
            let (source, far) = with_messages(SourceKind::Seqpacket, &[7, 5000, 1]);
            drop(far);
            let target = file();
            // Smaller than the messages: a buffer as asked for would cut them.
            let tuning = Tuning::default().buffer_bytes(100);
            let result = Mover::new(&source, &target).method(choice).tuning(tuning).run();
            (result, read_all(&target))
        });
        let delivered_bytes = match result {
            Ok(report) => {
                assert_eq!(report.bytes, 5008, "{choice}");
                5008
            }
            Err(error) => {
                assert!(error.is_refused() && choice != Choice::Auto, "{choice}: {error}");
                error.delivered_bytes() as usize
            }
        };
        assert!(arrived == all_of(&[7, 5000, 1])[..delivered_bytes], "{choice}: other bytes");
    }
}

/// An empty record answers 0, as the end does.
#[test]
fn empty_records_of_a_seqpacket_socket_are_not_its_end() {
    for sizes in [&[0, 0, 5000][..], &[3, 0, 0, 0, 70_000], &[0, 1, 0]] {
        let (result, arrived) = within(30, &format!("{sizes:?}"), move || {
            let (source, far) = with_messages(SourceKind::Seqpacket, sizes);
            drop(far);
            let target = file();
            (Mover::new(&source, &target).run(), read_all(&target))
        });
        let bytes = sizes.iter().sum::<usize>() as u64;
        assert_eq!(result.expect("no error").bytes, bytes, "{sizes:?}");
        assert!(arrived == all_of(sizes), "{sizes:?}: other bytes");
    }

    // The peer lives: the 0 of the empty record must not be taken for its close.
    let (result, arrived) = within(30, "an open socket", || {
        let (source, _far) = with_messages(SourceKind::Seqpacket, &[3, 0]);
        let target = file();
        let mut observer = |progress: &Progress| {
            if progress.elapsed > Duration::from_millis(120) {
                Control::Stop
            } else {
                Control::Continue
            }
        };
        (Mover::new(&source, &target).observe(&mut observer).run(), read_all(&target))
    });
    assert!(result.expect_err("its peer is there").is_stopped());
    assert_eq!(arrived, all_of(&[3]));
}

/// A method that cannot take a datagram whole says so, and leaves the datagram in the socket.
fn assert_whole(
    name: &str,
    choice: Choice,
    sizes: &[usize],
    (result, arrived, rest): (Result<Report, gush::Error>, Vec<u8>, Vec<usize>),
) {
    match result {
        Ok(_) => assert!(arrived == all_of(sizes), "{name}: {} bytes arrived", arrived.len()),
        Err(error) => {
            assert!(error.is_refused(), "{name}: {error}");
            let named = [MethodName::Splice, MethodName::Vmsplice].map(Choice::Only);
            assert!(named.contains(&choice), "{name}: {error}");
            let taken = sizes.len() - rest.len();
            assert_eq!(rest, sizes[taken..], "{name}: {error}");
            assert!(arrived == all_of(&sizes[..taken]), "{name}: {error}");
        }
    }
}

#[test]
fn a_buffer_or_a_pipe_smaller_than_a_datagram_does_not_cut_it() {
    const SIZES: &[usize] = &[2000, 1, 60_000, 999, 1000, 1001, 9000];
    for (from, choice) in SOURCES
        .into_iter()
        .flat_map(|from| served_here(&CHOICES).into_iter().map(move |choice| (from, choice)))
    {
        for (buffer, pipe) in [(1000, 4096), (1, 1 << 20), (1 << 20, 8192)] {
            let name = format!("{choice} {from:?}, buffer {buffer}, pipe {pipe}");
            let outcome = moved(from, SIZES, move |mover| {
                let tuning = Tuning::default().buffer_bytes(buffer).pipe_bytes(pipe);
                mover.method(choice).tuning(tuning).length_bytes(74_001)
            });
            assert_whole(&name, choice, SIZES, outcome);
        }
    }
}

#[test]
fn a_unix_datagram_larger_than_any_buffer_is_not_cut() {
    const SIZES: &[usize] = &[150_000, 1];
    for choice in served_here(&CHOICES) {
        let outcome = moved(SourceKind::UnixDatagram, SIZES, move |mover| {
            let tuning = Tuning::default().buffer_bytes(4096).pipe_bytes(65_536);
            mover.method(choice).tuning(tuning).length_bytes(150_001)
        });
        assert_whole(&choice.to_string(), choice, SIZES, outcome);
    }
}

#[test]
fn a_rate_limit_does_not_cut_a_datagram() {
    const SIZES: &[usize] = &[3000, 10, 3000, 2000];
    for choice in served_here(&CHOICES) {
        // A twentieth of it is what may go at once.
        let rate = Rate::bytes_per_second(20_000).expect("a rate");
        let (result, arrived, _) = moved(SourceKind::Udp, SIZES, move |mover| {
            mover.method(choice).limit(rate).length_bytes(8010)
        });
        assert_eq!(result.expect("a move").bytes, 8010, "{choice}");
        assert!(arrived == all_of(SIZES), "{choice}: other bytes");
    }
}

#[test]
fn a_length_that_ends_within_a_datagram_is_an_error_and_leaves_it_in_the_socket() {
    const SIZES: &[usize] = &[100, 0, 101, 102];
    for (from, choice) in SOURCES
        .into_iter()
        .flat_map(|from| served_here(&CHOICES).into_iter().map(move |choice| (from, choice)))
    {
        let name = format!("{choice} {from:?}");
        let (result, arrived, rest) =
            moved(from, SIZES, move |mover| mover.method(choice).length_bytes(150));
        let error = result.expect_err("the second does not fit");
        let errno = error.io_error().and_then(Errno::from_io_error);
        assert_eq!(errno, Some(Errno::MSGSIZE), "{name}: {error}");
        assert_eq!(error.side(), Some(gush::Side::Source), "{name}");
        assert!(error.hint().is_some_and(|hint| hint.contains("length")), "{name}");
        assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (100, 0), "{name}");
        assert!(arrived == message(100), "{name}: other bytes");
        assert_eq!(rest, [101, 102], "{name}");
    }
}

#[test]
fn boundaries_are_kept_from_datagram_socket_to_datagram_socket() {
    const SIZES: &[usize] = &[1, 0, 100, 0, 0, 1472, 4097, 40_000, 8];
    let targets = [TargetKind::UnixDatagram, TargetKind::Udp];
    for (from, to) in SOURCES.into_iter().flat_map(|from| targets.map(|to| (from, to))) {
        for choice in served_here(&CHOICES) {
            let name = format!("{choice}: {from:?} -> {to:?}");
            let (result, sizes) = within(30, &name, move || {
                let (source, _far) = with_messages(from, SIZES);
                let (target, far) = open_target(to).expect("a target");
                let length = SIZES.iter().sum::<usize>() as u64;
                let tuning = Tuning::default().buffer_bytes(1000);
                let mover = Mover::new(&source, &target).method(choice).tuning(tuning);
                (mover.length_bytes(length).run(), sizes_in(&far))
            });
            match result {
                Ok(_) => assert_eq!(sizes, SIZES, "{name}"),
                Err(error) => {
                    assert!(error.is_refused() && choice != Choice::Auto, "{name}: {error}");
                    assert!(SIZES.starts_with(&sizes), "{name}: {sizes:?}");
                }
            }
        }
    }
}

/// A splice out of a pipe makes one message of 16 pages at most (`splice_to_socket` of
/// `fs/splice.c`).
#[test]
fn a_unix_datagram_of_many_pages_stays_one() {
    const SIZES: &[usize] = &[100_000, 1];
    for choice in served_here(&CHOICES) {
        let (result, sizes) = within(30, &choice.to_string(), move || {
            let (source, _far) = with_messages(SourceKind::UnixDatagram, SIZES);
            let (target, far) = open_target(TargetKind::UnixDatagram).expect("a target");
            let mover = Mover::new(&source, &target).method(choice).length_bytes(100_001);
            (mover.run(), sizes_in(&far))
        });
        match result {
            Ok(_) => assert_eq!(sizes, SIZES, "{choice}"),
            Err(error) => {
                assert!(error.is_refused() && choice != Choice::Auto, "{choice}: {error}");
                assert!(sizes.is_empty(), "{choice}: {sizes:?}");
            }
        }
    }
}

#[test]
fn a_pipe_that_is_nearly_full_does_not_cut_a_datagram() {
    for choice in served_here(&CHOICES) {
        let (result, arrived) = within(30, &choice.to_string(), move || {
            let (source, _far) = with_messages(SourceKind::Udp, &[20_000, 30_000]);
            let (target, far) = open_target(TargetKind::Pipe).expect("a pipe");
            rustix::io::write(&target, &message(60_000)).expect("room");
            let reader = std::thread::spawn(move || read_to_end(&far));
            let result = Mover::new(&source, &target).method(choice).length_bytes(50_000).run();
            drop(target);
            (result, reader.join().expect("the reader"))
        });
        assert_eq!(result.expect("a move").bytes, 50_000, "{choice}");
        assert!(arrived == all_of(&[60_000, 20_000, 30_000]), "{choice}: {}", arrived.len());
    }
    // sendfile cannot help cutting one: it is refused, and the datagram stays.
    let (source, _far) = with_messages(SourceKind::Udp, &[20_000]);
    let (target, reader) = open_target(TargetKind::Pipe).expect("a pipe");
    let by_sendfile = Choice::Only(MethodName::Sendfile);
    let error = Mover::new(&source, &target).method(by_sendfile).run().expect_err("a refusal");
    assert!(error.is_refused(), "{error}");
    assert_eq!(sizes_in(&source), [20_000]);
    drop(target);
    assert_eq!(read_to_end(&reader), b"");
}

fn read_to_end(fd: &OwnedFd) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = vec![0; 65_536];
    loop {
        match rustix::io::read(fd, &mut buf).expect("a pipe") {
            0 => return all,
            got => all.extend_from_slice(&buf[..got]),
        }
    }
}

#[test]
fn a_file_becomes_datagrams_that_its_target_takes() {
    for to in [TargetKind::UnixDatagram, TargetKind::Udp] {
        let (sizes, arrived) = within(30, &format!("{to:?}"), move || {
            let source: OwnedFd = {
                let file = std::fs::File::from(file());
                std::os::unix::fs::FileExt::write_all_at(&file, &noise(9, 50_000), 0).unwrap();
                file.into()
            };
            let (target, far) = open_target(to).expect("a target");
            let move_on = std::thread::spawn(move || gush::copy(&source, &target).map(|r| r.bytes));
            let (mut all, mut sizes, mut buf) = (Vec::new(), Vec::new(), vec![0; 300_000]);
            while all.len() < 50_000 {
                let (_, got) =
                    rustix::net::recv(&far, &mut buf[..], RecvFlags::empty()).expect("a datagram");
                sizes.push(got);
                all.extend_from_slice(&buf[..got]);
            }
            assert_eq!(move_on.join().expect("the move").expect("a move"), 50_000);
            (sizes, all)
        });
        assert!(arrived == noise(9, 50_000), "{to:?}: other bytes");
        assert!(sizes.iter().all(|size| (1..=8192).contains(size)), "{to:?}: {sizes:?}");
    }
}

/// The buffer's size, where the user gave one, is the size of the datagrams that a stream becomes.
#[test]
fn a_stream_becomes_datagrams_of_the_size_that_was_asked_for() {
    const LEN: usize = 50_000;
    for buffer_bytes in [1000, 20_000] {
        for from in [SourceKind::File, SourceKind::Pipe] {
            let (sizes, arrived) = within(30, &format!("{from:?}, {buffer_bytes}"), move || {
                let source = Source::new(from, &noise(9, LEN), 1, false).expect("a source");
                let source = source.filled();
                let (target, far) = open_target(TargetKind::UnixDatagram).expect("a target");
                let moving = std::thread::spawn(move || {
                    let tuning = Tuning::default().buffer_bytes(buffer_bytes);
                    Mover::new(&source.fd, &target).tuning(tuning).run().map(|report| report.bytes)
                });
                let (mut all, mut sizes, mut buf) = (Vec::new(), Vec::new(), vec![0; 300_000]);
                while all.len() < LEN {
                    let received = rustix::net::recv(&far, &mut buf[..], RecvFlags::empty());
                    let (_, got) = received.expect("a datagram");
                    sizes.push(got);
                    all.extend_from_slice(&buf[..got]);
                }
                assert_eq!(moving.join().expect("the move").expect("a move"), LEN as u64);
                (sizes, all)
            });
            assert!(arrived == noise(9, LEN), "{from:?}: other bytes");
            let expected: Vec<_> = noise(9, LEN).chunks(buffer_bytes).map(<[u8]>::len).collect();
            assert_eq!(sizes, expected, "{from:?}");
        }
    }
}

/// Of an empty datagram there is nothing to lend or splice: the datagram is passed on all the same.
#[test]
fn an_empty_datagram_is_passed_on_by_every_method_that_keeps_boundaries() {
    for choice in served_here(&CHOICES) {
        let (source, _far) = with_messages(SourceKind::UnixDatagram, &[3, 0, 5]);
        let (target, far) = open_target(TargetKind::UnixDatagram).expect("a target");
        let moved = Mover::new(&source, &target).method(choice).length_bytes(8).run();
        assert_eq!(moved.expect("a move").bytes, 8, "{choice}");
        assert_eq!(sizes_in(&far), [3, 0, 5], "{choice}");
    }
}

/// A datagram that sendfile(2) corks (see `Port::send_file_to`) is summed wrongly where the first
/// page has an odd part of the bytes, and the receiver drops the datagram.
#[test]
fn the_last_datagram_of_a_file_that_is_sent_from_an_odd_place_arrives() {
    needs!(sendfile);
    for (size, from) in [(4097, 511), (60_000, 4095), (4097, 512)] {
        let content = noise(7, size);
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, &content).expect("room");
        for is_named in [true, false] {
            let (target, reader) = open_target(TargetKind::Udp).expect("sockets");
            let reader = std::net::UdpSocket::from(reader);
            reader.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
            let mover = Mover::new(&file, &target)
                .method(Choice::Only(MethodName::Sendfile))
                .tuning(Tuning::default().buffer_bytes(4096));
            let mover = match is_named {
                true => mover.source_offset_bytes(from),
                false => {
                    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(from)).expect("a position");
                    mover
                }
            };
            let sent = &content[from as usize..];
            assert_eq!(mover.run().expect("moved").bytes, sent.len() as u64);
            let mut arrived = Vec::new();
            let mut buf = vec![0; 70_000];
            while arrived.len() < sent.len() {
                let got = reader.recv(&mut buf);
                let got = got.unwrap_or_else(|error| panic!("{size} from {from}: {error}"));
                arrived.extend_from_slice(&buf[..got]);
            }
            assert!(arrived == sent, "{size} bytes from {from}: others arrived");
        }
    }
}

/// SO_PEEK_OFF (socket(7)) belongs to the process that set it: a look begins there, and advances
/// it.
#[test]
fn an_offset_for_looks_cuts_no_datagram_and_hides_none() {
    const UNIX: &[usize] = &[100_000, 0, 5];
    const UDP: &[usize] = &[60_000, 0, 5];
    for (from, sizes) in [(SourceKind::UnixDatagram, UNIX), (SourceKind::Udp, UDP)] {
        for offset_bytes in [0, 50_000, u16::MAX] {
            for choice in served_here(&CHOICES) {
                let name = format!("{choice} {from:?}, looks from {offset_bytes} on");
                let (result, arrived) = within(30, &name, move || {
                    let (source, _far) = with_messages(from, sizes);
                    gush::set_peek_offset(&source, Some(offset_bytes)).expect("an offset");
                    let target = file();
                    let mover = Mover::new(&source, &target).method(choice);
                    let result = mover.length_bytes(sizes.iter().sum::<usize>() as u64).run();
                    (result, read_all(&target))
                });
                match result {
                    Ok(_) => assert!(arrived == all_of(sizes), "{name}: {} bytes", arrived.len()),
                    Err(error) if error.is_refused() => assert!(arrived.is_empty(), "{name}"),
                    Err(error) => panic!("{name}: {error}"),
                }
            }
        }
    }
}

/// Where the target has no reader, the source is looked at, and only the end is no failure.
#[test]
fn an_offset_for_looks_hides_no_byte_of_a_stream_and_stays() {
    for from in [SourceKind::UnixStream, SourceKind::Tcp] {
        for offset_bytes in [0, 3] {
            let (source, far) = open_source(from).expect("sockets");
            let far = far.expect("a far end");
            rustix::io::write(&far, b"abc").expect("room");
            drop(far);
            if let Err(errno) = gush::set_peek_offset(&source, Some(offset_bytes)) {
                // TCP has it since Linux 6.9.
                common::not_applicable(&format!("SO_PEEK_OFF of {from:?}: {errno}"));
                continue;
            }
            let (_, unread) = std::io::pipe().expect("a pipe");
            let error = Mover::new(&source, &unread).run().expect_err("bytes for no reader");
            let reported = error.io_error().and_then(Errno::from_io_error);
            assert_eq!(
                reported,
                Some(Errno::PIPE),
                "{from:?}, looks from {offset_bytes} on: {error}"
            );
            let mut seen = [0; 8];
            let looked_at = rustix::net::recv(&source, &mut seen[..], RecvFlags::PEEK);
            let left_bytes = 3 - usize::from(offset_bytes);
            if left_bytes > 0 {
                assert_eq!(looked_at.map(|(got, _)| got), Ok(left_bytes), "{from:?}: it moved");
            }
            let mut rest = [0; 8];
            let got = rustix::io::read(&source, &mut rest).expect("the bytes");
            assert_eq!(&rest[..got], b"abc", "{from:?}");
        }
    }
}
