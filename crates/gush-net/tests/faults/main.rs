//! Faults at every call of a relay: nothing lost, nothing twice, no false end, either way.
//!
//! Built with the feature `faults` of the engine only: `cargo test -p gush-net --features
//! gush/faults --test faults`.

#[path = "../../../gush/tests/common/mod.rs"]
mod common;
#[path = "../../../gush/tests/faults/trouble.rs"]
mod trouble;

mod ends;
mod run;
mod threads;

use common::ends_within;
use ends::Kind;
use gush::faults::Injection;
use gush::{Call, Choice, Errno, MethodName, is_refusal};
use run::{Case, Face, Fate, Outcome, calls_of, run};
use trouble::{Trouble, is_data, is_read};

/// Every two kinds of end by every method that may serve them, and the other faces of a relay.
fn cases() -> impl Iterator<Item = Case> {
    let choices =
        [Choice::Auto, Choice::Only(MethodName::Splice), Choice::Only(MethodName::ReadWrite)];
    let pairs = Kind::ALL
        .into_iter()
        .enumerate()
        .flat_map(|(at, a)| Kind::ALL.into_iter().skip(at).map(move |b| (a, b)))
        .chain(Kind::OF_LINKS);
    let relays = pairs
        .flat_map(move |(a, b)| choices.map(|choice| Case { a, b, choice, face: Face::Relay }));
    let sockets = [Kind::Tcp, Kind::Unix, Kind::Seqpacket];
    let files = sockets.into_iter().flat_map(|b| {
        [Face::SendFile, Face::ReceiveFile].map(|face| Case {
            a: Kind::Files,
            b,
            choice: Choice::Auto,
            face,
        })
    });
    // Without a fault, a named method is refused between some of them.
    relays
        .chain(files)
        .filter(|&case| run(case, |_, _| Injection::None).fate != Fate::Refused(None))
}

/// Does a trouble come once, or at all later calls of that name, too?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasts {
    Once,
    FromThenOn,
}

/// Runs every case once for every system call of the case and every trouble that the call may meet.
fn sweep(
    at_least: usize,
    lasts: Lasts,
    troubles: fn(Case, Call) -> Vec<Trouble>,
    judge: fn(Case, Call, Trouble, &Outcome) -> Result<(), String>,
) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for case in cases() {
        for (call, nth) in calls_of(case) {
            for trouble in troubles(case, call) {
                assert!(wrong.len() < 20, "of {tried}:\n{}", wrong.join("\n"));
                tried += 1;
                let outcome = ends_within(30, move || {
                    run(case, move |asked, number| match (asked, number) {
                        at if at == (call, nth) => trouble.injection(),
                        (same, later)
                            if lasts == Lasts::FromThenOn && same == call && later > nth =>
                        {
                            trouble.injection()
                        }
                        _ => Injection::None,
                    })
                });
                let judged = match &outcome {
                    None => Err("hangs".into()),
                    Some(outcome) if lacks_a_pipe(case, call, outcome) => outcome.account(),
                    Some(outcome) => {
                        outcome.account().and_then(|()| judge(case, call, trouble, outcome))
                    }
                };
                if let Err(why) = judged {
                    let fate = outcome.map(|outcome| outcome.fate);
                    wrong.push(format!("{case}: {call} #{nth} {trouble}: {why} ({fate:?})"));
                }
            }
        }
    }
    assert!(tried >= at_least, "only {tried} faults were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{tried} faults");
}

/// Where no pipe can be made, a method that needs one is refused by name, without an error of the
/// kernel's. Most relays find an idle pipe in the pool, which they share with concurrent tests, and
/// make none.
fn lacks_a_pipe(case: Case, call: Call, outcome: &Outcome) -> bool {
    let makes_a_pipe = matches!(call, Call::Pipe | Call::GetPipeSize | Call::SetPipeSize);
    let needs_one = case.choice == Choice::Only(MethodName::Splice);
    makes_a_pipe && needs_one && outcome.fate == Fate::Refused(None)
}

/// The error names the injected cause. Where there is none, another way was found, and all has
/// arrived; and where the plan chooses, a way that is refused is none to fail by.
fn names_the_cause(
    case: Case,
    call: Call,
    trouble: Trouble,
    outcome: &Outcome,
) -> Result<(), String> {
    let Trouble::Fails(errno) = trouble else { return Ok(()) };
    let by_reference = matches!(call, Call::Splice | Call::Sendfile);
    let named = matches!(case.choice, Choice::Only(name) if name != MethodName::ReadWrite);
    match outcome.fate {
        Fate::Closed => Ok(()),
        _ if by_reference && is_refusal(errno) && !named => Err("no other way was found".into()),
        Fate::Failed(_, reported) if reported == errno => Ok(()),
        Fate::Refused(Some(reported)) if reported == errno && named && is_refusal(errno) => Ok(()),
        _ => Err("the error names something else".into()),
    }
}

fn succeeds(_: Case, _: Call, _: Trouble, outcome: &Outcome) -> Result<(), String> {
    if outcome.fate == Fate::Closed { Ok(()) } else { Err("not survived".into()) }
}

fn anything(_: Case, _: Call, _: Trouble, _: &Outcome) -> Result<(), String> {
    Ok(())
}

#[test]
fn nothing_is_lost_and_the_cause_is_reported_when_any_call_of_a_relay_fails() {
    fn errors(_: Case, _: Call) -> Vec<Trouble> {
        let errors = [
            Errno::IO,
            Errno::NOSPC,
            Errno::INVAL,
            Errno::PERM,
            Errno::OPNOTSUPP,
            Errno::NOMEM,
            Errno::CONNRESET,
            Errno::PIPE,
        ];
        errors.map(Trouble::Fails).to_vec()
    }
    sweep(9000, Lasts::Once, errors, names_the_cause);
}

/// Bytes in a pipe that the target takes no more leave it by `read` and `write`, or are counted.
#[test]
fn nothing_is_lost_when_a_call_of_a_relay_fails_from_then_on() {
    fn errors(_: Case, call: Call) -> Vec<Trouble> {
        let moves = is_data(call) && !is_read(call);
        let errors = [Errno::IO, Errno::INVAL, Errno::NOSPC].map(Trouble::Fails);
        if moves { errors.to_vec() } else { Vec::new() }
    }
    sweep(1000, Lasts::FromThenOn, errors, names_the_cause);
}

#[test]
fn a_relay_survives_every_interruption() {
    sweep(1500, Lasts::Once, |_, _| vec![Trouble::Fails(Errno::INTR)], succeeds);
}

/// The kernel says `EAGAIN` of a side that has more: no edge comes, and the idle limit ends the
/// relay, with every byte counted. A call that means no side is followed by questions, and goes on.
#[test]
fn nothing_is_lost_when_any_call_of_a_relay_answers_eagain() {
    fn again(case: Case, call: Call) -> Vec<Trouble> {
        // A file always has something, or has ended: that it has not is another kernel's answer.
        let may_be_file = call == Call::Read && [case.a, case.b].contains(&Kind::Files);
        if is_data(call) && !may_be_file { vec![Trouble::Fails(Errno::AGAIN)] } else { Vec::new() }
    }
    sweep(700, Lasts::Once, again, |_, _, _, outcome| match outcome.fate {
        Fate::Closed | Fate::Idle => Ok(()),
        _ => Err("neither ended nor idle".into()),
    });
}

#[test]
fn a_relay_survives_every_short_count() {
    fn short(case: Case, call: Call) -> Vec<Trouble> {
        // A message that is cut is an error, and its rest is lost: that is what its boundaries
        // mean.
        let whole = [case.a, case.b].contains(&Kind::Seqpacket);
        if is_data(call) && !whole {
            [1, 1000, 4095].map(Trouble::Short).to_vec()
        } else {
            Vec::new()
        }
    }
    sweep(600, Lasts::Once, short, succeeds);
}

#[test]
fn only_a_read_of_zero_is_the_end_of_a_relay() {
    fn zeros(_: Case, call: Call) -> Vec<Trouble> {
        if is_data(call) && !is_read(call) { vec![Trouble::FalseZero] } else { Vec::new() }
    }
    sweep(350, Lasts::Once, zeros, anything);
}
