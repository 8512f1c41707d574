//! Descriptors that cannot be read or written: each move there fails at once, and none waits for
//! ever.

mod common;

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use common::within;
use gush::pipe::Writer;
use gush::{Cancel, Choice, Errno, MethodName, Mover, Side, Tee};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

/// A name, the descriptor, the error as a source and as a target, and the far end that the test
/// must keep open meanwhile.
struct Unfit {
    name: &'static str,
    fd: OwnedFd,
    as_source: Option<Errno>,
    as_target: Option<Errno>,
    _kept: Option<OwnedFd>,
}

fn unfit() -> Vec<Unfit> {
    let dir = tempfile::tempdir().expect("a directory");
    let (reader, kept_writer) = std::io::pipe().expect("a pipe");
    let (kept_reader, writer) = std::io::pipe().expect("a pipe");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let opened = |flags| rustix::fs::open(file.path(), flags, Mode::empty()).expect("the file");
    let null = |flags| rustix::fs::open("/dev/null", flags, Mode::empty()).expect("/dev/null");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll descriptor");
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).expect("a pidfd");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listening socket");
    let unix = UnixListener::bind(dir.path().join("socket")).expect("a listening socket");
    let of = |name, fd, as_source, as_target| Unfit { name, fd, as_source, as_target, _kept: None };
    let (bad, invalid) = (Some(Errno::BADF), Some(Errno::INVAL));
    vec![
        Unfit { _kept: Some(kept_writer.into()), ..of("reading end", reader.into(), None, bad) },
        Unfit { _kept: Some(kept_reader.into()), ..of("writing end", writer.into(), bad, None) },
        of("file to read", opened(OFlags::RDONLY), None, bad),
        of("file to write", opened(OFlags::WRONLY), bad, None),
        of("file by path alone", opened(OFlags::PATH), bad, bad),
        of("/dev/null to read", null(OFlags::RDONLY), None, bad),
        of("/dev/null to write", null(OFlags::WRONLY), bad, None),
        of("/dev/null by path alone", null(OFlags::PATH), bad, bad),
        of("epoll", epoll, invalid, invalid),
        of("pidfd", pidfd, invalid, invalid),
        of("listening TCP", tcp.into(), Some(Errno::NOTCONN), Some(Errno::PIPE)),
        of("listening Unix", unix.into(), invalid, Some(Errno::NOTCONN)),
    ]
}

fn source() -> File {
    let file = tempfile::tempfile().expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 8192], 0).expect("room");
    file
}

fn choices() -> impl Iterator<Item = Choice> {
    [Choice::Auto, Choice::Only(MethodName::ReadWrite), Choice::Only(MethodName::Splice)]
        .into_iter()
}

/// The error of a move, with an observer or without.
fn error_of(from: &impl AsFd, to: &impl AsFd, choice: Choice, watched: bool) -> gush::Error {
    let cancel = Cancel::new();
    let mover = Mover::new(from, to).method(choice);
    let mover = if watched { mover.cancelled_by(&cancel) } else { mover };
    mover.run().expect_err("no move")
}

#[test]
fn a_source_that_cannot_be_read_is_an_error_at_once() {
    within(60, "sources", || {
        for end in unfit() {
            let Some(errno) = end.as_source else { continue };
            for (choice, watched) in choices().flat_map(|choice| [(choice, false), (choice, true)])
            {
                let (_reader, pipe) = std::io::pipe().expect("a pipe");
                for target in [OwnedFd::from(tempfile::tempfile().unwrap()), pipe.into()] {
                    let error = error_of(&end.fd, &target, choice, watched);
                    let reported = (error.side(), error.errno());
                    assert_eq!(
                        reported,
                        (Some(Side::Source), Some(errno)),
                        "{}, {choice}",
                        end.name
                    );
                }
            }
        }
    });
}

#[test]
fn a_target_that_cannot_be_written_is_an_error_at_once_and_nothing_is_taken() {
    within(60, "targets", || {
        for end in unfit() {
            let Some(errno) = end.as_target else { continue };
            for (choice, watched) in choices().flat_map(|choice| [(choice, false), (choice, true)])
            {
                let (mut reader, mut feeder) = std::io::pipe().expect("a pipe");
                std::io::Write::write_all(&mut feeder, b"kept").expect("room");
                drop(feeder);
                let from_file = error_of(&source(), &end.fd, choice, watched);
                let from_pipe = error_of(&reader, &end.fd, choice, watched);
                for error in [from_file, from_pipe] {
                    let reported = (error.side(), error.errno(), error.in_flight_bytes());
                    let wanted = (Some(Side::Target), Some(errno), 0);
                    assert_eq!(reported, wanted, "{}, {choice}", end.name);
                }
                let mut left = String::new();
                reader.read_to_string(&mut left).expect("the rest");
                assert_eq!(left, "kept", "{}", end.name);
            }
        }
    });
}

#[test]
fn a_tee_loses_targets_that_cannot_be_written_and_serves_the_others() {
    within(60, "tee", || {
        for end in unfit() {
            if let Some(errno) = end.as_target {
                let whole = tempfile::tempfile().expect("a file");
                let mut reported = Vec::new();
                let from = source();
                let report = Tee::new(&from)
                    .to(&end.fd)
                    .to(&whole)
                    .on_loss(&mut |loss| {
                        reported.push((loss.target, loss.errno()));
                        gush::Control::Continue
                    })
                    .run()
                    .expect("a report");
                assert_eq!(reported, [(0, Some(errno))], "{}", end.name);
                assert_eq!(report.failed().map(|(target, _)| target).collect::<Vec<_>>(), [0]);
                assert_eq!((report.is_complete, report.targets[1].delivered_bytes), (true, 8192));
            }
            if let Some(errno) = end.as_source {
                let error = Tee::new(&end.fd).to(&tempfile::tempfile().unwrap()).run().unwrap_err();
                let reported = (error.side(), error.errno());
                assert_eq!(reported, (Some(Side::Source), Some(errno)), "{}", end.name);
            }
        }
    });
}

#[test]
fn a_writer_refuses_what_cannot_be_written() {
    for end in unfit() {
        let made = Writer::new(&end.fd).map(drop).map_err(|refused| refused.errno);
        assert_eq!(made, end.as_target.map_or(Ok(()), Err), "{}", end.name);
    }
}

#[test]
fn the_wrong_end_of_a_pipe_is_an_error_of_a_port_too() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let read = gush::Port::of(&writer).expect("a port").read(&mut [0; 8]);
    let written = gush::Port::of(&reader).expect("a port").write(b"abc");
    assert_eq!((read, written), (Err(Errno::BADF), Err(Errno::BADF)));
}

#[test]
fn descriptors_without_a_name_that_can_be_read_and_written_still_serve() {
    within(60, "eventfd", || {
        let counter = eventfd(3, EventfdFlags::NONBLOCK).expect("an eventfd");
        let taken = Mover::new(&counter, &tempfile::tempfile().unwrap()).length_bytes(8).run();
        assert_eq!(taken.expect("a count").bytes, 8);
        let one =
            File::from(rustix::fs::memfd_create("one", rustix::fs::MemfdFlags::empty()).unwrap());
        std::os::unix::fs::FileExt::write_all_at(&one, &5_u64.to_ne_bytes(), 0).unwrap();
        assert_eq!(gush::copy(&one, &counter).expect("a count").bytes, 8);
        let mut count = [0; 8];
        rustix::io::read(&counter, &mut count).expect("a count");
        assert_eq!(u64::from_ne_bytes(count), 5);
    });
}
