//! The short way of a tree's files: its two calls, and each answer that leaves the file to a move.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use gush::faults::{Plan, Verdict};
use gush::{Call, Endpoint, Errno, Error, Mover, Refusals, Report, Side};

use crate::common::{file_of, noise};

const LEN: usize = 10_000;

struct Moved {
    result: Result<Report, Error>,
    arrived: Vec<u8>,
    calls: Vec<Call>,
}

/// Moves a file between two that the caller has looked at, as a tree does, with the refusals of an earlier move in mind.
fn moved(mut judge: impl FnMut(&File, Call, u64) -> Verdict + Send + 'static) -> Moved {
    let refusals = Refusals::default();
    let no_sharing = Plan::new(|call, _| match call {
        Call::Ficlone | Call::FicloneRange => Verdict::Fail(Errno::OPNOTSUPP),
        _ => Verdict::Go,
    })
    .install();
    let first = between((&file_of(b"earlier"), &file_of(b"")), &refusals).expect("an earlier move");
    assert_eq!(first.bytes, 7);
    drop(no_sharing);
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let hand = File::from(source.try_clone().expect("dup"));
    let made = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&made);
    let (from, to) =
        (Endpoint::of(&source).expect("a look"), Endpoint::of(&target).expect("a look"));
    let guard = Plan::new(move |call, nth| {
        log.lock().expect("the log").push(call);
        judge(&hand, call, nth)
    })
    .install();
    let mover = Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0);
    let result = mover.remember(&refusals).run();
    drop(guard);
    let target = File::from(target);
    let mut arrived = vec![0; target.metadata().expect("a size").len() as usize];
    target.read_exact_at(&mut arrived, 0).expect("the target");
    let calls = made.lock().expect("the log").clone();
    Moved { result, arrived, calls }
}

fn between((source, target): (&OwnedFd, &OwnedFd), refusals: &Refusals) -> Result<Report, Error> {
    let (from, to) = (source.as_fd(), target.as_fd());
    let ends = (Endpoint::of(&from).expect("a look"), Endpoint::of(&to).expect("a look"));
    let mover = Mover::between(ends.0, ends.1).source_offset_bytes(0).target_offset_bytes(0);
    mover.remember(refusals).run()
}

#[test]
fn a_known_file_takes_one_copy_and_the_read_that_proves_the_end() {
    let Moved { result, arrived, calls } = moved(|_, _, _| Verdict::Go);
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
    let copies = fails.map(Verdict::Fail).into_iter().chain([
        Verdict::Zero,
        Verdict::Short(1),
        Verdict::Short(LEN - 1),
    ]);
    let reads = [Verdict::Fail(Errno::INTR), Verdict::Fail(Errno::AGAIN)];
    let troubles = copies
        .map(|verdict| (Call::CopyFileRange, verdict))
        .chain(reads.map(|verdict| (Call::Pread, verdict)));
    for (troubled, verdict) in troubles {
        for at in [0, 1] {
            let name = format!("{troubled} #{at} {verdict:?}");
            let Moved { result, arrived, .. } = moved(move |_, call, nth| match call {
                call if call == troubled && (nth == 0 || nth == at) => verdict,
                _ => Verdict::Go,
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
            call if call == troubled => Verdict::Fail(errno),
            _ => Verdict::Go,
        });
        let error = result.expect_err("a failure");
        assert_eq!((error.side(), error.delivered_bytes()), (Some(side), delivered), "{troubled}");
        assert_eq!(arrived.len() as u64, delivered, "{troubled}");
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_copied_to_its_end() {
    for now in [0, 1, LEN / 2, LEN - 1, LEN + 1, 3 * LEN] {
        for at in [Call::CopyFileRange, Call::Pread] {
            let Moved { result, arrived, .. } = moved(move |source, call, nth| {
                if (call, nth) == (at, 0) {
                    source.set_len(now as u64).expect("another size");
                }
                Verdict::Go
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
