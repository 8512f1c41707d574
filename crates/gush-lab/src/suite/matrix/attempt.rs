//! One method on one pair, for real: open the ends, move, compare the arrived bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use gush::{Choice, Errno, MethodName, Mover, Tuning, errno_name};
use nix::sys::resource::UsageWho;
use rustix::fs::OFlags;

use super::load::Load;
use super::outcome::{Attempt, Outcome};
use super::raw;
use super::source::{Source, Workshop};
use super::target::Target;
use super::{Aim, Kind, Method};
use crate::model::Measured;
use crate::runner::Usage;

/// Tries a pair. `mover` moves the load, and answers how many bytes it says to have moved.
pub(in crate::suite) fn attempt(
    workshop: &mut Workshop,
    mover: impl FnOnce(&Source, &Target, &Load) -> Result<u64, Outcome>,
    from: Kind,
    to: Kind,
    aim: Aim,
) -> Attempt {
    let load = Load::of(from, to, aim);
    if let Err(error) = workshop.fill(from, &load) {
        return absent(from, &error);
    }
    let source = match Source::open(from, workshop, &load) {
        Ok(source) => source,
        Err(error) => return absent(from, &error),
    };
    let target = match Target::open(to, workshop, &load, source.bytes(&load)) {
        Ok(target) => target,
        Err(error) => {
            give_up(source);
            return absent(to, &error);
        }
    };
    let far_ends = source.feeder.is_some() || target.drainer.is_some();
    let (started, before) = (Instant::now(), used_so_far(far_ends));
    match mover(&source, &target, &load) {
        Ok(said_bytes) => {
            let used = used_so_far(far_ends).since(before);
            judge(source, target, &load, Claim { said_bytes, started, used })
        }
        Err(outcome) => {
            target.abandon();
            give_up(source);
            outcome.into()
        }
    }
}

fn absent(kind: Kind, error: &io::Error) -> Attempt {
    Outcome::Absent { why: format!("no {kind}: {}", gush_text::os_text(error)) }.into()
}

fn give_up(mut source: Source) {
    let feeder = source.feeder.take();
    drop(source);
    if let Some(feeder) = feeder {
        feeder.abandon();
    }
}

/// Moves the load by a method of the matrix.
pub(super) fn moved(
    method: Method,
    source: &Source,
    target: &Target,
    load: &Load,
) -> Result<u64, Outcome> {
    match method {
        Method::Engine(method) => by_engine(method, source, target, load),
        Method::SpliceDirect => by_splices(source, target, load),
    }
}

fn by_engine(
    method: MethodName,
    source: &Source,
    target: &Target,
    load: &Load,
) -> Result<u64, Outcome> {
    let mut tuning = Tuning::default();
    if let Some(bytes) = load.message_bytes {
        tuning = tuning.buffer_bytes(bytes);
    }
    let moved = Mover::new(source, target)
        .method(Choice::Only(method))
        // Some of the sources, such as /dev/zero, have no end.
        .length_bytes(load.bytes)
        // One, so that a refusal is the method's own and not the scheduling's.
        .threads(1)
        .tuning(tuning)
        .run();
    moved.map(|report| report.bytes).map_err(|error| outcome_of(&error, method.as_str()))
}

fn by_splices(source: &Source, target: &Target, load: &Load) -> Result<u64, Outcome> {
    // A call that waits would end in the time limit, and say nothing of its errno.
    without_waiting(source.as_fd());
    without_waiting(target.as_fd());
    let call_bytes = load.message_bytes.unwrap_or(1 << 20);
    let moved = raw::splice_all(source.as_fd(), target.as_fd(), load.bytes, call_bytes);
    moved.map_err(|(errno, after_bytes)| Outcome::Errno {
        errno: errno_name(errno),
        call: "splice".to_owned(),
        after_bytes,
    })
}

/// The flag is this end's alone: the far end is another description.
fn without_waiting(fd: BorrowedFd<'_>) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(fd) {
        // What knows no such flag does not wait either.
        let _ = rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK);
    }
}

/// What the engine's error says about `method`.
pub(in crate::suite) fn outcome_of(error: &gush::Error, method: &str) -> Outcome {
    let errno = error.io_error().and_then(Errno::from_io_error);
    match (errno, error.refusal()) {
        (Some(errno), refusal) => Outcome::Errno {
            errno: errno_name(errno),
            call: match (refusal, error.call()) {
                (Some(refusal), _) => refusal.why.to_string(),
                (None, Some(call)) => call.name().to_owned(),
                (None, None) => method.to_owned(),
            },
            after_bytes: error.delivered_bytes(),
        },
        (None, Some(refusal)) => Outcome::Refused { why: refusal.why.to_string() },
        (None, None) if error.is_refused() => Outcome::FalseEnd,
        (None, None) => Outcome::Wrong { why: error.to_string() },
    }
}

/// Of this thread, which moves, where feeding and draining are the work of others; else of all
/// threads, as the engine may copy a file by several.
fn used_so_far(far_ends: bool) -> Usage {
    let who = if far_ends { UsageWho::RUSAGE_THREAD } else { UsageWho::RUSAGE_SELF };
    // Without an answer no time is known.
    Usage::of(who).unwrap_or_default()
}

/// What a method claims to have done.
struct Claim {
    /// The bytes that are said to have moved.
    said_bytes: u64,
    /// When the move began.
    started: Instant,
    /// The processor time of the move.
    used: Usage,
}

/// Compares the arrived bytes with the sent bytes.
fn judge(mut source: Source, target: Target, load: &Load, claim: Claim) -> Attempt {
    let Claim { said_bytes, started, used } = claim;
    let (due_bytes, to) = (source.bytes(load), target.kind);
    let feeder = source.feeder.take();
    let arrived = target.arrived(load);
    // After the last byte at the far end: bytes in a pipe or socket have not arrived.
    let wall_s = started.elapsed().as_secs_f64();
    let wrong = |why: String| Attempt::from(Outcome::Wrong { why });
    if let Some(feeder) = feeder {
        // A datagram that found no room is gone; nobody waits for it.
        if said_bytes == due_bytes {
            feeder.finish()
        } else {
            feeder.abandon()
        };
    }
    let arrived = match arrived {
        Ok(arrived) => arrived,
        Err(error) => return wrong(error.to_string()),
    };
    if said_bytes != due_bytes {
        return wrong(format!("{said_bytes} of {due_bytes} bytes are said to have moved"));
    }
    // The method's own count is not believed: the far end has counted too.
    if let Some(bytes) = arrived.bytes
        && bytes != due_bytes
    {
        return wrong(format!("{bytes} of {due_bytes} bytes arrived"));
    }
    if load.verifies
        && let Some(kept) = &arrived.kept
    {
        let content = Target::shows(to, &source.content(load));
        if let Some(at) = first_difference(kept, &content) {
            return wrong(format!("byte {at} of {due_bytes} is not the one that was sent"));
        }
    }
    let (user_s, system_s) = (Some(used.user_s), Some(used.system_s));
    let cost = Measured { user_s, system_s, ..Measured::timed(due_bytes, wall_s) };
    Attempt { cost: (!load.verifies).then_some(cost), ..Outcome::Works { bytes: due_bytes }.into() }
}

fn first_difference(got: &[u8], sent: &[u8]) -> Option<usize> {
    // The usual case, at the speed of memcmp.
    if got == sent {
        return None;
    }
    let differs = got.iter().zip(sent).position(|(got, sent)| got != sent);
    differs.or_else(|| (got.len() != sent.len()).then(|| got.len().min(sent.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workshop() -> Workshop {
        let dirs = [Kind::File, Kind::Fifo].map(|kind| (kind, std::env::temp_dir()));
        let dirs = dirs.into_iter().collect();
        Workshop::new(dirs)
    }

    fn tried(method: &str, from: Kind, to: Kind) -> Outcome {
        let method = method.parse().unwrap();
        let mover = |from: &_, to: &_, load: &_| moved(method, from, to, load);
        attempt(&mut workshop(), mover, from, to, Aim::Verify).outcome
    }

    #[test]
    fn differences_are_found_wherever_they_are() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"ab", b"abc"), Some(2));
        assert_eq!(first_difference(b"abc", b""), Some(0));
    }

    #[test]
    fn reading_and_writing_works_on_every_pair_that_can_take_bytes() {
        for &from in Kind::ALL.iter().filter(|kind| kind.is_source()) {
            for &to in Kind::ALL.iter().filter(|kind| kind.is_target()) {
                let outcome = tried("read-write", from, to);
                match outcome {
                    Outcome::Works { .. } => {}
                    Outcome::Absent { .. } => {
                        let has_dir = |kind: Kind| {
                            !kind.needs_place() || [Kind::File, Kind::Fifo].contains(&kind)
                        };
                        assert!(!has_dir(from) || !has_dir(to), "{from} -> {to}: {outcome:?}");
                    }
                    Outcome::Errno { ref errno, .. } => {
                        assert!(
                            to == Kind::Full && errno == "ENOSPC",
                            "{from} -> {to}: {outcome:?}"
                        );
                    }
                    outcome => panic!("{from} -> {to}: {outcome:?}"),
                }
            }
        }
    }

    #[test]
    fn a_splice_without_a_pipe_is_really_tried() {
        let outcome = tried("splice-direct", Kind::File, Kind::Tcp);
        let Outcome::Errno { errno, call, after_bytes: 0 } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((errno.as_str(), call.as_str()), ("EINVAL", "splice"));
        assert!(matches!(tried("splice-direct", Kind::Pipe, Kind::Tcp), Outcome::Works { .. }));
    }

    #[test]
    fn speed_costs_time_and_is_counted() {
        let method: Method = "read-write".parse().unwrap();
        let mover = |from: &_, to: &_, load: &_| moved(method, from, to, load);
        let attempt = attempt(&mut workshop(), mover, Kind::Pipe, Kind::Tcp, Aim::Speed(3 << 20));
        let cost = attempt.cost.unwrap();
        assert_eq!(cost.bytes, 3 << 20);
        assert!(cost.wall_s > Some(0.0));
    }
}
