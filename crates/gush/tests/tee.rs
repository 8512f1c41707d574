//! `gush::Tee`, the blocking driver of a fan: losses, ends, cancelling, and effects on pipes.

#[macro_use]
mod common;

use std::fs::File;
use std::io::{PipeReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use gush::flow::{Failure, Terms};
use gush::{Cancel, Choice, Control, Errno, MethodName, Side, Tee};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// A pipe with a thread that writes all of `data` and closes.
fn fed(data: &[u8]) -> (PipeReader, thread::JoinHandle<std::io::Result<()>>) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let data = data.to_vec();
    (reader, thread::spawn(move || writer.write_all(&data)))
}

fn taker(mut reader: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("bytes");
        all
    })
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("/dev/full")
}

fn errno_of(failure: &Option<Failure>) -> Option<Errno> {
    match failure {
        Some(Failure::Fault(fault)) => Some(fault.errno),
        _ => None,
    }
}

#[test]
fn a_target_that_fails_is_reported_and_the_others_get_everything() {
    let data = pattern(3_000_000);
    let (source, feeder) = fed(&data);
    let (reader, out) = std::io::pipe().expect("a pipe");
    let reader = taker(reader);
    // The failing target comes first: those after it must be served all the same.
    let (full, file) = (full(), tempfile::NamedTempFile::new().expect("a file"));
    let mut reported = Vec::new();
    let report = Tee::new(&source)
        .to(&full)
        .to(&out)
        .to(file.as_file())
        .on_loss(&mut |loss| {
            reported.push((loss.target, loss.delivered_bytes, loss.errno()));
            Control::Continue
        })
        .run()
        .expect("the source ends");
    assert_eq!(reported, [(0, 0, Some(Errno::NOSPC))]);
    assert!(report.is_complete);
    assert_eq!(report.taken_bytes, 3_000_000);
    let delivered: Vec<_> = report.targets.iter().map(|to| to.delivered_bytes).collect();
    assert_eq!(delivered, [0, 3_000_000, 3_000_000]);
    let failures: Vec<_> = report.targets.iter().map(|to| errno_of(&to.failure)).collect();
    assert_eq!(failures, [Some(Errno::NOSPC), None, None]);
    feeder.join().expect("no panic").expect("all was taken");
    drop(out);
    assert!(reader.join().expect("no panic") == data, "other bytes arrived");
    assert!(std::fs::read(file.path()).expect("a file") == data, "other bytes arrived");
}

#[test]
fn stopping_at_a_loss_delivers_what_was_taken_and_takes_no_more() {
    let data = pattern(3_000_000);
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let mut source = tempfile::tempfile().expect("a file");
        source.write_all(&data).expect("room");
        source.rewind().expect("a position");
        let (full, file) = (full(), tempfile::NamedTempFile::new().expect("a file"));
        let report = Tee::new(&source)
            .to(&full)
            .to(file.as_file())
            .terms(Terms { choice, ..Terms::default() })
            .on_loss(&mut |_| Control::Stop)
            .run()
            .expect("no error of the source");
        assert!(!report.is_complete, "{choice}");
        let taken = report.taken_bytes;
        assert!((1..data.len() as u64).contains(&taken), "{choice}: {taken} bytes");
        assert_eq!(report.targets[1].delivered_bytes, taken, "{choice}");
        let arrived = std::fs::read(file.path()).expect("a file");
        assert!(arrived == data[..taken as usize], "{choice}: other bytes arrived");
        // The position of the source is after the last byte that was delivered.
        let at = source.stream_position().expect("a position");
        assert_eq!(at, taken, "{choice}");
    }
}

/// Bytes that nobody got are still the file's.
#[test]
fn the_position_of_a_file_is_after_the_last_byte_delivered() {
    let data = pattern(1 << 20);
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        for backlog_bytes in [0, 1 << 20] {
            let mut source = tempfile::tempfile().expect("a file");
            source.write_all(&data).expect("room");
            source.seek(SeekFrom::Start(10)).expect("a position");
            let terms = Terms { choice: Choice::Auto, ..Terms::default() };
            // A backlog goes through memory, and is tried as `auto` alone.
            let terms = if backlog_bytes == 0 { Terms { choice, ..terms } } else { terms };
            let tee = Tee::new(&source).to(&full()).terms(terms).backlog_bytes(backlog_bytes).run();
            let report = tee.expect("no error of the source");
            assert_eq!((report.taken_bytes, report.is_complete), (0, false), "{choice}");
            assert_eq!(source.stream_position().expect("a position"), 10, "{choice}");
        }
    }
    // A pipe that nobody reads has a part, and a file next to it has more.
    let (mut reader, out) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&out).expect("a pipe");
    let mut source = tempfile::tempfile().expect("a file");
    // More than that pipe and one of the tee's own: with pages of 64 KiB each has 1 MiB.
    source.write_all(&pattern(data.len().max(4 * room))).expect("room");
    source.rewind().expect("a position");
    let file = tempfile::tempfile().expect("a file");
    let cancel = Cancel::new();
    let error = thread::scope(|scope| {
        let tee = Tee::new(&source).to(&out).to(&file).pipe_bytes(1).cancelled_by(&cancel);
        let tee = scope.spawn(|| tee.run());
        let wait = Timespec { tv_sec: 20, tv_nsec: 0 };
        let arrived = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&wait));
        assert_eq!(arrived, Ok(1), "nothing arrives");
        cancel.cancel();
        tee.join().expect("no panic").expect_err("cancelled")
    });
    let most = file.metadata().expect("a size").len();
    // The read below ends only once no writer is left.
    drop(out);
    let mut got = Vec::new();
    reader.read_to_end(&mut got).expect("a part");
    // An error reports the count that every target has: that of the slowest.
    assert_eq!(error.delivered_bytes(), most.min(got.len() as u64), "{error}");
    let most = most.max(got.len() as u64);
    assert_eq!(error.delivered_bytes() + error.in_flight_bytes(), most, "{error}");
    assert_eq!(source.stream_position().expect("a position"), most, "{error}");
}

#[test]
fn stopping_at_a_loss_ends_the_wait_for_an_idle_source() {
    let (idle, mut feeder) = std::io::pipe().expect("a pipe");
    let (gone, lost) = std::io::pipe().expect("a pipe");
    let (mut reader, kept) = std::io::pipe().expect("a pipe");
    let mut stop = |_: &gush::Loss| Control::Stop;
    let report = thread::scope(|scope| {
        let tee = Tee::new(&idle).to(&lost).to(&kept).sees_hang_ups().on_loss(&mut stop);
        let tee = scope.spawn(move || tee.run());
        feeder.write_all(b"x").expect("a byte");
        reader.read_exact(&mut [0]).expect("the byte");
        drop(gone);
        // The feeder stays open until the tee has ended.
        tee.join().expect("no panic")
    });
    let report = report.expect("no error of the source");
    assert_eq!((report.taken_bytes, report.is_complete), (1, false));
    assert_eq!(errno_of(&report.targets[0].failure), Some(Errno::PIPE));
    assert!(report.targets[1].failure.is_none());
}

#[test]
fn a_source_that_fails_is_an_error_with_the_count_that_everyone_has() {
    // read(2) of a directory fails at once with EISDIR, whatever the file system.
    let directory = File::open("/").expect("a directory");
    let (file, other) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("one"));
    let error = Tee::new(&directory).to(&file).to(&other).run().expect_err("it is a directory");
    assert_eq!((error.errno(), error.side()), (Some(Errno::ISDIR), Some(Side::Source)));
    assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (0, 0));
}

#[test]
fn a_method_by_name_is_used_or_refused() {
    needs!(splice);
    let (source, _feeder) = fed(b"bytes");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let append = File::options().append(true).open(file.path()).expect("a file");
    let terms = |method| Terms { choice: Choice::Only(method), ..Terms::default() };
    let error = Tee::new(&source)
        .to(&append)
        .terms(terms(MethodName::Reflink))
        .run()
        .expect_err("no stream is cloned");
    assert!(error.is_refused(), "{error}");
    // splice(2) refuses O_APPEND once it has bytes: those arrive, and the target is lost.
    let report = Tee::new(&source).to(&append).terms(terms(MethodName::Splice)).run();
    let report = report.expect("no error of the source");
    assert!(!report.is_complete, "no target is left");
    assert!(matches!(report.targets[0].failure, Some(Failure::Refused(_))), "{report:?}");
    assert_eq!(std::fs::read(file.path()).expect("a file"), b"bytes");
}

#[test]
fn without_a_target_nothing_is_taken() {
    let (mut source, feeder) = fed(b"bytes");
    let report = Tee::new(&source).run().expect("no error");
    assert_eq!((report.taken_bytes, report.is_complete), (0, false));
    feeder.join().expect("no panic").expect("room");
    let mut text = String::new();
    source.read_to_string(&mut text).expect("text");
    assert_eq!(text, "bytes");
}

/// A blocking socket that nobody reads holds its lane, and not the thread: a splice would wait
/// there until all is accepted.
#[test]
fn cancelling_ends_waits_for_either_side() {
    let (idle, _feeder) = std::io::pipe().expect("a pipe");
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    for (name, source) in [("source", OwnedFd::from(idle)), ("target", zeros.into())] {
        // Blocking, on purpose: a careless call would wait in the kernel, where no cancel reaches
        // it.
        let (near, unread) = UnixStream::pair().expect("a pair");
        let cancel = Cancel::new();
        let (done, ended) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| done.send(Tee::new(&source).to(&near).cancelled_by(&cancel).run()));
            if name == "target" {
                let wait = Timespec { tv_sec: 20, tv_nsec: 0 };
                let arrived = poll(&mut [PollFd::new(&unread, PollFlags::IN)], Some(&wait));
                assert_eq!(arrived, Ok(1), "nothing arrives");
            }
            // To let it get to its wait; that it does cannot be seen.
            thread::sleep(std::time::Duration::from_millis(100));
            cancel.cancel();
            let ended = ended.recv_timeout(std::time::Duration::from_secs(20));
            // Whoever is still held is let go, so that the test fails instead of hanging.
            drop(unread);
            let error = ended.expect("it is held").expect_err("cancelled");
            assert!(error.is_cancelled(), "{name}: {error}");
            assert!(name == "target" || error.in_flight_bytes() == 0, "{name}: {error}");
            assert_eq!(error.delivered_bytes() > 0, name == "target", "{name}: {error}");
        });
    }
}

/// Neither side ever waits for long: cancelling is looked at while bytes flow, too.
#[test]
fn cancelling_ends_a_tee_whose_bytes_flow() {
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let (mut reader, out) = std::io::pipe().expect("a pipe");
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    let cancel = Cancel::new();
    let (let_go, is_hopeless) = std::sync::mpsc::channel::<()>();
    let canceller = cancel.clone();
    let reading = thread::spawn(move || {
        let (mut all_bytes, mut buf) = (0, vec![0; 1 << 16]);
        // Whoever is not cancelled loses its reader at last, so that the test fails instead of
        // hanging.
        while is_hopeless.try_recv().is_err() {
            match reader.read(&mut buf).expect("zeros") {
                0 => break,
                got => all_bytes += got as u64,
            }
            // Well under way by then: cancelling at the start would be another case.
            if all_bytes > 4 << 20 {
                canceller.cancel();
            }
        }
        all_bytes
    });
    thread::scope(|scope| {
        let (done, ended) = std::sync::mpsc::channel();
        let (zeros, null, cancel) = (&zeros, &null, &cancel);
        scope.spawn(move || {
            let _ = done.send(Tee::new(zeros).to(&out).to(null).cancelled_by(cancel).run());
        });
        let ended = ended.recv_timeout(std::time::Duration::from_secs(20));
        if ended.is_err() {
            let _ = let_go.send(());
        }
        let error = ended.expect("it goes on").expect_err("cancelled");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(reading.join().expect("a reader"), error.delivered_bytes(), "{error}");
    });
}

/// Until the files have more than the socket, and get no more because nobody reads there.
fn wait_until_held_back(files: &[File; 2], unread: &UnixStream) {
    let mut before = (0, 0);
    loop {
        let [one, other] = files.each_ref().map(|file| file.metadata().expect("a size").len());
        let queued_bytes = rustix::io::ioctl_fionread(unread).expect("FIONREAD");
        // Equal files, and fewer bytes in the socket: the files are as far ahead as they may be.
        let is_held_back = one == other && one > queued_bytes && queued_bytes > 0;
        // Twice the same, since the counts are also equal for a moment while bytes flow.
        if is_held_back && before == (one, queued_bytes) {
            return;
        }
        before = (one, queued_bytes);
        thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// An error has one count for all targets: that of the slowest.
#[test]
fn a_cancelled_tee_counts_what_its_slowest_target_has() {
    for slowest in [0, 1, 2] {
        let zeros = File::open("/dev/zero").expect("/dev/zero");
        let (near, mut unread) = UnixStream::pair().expect("a pair");
        let files = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
        let cancel = Cancel::new();
        let error = thread::scope(|scope| {
            let tee = match slowest {
                0 => Tee::new(&zeros).to(&near).to(&files[0]).to(&files[1]),
                1 => Tee::new(&zeros).to(&files[0]).to(&near).to(&files[1]),
                _ => Tee::new(&zeros).to(&files[0]).to(&files[1]).to(&near),
            };
            let tee = scope.spawn(|| tee.cancelled_by(&cancel).run());
            wait_until_held_back(&files, &unread);
            cancel.cancel();
            tee.join().expect("no panic").expect_err("cancelled")
        });
        assert!(error.is_cancelled() && error.in_flight_bytes() > 0, "{slowest}: {error}");
        drop(near);
        let mut got = Vec::new();
        unread.read_to_end(&mut got).expect("what was delivered");
        assert_eq!(error.delivered_bytes(), got.len() as u64, "{slowest}: {error}");
        let taken = error.delivered_bytes() + error.in_flight_bytes();
        let sizes = files.map(|file| file.metadata().expect("a size").len());
        assert_eq!(sizes, [taken; 2], "{slowest}: {error}");
    }
}

/// The pipes of the process are for those that move bytes: a tee that waits for the source has
/// none.
#[test]
fn a_tee_that_waits_holds_no_pipe() {
    // The pool belongs to the whole process, where other tests hold pipes too.
    let (passed, said) = common::child(&[], "in_a_child_a_tee_that_waits_holds_no_pipe", &[]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "run by a_tee_that_waits_holds_no_pipe, in a process of its own"]
fn in_a_child_a_tee_that_waits_holds_no_pipe() {
    let in_use = || gush::pipe::Pool::shared().usage().in_use;
    let (source, mut feeder) = std::io::pipe().expect("a pipe");
    let (mut reader, out) = std::io::pipe().expect("a pipe");
    let file = tempfile::tempfile().expect("a file");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    thread::scope(|scope| {
        scope.spawn(|| {
            let report = Tee::new(&source).to(&out).to(&file).run();
            assert!(report.expect("no error").is_complete);
        });
        let mut word = [0; 5];
        for _ in 0..3 {
            feeder.write_all(b"bytes").expect("room");
            reader.read_exact(&mut word).expect("bytes");
            while in_use() > 0 && std::time::Instant::now() < end {
                thread::yield_now();
            }
            let held = in_use();
            if held > 0 {
                drop(feeder);
                panic!("{held} pipes are held while nothing comes");
            }
        }
        // Or the scope would wait for the tee for ever, and the panic would never be seen.
        drop(feeder);
    });
}

#[test]
fn a_hang_up_ends_an_idle_tee_only_where_it_is_asked_for() {
    let (idle, feeder) = std::io::pipe().expect("a pipe");
    let (reader, out) = std::io::pipe().expect("a pipe");
    drop(reader);
    let report = Tee::new(&idle).to(&out).sees_hang_ups().run().expect("no error");
    assert_eq!(errno_of(&report.targets[0].failure), Some(Errno::PIPE));
    assert_eq!((report.taken_bytes, report.is_complete), (0, false));

    let cancel = Cancel::new();
    let error = thread::scope(|scope| {
        let tee = scope.spawn(|| Tee::new(&idle).to(&out).cancelled_by(&cancel).run());
        thread::sleep(std::time::Duration::from_millis(100));
        cancel.cancel();
        tee.join().expect("no panic").expect_err("it waits for the source")
    });
    assert!(error.is_cancelled(), "{error}");
    drop(feeder);
}

#[test]
fn pipes_are_enlarged_unless_that_is_not_wanted() {
    // A wish of one byte is met by every pipe as it is.
    for (asked, grows) in [(None, true), (Some(1), false)] {
        let (source, feeder) = fed(b"bytes");
        let (_reader, out) = std::io::pipe().expect("a pipe");
        let size = |pipe: &dyn std::os::fd::AsFd| {
            rustix::pipe::fcntl_getpipe_size(pipe.as_fd()).expect("a pipe")
        };
        let before = [size(&source), size(&out)];
        let tee = Tee::new(&source).to(&out);
        let tee = match asked {
            Some(bytes) => tee.pipe_bytes(bytes),
            None => tee,
        };
        assert!(tee.run().expect("no error").is_complete);
        let after = [size(&source), size(&out)];
        for (after, before) in after.into_iter().zip(before) {
            // With pages of 64 KiB a new pipe has all that is wanted.
            let grows = grows && before < 1 << 20;
            assert_eq!(after > before, grows, "{asked:?}: {before} bytes became {after}");
        }
        feeder.join().expect("no panic").expect("room");
    }
}

#[test]
fn a_file_is_not_teed_into_itself() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), [7; 5000]).expect("room");
    let source = std::fs::File::open(file.path()).expect("a source");
    let appended = std::fs::File::options().append(true).open(file.path()).expect("a target");
    let other = tempfile::tempfile().expect("a file");
    let error = gush::Tee::new(&source).to(&other).to(&appended).run().expect_err("a refusal");
    assert!(error.to_string().contains("same file"), "{error}");
    let sizes = [source.metadata(), other.metadata()].map(|found| found.expect("a size").len());
    assert_eq!(sizes, [5000, 0]);
}

#[test]
fn a_target_that_holds_others_back_for_too_long_is_lost_and_they_get_everything() {
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let data = pattern(6_000_000);
        let (source, feeder) = fed(&data);
        let (mut stuck, slow) = std::io::pipe().expect("a pipe");
        let (reader, out) = std::io::pipe().expect("a pipe");
        let reader = taker(reader);
        let report = Tee::new(&source)
            .to(&slow)
            .to(&out)
            .terms(Terms { choice, never_held: true, ..Terms::default() })
            .most_stall(std::time::Duration::from_millis(30))
            .run()
            .expect("the source ends");
        drop((slow, out));
        assert!(report.is_complete, "{choice}");
        assert_eq!(errno_of(&report.targets[0].failure), Some(Errno::TIMEDOUT), "{choice}");
        assert_eq!(report.targets[1].delivered_bytes, 6_000_000, "{choice}");
        assert!(reader.join().expect("no panic") == data, "{choice}: other bytes arrived");
        feeder.join().expect("no panic").expect("all was taken");
        // The slow reader has the first bytes, as many as the report says.
        let mut first = Vec::new();
        stuck.read_to_end(&mut first).expect("bytes");
        assert_eq!(first.len() as u64, report.targets[0].delivered_bytes, "{choice}");
        assert!(first == data[..first.len()], "{choice}: other bytes arrived");
    }
}

#[test]
fn targets_that_all_lack_room_hold_nobody_back() {
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let (_left, to_left) = std::io::pipe().expect("a pipe");
    let (_right, to_right) = std::io::pipe().expect("a pipe");
    let stall = std::time::Duration::from_millis(5);
    let (mut losses, cancel) = (0, Cancel::new());
    let mut count = |_: &gush::Loss| {
        losses += 1;
        Control::Continue
    };
    let error = thread::scope(|scope| {
        let tee = Tee::new(&zeros).to(&to_left).to(&to_right).most_stall(stall);
        let tee = tee.on_loss(&mut count).cancelled_by(&cancel);
        let tee = scope.spawn(move || tee.run());
        // Many times as long as is permitted to one that holds others back.
        thread::sleep(40 * stall);
        cancel.cancel();
        tee.join().expect("no panic").expect_err("cancelled")
    });
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(losses, 0);
}

#[test]
fn a_target_that_takes_a_little_now_and_then_is_not_lost() {
    let data = pattern(3_000_000);
    let (source, feeder) = fed(&data);
    let (mut drop_by_drop, slow) = std::io::pipe().expect("a pipe");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let report = thread::scope(|scope| {
        let tee = Tee::new(&source).to(&slow).to(file.as_file());
        let tee = tee.most_stall(std::time::Duration::from_secs(20));
        let tee = scope.spawn(move || tee.run());
        let mut seen = Vec::new();
        let mut piece = vec![0; 50_000];
        while seen.len() < data.len() {
            let got = drop_by_drop.read(&mut piece).expect("bytes");
            seen.extend_from_slice(&piece[..got]);
            // Slow, and never still for as long as `most_stall`.
            thread::sleep(std::time::Duration::from_micros(300));
        }
        assert!(seen == data, "other bytes arrived");
        tee.join().expect("no panic").expect("the source ends")
    });
    assert_eq!(report.failed().count(), 0);
    feeder.join().expect("no panic").expect("all was taken");
}

/// A pipe has no room for more before a whole page of it was read (pipe(7)).
#[test]
fn a_target_whose_reader_empties_its_pipe_byte_by_byte_is_not_lost() {
    let stall = std::time::Duration::from_millis(300);
    for backlog_bytes in [0, 4096] {
        let data = pattern(3_000_000);
        let (source, feeder) = fed(&data);
        let (mut drop_by_drop, slow) = std::io::pipe().expect("a pipe");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let report = thread::scope(|scope| {
            let (source, file) = (&source, file.as_file());
            let tee = scope.spawn(move || {
                let tee = Tee::new(source).to(&slow).to(file).most_stall(stall);
                tee.backlog_bytes(backlog_bytes).run()
            });
            let mut seen = vec![0; 4000];
            for piece in seen.chunks_mut(50) {
                drop_by_drop.read_exact(piece).expect("bytes");
                thread::sleep(stall / 20);
            }
            let mut rest = vec![0; data.len() - seen.len()];
            drop_by_drop.read_exact(&mut rest).expect("not lost");
            assert!([seen, rest].concat() == data, "other bytes arrived");
            tee.join().expect("no panic").expect("the source ends")
        });
        assert_eq!(report.failed().count(), 0);
        feeder.join().expect("no panic").expect("all was taken");
    }
}

#[test]
fn more_targets_than_have_a_number_are_refused_before_a_byte_is_taken() {
    let null = File::create("/dev/null").expect("/dev/null");
    for backlog_bytes in [0, 4096] {
        let (mut source, feeder) = fed(b"to nobody");
        let tee = (0..=u16::MAX).fold(Tee::new(&source), |tee, _| tee.to(&null));
        let error = tee.backlog_bytes(backlog_bytes).run().expect_err("too many");
        assert!(error.is_refused() && error.to_string().contains("65,535"), "{error}");
        feeder.join().expect("no panic").expect("a pipe has room");
        let mut text = String::new();
        source.read_to_string(&mut text).expect("bytes");
        assert_eq!(text, "to nobody");
    }
}
