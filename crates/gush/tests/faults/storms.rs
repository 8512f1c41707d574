//! More than one fault a move.

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Errno, MethodName, Side};

use crate::cases;
use crate::common::{Dice, Source, SourceKind, Target, TargetKind, within};
use crate::sweep::{
    Case, LARGE, Outcome, Trouble, account, calls_of, content, is_data, is_read, run,
};

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
    // Seeded, so that a storm found wrong can be run again.
    let mut dice = Dice::new(seed);
    let errors =
        [Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::NOMEM];
    run(case, 1, move |call, _| {
        // Nobody can promise positions and sizes when setting them right fails too.
        if dice.below(6) > 0 || matches!(call, Call::Lseek | Call::Ftruncate | Call::Memcpy) {
            return Injection::None;
        }
        let trouble = match dice.below(5) {
            0 => Trouble::Fails(dice.pick(&errors)),
            1 if is_data(call) => Trouble::Fails(Errno::AGAIN),
            2 if is_data(call) && !is_read(call) => Trouble::FalseZero,
            3 if is_data(call) => Trouble::Short(512 * (1 + dice.below(7))),
            _ if is_data(call) => Trouble::Fails(Errno::INTR),
            _ => return Injection::None,
        };
        trouble.injection()
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
    // Rings have a test of their own, which runs concurrently.
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
    // Random cases: another run takes another seed.
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2);
    let all: Vec<_> = cases::named().chain(cases::auto()).collect();
    storms(&all, 40_000, seed);
}

/// From one call on, `inject` answers all calls that bring bytes to the target.
fn from_then_on(inject: fn(Call) -> Injection) {
    let mut wrong = Vec::new();
    for case in cases::named() {
        let calls = within(30, &case.to_string(), move || calls_of(case, 1));
        for at in calls.into_iter().filter(|&(call, _)| is_data(call) && !is_read(call)) {
            let name = format!("from {} #{} on", at.0, at.1);
            let outcome = within(30, &format!("{case}: {name}"), move || {
                let mut began = false;
                run(case, 1, move |call, nth| {
                    began |= (call, nth) == at;
                    if began { inject(call) } else { Injection::None }
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
        Call::Lseek | Call::Ftruncate | Call::Memcpy => Injection::None,
        call if is_data(call) && !is_read(call) => Injection::Fail(Errno::IO),
        _ => Injection::None,
    });
}

#[test]
fn invariant_1_what_is_in_flight_is_counted_when_waiting_for_the_target_fails() {
    from_then_on(|call| match call {
        Call::Splice | Call::Vmsplice => Injection::Fail(Errno::INVAL),
        Call::Write | Call::Pwritev2 | Call::Send => Injection::Fail(Errno::AGAIN),
        Call::Poll => Injection::Fail(Errno::IO),
        _ => Injection::None,
    });
}

/// The side from which a call of a method for files takes bytes, or to which it brings them.
fn side_of(call: Call) -> Option<Side> {
    match call {
        call if is_read(call) => Some(Side::Source),
        Call::Write | Call::Pwrite | Call::UringWrite | Call::CopyFileRange => Some(Side::Target),
        _ => None,
    }
}

/// A move on several threads reports the error of one of its calls, and never claims a stop.
fn names_the_cause(outcome: &Outcome, call: Call, errno: Errno) -> Result<(), String> {
    let Err(error) = &outcome.result else {
        // An interrupted call is made again, and a refused method has a successor.
        let survivable = errno == Errno::INTR || gush::is_refusal(errno);
        return if survivable { Ok(()) } else { Err("not reported".into()) };
    };
    if error.is_stopped() {
        return Err("nobody stopped it".into());
    }
    let reported = error.io_error().and_then(Errno::from_io_error);
    if reported != Some(errno) {
        return Err(format!("the error names {:?}", reported.map(gush::errno_name)));
    }
    let refused = error.refusal().map(|refusal| refusal.why.as_ref());
    // Some methods report the name with the offset (pread64), some without.
    let names = match call {
        Call::Pread => [call, Call::Read],
        Call::Pwrite => [call, Call::Write],
        call => [call; 2],
    };
    match (error.call(), refused) {
        (Some(reported), _) if !names.contains(&reported) => {
            Err(format!("the error names {reported}"))
        }
        (None, Some(why)) => Err(format!("the refusal names {why}, and no call")),
        // A refusal is of the pair, and of neither side.
        (Some(_), None) if side_of(call).is_some_and(|side| error.side() != Some(side)) => {
            Err(format!("the error names the {:?}", error.side()))
        }
        _ => Ok(()),
    }
}

/// Faults in one worker (the call of that number) and in all of them (that one and all later ones).
#[test]
fn invariant_1_holds_and_the_cause_is_reported_when_some_of_several_threads_fail() {
    let mut wrong = Vec::new();
    let mut dice = Dice::new(9);
    for case in cases::shared() {
        let calls = within(60, &case.to_string(), move || calls_of(case, 3));
        for errno in [Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::NOSYS, Errno::INTR] {
            for from_then_on in [false, true] {
                // Their number differs a little from move to move: of the first half each move
                // makes all.
                let half = |of| calls.iter().filter(|(call, _)| *call == of).count() as u64 / 2;
                let moves =
                    |&&(call, nth): &&(Call, u64)| side_of(call).is_some() && nth < half(call);
                let among: Vec<_> = calls.iter().filter(moves).copied().collect();
                // For ever interrupted is for ever.
                if among.is_empty() || (errno == Errno::INTR && from_then_on) {
                    continue;
                }
                let at = dice.pick(&among);
                let later = if from_then_on { " and later" } else { "" };
                let name =
                    format!("{} #{}{later} {} on 3 threads", at.0, at.1, gush::errno_name(errno));
                let outcome = within(60, &format!("{case}: {name}"), move || {
                    run(case, 3, move |call, nth| {
                        let meant = nth == at.1 || (from_then_on && nth > at.1);
                        if call == at.0 && meant { Injection::Fail(errno) } else { Injection::None }
                    })
                });
                if let Err(why) = names_the_cause(&outcome, at.0, errno) {
                    wrong.push(format!("{case}: {name}: {why} ({:?})", outcome.result));
                }
                check(case, &name, outcome, &mut wrong);
            }
        }
    }
    assert_none(&wrong);
}

/// The thread with the first piece is late, another one writes, and then every call is refused.
/// Nobody may write before the first piece has shown that the method serves.
#[test]
fn invariant_3_a_refusal_on_several_threads_is_from_an_untouched_position() {
    let mut wrong = Vec::new();
    for case in cases::shared().filter(|case| case.amidst) {
        let name = "refused while the first thread is late on 3 threads";
        let outcome = within(60, &case.to_string(), move || {
            let first = std::thread::current().id();
            // Enough for the others to write, were they not to wait; the first thread goes on at
            // last.
            let (mut patience, mut touched) = (200_000, false);
            run(case, 3, move |call, _| {
                if !matches!(call, Call::Pread | Call::Pwrite | Call::CopyFileRange) {
                    return Injection::None;
                }
                let reads_into_target = case.choice == Choice::Only(MethodName::ReadMmap);
                let touches = call != Call::Pread || reads_into_target;
                let is_first = std::thread::current().id() == first;
                if is_first && !touched && patience > 0 {
                    patience -= 1;
                    // An interrupted call is made again at once: the thread is late without a
                    // sleep.
                    return Injection::Fail(Errno::INTR);
                }
                if touches && !is_first && !touched {
                    touched = true;
                    return Injection::None;
                }
                if touches { Injection::Fail(Errno::NOSYS) } else { Injection::None }
            })
        });
        check(case, name, outcome, &mut wrong);
    }
    assert_none(&wrong);
}

/// Two workers fail on different sides: one of the two is reported as a whole: the call, its side
/// and its error.
#[test]
fn of_two_failures_on_several_threads_one_is_reported_with_its_own_side() {
    let mut wrong = Vec::new();
    for case in cases::shared().filter(|case| case.choice == Choice::Only(MethodName::ReadWrite)) {
        for nth in [0, 3, 8] {
            let name = format!("reads and writes fail from #{nth} on");
            let outcome = within(60, &format!("{case}: {name}"), move || {
                run(case, 4, move |call, number| match call {
                    Call::Pread if number >= nth => Injection::Fail(Errno::IO),
                    Call::Pwrite if number >= nth => Injection::Fail(Errno::DQUOT),
                    _ => Injection::None,
                })
            });
            let reported = outcome.result.as_ref().err().map(|error| {
                (error.call(), error.side(), error.io_error().and_then(Errno::from_io_error))
            });
            let read = (Some(Call::Read), Some(Side::Source), Some(Errno::IO));
            let written = (Some(Call::Write), Some(Side::Target), Some(Errno::DQUOT));
            if reported != Some(read) && reported != Some(written) {
                wrong.push(format!("{case}: {name}: {:?}", outcome.result));
            }
            check(case, &name, outcome, &mut wrong);
        }
    }
    assert_none(&wrong);
}

#[test]
fn a_stop_by_the_observer_of_several_threads_is_reported_as_a_stop() {
    let all = content(LARGE_CASE);
    for method in cases::shared().map(|case| case.choice) {
        let (result, arrived) = within(60, &method.to_string(), move || {
            let source = Source::new(LARGE_CASE.from, content(LARGE_CASE), 1, false);
            let source = source.expect("a source").filled();
            let target = Target::new(LARGE_CASE.to, b"", 2, false).expect("a target");
            let mut observer = |_: &gush::Progress| gush::Control::Stop;
            let mover = gush::Mover::new(&source.fd, &target.fd).method(method).threads(3);
            (mover.observe(&mut observer).run(), target.content())
        });
        // A move that ends before the observer is first asked is a whole one.
        let delivered = match result {
            Ok(report) => report.bytes,
            Err(error) if error.is_stopped() => error.delivered_bytes(),
            Err(error) => panic!("{method}: {error}"),
        };
        assert_eq!(arrived.len() as u64, delivered, "{method}");
        assert!(arrived == all[..arrived.len()], "{method}: other bytes");
    }
}

#[test]
fn auto_goes_on_when_one_of_several_threads_is_refused() {
    for (nth, for_ever) in [(0, false), (3, false), (0, true), (3, true)] {
        for errno in [Errno::INVAL, Errno::PERM, Errno::NOSYS, Errno::XDEV] {
            let name = format!("copy_file_range #{nth} {}", gush::errno_name(errno));
            let (result, arrived) = within(60, &name, move || shared(nth, for_ever, errno));
            let report = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(arrived == content(LARGE_CASE), "{name}: other bytes");
            assert_eq!(report.bytes, LARGE as u64, "{name}");
            let fell_back = report.methods.iter().any(|used| used.name == MethodName::ReadWrite);
            assert_eq!(fell_back, for_ever, "{name}: {}", report.explain());
        }
    }
}

const LARGE_CASE: Case = Case {
    choice: Choice::Auto,
    from: SourceKind::Tmpfs,
    to: TargetKind::Tmpfs,
    amidst: false,
    observed: false,
    len: LARGE,
};

/// Between files on a file system that is not known, `auto` begins with copy_file_range.
fn shared(from: u64, for_ever: bool, errno: Errno) -> (Result<gush::Report, gush::Error>, Vec<u8>) {
    let source =
        Source::new(LARGE_CASE.from, content(LARGE_CASE), 1, false).expect("a source").filled();
    let target = Target::new(LARGE_CASE.to, b"", 2, false).expect("a target");
    let guard = Plan::new(move |call, nth| match call {
        Call::CopyFileRange if nth == from || (for_ever && nth > from) => Injection::Fail(errno),
        Call::Fstatfs => Injection::Fail(Errno::NOSYS),
        // Where blocks are shared nothing would be copied.
        Call::Ficlone | Call::FicloneRange => Injection::Fail(Errno::OPNOTSUPP),
        _ => Injection::None,
    })
    .install();
    let result = gush::Mover::new(&source.fd, &target.fd).threads(4).run();
    drop(guard);
    (result, target.content())
}

/// Cut by somebody else at every so many calls: the bytes that were there have arrived, and nobody
/// is said to have stopped the move.
#[test]
fn a_source_that_is_cut_while_several_threads_read_it_is_no_stop() {
    let all = content(LARGE_CASE);
    for method in cases::shared().map(|case| case.choice).collect::<Vec<_>>() {
        for (at, kept) in [(2, 1 << 20), (5, 3 << 20), (9, (4 << 20) + 5), (9, 0), (20, 15 << 20)] {
            let name = format!("{method}: cut to {kept} at data call {at}");
            let (result, arrived) = within(60, &name, move || cut_at(method, at, kept));
            let delivered = result.as_ref().map_or_else(|e| e.delivered_bytes(), |r| r.bytes);
            if let Err(error) = &result {
                assert!(!error.is_stopped(), "{name}: {error}");
                assert!(error.is_refused() || error.io_error().is_some(), "{name}: {error}");
            } else {
                assert!(delivered >= kept as u64, "{name}: {delivered} delivered");
                assert_eq!(arrived.len() as u64, delivered, "{name}");
            }
            let delivered = usize::try_from(delivered).expect("a small file");
            // A page that was cut while it was read may show the zeros after the new end.
            let same = |(got, is): (&u8, &u8)| got == is || *got == 0;
            assert!(arrived.len() >= delivered, "{name}");
            assert!(arrived[..kept.min(delivered)] == all[..kept.min(delivered)], "{name}");
            assert!(arrived[..delivered].iter().zip(all).all(same), "{name}: other bytes");
        }
    }
}

fn cut_at(choice: Choice, at: u64, kept: usize) -> (Result<gush::Report, gush::Error>, Vec<u8>) {
    let source =
        Source::new(LARGE_CASE.from, content(LARGE_CASE), 1, false).expect("a source").filled();
    let target = Target::new(LARGE_CASE.to, b"", 2, false).expect("a target");
    // A duplicate for the plan; set_len moves no position.
    let hand = std::fs::File::from(source.fd.try_clone().expect("dup"));
    let mut seen = 0;
    let guard = Plan::new(move |call, _| {
        seen += u64::from(is_data(call) || call == Call::Mmap);
        if seen == at {
            hand.set_len(kept as u64).expect("cut");
        }
        Injection::None
    })
    .install();
    let result = gush::Mover::new(&source.fd, &target.fd).method(choice).threads(3).run();
    drop(guard);
    (result, target.content())
}

#[test]
fn invariant_1_holds_for_short_counts_on_several_threads() {
    let mut wrong = Vec::new();
    for case in cases::shared() {
        let mut dice = Dice::new(11);
        // O_DIRECT takes whole sectors; elsewhere an odd count shows a wrong offset.
        let unit = if case.choice == Choice::Only(MethodName::Direct) { 512 } else { 333 };
        let outcome = within(60, &case.to_string(), move || {
            run(case, 3, move |call, _| match call {
                call if is_data(call) && dice.below(4) == 0 => {
                    Injection::Short(unit * (1 + dice.below(500)))
                }
                _ => Injection::None,
            })
        });
        if let Err(error) = &outcome.result {
            wrong.push(format!("{case}: {error}"));
        }
        check(case, "short counts", outcome, &mut wrong);
    }
    assert_none(&wrong);
}
