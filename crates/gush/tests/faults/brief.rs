//! The short way of a tree's files: its two calls, and each answer that leaves the file to a move.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use gush::faults::{Injection, Plan};
use gush::{
    Advice, Call, Cancel, Choice, Control, Endpoint, Errno, Error, Holes, MethodName, Mover,
    Progress, Rate, Refusals, Report, Side, Space, Tuning,
};
use rustix::fs::OFlags;

use crate::common::{file_of, noise};

const LEN: usize = 10_000;

struct Moved {
    result: Result<Report, Error>,
    arrived: Vec<u8>,
    calls: Vec<Call>,
}

/// Refusals as an earlier move of the same file system has left them: blocks cannot be shared.
fn refusals_of_an_earlier_move() -> Refusals {
    let refusals = Refusals::default();
    let no_sharing = Plan::new(|call, _| match call {
        Call::Ficlone | Call::FicloneRange => Injection::Fail(Errno::OPNOTSUPP),
        _ => Injection::None,
    })
    .install();
    let first = between((&file_of(b"earlier"), &file_of(b"")), &refusals).expect("an earlier move");
    assert_eq!(first.bytes, 7);
    drop(no_sharing);
    refusals
}

/// Moves a file between two that the caller has looked at, as a tree does, with the refusals of an
/// earlier move in mind.
fn moved(mut inject: impl FnMut(&File, Call, u64) -> Injection + Send + 'static) -> Moved {
    let refusals = refusals_of_an_earlier_move();
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let hand = File::from(source.try_clone().expect("dup"));
    let made = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&made);
    let (from, to) =
        (Endpoint::of(&source).expect("a look"), Endpoint::of(&target).expect("a look"));
    let guard = Plan::new(move |call, nth| {
        log.lock().expect("the log").push(call);
        inject(&hand, call, nth)
    })
    .install();
    let mover = Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0);
    let result = mover.remember(&refusals).run();
    drop(guard);
    let calls = made.lock().expect("the log").clone();
    Moved { result, arrived: content(&target), calls }
}

/// The same move on other terms.
fn between_files<'m>(
    (source, target): (&'m OwnedFd, &'m OwnedFd),
    refusals: &'m Refusals,
    terms: impl FnOnce(Mover<'m>) -> Mover<'m>,
) -> Moved {
    let (from, to) = (Endpoint::of(source).expect("a look"), Endpoint::of(target).expect("a look"));
    let mover = Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0);
    let mover = terms(mover).remember(refusals);
    let mut result = None;
    let calls = calls_of(|| result = Some(mover.run()));
    Moved { result: result.expect("a move"), arrived: content(target), calls }
}

fn calls_of(act: impl FnOnce()) -> Vec<Call> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&made);
    let guard = Plan::new(move |call, _| {
        log.lock().expect("the log").push(call);
        Injection::None
    })
    .install();
    act();
    drop(guard);
    made.lock().expect("the log").clone()
}

fn content(file: &OwnedFd) -> Vec<u8> {
    // Without O_DIRECT, which takes whole sectors.
    rustix::fs::fcntl_setfl(file, OFlags::empty()).expect("flags");
    let file = File::from(file.try_clone().expect("dup"));
    let mut bytes = vec![0; file.metadata().expect("a size").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("the content");
    bytes
}

fn between((source, target): (&OwnedFd, &OwnedFd), refusals: &Refusals) -> Result<Report, Error> {
    let (from, to) = (source.as_fd(), target.as_fd());
    let ends = (Endpoint::of(&from).expect("a look"), Endpoint::of(&to).expect("a look"));
    let mover = Mover::between(ends.0, ends.1).source_offset_bytes(0).target_offset_bytes(0);
    mover.remember(refusals).run()
}

#[test]
fn a_known_file_takes_one_copy_and_the_read_that_proves_the_end() {
    let Moved { result, arrived, calls } = moved(|_, _, _| Injection::None);
    let report = result.expect("a copy");
    assert!(arrived == noise(1, LEN), "other bytes");
    assert_eq!(calls, [Call::CopyFileRange, Call::Pread]);
    assert_eq!(report.bytes, LEN as u64);
    let [used] = &report.methods[..] else { panic!("{}", report.explain()) };
    assert_eq!((used.bytes, used.steps, used.threads), (LEN as u64, 1, 1));
    let counted: Vec<_> = used.calls.iter().collect();
    assert_eq!(counted, [(Call::Pread, 1), (Call::CopyFileRange, 1)], "in the order of the names");
}

#[test]
fn any_other_answer_leaves_the_rest_to_a_move() {
    let fails = [Errno::INTR, Errno::INVAL, Errno::NOSYS, Errno::XDEV, Errno::OPNOTSUPP];
    let copies = fails.map(Injection::Fail).into_iter().chain([
        Injection::Zero,
        Injection::Short(1),
        Injection::Short(LEN - 1),
    ]);
    let reads = [Injection::Fail(Errno::INTR), Injection::Fail(Errno::AGAIN)];
    let troubles = copies
        .map(|injection| (Call::CopyFileRange, injection))
        .chain(reads.map(|injection| (Call::Pread, injection)));
    for (troubled, injection) in troubles {
        for at in [0, 1] {
            let name = format!("{troubled} #{at} {injection:?}");
            let Moved { result, arrived, .. } = moved(move |_, call, nth| match call {
                call if call == troubled && (nth == 0 || nth == at) => injection,
                _ => Injection::None,
            });
            let report = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(arrived == noise(1, LEN), "{name}: other bytes");
            assert_eq!(report.bytes, LEN as u64, "{name}");
            let counted: u64 = report.methods.iter().map(|used| used.bytes).sum();
            assert_eq!(counted, LEN as u64, "{name}: {}", report.explain());
        }
    }
}

#[test]
fn an_error_names_the_call_and_counts_what_arrived() {
    for (troubled, side, errno, delivered) in [
        (Call::CopyFileRange, Side::Target, Errno::NOSPC, 0),
        (Call::CopyFileRange, Side::Target, Errno::IO, 0),
        (Call::Pread, Side::Source, Errno::IO, LEN as u64),
    ] {
        let Moved { result, arrived, .. } = moved(move |_, call, _| match call {
            call if call == troubled => Injection::Fail(errno),
            _ => Injection::None,
        });
        let error = result.expect_err("a failure");
        assert_eq!((error.side(), error.delivered_bytes()), (Some(side), delivered), "{troubled}");
        assert_eq!(arrived.len() as u64, delivered, "{troubled}");
    }
}

/// sendfile(2) and copy_file_range(2) do not say which file has failed: the source is read there.
#[test]
fn an_io_error_between_two_files_names_the_file_that_has_it() {
    let short_way = |fails: bool| {
        moved(move |_, call, _| match call {
            Call::CopyFileRange => Injection::Fail(Errno::IO),
            Call::Pread if fails => Injection::Fail(Errno::IO),
            _ => Injection::None,
        })
    };
    let moved_by = |method: MethodName, has_offsets: bool, fails: bool| {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let guard = Plan::new(move |call, nth| match (call, nth) {
            (Call::Sendfile | Call::CopyFileRange, 0) => Injection::Short(4096),
            (Call::Sendfile | Call::CopyFileRange, _) => Injection::Fail(Errno::IO),
            (Call::Pread, _) if fails => Injection::Fail(Errno::IO),
            _ => Injection::None,
        })
        .install();
        let mover = Mover::new(&source, &target).method(Choice::Only(method));
        let result = match has_offsets {
            true => mover.source_offset_bytes(0).run(),
            false => mover.run(),
        };
        drop(guard);
        let position = rustix::fs::tell(&source).expect("a position");
        assert_eq!(position, if has_offsets { 0 } else { 4096 }, "{method}");
        result.expect_err("a failure")
    };
    for (fails, side) in [(true, Side::Source), (false, Side::Target)] {
        assert_eq!(short_way(fails).result.expect_err("a failure").side(), Some(side));
        for method in [MethodName::Sendfile, MethodName::CopyFileRange] {
            for has_offsets in [false, true] {
                let error = moved_by(method, has_offsets, fails);
                assert_eq!(error.errno(), Some(Errno::IO), "{method}");
                assert_eq!((error.side(), error.delivered_bytes()), (Some(side), 4096), "{error}");
            }
        }
    }
}

/// A tree of small files pays for each of these questions.
#[test]
fn a_copy_between_file_systems_asks_each_once_which_one_it_is() {
    let source = tempfile::tempfile_in("/dev/shm").expect("tmpfs");
    source.write_all_at(&noise(1, LEN), 0).expect("room");
    // In memory, but of another device: both are local.
    let target = rustix::fs::memfd_create("target", rustix::fs::MemfdFlags::CLOEXEC);
    let (source, target) = (OwnedFd::from(source), target.expect("a memfd"));
    let Moved { arrived, calls, .. } =
        between_files((&source, &target), &Refusals::default(), |mover| mover);
    assert_eq!(arrived, noise(1, LEN));
    assert_eq!(calls.iter().filter(|&&call| call == Call::Fstatfs).count(), 2, "{calls:?}");
}

#[test]
fn a_source_that_changes_meanwhile_is_copied_to_its_end() {
    for now in [0, 1, LEN / 2, LEN - 1, LEN + 1, 3 * LEN] {
        for at in [Call::CopyFileRange, Call::Pread] {
            let Moved { result, arrived, .. } = moved(move |source, call, nth| {
                if (call, nth) == (at, 0) {
                    source.set_len(now as u64).expect("another size");
                }
                Injection::None
            });
            let report = result.unwrap_or_else(|error| panic!("{at}, {now} bytes: {error}"));
            // What was copied before the source became shorter has been read.
            let expected = if at == Call::Pread { now.max(LEN) } else { now };
            assert_eq!((report.bytes, arrived.len()), (expected as u64, expected), "{at}, {now}");
            let known = expected.min(LEN);
            assert!(arrived[..known] == noise(1, LEN)[..known], "{at}, {now}: other bytes");
            assert!(arrived[known..].iter().all(|&byte| byte == 0), "{at}, {now}: other zeros");
        }
    }
}

/// The terms of a move by which somebody would see the difference, each with what that somebody
/// sees. A guard of the short way stands for each.
#[test]
fn terms_that_the_short_way_does_not_keep_are_a_moves() {
    fn moved_as(terms: impl for<'m> FnOnce(Mover<'m>) -> Mover<'m>) -> Moved {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let refusals = refusals_of_an_earlier_move();
        between_files((&source, &target), &refusals, terms)
    }
    let refusals = refusals_of_an_earlier_move();
    let named = |moved: &Moved| moved.result.as_ref().expect("a copy").methods[0].name;

    let moved = moved_as(|mover| mover.method(Choice::Only(MethodName::ReadWrite)));
    assert_eq!(named(&moved), MethodName::ReadWrite);

    let moved = moved_as(|mover| mover.exclude(&[MethodName::CopyFileRange]));
    assert_ne!(named(&moved), MethodName::CopyFileRange);
    assert!(!moved.calls.contains(&Call::CopyFileRange), "{:?}", moved.calls);

    let moved = moved_as(|mover| mover.length_bytes(100));
    assert_eq!((moved.result.expect("a part").bytes, moved.arrived.len()), (100, 100));

    let moved = moved_as(|mover| mover.digest(true));
    assert_eq!(
        moved.result.expect("a copy").digest,
        gush::digest_of(&file_of(&noise(1, LEN))).ok()
    );

    let seen = Arc::new(Mutex::new(Vec::new()));
    let eye = Arc::clone(&seen);
    let moved = moved_as(|mover| {
        mover.inspect(move |bytes| eye.lock().expect("what was seen").extend_from_slice(bytes))
    });
    moved.result.expect("a copy");
    assert!(*seen.lock().expect("what was seen") == noise(1, LEN), "other bytes were seen");

    let moved = moved_as(|mover| mover.tuning(Tuning::default().advice(Advice::Sequential)));
    assert!(moved.calls.contains(&Call::Fadvise), "{:?}", moved.calls);

    let moved = moved_as(|mover| mover.tuning(Tuning::default().space(Space::Reserve)));
    assert!(moved.calls.contains(&Call::Fallocate), "{:?}", moved.calls);

    let (zeros, target) = (file_of(&[0; 1 << 20]), file_of(b""));
    let moved = between_files((&zeros, &target), &refusals, |mover| mover.holes(Holes::Make));
    assert_eq!(moved.result.expect("a copy").hole_bytes, 1 << 20);

    let sparse = file_of(b"");
    File::from(sparse.try_clone().expect("dup")).set_len(1 << 20).expect("a hole");
    let moved = between_files((&sparse, &file_of(b"")), &refusals, |mover| mover);
    assert_eq!(moved.result.expect("a copy").hole_bytes, 1 << 20);

    let old = file_of(&noise(2, 2 * LEN));
    let moved =
        between_files((&file_of(&noise(1, LEN)), &old), &refusals, |mover| mover.replace(true));
    moved.result.expect("a copy");
    assert!(moved.arrived == noise(1, LEN), "the rest of the old bytes is still there");
}

#[test]
fn a_move_that_is_cancelled_begins_no_short_way() {
    let cancel = Cancel::new();
    cancel.cancel();
    let refusals = refusals_of_an_earlier_move();
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let moved = between_files((&source, &target), &refusals, |mover| mover.cancelled_by(&cancel));
    assert!(moved.result.is_err());
    assert!(moved.arrived.is_empty(), "{:?}", moved.calls);
}

#[test]
fn a_limited_move_takes_no_more_than_its_rate_before_somebody_looks() {
    let refusals = refusals_of_an_earlier_move();
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let mut stops = |_: &Progress| Control::Stop;
    let moved = between_files((&source, &target), &refusals, |mover| {
        mover.limit(Rate::bytes_per_second(1).expect("a rate")).observe(&mut stops)
    });
    assert!(moved.result.is_err());
    assert!(moved.arrived.len() < LEN, "{} bytes at once", moved.arrived.len());
}

#[test]
fn an_observer_is_asked_before_a_large_file_is_whole_and_once_of_a_small_one() {
    const LARGE: usize = 8 << 20;
    let refusals = refusals_of_an_earlier_move();
    for len in [LEN, LARGE] {
        let (source, target) = (file_of(&noise(1, len)), file_of(b""));
        let mut seen = Vec::new();
        let mut stops = |progress: &Progress| {
            seen.push((progress.bytes, progress.expected_bytes));
            Control::Stop
        };
        let moved = between_files((&source, &target), &refusals, |mover| mover.observe(&mut stops));
        let error = moved.result.expect_err("a stop");
        assert!(error.is_stopped());
        let delivered = error.delivered_bytes();
        assert_eq!(seen, [(delivered, Some(len as u64))]);
        assert_eq!(
            (delivered as usize == len, moved.arrived.len() as u64),
            (len == LEN, delivered)
        );
    }
}

/// A `read` of one byte at an odd place fails where O_DIRECT asks for whole sectors.
#[test]
fn a_direct_source_or_target_is_a_moves() {
    let refusals = refusals_of_an_earlier_move();
    for direct in [Side::Source, Side::Target] {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let fd = if direct == Side::Source { &source } else { &target };
        if rustix::fs::fcntl_setfl(fd, OFlags::DIRECT).is_err() {
            gush_test::not_applicable("no O_DIRECT on the temporary directory");
            return;
        }
        let mut byte = [0];
        let takes_any_byte = rustix::io::pread(fd, &mut byte, LEN as u64).is_ok();
        let moved = between_files((&source, &target), &refusals, |mover| mover);
        assert_eq!(moved.result.expect("a copy").bytes, LEN as u64);
        match takes_any_byte {
            true => gush_test::not_applicable(&format!(
                "{direct:?}: any byte can be read with O_DIRECT"
            )),
            false => assert_ne!(moved.calls, [Call::CopyFileRange, Call::Pread], "{direct:?}"),
        }
        assert!(moved.arrived == noise(1, LEN), "{direct:?}: other bytes");
    }
}

/// A clone that is refused costs calls and nothing else, also where it is refused for want of room:
/// data may have room elsewhere.
#[test]
fn a_small_file_that_cannot_be_shared_is_copied() {
    let errnos = [
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::XDEV,
        Errno::NOTTY,
        Errno::PERM,
        Errno::INTR,
        Errno::NOSPC,
        Errno::DQUOT,
    ];
    for errno in errnos {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let made = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&made);
        let guard = Plan::new(move |call, nth| {
            log.lock().expect("the log").push(call);
            match call {
                // Interrupted once, and the others for good.
                Call::Ficlone | Call::FicloneRange if errno == Errno::INTR && nth > 0 => {
                    Injection::Fail(Errno::OPNOTSUPP)
                }
                Call::Ficlone | Call::FicloneRange => Injection::Fail(errno),
                _ => Injection::None,
            }
        })
        .install();
        let report = between((&source, &target), &Refusals::default());
        drop(guard);
        let report = report.unwrap_or_else(|error| panic!("{errno}: {error}"));
        let made = made.lock().expect("the log").clone();
        let moves = [Call::FicloneRange, Call::Ficlone, Call::CopyFileRange];
        let first = made.iter().find(|call| moves.contains(call));
        assert_eq!(first, Some(&Call::FicloneRange), "{errno}");
        assert_eq!(report.main_method(), Some(MethodName::CopyFileRange), "{errno}");
        assert!(content(&target) == noise(1, LEN), "{errno}: other bytes");
    }
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let broken = Plan::new(|call, _| match call {
        Call::FicloneRange => Injection::Fail(Errno::IO),
        _ => Injection::None,
    })
    .install();
    let error = between((&source, &target), &Refusals::default()).expect_err("a broken disk");
    drop(broken);
    assert_eq!((error.side(), error.delivered_bytes()), (Some(Side::Target), 0));
}

/// A clone of another size than the one seen is refused by the kernel, or made good by a move.
/// Where the temporary directory cannot share blocks, a move alone is tried; `TMPDIR` on xfs or
/// btrfs tries the clone.
#[test]
fn a_source_that_changes_before_it_is_shared_is_copied_to_its_end() {
    for len in [1, 4095, 4096, LEN] {
        for now in [0, len / 2, len - 1, len + 1, len + 4096, 3 * len] {
            let (source, target) = (file_of(&noise(1, len)), file_of(b""));
            let hand = File::from(source.try_clone().expect("dup"));
            let guard = Plan::new(move |call, nth| {
                if (call, nth) == (Call::FicloneRange, 0) {
                    hand.set_len(now as u64).expect("another size");
                }
                Injection::None
            })
            .install();
            let report = between((&source, &target), &Refusals::default()).expect("a copy");
            drop(guard);
            assert_eq!(report.bytes, now as u64, "{len} bytes that became {now}");
            assert!(content(&target) == content(&source), "{len} bytes that became {now}");
        }
    }
}

#[test]
fn an_empty_file_that_cannot_be_cloned_takes_the_read_that_proves_the_end_alone() {
    let refusals = refusals_of_an_earlier_move();
    let moved = between_files((&file_of(b""), &file_of(b"")), &refusals, |mover| mover);
    assert_eq!(moved.result.expect("nothing").bytes, 0);
    assert_eq!(moved.calls, [Call::Pread]);
}

#[test]
fn what_earlier_moves_taught_is_asked_first() {
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let made = calls_of(|| drop(between((&source, &target), &Refusals::default())));
    let shares = |call: &Call| [Call::Ficlone, Call::FicloneRange].contains(call);
    assert!(made.iter().any(shares), "blocks are shared where that is possible: {made:?}");

    let refusals = Refusals::default();
    let refusing = Plan::new(|call, _| match call {
        Call::Ficlone | Call::FicloneRange | Call::CopyFileRange => {
            Injection::Fail(Errno::OPNOTSUPP)
        }
        _ => Injection::None,
    })
    .install();
    between((&file_of(b"earlier"), &file_of(b"")), &refusals).expect("an earlier move");
    drop(refusing);
    let target = file_of(b"");
    let made = calls_of(|| drop(between((&source, &target), &refusals)));
    assert!(!made.contains(&Call::CopyFileRange), "{made:?}");
}
