//! Faults at every call of every method: nothing lost, nothing twice, no false end.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod brief;
mod cases;
mod changing;
mod descriptors;
mod endings;
mod growing;
mod pipes;
mod repeats;
mod sizes;
mod space;
mod storms;
mod strace;
mod streams;
mod sweep;
mod tees;
mod threads;
mod together;
mod trouble;

use common::within;
use gush::faults::Injection;
use gush::{Call, Choice, Errno, MethodName};
use sweep::{Case, Outcome, Trouble, account, calls_of, is_data, is_read, run};

/// Runs a case once for every system call of the case and every trouble that the call may meet, and
/// collects the faults found.
fn sweep(
    cases: impl Iterator<Item = Case>,
    troubles: fn(Case, Call) -> Vec<Trouble>,
    judge: fn(Case, Call, Trouble, &Outcome) -> Result<(), String>,
) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for case in cases {
        let calls = within(30, &case.to_string(), move || calls_of(case, 1));
        for (call, nth) in calls {
            for trouble in troubles(case, call) {
                tried += 1;
                let name = format!("{case}: {call} #{nth} {trouble}");
                let outcome = within(30, &name, move || {
                    run(case, 1, move |asked, number| match (asked, number) {
                        at if at == (call, nth) => trouble.injection(),
                        _ => Injection::None,
                    })
                });
                let judged =
                    account(case, &outcome).and_then(|()| judge(case, call, trouble, &outcome));
                if let Err(why) = judged {
                    let said = outcome.result.map_or_else(|e| e.to_string(), |_| "success".into());
                    wrong.push(format!("{name}: {why} ({said})"));
                }
            }
        }
    }
    assert!(tried > 20, "only {tried} faults were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

fn errors(_: Case, call: Call) -> Vec<Trouble> {
    let errors = match call {
        Call::Memcpy => &[Errno::FAULT][..],
        // EINVAL and ESPIPE from lseek only say that there is no position.
        Call::Lseek => &[Errno::IO, Errno::PERM],
        _ => &[Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP],
    };
    errors.iter().map(|&errno| Trouble::Fails(errno)).collect()
}

fn delays(_: Case, call: Call) -> Vec<Trouble> {
    let again = [Errno::INTR, Errno::AGAIN].map(Trouble::Fails);
    match call {
        Call::Memcpy => vec![again[1]],
        call if is_data(call) => again.to_vec(),
        _ => vec![again[0]],
    }
}

fn short_counts(case: Case, call: Call) -> Vec<Trouble> {
    let past_the_page_cache = case.choice == Choice::Only(MethodName::Direct)
        || case.from == common::SourceKind::Direct
        || case.to == common::TargetKind::Direct;
    // There a device answers whole sectors, and the kernel takes nothing else.
    let counts = if past_the_page_cache { [512, 1024, 2048, 3584] } else { [1, 1000, 2048, 4095] };
    if is_data(call) { counts.map(Trouble::Short).to_vec() } else { Vec::new() }
}

fn false_zeros(_: Case, call: Call) -> Vec<Trouble> {
    let may_lie = is_data(call) && !is_read(call) && call != Call::Memcpy;
    if may_lie { vec![Trouble::FalseZero] } else { Vec::new() }
}

/// An error names the injected cause, as long as nothing else had to be tried afterwards.
fn names_the_cause(
    case: Case,
    call: Call,
    trouble: Trouble,
    outcome: &Outcome,
) -> Result<(), String> {
    let (Err(error), Trouble::Fails(errno)) = (&outcome.result, trouble) else { return Ok(()) };
    match error.io_error().and_then(Errno::from_io_error) {
        Some(reported) if reported == errno => Ok(()),
        // Refused here anyway, whatever fails before or after it.
        _ if case.choice == Choice::Only(MethodName::Reflink)
            && !matches!(call, Call::Ficlone | Call::FicloneRange) =>
        {
            Ok(())
        }
        reported => Err(format!("the error names {:?}", reported.map(gush::errno_name))),
    }
}

fn succeeds(case: Case, _: Call, _: Trouble, outcome: &Outcome) -> Result<(), String> {
    match &outcome.result {
        Ok(_) => Ok(()),
        // Where the file system shares no blocks, it is refused in fine weather, too.
        Err(error) if case.choice == Choice::Only(MethodName::Reflink) && error.is_refused() => {
            Ok(())
        }
        Err(_) => Err("not survived".into()),
    }
}

fn anything(_: Case, _: Call, _: Trouble, _: &Outcome) -> Result<(), String> {
    Ok(())
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_when_any_call_fails() {
    sweep(cases::named().filter(|case| !case.is_ring()), errors, names_the_cause);
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_when_any_call_of_a_ring_fails() {
    sweep(cases::named().filter(Case::is_ring), errors, names_the_cause);
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_when_any_call_is_short() {
    sweep(cases::named(), short_counts, succeeds);
}

#[test]
fn invariant_1_nothing_lost_nothing_twice_when_any_call_is_interrupted_or_has_to_wait() {
    sweep(cases::named(), delays, succeeds);
}

#[test]
fn invariant_2_only_a_read_of_zero_is_the_end() {
    sweep(cases::named(), false_zeros, anything);
    sweep(cases::auto(), false_zeros, anything);
}

#[test]
fn invariant_1_holds_for_watched_moves_when_any_call_fails() {
    sweep(cases::observed(), errors, names_the_cause);
    sweep(cases::observed(), delays, succeeds);
    sweep(cases::observed(), short_counts, succeeds);
}

#[test]
fn invariant_3_auto_falls_back_from_an_untouched_position_and_completes() {
    fn refusals(_: Case, call: Call) -> Vec<Trouble> {
        let of_a_method = matches!(
            call,
            Call::Ficlone
                | Call::FicloneRange
                | Call::CopyFileRange
                | Call::Sendfile
                | Call::Splice
        );
        let errors = [Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::XDEV];
        if of_a_method { errors.map(Trouble::Fails).to_vec() } else { Vec::new() }
    }
    sweep(cases::auto(), refusals, succeeds);
}

#[test]
fn invariant_1_holds_for_auto_when_any_call_fails() {
    sweep(cases::auto(), errors, names_the_cause);
    sweep(cases::auto(), delays, succeeds);
}

#[test]
fn invariant_6_a_refused_method_is_an_error_that_names_it() {
    let case = Case {
        choice: Choice::Only(MethodName::CopyFileRange),
        from: common::SourceKind::File,
        to: common::TargetKind::File,
        amidst: false,
        observed: false,
        len: sweep::SMALL,
    };
    let outcome = run(case, 1, |call, _| match call {
        Call::CopyFileRange => Injection::Fail(Errno::NOSYS),
        _ => Injection::None,
    });
    let error = outcome.result.expect_err("copy_file_range is denied");
    assert!(error.is_refused());
    assert_eq!(error.to_string(), "copy-file-range is refused here: copy_file_range: ENOSYS");
    assert!(error.hint().is_some_and(|hint| hint.contains("another method")));
    assert!(outcome.arrived.is_empty());
}
