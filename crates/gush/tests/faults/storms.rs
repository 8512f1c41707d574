//! More than one fault a move.

use gush::faults::Verdict;
use gush::{Call, Choice, Errno, MethodName};

use crate::cases;
use crate::common::{Dice, within};
use crate::sweep::{Case, Outcome, Trouble, account, calls_of, is_data, is_read, run};

fn check(case: Case, name: &str, outcome: Outcome, wrong: &mut Vec<String>) {
    if let Err(why) = account(case, &outcome) {
        let said = outcome.result.map_or_else(|error| error.to_string(), |_| "success".into());
        wrong.push(format!("{case}: {name}: {why} ({said})"));
    }
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// A move in which one call in six meets some trouble.
fn storm(case: Case, seed: u64) -> Outcome {
    let mut dice = Dice::new(seed);
    let errors =
        [Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::NOMEM];
    run(case, 1, move |call, _| {
        // Nobody can promise positions and sizes when setting them right fails too.
        if dice.below(6) > 0 || matches!(call, Call::Lseek | Call::Ftruncate | Call::Memcpy) {
            return Verdict::Go;
        }
        let trouble = match dice.below(5) {
            0 => Trouble::Fails(dice.pick(&errors)),
            1 if is_data(call) => Trouble::Fails(Errno::AGAIN),
            2 if is_data(call) && !is_read(call) => Trouble::FalseZero,
            3 if is_data(call) => Trouble::Short(512 * (1 + dice.below(7))),
            _ if is_data(call) => Trouble::Fails(Errno::INTR),
            _ => return Verdict::Go,
        };
        trouble.verdict()
    })
}

fn storms(all: &[Case], moves: usize, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut wrong = Vec::new();
    for _ in 0..moves {
        let (case, seed) = (dice.pick(all), dice.roll());
        let name = format!("storm {seed}");
        let outcome = within(30, &format!("{case}: {name}"), move || storm(case, seed));
        check(case, &name, outcome, &mut wrong);
    }
    assert_none(&wrong);
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_in_a_storm() {
    let all: Vec<_> = cases::named().chain(cases::auto()).filter(|case| !case.is_ring()).collect();
    storms(&all, 2000, 1);
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_when_a_ring_meets_a_storm() {
    let all: Vec<_> = cases::named().filter(Case::is_ring).collect();
    storms(&all, 1000, 1);
}

#[test]
#[ignore = "campaign: 40,000 moves"]
fn campaign_nothing_lost_nothing_twice_in_many_storms() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2);
    let all: Vec<_> = cases::named().chain(cases::auto()).collect();
    storms(&all, 40_000, seed);
}

/// From one call on, `judge` answers all calls that bring bytes to the target.
fn from_then_on(judge: fn(Call) -> Verdict) {
    let mut wrong = Vec::new();
    for case in cases::named() {
        let calls = within(30, &case.to_string(), move || calls_of(case));
        for at in calls.into_iter().filter(|&(call, _)| is_data(call) && !is_read(call)) {
            let name = format!("from {} #{} on", at.0, at.1);
            let outcome = within(30, &format!("{case}: {name}"), move || {
                let mut began = false;
                run(case, 1, move |call, nth| {
                    began |= (call, nth) == at;
                    if began { judge(call) } else { Verdict::Go }
                })
            });
            check(case, &name, outcome, &mut wrong);
        }
    }
    assert_none(&wrong);
}

#[test]
fn invariant_1_what_cannot_be_delivered_any_more_is_counted() {
    from_then_on(|call| match call {
        Call::Lseek | Call::Ftruncate | Call::Memcpy => Verdict::Go,
        call if is_data(call) && !is_read(call) => Verdict::Fail(Errno::IO),
        _ => Verdict::Go,
    });
}

#[test]
fn invariant_1_what_is_in_flight_is_counted_when_waiting_for_the_target_fails() {
    from_then_on(|call| match call {
        Call::Splice | Call::Vmsplice => Verdict::Fail(Errno::INVAL),
        Call::Write | Call::Pwritev2 | Call::Send => Verdict::Fail(Errno::AGAIN),
        Call::Poll => Verdict::Fail(Errno::IO),
        _ => Verdict::Go,
    });
}

#[test]
fn invariant_1_holds_when_one_of_several_threads_fails() {
    let mut wrong = Vec::new();
    let mut dice = Dice::new(9);
    for case in cases::shared() {
        let of_method = |call: Call| is_data(call) || call == Call::Mmap;
        let calls: Vec<_> = within(60, &case.to_string(), move || calls_of(case))
            .into_iter()
            .filter(|&(call, _)| of_method(call))
            .collect();
        for errno in [Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::INTR] {
            let at = dice.pick(&calls);
            let name = format!("{} #{} {} on 3 threads", at.0, at.1, gush::errno_name(errno));
            let outcome = within(60, &format!("{case}: {name}"), move || {
                run(case, 3, move |call, nth| match (call, nth) {
                    (Call::Memcpy, _) => Verdict::Go,
                    seen if seen == at => Verdict::Fail(errno),
                    _ => Verdict::Go,
                })
            });
            check(case, &name, outcome, &mut wrong);
        }
    }
    assert_none(&wrong);
}

#[test]
fn invariant_1_holds_for_short_counts_on_several_threads() {
    let mut wrong = Vec::new();
    for case in cases::shared() {
        let mut dice = Dice::new(11);
        let unit = if case.choice == Choice::Only(MethodName::Direct) { 512 } else { 333 };
        let outcome = within(60, &case.to_string(), move || {
            run(case, 3, move |call, _| match call {
                call if is_data(call) && dice.below(4) == 0 => {
                    Verdict::Short(unit * (1 + dice.below(500)))
                }
                _ => Verdict::Go,
            })
        });
        if let Err(error) = &outcome.result {
            wrong.push(format!("{case}: {error}"));
        }
        check(case, "short counts", outcome, &mut wrong);
    }
    assert_none(&wrong);
}
