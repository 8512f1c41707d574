//! The calls that a move makes on streams.

use std::sync::{Arc, Mutex};

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Errno, MethodName, Mover, Port, Rate};

use crate::common::{
    Source, SourceKind, Target, TargetKind, file_of, noise, open_source, open_target, read_all,
    within,
};

#[test]
fn invariant_5_poll_comes_before_every_splice_from_what_can_idle() {
    let from = [SourceKind::UnixStream, SourceKind::Tcp, SourceKind::Seqpacket];
    let to = [TargetKind::Pipe, TargetKind::File, TargetKind::UnixStream, TargetKind::Null];
    for (from, to) in from.into_iter().flat_map(|from| to.map(|to| (from, to))) {
        let calls = within(30, &format!("{from:?} -> {to:?}"), move || {
            let source = Source::new(from, &noise(1, 50_000), 1, true).expect("a source");
            let target = Target::new(to, b"", 2, false).expect("a target");
            let seen = Arc::new(Mutex::new(Vec::new()));
            let log = seen.clone();
            let _guard = Plan::new(move |call, _| {
                log.lock().expect("log").push(call);
                Injection::None
            })
            .install();
            let splice = Choice::Only(MethodName::Splice);
            Mover::new(&source.fd, &target.fd).method(splice).run().expect("a splice");
            seen.lock().expect("log").clone()
        });
        // Through a private pipe, as datagrams always go, the splice out of it follows the polled
        // one into it.
        let through = to != TargetKind::Pipe || from == SourceKind::Seqpacket;
        let is_splice = |at: usize| calls.get(at) == Some(&Call::Splice);
        let unpolled = (1..calls.len())
            .filter(|&at| is_splice(at) && calls[at - 1] != Call::Poll)
            .filter(|&at| !(through && is_splice(at - 1) && !is_splice(at.wrapping_sub(2))))
            .count();
        assert_eq!(unpolled, 0, "{from:?} -> {to:?}: {calls:?}");
    }
}

/// The kernel answers so when the last record and the close come at an odd moment.
#[test]
fn a_false_end_of_a_seqpacket_socket_loses_nothing() {
    for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let outcome = within(30, "seqpacket", move || {
            let (source, far) = open_source(SourceKind::Seqpacket).expect("sockets");
            rustix::io::write(far.as_ref().expect("the far end"), b"last").expect("sent");
            drop(far);
            let target = file_of(b"");
            let _guard = Plan::new(|call, nth| match (call, nth) {
                (Call::Recv, 0) => Injection::Zero,
                _ => Injection::None,
            })
            .install();
            (Mover::new(&source, &target).method(choice).run().map(|r| r.bytes), read_all(&target))
        });
        let (moved, arrived) = outcome;
        assert_eq!((moved.ok(), &arrived[..]), (Some(4), &b"last"[..]), "{choice}");
    }
}

/// The look at the queue comes after the look for a hang-up: before it, a record may still come.
#[test]
fn a_last_record_that_comes_during_the_proof_of_the_end_is_read() {
    let (source, mut far) = open_source(SourceKind::Seqpacket).expect("sockets");
    let mut port = Port::of(&source).expect("a socket");
    let _guard = Plan::new(move |call, nth| match (call, nth) {
        (Call::Recv, 0) => Injection::Zero,
        (Call::Poll, 0) => {
            let far = far.take().expect("the far end");
            rustix::io::write(&far, b"last").expect("sent");
            Injection::None
        }
        _ => Injection::None,
    })
    .install();
    let mut record = [0; 8];
    assert_eq!(port.read(&mut record), Err(Errno::INTR), "asked again");
    assert_eq!(port.read(&mut record), Ok(4));
    assert_eq!((port.read(&mut record), &record[..4]), (Ok(0), &b"last"[..]));
}

/// A filter denies the calls that never wait, or an old kernel knows them or their flag not
/// (preadv2(2)).
#[test]
fn streams_are_polled_and_moved_plainly_where_calls_that_never_wait_are_denied_or_unknown() {
    use MethodName::{MmapWrite, ReadWrite};
    for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM] {
        for (from, to, method) in [
            (SourceKind::Pipe, TargetKind::Pipe, ReadWrite),
            (SourceKind::UnixStream, TargetKind::UnixStream, ReadWrite),
            (SourceKind::File, TargetKind::Pipe, ReadWrite),
            (SourceKind::File, TargetKind::Pipe, MmapWrite),
            (SourceKind::File, TargetKind::UnixStream, MmapWrite),
        ] {
            let name = format!("{method}: {from:?} -> {to:?}, {}", gush::errno_name(errno));
            let (moved, denied, arrived) = within(30, &name, move || {
                let source = Source::new(from, &noise(1, 13_001), 1, true).expect("a source");
                let (target, far) = open_target(to).expect("a target");
                let denied = Arc::new(Mutex::new(0));
                let count = denied.clone();
                let guard = Plan::new(move |call, _| match call {
                    Call::Preadv2 | Call::Pwritev2 | Call::Recv | Call::Send => {
                        *count.lock().expect("count") += 1;
                        Injection::Fail(errno)
                    }
                    _ => Injection::None,
                })
                .install();
                let mover = Mover::new(&source.fd, &target).method(Choice::Only(method));
                let moved = mover.run().map(|report| report.bytes);
                drop((guard, target));
                let mut arrived = Vec::new();
                std::io::Read::read_to_end(&mut std::fs::File::from(far), &mut arrived)
                    .expect("what arrived");
                (moved, *denied.lock().expect("count"), arrived)
            });
            assert_eq!(moved.map_err(|error| error.to_string()), Ok(13_001), "{name}");
            assert!(arrived == noise(1, 13_001), "{name}: other bytes");
            assert!((1..=2).contains(&denied), "{name}: asked {denied} times");
        }
    }
}

/// As at an urgent mark that nothing reports: reads take the place of a splice that answers 0
/// before the end, and the bytes that they take count for the length and the rate.
#[test]
fn a_length_and_a_rate_hold_where_a_splice_reports_false_ends() {
    const LEN: u64 = 13_001;
    for rate in [None, Some(20_000)] {
        let (moved, took, rest) = within(30, &format!("{rate:?}"), move || {
            let (source, far) = open_source(SourceKind::UnixStream).expect("sockets");
            let far = far.expect("the far end");
            rustix::io::write(&far, &noise(1, LEN as usize + 5)).expect("sent");
            rustix::net::shutdown(&far, rustix::net::Shutdown::Write).expect("ended");
            let target = file_of(b"");
            let guard = Plan::new(|call, _| match call {
                Call::Splice => Injection::Zero,
                _ => Injection::None,
            })
            .install();
            let mut mover = Mover::new(&source, &target).length_bytes(LEN);
            mover = mover.method(Choice::Only(MethodName::Splice));
            if let Some(rate) = rate.and_then(Rate::bytes_per_second) {
                mover = mover.limit(rate);
            }
            let began = std::time::Instant::now();
            let moved = mover.run().map(|report| report.bytes);
            let took = began.elapsed();
            drop(guard);
            let mut rest = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(source), &mut rest).expect("rest");
            assert!(read_all(&target) == noise(1, LEN as usize), "other bytes");
            (moved, took, rest)
        });
        assert_eq!(moved.map_err(|error| error.to_string()), Ok(LEN), "{rate:?}");
        assert_eq!(rest, noise(1, LEN as usize + 5)[LEN as usize..], "{rate:?}: past the length");
        assert!(rate.is_none() || took.as_millis() > 350, "{rate:?}: {took:?}");
    }
}

/// A few bytes of a pipe are spliced before they are read, lest a packet be cut; a read does where
/// nothing can be spliced.
#[test]
fn a_few_bytes_of_a_pipe_arrive_also_where_splice_or_a_pipe_is_denied() {
    for denied in [Call::Splice, Call::Pipe] {
        let (moved, arrived) = within(30, &denied.to_string(), move || {
            let source = Source::new(SourceKind::Pipe, &noise(1, 5000), 1, true).expect("a source");
            let target = file_of(b"");
            let _guard = Plan::new(move |call, _| match call == denied {
                true => Injection::Fail(Errno::PERM),
                false => Injection::None,
            })
            .install();
            let mover = Mover::new(&source.fd, &target).method(Choice::Only(MethodName::ReadWrite));
            let mover = mover.tuning(gush::Tuning::default().buffer_bytes(70)).length_bytes(3000);
            (mover.run().map(|report| report.bytes), read_all(&target))
        });
        assert_eq!(moved.expect("a move"), 3000, "{denied}");
        assert!(arrived == noise(1, 5000)[..3000], "{denied}: other bytes");
    }
}
