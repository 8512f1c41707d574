//! The runner: rounds in turn, every sample reported at once, a case that dies left out.

use gush_test as _;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gush_lab::Error;
use gush_lab::case::Case;
use gush_lab::model::{Described, Measured};
use gush_lab::probe::Probe;
use gush_lab::runner::{Event, RunEnd, RunOutcome, Runner, children};

/// A name, and a shell script that prints the figure.
struct Script(Described, &'static str);

fn script(name: &str, text: &'static str) -> Script {
    Script(Described::new("scripts", name), text)
}

impl Case for Script {
    fn described(&self) -> &Described {
        &self.0
    }

    fn measure(&self, _: &Probe) -> Result<Measured, Error> {
        let mut shell = Command::new("sh");
        let running = children::start(shell.args(["-c", self.1]).stdout(Stdio::piped()))?;
        let output = running.finish()?;
        if !output.status.success() {
            return Err(Error::refused(format!("the script ended with {}", output.status)));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(Measured { gib_per_s: said.trim().parse().ok(), ..Measured::default() })
    }
}

fn run(scripts: [Script; 2], time: Option<Duration>) -> (RunOutcome, Vec<String>) {
    run_until(scripts, time, None)
}

fn run_until(
    scripts: [Script; 2],
    time: Option<Duration>,
    end: Option<Instant>,
) -> (RunOutcome, Vec<String>) {
    let probe = Probe::default();
    let cases = scripts.map(|script| Box::new(script) as Box<dyn Case>);
    let reported = RefCell::new(Vec::new());
    let outcome = Runner { probe: &probe, rounds: 3, time, end, switch: None }.run(
        &mut |_, _| true,
        &cases,
        |event| {
            reported.borrow_mut().push(match event {
                Event::Begins { case, round } => format!("{case} {round}"),
                Event::Measured(sample) => format!("= {}", sample.measured.gib_per_s.unwrap()),
                Event::Failed { case, error } => format!("{case}: {error}"),
            });
        },
    );
    (outcome, reported.into_inner())
}

#[test]
fn cases_take_turns_in_rounds_after_a_warm_up() {
    let (outcome, reported) = run([script("a", "echo 1"), script("b", "echo 2")], None);
    assert_eq!(reported[..2], ["a 0", "b 0"]);
    let [a, b] = ["a", "b"].map(|case| {
        let figure = if case == "a" { "= 1" } else { "= 2" };
        move |round: u32| [format!("{case} {round}"), figure.to_owned()]
    });
    for (round, lines) in (1..).zip(reported[2..].chunks(4)) {
        let either = [[a(round), b(round)].concat(), [b(round), a(round)].concat()];
        assert!(either.iter().any(|order| order == lines), "{reported:?}");
    }
    assert_eq!((reported.len(), outcome.end), (14, RunEnd::Whole));
    let mut samples: Vec<_> = outcome.samples.iter().map(|s| (s.round, s.case.as_str())).collect();
    samples.sort_unstable();
    assert_eq!(samples, [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]);
}

/// Takes no time at all.
struct Nothing(Described);

fn nothing(name: &str) -> Box<dyn Case> {
    Box::new(Nothing(Described::new("nothing", name)))
}

impl Case for Nothing {
    fn described(&self) -> &Described {
        &self.0
    }

    fn measure(&self, _: &Probe) -> Result<Measured, Error> {
        Ok(Measured::default())
    }
}

#[test]
fn no_case_always_follows_the_same_other_one() {
    const ROUNDS: u32 = 100;
    let probe = Probe::default();
    let cases = ["a", "b", "c"].map(nothing);
    let runner = Runner { probe: &probe, rounds: ROUNDS, time: None, end: None, switch: None };
    let samples = runner.run(&mut |_, _| true, &cases, |_| ()).samples;
    let orders: BTreeSet<Vec<&str>> = samples
        .chunks(cases.len())
        .map(|round| round.iter().map(|sample| sample.case.as_str()).collect())
        .collect();
    // With three cases a mere rotation has three orders. That one of six is missing in a hundred
    // rounds has a chance of one in ten million.
    assert_eq!(orders.len(), 6, "{orders:?}");
}

#[test]
fn one_round_alone_begins_with_the_cases_named_first() {
    let probe = Probe::default();
    let names: Vec<&str> =
        "abcdefghijklmnopqrstuvwxyz".split("").filter(|name| !name.is_empty()).collect();
    let cases: Vec<Box<dyn Case>> = names.iter().map(|name| nothing(name)).collect();
    let runner = Runner { probe: &probe, rounds: 1, time: None, end: None, switch: None };
    let samples = runner.run(&mut |_, _| true, &cases, |_| ()).samples;
    assert_eq!(samples.iter().map(|sample| sample.case.as_str()).collect::<Vec<_>>(), names);
}

#[test]
fn a_case_that_dies_is_reported_once_and_the_others_go_on() {
    let (outcome, reported) = run([script("dies", "kill -9 $$"), script("lives", "echo 1")], None);
    assert_eq!(
        reported.iter().filter(|line| line.starts_with("dies: ")).count(),
        1,
        "{reported:?}"
    );
    assert_eq!(outcome.samples.len(), 3);
    assert!(outcome.samples.iter().all(|sample| sample.case == "lives"));
    assert_eq!(outcome.failures.len(), 1);
    assert!(outcome.failures[0].error.contains("signal: 9"), "{:?}", outcome.failures);
    assert_eq!(outcome.end, RunEnd::Whole);
}

#[test]
fn a_program_that_cannot_be_started_is_a_sentence() {
    let missing = children::start(&mut Command::new("/nowhere/at/all"));
    let said = missing.unwrap_err().to_string();
    let remedy = "there is no such file, or no such program in PATH";
    assert_eq!(said, format!("cannot start /nowhere/at/all: No such file or directory ({remedy})"));
}

#[test]
fn when_time_is_up_every_case_was_measured_once() {
    let scripts = [script("a", "echo 1"), script("b", "echo 2")];
    let (outcome, _) = run(scripts, Some(Duration::ZERO));
    assert_eq!((outcome.samples.len(), outcome.end), (2, RunEnd::OutOfTime));
}

#[test]
fn nothing_begins_after_the_end() {
    let scripts = [script("a", "echo 1"), script("b", "echo 2")];
    let (outcome, reported) = run_until(scripts, None, Some(Instant::now()));
    assert_eq!((reported.len(), outcome.samples.len(), outcome.end), (0, 0, RunEnd::OutOfTime));
}
