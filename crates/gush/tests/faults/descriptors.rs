//! The calls by which a move changes the caller's descriptors, looked for where it must make none.

use std::sync::{Arc, Mutex};

use gush::faults::{Injection, Plan};
use gush::{Advice, Call, Choice, Errno, MethodName, Mover, Tuning};

use crate::common::{
    Drainer, Ending, Source, SourceKind, Target, TargetKind, is_root, noise, open_target, skipped,
};

/// The system calls of a move of some bytes.
fn calls(to: TargetKind, advice: Advice) -> Vec<Call> {
    let source = Source::new(SourceKind::File, b"some bytes", 1, false).expect("a source");
    let target = Target::new(to, b"", 2, false).expect("a target");
    let made = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&made);
    let _guard = Plan::new(move |call, _| {
        seen.lock().expect("the calls").push(call);
        Injection::None
    })
    .install();
    let mover = Mover::new(&source.fd, &target.fd).tuning(Tuning::default().advice(advice));
    mover.run().expect("a move");
    made.lock().expect("the calls").clone()
}

#[test]
fn advice_is_given_where_asked_for() {
    for &to in TargetKind::ALL {
        if to == TargetKind::Block && !is_root() {
            skipped("block devices: a loop device needs root");
            continue;
        }
        assert!(!calls(to, Advice::None).contains(&Call::Fadvise), "{to:?}");
        assert!(calls(to, Advice::Sequential).contains(&Call::Fadvise), "{to:?}");
    }
}

/// An O_DIRECT file at an odd place is read through a description of the page cache's own; the
/// file's position follows, or the move reports why not.
#[test]
fn the_position_of_an_o_direct_source_follows_or_the_move_fails() {
    const LEAD: u64 = 517;
    let content = noise(1, 30_000);
    let mut tried = 0;
    for failing in 0.. {
        let source = match Source::new(SourceKind::Direct, &content, 1, false) {
            Ok(source) => source,
            Err(why) => skip!("{why}"),
        };
        rustix::fs::seek(&source.fd, rustix::fs::SeekFrom::Start(LEAD)).expect("seek");
        let (target, reader) = open_target(TargetKind::Pipe).expect("a pipe");
        let (sender, receiver) = std::sync::mpsc::channel();
        let guard = Plan::new(move |call, nth| match call {
            Call::Lseek if nth == failing => {
                let _ = sender.send(());
                Injection::Fail(Errno::IO)
            }
            _ => Injection::None,
        })
        .install();
        let tuning = Tuning::default().buffer_bytes(4096);
        let by_name = Choice::Only(MethodName::ReadWrite);
        let moved = Mover::new(&source.fd, &target).method(by_name).tuning(tuning).run();
        drop(guard);
        drop(target);
        let is_last = receiver.try_recv().is_err();
        let delivered =
            moved.as_ref().map_or_else(gush::Error::delivered_bytes, |report| report.bytes);
        match &moved {
            Ok(_) => assert_eq!(source.position(), LEAD + delivered, "seek #{failing} failed"),
            Err(error) => assert_eq!(error.call(), Some(Call::Lseek), "seek #{failing}: {error}"),
        }
        let arrived = Drainer::start(reader, Ending::Closed, false, 1, false).finish();
        assert!(arrived == content[LEAD as usize..][..arrived.len()], "other bytes");
        assert_eq!(arrived.len() as u64, delivered, "seek #{failing} failed");
        tried += 1;
        if is_last {
            assert_eq!(delivered, 30_000 - LEAD, "no seek failed");
            break;
        }
    }
    assert!(tried > 1, "no seek was tried");
}
