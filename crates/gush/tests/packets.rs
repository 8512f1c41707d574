//! Pipes in packet mode (O_DIRECT of pipe(2), as of `dd oflag=direct`): a read that is shorter than
//! a packet drops the rest.

mod common;

use std::os::fd::OwnedFd;

use common::{STREAMS, noise, read_all, within};
use gush::flow::{Fan, FanFds, FanNext, PortState, Shelf, Spread, Terms};
use gush::pipe::Pool;
use gush::{Choice, Mover, Rate, Tee, Tuning};
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

const PACKETS: usize = 10;
const PACKET_BYTES: usize = 1000;

/// A pipe that holds packets and has ended, and all bytes of the packets.
fn packets() -> (OwnedFd, Vec<u8>) {
    let flags = PipeFlags::DIRECT | PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe in packet mode");
    let bytes = noise(7, PACKETS * PACKET_BYTES);
    for packet in bytes.chunks(PACKET_BYTES) {
        assert_eq!(rustix::io::write(&writer, packet), Ok(PACKET_BYTES));
    }
    (reader, bytes)
}

/// What is left in the pipe.
fn rest_of(reader: &OwnedFd) -> Vec<u8> {
    let (mut rest, mut packet) = (Vec::new(), [0; 4096]);
    loop {
        match rustix::io::read(reader, &mut packet).expect("a read") {
            0 => return rest,
            got => rest.extend_from_slice(&packet[..got]),
        }
    }
}

fn appended() -> OwnedFd {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::File::options().append(true).read(true).open(file.path()).expect("the file").into()
}

#[test]
fn packets_are_not_cut_by_small_buffers_lengths_and_rates() {
    let tunings = [Tuning::default(), Tuning::default().buffer_bytes(100)];
    let moves =
        STREAMS.iter().flat_map(|choice| tunings.iter().map(move |tuning| (choice, tuning)));
    for (&choice, tuning) in moves {
        for (length, rate) in
            [(None, None), (Some(1500), None), (None, Some(1 << 20)), (Some(1500), Some(1 << 16))]
        {
            for appends in [false, true] {
                let case = format!("{choice}, {tuning:?}, {length:?}, {rate:?}, appends {appends}");
                let (source, bytes) = packets();
                let target =
                    if appends { appended() } else { tempfile::tempfile().expect("a file").into() };
                let mut mover = Mover::new(&source, &target).method(choice).tuning(tuning.clone());
                if let Some(length) = length {
                    mover = mover.length_bytes(length);
                }
                if let Some(rate) = rate {
                    mover = mover.limit(Rate::bytes_per_second(rate).expect("a rate"));
                }
                let moved_bytes = match mover.run() {
                    Ok(report) => report.bytes as usize,
                    // The kernel splices nothing into a file with O_APPEND, or nothing at all.
                    Err(error) if error.is_refused() && choice != Choice::Auto => continue,
                    Err(error) => panic!("{case}: {error}"),
                };
                assert_eq!(
                    moved_bytes,
                    length.map_or(bytes.len(), |length| length as usize),
                    "{case}"
                );
                assert!(read_all(&target) == bytes[..moved_bytes], "{case}: other bytes");
                assert!(rest_of(&source) == bytes[moved_bytes..], "{case}: other bytes are left");
            }
        }
    }
}

#[test]
fn packets_are_not_cut_on_the_way_to_several_targets() {
    for backlog_bytes in [0, 300] {
        let (source, bytes) = packets();
        let targets = [appended(), tempfile::tempfile().expect("a file").into()];
        let length_bytes = Some(1500);
        let terms =
            Terms { length_bytes, through_memory: true, never_held: true, ..Terms::default() };
        let tee = Tee::new(&source).to(&targets[0]).to(&targets[1]).terms(terms);
        let report = tee.backlog_bytes(backlog_bytes).run().expect("a tee");
        assert_eq!((report.taken_bytes, report.is_complete), (1500, true), "{backlog_bytes}");
        for target in &targets {
            assert!(read_all(target) == bytes[..1500], "{backlog_bytes}: other bytes");
        }
        assert!(rest_of(&source) == bytes[1500..], "{backlog_bytes}: other bytes are left");
    }
}

/// A driver with a clock of its own lets a few bytes pass at a time.
#[test]
fn packets_are_not_cut_by_the_driver_of_a_fan() {
    use std::os::fd::AsFd;
    for through_memory in [false, true] {
        let (source, bytes) = packets();
        let targets: [OwnedFd; 2] = [appended(), tempfile::tempfile().expect("a file").into()];
        let states = targets.each_ref().map(|target| PortState::of(target).expect("a port state"));
        let terms = Terms { through_memory, ..Terms::default() };
        let from = PortState::of(&source).expect("a port state");
        let mut fan = Fan::between(from, &states, &terms).expect("a fan");
        let mut shelf = Shelf::new(Pool::shared().clone());
        let fds = targets.each_ref().map(AsFd::as_fd);
        let fds = FanFds { source: source.as_fd(), targets: &fds };
        let end = loop {
            match fan.next(70, &mut shelf) {
                FanNext::Do(op) => {
                    let answer = fan.perform(op, fds);
                    fan.learn(op, answer);
                }
                end => break end,
            }
        };
        assert!(matches!(end, FanNext::Ended(_)), "{end:?}");
        for target in &targets {
            assert!(read_all(target) == bytes, "through memory {through_memory}: other bytes");
        }
    }
}

/// Packets after other bytes: a read of our own pipe can cut one where its buffer ends. Nothing is
/// lost silently, and nobody waits for ever.
#[test]
fn a_packet_that_is_cut_after_other_bytes_is_an_error() {
    let reported = within(30, "packets after other bytes", || {
        let (source, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let flags = rustix::fs::fcntl_getfl(&writer).expect("F_GETFL");
        let mut bytes = 0;
        if rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).is_err() {
            return None;
        }
        for _ in 0..26 {
            bytes += rustix::io::write(&writer, &[1; 2500]).expect("room");
        }
        rustix::fs::fcntl_setfl(&writer, flags | OFlags::DIRECT).expect("packet mode");
        for _ in 0..5 {
            bytes += rustix::io::write(&writer, &[2; 4096]).expect("room");
        }
        drop(writer);
        // An output that takes no splices, next to one that takes the pages themselves.
        let file = appended();
        let (_reader, pipe) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let report = Tee::new(&source).to(&file).to(&pipe).run().expect("a tee");
        let got_bytes = read_all(&file).len();
        Some((report.failed().any(|(target, _)| target == 0), got_bytes, bytes))
    });
    let Some((is_lost, got_bytes, bytes)) = reported else {
        return gush_test::skipped("the user's pages for pipes are used up");
    };
    assert!(is_lost || got_bytes == bytes, "{got_bytes} of {bytes} bytes, without a word");
}
