//! A move that ends otherwise than planned puts right the space reserved, the holes left out and
//! the bytes written too much.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gush::faults::{Injection, Plan};
use gush::{Call, Cancel, Choice, Errno, Error, Holes, MethodName, Mover, Space, Tuning};
use rustix::fs::{FallocateFlags, SeekFrom};

use crate::common::{file_of, noise, read_all};

const MIB: u64 = 1 << 20;
const LEN: usize = 4 << 20;

fn twin(fd: &OwnedFd) -> File {
    fd.try_clone().expect("dup").into()
}

fn allocated_bytes(file: &File) -> u64 {
    file.metadata().expect("fstat").blocks() * 512
}

fn reserving(space: Space) -> Tuning {
    Tuning::default().space(space).buffer_bytes(64 << 10)
}

fn is_write(call: Call) -> bool {
    matches!(call, Call::Write | Call::Pwrite)
}

/// The blocks that a file system with reservations gives to a file at the first write.
fn reserved_at_first_write(
    file: File,
    then: impl Fn(Call, u64) -> Injection + Send + 'static,
) -> (Plan, Arc<AtomicU64>) {
    let reserved = Arc::new(AtomicU64::new(0));
    let seen = reserved.clone();
    let plan = Plan::new(move |call, nth| {
        if is_write(call) && nth == 0 {
            seen.store(allocated_bytes(&file), Ordering::Relaxed);
        }
        then(call, nth)
    });
    (plan, reserved)
}

#[test]
fn reserved_space_that_a_failed_move_does_not_need_is_given_back() {
    for space in [Space::Reserve, Space::TryReserve] {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let (plan, reserved) = reserved_at_first_write(twin(&target), |call, nth| {
            if is_write(call) && nth == 3 { Injection::Fail(Errno::IO) } else { Injection::None }
        });
        let guard = plan.install();
        let by_name = Choice::Only(MethodName::ReadWrite);
        let moved = Mover::new(&source, &target).method(by_name).tuning(reserving(space)).run();
        drop(guard);
        let error = moved.expect_err("a write fails");
        assert_eq!((error.errno(), error.delivered_bytes()), (Some(Errno::IO), 3 << 16));
        if reserved.load(Ordering::Relaxed) < LEN as u64 {
            skip!("the file system of the temporary directory reserves nothing");
        }
        assert!(allocated_bytes(&twin(&target)) < MIB, "{space:?}");
        assert!(read_all(&target) == noise(1, 3 << 16), "{space:?}: other bytes");
    }
}

/// The source is cut during the copy, and every method looks at the size anew in its own way.
#[test]
fn reserved_space_is_given_back_when_the_source_turns_out_shorter() {
    let methods = [MethodName::ReadWrite, MethodName::CopyFileRange, MethodName::MmapWrite];
    for method in methods {
        let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
        let (hand, looked_at) = (twin(&source), twin(&target));
        let reserved = Arc::new(AtomicU64::new(0));
        let seen = reserved.clone();
        let guard = Plan::new(move |call, nth| {
            let brings = is_write(call) || call == Call::CopyFileRange;
            if brings && nth == 0 {
                seen.store(allocated_bytes(&looked_at), Ordering::Relaxed);
                hand.set_len(100_000).expect("cut");
            }
            Injection::None
        })
        .install();
        let tuning = reserving(Space::Reserve);
        let moved = Mover::new(&source, &target).method(Choice::Only(method)).tuning(tuning).run();
        drop(guard);
        let report = moved.unwrap_or_else(|error| panic!("{method}: {error}"));
        if reserved.load(Ordering::Relaxed) < LEN as u64 {
            skip!("the file system of the temporary directory reserves nothing");
        }
        let size = twin(&target).metadata().expect("fstat").len();
        assert_eq!(size, report.bytes, "{method}");
        assert!(size < MIB, "{method}: {size} bytes arrived of a source that was cut");
        assert!(allocated_bytes(&twin(&target)) < MIB, "{method}");
    }
}

/// A reservation that fails half-way has taken blocks: a wish is forgotten with them, a demand is
/// an error.
#[test]
fn what_a_failed_reservation_has_taken_is_given_back() {
    for (space, errno, succeeds) in [
        (Space::TryReserve, Errno::NOSPC, true),
        (Space::TryReserve, Errno::OPNOTSUPP, true),
        (Space::Reserve, Errno::OPNOTSUPP, true),
        (Space::Reserve, Errno::NOSPC, false),
    ] {
        let name = format!("{space:?}, {errno:?}");
        let (source, target) = (file_of(&noise(1, 300_000)), file_of(b""));
        let hand = twin(&target);
        let taken = Arc::new(AtomicU64::new(0));
        let seen = taken.clone();
        let guard = Plan::new(move |call, _| {
            if call != Call::Fallocate {
                return Injection::None;
            }
            let _ = rustix::fs::fallocate(&hand, FallocateFlags::KEEP_SIZE, 0, 8 * MIB);
            seen.store(allocated_bytes(&hand), Ordering::Relaxed);
            Injection::Fail(errno)
        })
        .install();
        let by_name = Choice::Only(MethodName::ReadWrite);
        let moved = Mover::new(&source, &target).method(by_name).tuning(reserving(space)).run();
        drop(guard);
        if taken.load(Ordering::Relaxed) < 8 * MIB {
            skip!("the file system of the temporary directory reserves nothing");
        }
        let arrived = if succeeds { noise(1, 300_000) } else { Vec::new() };
        match moved {
            Ok(report) => assert!(succeeds && report.bytes == 300_000, "{name}"),
            Err(error) => {
                assert!(!succeeds, "{name}: {error}");
                assert_eq!((error.call(), error.errno()), (Some(Call::Fallocate), Some(errno)));
            }
        }
        assert!(read_all(&target) == arrived, "{name}: other bytes");
        assert!(allocated_bytes(&twin(&target)) < MIB, "{name}");
    }
}

/// A method that maps its target makes the file longer first: when that fails half-way, the target
/// has the old size.
#[test]
fn a_target_that_could_not_be_made_longer_has_its_old_size() {
    for method in [MethodName::ReadMmap, MethodName::MmapCopy] {
        let (source, target) = (file_of(&noise(1, 300_000)), file_of(&noise(2, 5000)));
        rustix::fs::seek(&target, SeekFrom::Start(5000)).expect("seek");
        let hand = twin(&target);
        let guard = Plan::new(move |call, _| {
            if call != Call::Fallocate {
                return Injection::None;
            }
            hand.set_len(200_000).expect("longer");
            Injection::Fail(Errno::NOSPC)
        })
        .install();
        let moved = Mover::new(&source, &target).method(Choice::Only(method)).run();
        drop(guard);
        let error = moved.expect_err("no space");
        assert!(error.is_refused(), "{method}: {error}");
        assert!(read_all(&target) == noise(2, 5000), "{method}: the target is another");
    }
}

/// A sparse file onto old content, where the file system makes no holes; `inject` answers each
/// write of a zero.
fn zeros_in_place_of_a_hole(
    cancel: &Cancel,
    mut inject: impl FnMut(u64) -> Injection + Send + 'static,
) -> (Error, OwnedFd, OwnedFd) {
    let (source, target) = (file_of(b"data"), file_of(&[7; 8 << 20]));
    twin(&source).write_all_at(b"data", 64 * MIB).expect("data after a hole");
    twin(&target).write_all_at(b"old", 80 * MIB).expect("a file that is longer");
    let mut zeros = None;
    let guard = Plan::new(move |call, _| match (call, &mut zeros) {
        (Call::Fallocate, _) => {
            zeros.get_or_insert(0);
            Injection::Fail(Errno::OPNOTSUPP)
        }
        (Call::Pwrite, Some(nth)) => {
            *nth += 1;
            inject(*nth - 1)
        }
        _ => Injection::None,
    })
    .install();
    let by_name = Choice::Only(MethodName::ReadWrite);
    let moved = Mover::new(&source, &target).method(by_name).cancelled_by(cancel).run();
    drop(guard);
    (moved.expect_err("the zeros are not all written"), source, target)
}

/// As many bytes as the error says are the source's.
fn has_delivered(error: &Error, source: &OwnedFd, target: &OwnedFd) {
    let len = usize::try_from(error.delivered_bytes()).expect("a few MiB");
    assert!(read_all(source)[..len] == read_all(target)[..len], "{error}");
}

#[test]
fn zeros_written_in_place_of_a_hole_are_cancelled() {
    let cancel = Cancel::new();
    let canceller = cancel.clone();
    let (error, source, target) = zeros_in_place_of_a_hole(&cancel, move |nth| {
        if nth == 20 {
            canceller.cancel();
        }
        Injection::None
    });
    assert!(error.is_cancelled(), "{error}");
    assert!((MIB..4 * MIB).contains(&error.delivered_bytes()), "{error}");
    has_delivered(&error, &source, &target);
}

/// Zeros that are found in the bytes, not reported by the file system, are written in parts as
/// well.
#[test]
fn zeros_written_in_place_of_a_run_of_zeros_are_cancelled() {
    let (source, target) = (file_of(&vec![0; 16 << 20]), file_of(&vec![7; 16 << 20]));
    let cancel = Cancel::new();
    let canceller = cancel.clone();
    let guard = Plan::new(move |call, nth| match call {
        Call::Fallocate => Injection::Fail(Errno::OPNOTSUPP),
        Call::Pwrite => {
            if nth == 20 {
                canceller.cancel();
            }
            Injection::None
        }
        _ => Injection::None,
    })
    .install();
    let by_name = Choice::Only(MethodName::ReadWrite);
    let mover = Mover::new(&source, &target).method(by_name).holes(Holes::Make);
    let error = mover.cancelled_by(&cancel).run().expect_err("cancelled");
    drop(guard);
    assert!(error.is_cancelled(), "{error}");
    assert!((MIB..4 * MIB).contains(&error.delivered_bytes()), "{error}");
    has_delivered(&error, &source, &target);
    let next = usize::try_from(error.delivered_bytes()).expect("a few MiB") + (1 << 20);
    assert_eq!(read_all(&target)[next], 7, "zeros were written after those that are counted");
}

#[test]
fn zeros_of_which_a_write_takes_nothing_are_an_error() {
    let (error, source, target) = zeros_in_place_of_a_hole(&Cancel::new(), |nth| match nth {
        20 => Injection::Zero,
        // Asked for ever otherwise.
        21 => Injection::Fail(Errno::NODATA),
        _ => Injection::None,
    });
    assert_eq!(error.errno(), Some(Errno::IO), "{error}");
    has_delivered(&error, &source, &target);
}

/// The data after a hole does not arrive: the hole does not count either, and the target ends
/// before the hole.
#[test]
fn a_hole_in_front_of_data_that_fails_is_taken_back() {
    const BLOCK: usize = 64 << 10;
    let data = noise(1, BLOCK);
    for (method, errno) in [
        (MethodName::ReadWrite, Errno::NOSPC),
        (MethodName::CopyFileRange, Errno::NOSPC),
        (MethodName::Splice, Errno::IO),
    ] {
        let source = file_of(&data);
        twin(&source).write_all_at(&data, 3 * BLOCK as u64).expect("data after a hole");
        let target = file_of(b"");
        let looked_at = twin(&target);
        let guard = Plan::new(move |call, _| {
            let brings = is_write(call) || matches!(call, Call::CopyFileRange | Call::Splice);
            let has_first = looked_at.metadata().expect("fstat").len() == BLOCK as u64;
            if brings && has_first { Injection::Fail(errno) } else { Injection::None }
        })
        .install();
        let moved = Mover::new(&source, &target).method(Choice::Only(method)).run();
        drop(guard);
        let error = moved.expect_err("the second data does not arrive");
        assert_eq!(error.errno(), Some(errno), "{method}: {error}");
        assert_eq!(error.delivered_bytes(), BLOCK as u64, "{method}");
        assert!(read_all(&target) == data, "{method}: the target does not end after the data");
        let positions = [&source, &target].map(|fd| rustix::fs::tell(fd).expect("a position"));
        assert_eq!(positions, [BLOCK as u64; 2], "{method}");
    }
}

/// The target is to begin past the file's end, and nothing but a hole came before the data that
/// fails.
#[test]
fn a_target_that_got_nothing_but_a_hole_is_not_made_longer() {
    const BLOCK: usize = 64 << 10;
    let source = file_of(b"");
    twin(&source).write_all_at(&noise(1, BLOCK), BLOCK as u64).expect("data after a hole");
    let target = file_of(b"");
    let guard = Plan::new(move |call, _| match is_write(call) {
        true => Injection::Fail(Errno::NOSPC),
        false => Injection::None,
    })
    .install();
    let mover = Mover::new(&source, &target).method(Choice::Only(MethodName::ReadWrite));
    let error = mover.target_offset_bytes(MIB).run().expect_err("no space");
    drop(guard);
    assert_eq!((error.errno(), error.delivered_bytes()), (Some(Errno::NOSPC), 0));
    assert_eq!(read_all(&target), b"", "the target was made longer");
}
