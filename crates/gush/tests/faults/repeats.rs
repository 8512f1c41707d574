//! Faults at every call of a repeated pattern: the target has the pattern's first bytes, as many as
//! the result says.

use std::sync::{Arc, Mutex};

use gush::faults::{Injection, Plan};
use gush::{Call, Errno, Error, Repeat};

use crate::common::{Target, TargetKind, within};
use crate::trouble::{Trouble, is_data};

/// Fits into any pipe, and ends within a pattern.
const BYTES: usize = 13_001;

const PATTERN: &[u8] = b"seven!\n";

const TARGETS: [TargetKind; 5] = [
    TargetKind::Pipe,
    TargetKind::UnixStream,
    TargetKind::Tcp,
    TargetKind::File,
    TargetKind::Append,
];

struct Outcome {
    result: Result<u64, Error>,
    arrived: Vec<u8>,
}

fn run(to: TargetKind, inject: impl FnMut(Call, u64) -> Injection + Send + 'static) -> Outcome {
    let target = Target::new(to, b"", 2, false).expect("a target");
    let guard = Plan::new(inject).install();
    let result = Repeat::new(PATTERN).length_bytes(BYTES as u64).run(&target.fd);
    drop(guard);
    Outcome { result, arrived: target.content() }
}

fn account(outcome: &Outcome) -> Result<(), String> {
    let written_bytes = match &outcome.result {
        Ok(bytes) if *bytes != BYTES as u64 => return Err(format!("success after {bytes} bytes")),
        Ok(bytes) => *bytes,
        Err(error) => error.delivered_bytes(),
    };
    let wanted: Vec<u8> = PATTERN.iter().copied().cycle().take(written_bytes as usize).collect();
    match outcome.arrived == wanted {
        true => Ok(()),
        false => Err(format!("{written_bytes} said, {} arrived", outcome.arrived.len())),
    }
}

fn is_whole(outcome: &Outcome) -> Result<(), String> {
    outcome.result.as_ref().map(|_| ()).map_err(|error| format!("not survived: {error}"))
}

fn sweep(
    troubles: impl Fn(TargetKind, Call) -> Vec<Trouble>,
    judge: fn(&Outcome) -> Result<(), String>,
    at_least: usize,
) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for to in TARGETS {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let calm = run(to, move |call, nth| {
            log.lock().expect("log").push((call, nth));
            Injection::None
        });
        assert_eq!(account(&calm).and_then(|()| is_whole(&calm)), Ok(()), "{to:?}");
        let calls = seen.lock().expect("log").clone();
        for (call, nth) in calls {
            for trouble in troubles(to, call) {
                tried += 1;
                let name = format!("{to:?}: {call} #{nth} {trouble}");
                let outcome = within(30, &name, move || {
                    run(to, move |asked, number| match (asked, number) {
                        at if at == (call, nth) => trouble.injection(),
                        _ => Injection::None,
                    })
                });
                if let Err(why) = account(&outcome).and_then(|()| judge(&outcome)) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
        }
    }
    assert!(tried >= at_least, "only {tried} faults were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pattern_arrives_as_far_as_said_when_any_call_fails() {
    let errors = [Errno::IO, Errno::NOSPC, Errno::PIPE, Errno::INVAL, Errno::PERM, Errno::NFILE];
    sweep(|_, _| errors.map(Trouble::Fails).to_vec(), |_| Ok(()), 200);
}

#[test]
fn a_pattern_arrives_whole_when_any_call_is_short_or_answers_0() {
    let counts = [1, 1000, 2048, 4095].map(Trouble::Short);
    let troubles = |call| match call {
        Call::Tee => [&counts[..], &[Trouble::FalseZero]].concat(),
        call if is_data(call) => counts.to_vec(),
        _ => vec![],
    };
    sweep(|_, call| troubles(call), is_whole, 30);
}

#[test]
fn a_pattern_arrives_whole_when_any_call_is_interrupted_or_too_early() {
    let delays = |to, call| match is_data(call) {
        // A write into a file never asks to come later.
        _ if matches!(to, TargetKind::File | TargetKind::Append) => vec![Errno::INTR],
        true => vec![Errno::INTR, Errno::AGAIN],
        false => vec![Errno::INTR],
    };
    let delays = |to, call| delays(to, call).into_iter().map(Trouble::Fails).collect();
    sweep(delays, is_whole, 30);
}

#[test]
fn a_pattern_arrives_whole_where_calls_by_reference_are_denied() {
    let denied = |_, call| match call {
        Call::Tee => [Errno::INVAL, Errno::NOSYS, Errno::PERM].map(Trouble::Fails).to_vec(),
        Call::Pipe | Call::Socketpair => vec![Trouble::Fails(Errno::MFILE)],
        _ => vec![],
    };
    sweep(denied, is_whole, 3);
    let outcome = run(TargetKind::Pipe, |call, _| match call {
        Call::Tee => Injection::Fail(Errno::PERM),
        _ => Injection::None,
    });
    assert_eq!(account(&outcome).and_then(|()| is_whole(&outcome)), Ok(()));
}
