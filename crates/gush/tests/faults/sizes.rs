//! A size that is unknown is never taken for 0: no file is cut, nothing is left out.

use std::os::fd::OwnedFd;

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Errno, Holes, Mover, Space, Tuning};

use crate::common::{file_methods, file_of, noise, read_all};

const LEN: usize = 200_000;

/// Moves to the middle of a file that reaches further, once for each fstat that fails on the way;
/// returns the faults found.
fn wrong_with(source: &OwnedFd, what: &str, mover: fn(Mover<'_>) -> Mover<'_>) -> Vec<String> {
    let old = noise(9, 3 * LEN);
    let choices = file_methods().map(Choice::Only).chain([Choice::Auto]);
    let cases = choices
        .flat_map(|choice| [Errno::STALE, Errno::IO].into_iter().map(move |errno| (choice, errno)));
    let mut wrong = Vec::new();
    for (choice, errno) in cases {
        for failing in 0..40 {
            let target = file_of(&old);
            rustix::fs::seek(&target, rustix::fs::SeekFrom::Start(4096)).expect("seek");
            let (sender, receiver) = std::sync::mpsc::channel();
            let guard = Plan::new(move |call, nth| match (call, nth) {
                (Call::Fstat, nth) if nth == failing => {
                    let _ = sender.send(());
                    Injection::Fail(errno)
                }
                _ => Injection::None,
            })
            .install();
            let outcome =
                mover(Mover::new(source, &target).method(choice).source_offset_bytes(0)).run();
            drop(guard);
            if receiver.try_recv().is_err() {
                break;
            }
            let got = read_all(&target);
            let kept = got.len() == old.len()
                && got[..4096] == old[..4096]
                && got[4096 + LEN..] == old[4096 + LEN..];
            if !kept {
                wrong.push(format!("{what}, {choice}, fstat #{failing} {errno}: {outcome:?}"));
            }
        }
    }
    wrong
}

#[test]
fn an_fstat_that_fails_cuts_no_target_and_loses_nothing_around_what_is_written() {
    let dense = file_of(&noise(1, LEN));
    let sparse = file_of(&noise(1, LEN / 2));
    rustix::fs::ftruncate(&sparse, LEN as u64).expect("a hole at the end");
    let mut wrong = wrong_with(&dense, "dense", |mover| mover);
    wrong.extend(wrong_with(&sparse, "a hole at the end", |mover| mover));
    wrong.extend(wrong_with(&sparse, "holes made", |mover| mover.holes(Holes::Make)));
    wrong.extend(wrong_with(&dense, "reserved", |mover| {
        mover.length_bytes(2 * LEN as u64).tuning(Tuning::default().space(Space::Reserve))
    }));
    wrong.extend(wrong_with(&dense, "reserved if possible", |mover| {
        mover.length_bytes(2 * LEN as u64).tuning(Tuning::default().space(Space::TryReserve))
    }));
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Reserved and unused space is given back, also when the target's size cannot be asked.
#[test]
fn an_fstat_that_fails_while_space_is_given_back_is_reported() {
    let source = file_of(&noise(1, LEN));
    let old = noise(9, 3 * LEN);
    for failing in 0..40 {
        let target = file_of(&old);
        let (sender, receiver) = std::sync::mpsc::channel();
        let guard = Plan::new(move |call, nth| match call {
            Call::Fallocate => Injection::Fail(Errno::NOSPC),
            Call::Fstat if nth == failing => {
                let _ = sender.send(());
                Injection::Fail(Errno::STALE)
            }
            _ => Injection::None,
        })
        .install();
        let tuning = Tuning::default().space(Space::TryReserve);
        let outcome = Mover::new(&source, &target).source_offset_bytes(0).tuning(tuning).run();
        drop(guard);
        if receiver.try_recv().is_err() {
            assert!(failing > 2, "no fstat was made to fail where the space is given back");
            return;
        }
        let error = outcome.expect_err("an unknown size");
        assert_eq!(error.call(), Some(Call::Fstat), "{error}");
        assert_eq!(read_all(&target).len(), old.len(), "{error}");
    }
}
