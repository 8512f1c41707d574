//! Faults at every call of a tee: each target has the first bytes of the source, as many as the
//! report says, and bytes that no target took are still in the source.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use gush::faults::{Injection, Plan};
use gush::flow::Terms;
use gush::{Call, Control, Errno, Error, Tee, TeeReport};

use crate::common::{Source, SourceKind, Target, TargetKind, noise, within};
use crate::trouble::{Trouble, is_data};

/// Several intakes, and fits into any pipe.
const BYTES: usize = 13_001;

static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(3, BYTES));

/// How the bytes get from the source to the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TeeMode {
    ByReference,
    ThroughMemory,
    /// A target may lag.
    Backlog,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    from: SourceKind,
    to: &'static [TargetKind],
    mode: TeeMode,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} -> {:?}, {:?}", self.from, self.to, self.mode)
    }
}

fn cases() -> Vec<Case> {
    use TargetKind::{Append, File, Pipe, UnixStream};
    let sets: [&[TargetKind]; 5] =
        [&[Pipe, Pipe], &[Pipe, File], &[File, File], &[UnixStream, Pipe], &[Append, Pipe]];
    let mut cases = Vec::new();
    for from in [SourceKind::File, SourceKind::Pipe, SourceKind::UnixStream] {
        for to in sets {
            cases.push(Case { from, to, mode: TeeMode::ByReference });
        }
        cases.push(Case { from, to: &[Pipe, File], mode: TeeMode::ThroughMemory });
        cases.push(Case { from, to: &[Pipe, File, UnixStream], mode: TeeMode::Backlog });
    }
    cases
}

struct Outcome {
    result: Result<TeeReport, Error>,
    reported: Vec<(usize, u64)>,
    arrived: Vec<Vec<u8>>,
    rest: Vec<u8>,
}

fn run(case: Case, inject: impl FnMut(Call, u64) -> Injection + Send + 'static) -> Outcome {
    let source = Source::new(case.from, &CONTENT, 1, false).expect("a source").filled();
    let targets: Vec<_> =
        case.to.iter().map(|&to| Target::new(to, b"", 2, false).expect("a target")).collect();
    let mut reported = Vec::new();
    let mut on_loss = |loss: &gush::Loss| {
        reported.push((loss.target, loss.delivered_bytes));
        Control::Continue
    };
    let terms = Terms {
        through_memory: case.mode == TeeMode::ThroughMemory,
        buffer_bytes: 4096,
        call_bytes: 4096,
        never_held: true,
        ..Terms::default()
    };
    let mut tee = Tee::new(&source.fd).terms(terms).sees_hang_ups().on_loss(&mut on_loss);
    if case.mode == TeeMode::Backlog {
        // The ring is full now and then, and goes round.
        tee = tee.backlog_bytes(5000);
    }
    for target in &targets {
        tee = tee.to(&target.fd);
    }
    let guard = Plan::new(inject).install();
    let result = tee.run();
    drop(guard);
    let arrived = targets.into_iter().map(Target::content).collect();
    Outcome { result, reported, arrived, rest: source.rest() }
}

fn calls_of(case: Case) -> Vec<(Call, u64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let outcome = run(case, move |call, nth| {
        log.lock().expect("log").push((call, nth));
        Injection::None
    });
    if let Err(why) = account(case, &outcome).and_then(|()| is_whole(&outcome)) {
        panic!("{case}: without any fault: {why}");
    }
    let calls = seen.lock().expect("log");
    calls.clone()
}

/// Every byte is where the report or the error says.
fn account(case: Case, outcome: &Outcome) -> Result<(), String> {
    let taken = match &outcome.result {
        Ok(report) => {
            let targets = report.targets.iter().enumerate();
            let lost = targets.clone().filter(|(_, target)| target.failure.is_some());
            let mut lost: Vec<_> = lost.map(|(at, to)| (at, to.delivered_bytes)).collect();
            let mut reported = outcome.reported.clone();
            lost.sort_unstable();
            reported.sort_unstable();
            if lost != reported {
                return Err(format!(
                    "the observer saw the loss of {reported:?}, the report has {lost:?}"
                ));
            }
            for (at, target) in targets {
                let delivered = target.delivered_bytes as usize;
                if outcome.arrived[at] != CONTENT[..delivered] {
                    return Err(format!("{delivered} bytes reported, others arrived at {at}"));
                }
                let is_short = delivered != report.taken_bytes as usize;
                if target.failure.is_none() && is_short {
                    return Err(format!("{at} has {delivered} bytes and no failure"));
                }
            }
            if report.is_complete
                != (report.taken_bytes as usize == BYTES && lost.len() < case.to.len())
            {
                return Err(format!("complete is {}: {report:?}", report.is_complete));
            }
            report.taken_bytes as usize
        }
        Err(error) => {
            for (at, arrived) in outcome.arrived.iter().enumerate() {
                let reported = outcome.reported.iter().find(|(lost, _)| *lost == at);
                let least = reported.map_or(error.delivered_bytes(), |(_, delivered)| *delivered);
                if arrived.len() < least as usize || *arrived != CONTENT[..arrived.len()] {
                    return Err(format!("{least} bytes said, {} arrived at {at}", arrived.len()));
                }
            }
            (error.delivered_bytes() + error.in_flight_bytes()) as usize
        }
    };
    match outcome.rest == CONTENT[taken..] {
        true => Ok(()),
        false => Err(format!("{taken} taken, {} left in the source", outcome.rest.len())),
    }
}

fn is_whole(outcome: &Outcome) -> Result<(), String> {
    match &outcome.result {
        Ok(report) if report.is_complete && outcome.reported.is_empty() => Ok(()),
        Ok(report) => Err(format!("not survived: {report:?}")),
        Err(error) => Err(format!("not survived: {error}: {:?}", error.io_error())),
    }
}

/// Runs each case once for every system call of the case and every trouble that the call may meet.
fn sweep(
    troubles: impl Fn(Call) -> Vec<Trouble>,
    judge: fn(&Outcome) -> Result<(), String>,
    at_least: usize,
) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for case in cases() {
        for (call, nth) in within(30, &case.to_string(), move || calls_of(case)) {
            for trouble in troubles(call) {
                tried += 1;
                let name = format!("{case}: {call} #{nth} {trouble}");
                let outcome = within(30, &name, move || {
                    run(case, move |asked, number| match (asked, number) {
                        at if at == (call, nth) => trouble.injection(),
                        _ => Injection::None,
                    })
                });
                if let Err(why) = account(case, &outcome).and_then(|()| judge(&outcome)) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
        }
    }
    assert!(tried >= at_least, "only {tried} faults were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_target_has_what_it_is_said_to_have_when_any_call_fails() {
    let errors = [Errno::IO, Errno::NOSPC, Errno::PIPE, Errno::INVAL, Errno::PERM, Errno::NFILE];
    sweep(|_| errors.map(Trouble::Fails).to_vec(), |_| Ok(()), 500);
}

#[test]
fn every_target_gets_everything_when_any_call_is_short() {
    let counts = [1, 1000, 2048, 4095].map(Trouble::Short);
    sweep(|call| if is_data(call) { counts.to_vec() } else { vec![] }, is_whole, 200);
}

#[test]
fn every_target_gets_everything_when_any_call_is_interrupted_or_too_early() {
    // A plain read is of a file or of a pipe of the tee's own, which holds bytes: neither is ever
    // too early.
    let delays = |call| match is_data(call) && call != Call::Read {
        true => [Errno::INTR, Errno::AGAIN].map(Trouble::Fails).to_vec(),
        false => vec![Trouble::Fails(Errno::INTR)],
    };
    sweep(delays, is_whole, 200);
}

/// tee(2) and splice(2) are asked for less than is there: their 0 is a question, and memory the
/// answer.
#[test]
fn every_target_gets_everything_when_a_call_by_reference_answers_0_or_is_refused() {
    let doubts = |call| match call {
        Call::Tee | Call::Splice => {
            let refusals = [Errno::INVAL, Errno::NOSYS, Errno::PERM].map(Trouble::Fails);
            [&[Trouble::FalseZero][..], &refusals].concat()
        }
        Call::Pipe => vec![Trouble::Fails(Errno::MFILE)],
        _ => vec![],
    };
    sweep(doubts, is_whole, 50);
}

#[test]
fn where_tee_is_denied_altogether_nothing_is_lost() {
    for case in cases() {
        let outcome = within(30, &case.to_string(), move || {
            run(case, |call, _| match call {
                Call::Tee => Injection::Fail(Errno::PERM),
                _ => Injection::None,
            })
        });
        let judged = account(case, &outcome).and_then(|()| is_whole(&outcome));
        assert_eq!(judged, Ok(()), "{case}");
    }
}
