//! Files that grow, shrink or are truncated at each call of a move.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Error, MethodName, Mover, Report, Tuning};

use crate::common::{file_methods, file_of, noise, read_all, within};

const LEN: usize = 13_001;

type Outcome = Result<Report, Error>;

/// Moves a file over the `old` content of another, while `change` happens to source or target right
/// before the engine's `at`th call; answers whether there was such a call, the outcome, and the
/// target's content.
fn moved_while(
    (choice, old): (Choice, &[u8]),
    at: usize,
    change: fn(source: &File, target: &File),
) -> (bool, Outcome, Vec<u8>) {
    let source = file_of(&noise(1, LEN));
    let target = file_of(old);
    // Duplicates share the position that the engine uses: a change writes at offsets, and never
    // moves it.
    let hands = [&source, &target].map(|fd| File::from(fd.try_clone().expect("dup")));
    let changed = Arc::new(AtomicBool::new(false));
    let (flag, mut calls) = (changed.clone(), 0);
    let guard = Plan::new(move |_, _| {
        if calls == at {
            change(&hands[0], &hands[1]);
            flag.store(true, Ordering::Relaxed);
        }
        calls += 1;
        Injection::None
    })
    .install();
    let tuning = Tuning::default().buffer_bytes(4096);
    let outcome = Mover::new(&source, &target).method(choice).tuning(tuning).run();
    drop(guard);
    (changed.load(Ordering::Relaxed), outcome, read_all(&target))
}

/// At every call of every method.
fn at_every_call(
    choices: impl Iterator<Item = Choice>,
    change: fn(source: &File, target: &File),
    judge: fn(&Outcome, &[u8]) -> Result<(), String>,
) {
    at_every_call_over(&[], choices, change, judge);
}

/// The same, over old content of the target.
fn at_every_call_over(
    old: &'static [u8],
    choices: impl Iterator<Item = Choice>,
    change: fn(source: &File, target: &File),
    judge: fn(&Outcome, &[u8]) -> Result<(), String>,
) {
    let mut wrong = Vec::new();
    for choice in choices {
        // Until a move makes no call of that number: every moment has had its change.
        for at in 0.. {
            let name = format!("{choice}, before call {at}");
            let (changed, outcome, arrived) =
                within(30, &name, move || moved_while((choice, old), at, change));
            if !changed {
                assert!(at > 3, "{choice} makes {at} calls: nothing was tried");
                break;
            }
            if let Err(why) = judge(&outcome, &arrived) {
                let said = outcome.map_or_else(|e| e.to_string(), |r| r.explain().to_string());
                wrong.push(format!("{name}: {why} ({said})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn all() -> impl Iterator<Item = Choice> {
    file_methods().map(Choice::Only).chain([Choice::Auto])
}

fn delivered(outcome: &Outcome) -> usize {
    let bytes = outcome.as_ref().map_or_else(Error::delivered_bytes, |report| report.bytes);
    usize::try_from(bytes).expect("a small file")
}

/// The bytes counted have arrived, and success means all of the file, before or after the change.
fn grown_or_not(outcome: &Outcome, arrived: &[u8], more: usize) -> Result<(), String> {
    let all = noise(1, LEN + more);
    let bytes = delivered(outcome);
    if arrived.get(..bytes) != all.get(..bytes) {
        return Err(format!("{bytes} reported, {} or others arrived", arrived.len()));
    }
    if outcome.is_ok() && (arrived.len() != bytes || ![LEN, LEN + more].contains(&bytes)) {
        return Err(format!("success with {bytes} bytes, {} in the target", arrived.len()));
    }
    Ok(())
}

#[test]
fn a_source_that_grows_within_its_last_page_arrives_whole_or_is_an_error() {
    at_every_call(
        all(),
        |source, _| {
            source.write_all_at(&noise(1, LEN + 100)[LEN..], LEN as u64).expect("growth");
        },
        |outcome, arrived| grown_or_not(outcome, arrived, 100),
    );
}

#[test]
fn a_source_that_grows_by_pages_arrives_whole_or_is_an_error() {
    at_every_call(
        all(),
        |source, _| {
            source.write_all_at(&noise(1, LEN + 9000)[LEN..], LEN as u64).expect("growth");
        },
        |outcome, arrived| grown_or_not(outcome, arrived, 9000),
    );
}

/// No byte of a source that was cut arrives as something else, such as the zeros after the file's
/// end.
fn only_what_was_there(outcome: &Outcome, arrived: &[u8]) -> Result<(), String> {
    let bytes = delivered(outcome);
    if arrived.get(..bytes) != noise(1, LEN).get(..bytes) {
        return Err(format!("{bytes} reported, {} or others arrived", arrived.len()));
    }
    if outcome.is_ok() && arrived.len() != bytes {
        return Err(format!("success with {bytes} bytes, {} in the target", arrived.len()));
    }
    Ok(())
}

#[test]
fn a_source_that_shrinks_gives_no_bytes_that_never_were() {
    // Pages that splice shares are the file's own: a truncation zeroes them on their way, too.
    let copying = || all().filter(|choice| *choice != Choice::Only(MethodName::Splice));
    // One rule for all methods: that is no error, and the copy ends where the file ends.
    fn ends_well(outcome: &Outcome, arrived: &[u8]) -> Result<(), String> {
        only_what_was_there(outcome, arrived)?;
        outcome.as_ref().map(drop).map_err(|error| format!("an error: {error}"))
    }
    let cut_in_a_page = |source: &File, _: &File| source.set_len(6000).expect("cut");
    at_every_call(copying(), cut_in_a_page, ends_well);
    let cut_between_pages = |source: &File, _: &File| source.set_len(4096).expect("cut");
    at_every_call(copying(), cut_between_pages, ends_well);
    at_every_call(copying(), |source, _| source.set_len(0).expect("cut"), ends_well);
}

/// What follows the copied range must stay.
#[test]
fn a_source_that_shrinks_removes_nothing_after_the_copy() {
    static OLD: [u8; 3 * LEN] = [b'o'; 3 * LEN];
    at_every_call_over(
        &OLD,
        all(),
        |source, _| source.set_len(4096).expect("cut"),
        |_, arrived| match arrived.get(LEN..) == Some(&OLD[LEN..]) {
            true => Ok(()),
            false => Err(format!("{} bytes are left", arrived.len())),
        },
    );
}

#[test]
fn a_target_that_is_truncated_ends_in_an_answer() {
    // What another process cut off cannot be promised; that the move ends, and honestly, can.
    at_every_call(
        all(),
        |_, target| target.set_len(0).expect("cut"),
        |outcome, arrived| {
            if delivered(outcome) > LEN {
                return Err("more than there is".into());
            }
            if arrived.len() > LEN {
                return Err("a longer target".into());
            }
            Ok(())
        },
    );
}

/// The method does not see bytes; of none there is a digest all the same.
#[test]
fn the_digest_of_a_source_that_became_empty_is_that_of_nothing() {
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let hand = File::from(source.try_clone().expect("dup"));
    let guard = Plan::new(move |call, _| {
        if call == Call::CopyFileRange {
            hand.set_len(0).expect("cut");
        }
        Injection::None
    })
    .install();
    let by_name = Choice::Only(MethodName::CopyFileRange);
    let report = Mover::new(&source, &target).method(by_name).digest(true).run();
    drop(guard);
    let report = report.expect("an end");
    assert_eq!((report.bytes, report.methods[0].steps), (0, 1), "the method was asked");
    let digest = report.digest.map(|digest| digest.to_string());
    assert_eq!(digest, Some(blake3::hash(b"").to_string()));
}
