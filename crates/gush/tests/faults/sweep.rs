//! One move under a plan of faults, and whether all bytes can be accounted for afterwards.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Control, Error, MethodName, Mover, Progress, Report, Tuning};
use rustix::fs::SeekFrom;

use crate::common::{Source, SourceKind, Target, TargetKind, noise};
pub use crate::trouble::{Trouble, is_data, is_read};

/// Three pages and a bit: several calls by every method, and still fits into any pipe.
pub const SMALL: usize = 13_001;
/// Enough for several threads.
pub const LARGE: usize = (17 << 20) + 13;
/// The bytes in front of the range of a file that is used amidst other content. The same number on
/// both sides, as `direct` needs.
const LEAD: usize = 517;

/// A method and two ends.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub choice: Choice,
    pub from: SourceKind,
    pub to: TargetKind,
    /// Files are used from offset [`LEAD`] in the midst of other content, by naming the offsets.
    pub amidst: bool,
    /// An observer watches, so that no call may hold the move ([`gush::Mover::observe`]).
    pub observed: bool,
    pub len: usize,
}

impl Case {
    /// Are several reads and writes under way at once?
    pub fn is_ring(&self) -> bool {
        self.choice == Choice::Only(MethodName::Uring)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amidst = if self.amidst { ", amidst" } else { "" };
        let observed = if self.observed { ", observed" } else { "" };
        write!(f, "{}: {:?} -> {:?}{amidst}{observed}", self.choice, self.from, self.to)
    }
}

/// The state found after a move.
#[derive(Debug)]
pub struct Outcome {
    pub result: Result<Report, Error>,
    pub arrived: Vec<u8>,
    pub rest: Vec<u8>,
    pub source_position: Option<u64>,
    pub target_position: Option<u64>,
}

fn lead(case: Case, has_offsets: bool) -> usize {
    if case.amidst && has_offsets { LEAD } else { 0 }
}

/// The content of a target file before the move: as much as will be written, and more.
fn before(case: Case) -> &'static [u8] {
    static SHORT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(77, LEAD + SMALL + 3000));
    static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| noise(77, LEAD + LARGE + 3000));
    match case.len {
        _ if !case.amidst || !case.to.takes_offsets() => &[],
        SMALL => &SHORT,
        _ => &LONG,
    }
}

/// Moves [`content`] as the case says while `inject` answers the engine's calls.
pub fn run(
    case: Case,
    threads: usize,
    inject: impl FnMut(Call, u64) -> Injection + Send + 'static,
) -> Outcome {
    let source_lead = lead(case, case.from.has_offsets());
    let target_lead = lead(case, case.to.takes_offsets());
    let held = [&noise(5, source_lead)[..], content(case)].concat();
    let source = Source::new(case.from, &held, 1, false).expect("a source").filled();
    let target = Target::new(case.to, before(case), 2, false).expect("a target");
    let small = Tuning::default().buffer_bytes(4096).pipe_bytes(8192);
    let tuning = if case.len == SMALL { small } else { Tuning::default() };
    let mut mover = Mover::new(&source.fd, &target.fd).method(case.choice).tuning(tuning);
    mover = mover.threads(threads);
    if source_lead > 0 {
        mover = mover.source_offset_bytes(source_lead as u64);
    }
    // sendfile writes at the target's own position only.
    if target_lead > 0 && case.choice == Choice::Only(MethodName::Sendfile) {
        rustix::fs::seek(&target.fd, SeekFrom::Start(target_lead as u64)).expect("seek");
    } else if target_lead > 0 {
        mover = mover.target_offset_bytes(target_lead as u64);
    }
    let mut go_on = |_: &Progress| Control::Continue;
    if case.observed {
        if case.choice != Choice::Auto
            && matches!(case.to, TargetKind::UnixStream | TargetKind::Tcp)
        {
            // A named method by reference is refused without the flag.
            rustix::io::ioctl_fionbio(&target.fd, true).expect("O_NONBLOCK");
        }
        mover = mover.observe(&mut go_on);
    }
    let guard = Plan::new(inject).install();
    let result = mover.run();
    drop(guard);
    Outcome {
        result,
        source_position: case.from.has_offsets().then(|| source.position()),
        target_position: case.to.takes_offsets().then(|| target.position()),
        rest: source.rest(),
        arrived: target.content(),
    }
}

/// The bytes to move.
pub fn content(case: Case) -> &'static [u8] {
    static SHORT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(3, SMALL));
    static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| noise(3, LARGE));
    if case.len == SMALL { &SHORT } else { &LONG }
}

/// The calls that a move on so many threads makes when nothing goes wrong, in order.
pub fn calls_of(case: Case, threads: usize) -> Vec<(Call, u64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let outcome = run(case, threads, move |call, nth| {
        log.lock().expect("log").push((call, nth));
        Injection::None
    });
    if let Err(why) = account(case, &outcome) {
        panic!("{case}: without any fault: {why}");
    }
    let calls = seen.lock().expect("log");
    calls.clone()
}

/// Invariant 1 and its like: every byte is where the result says.
pub fn account(case: Case, outcome: &Outcome) -> Result<(), String> {
    let content = content(case);
    let (delivered, lost) = match &outcome.result {
        Ok(report) => (report.bytes as usize, 0),
        Err(error) => (error.delivered_bytes() as usize, error.in_flight_bytes() as usize),
    };
    if outcome.result.is_ok() && delivered != case.len {
        return Err(format!("success after {delivered} of {} bytes", case.len));
    }
    target_holds(case, outcome, delivered, content)?;
    if case.from.has_offsets() {
        let expected = if case.amidst { 0 } else { delivered as u64 };
        if lost > 0 {
            return Err(format!("{lost} bytes of a file counted as lost"));
        }
        if outcome.source_position != Some(expected) && !failed_at(outcome, Call::Lseek) {
            return Err(format!(
                "source position {:?}, {delivered} delivered",
                outcome.source_position
            ));
        }
    } else if delivered + lost + outcome.rest.len() != case.len {
        return Err(format!(
            "{delivered} delivered, {lost} in flight, {} left in the source: not {}",
            outcome.rest.len(),
            case.len
        ));
    } else if outcome.rest != content[delivered + lost..] {
        return Err("what is left in the source is not what comes next".into());
    }
    replaced(case, outcome)
}

/// Where lseek or ftruncate fails, no position or size can be promised.
fn failed_at(outcome: &Outcome, call: Call) -> bool {
    outcome.result.as_ref().is_err_and(|error| error.call() == Some(call))
}

fn target_holds(
    case: Case,
    outcome: &Outcome,
    delivered: usize,
    content: &[u8],
) -> Result<(), String> {
    let arrived = &outcome.arrived;
    if case.to == TargetKind::Null {
        return Ok(());
    }
    let at = lead(case, case.to.takes_offsets());
    let before = before(case);
    if arrived.get(at..at + delivered) != Some(&content[..delivered]) {
        return Err(format!("not the {delivered} bytes that were reported delivered"));
    }
    let refused = outcome.result.as_ref().is_err_and(Error::is_refused);
    if refused && delivered == 0 && arrived != before {
        return Err("refused, and the target was touched".into());
    }
    if !before.is_empty() {
        if arrived[..at] != before[..at] || arrived[at + case.len..] != before[at + case.len..] {
            return Err("the target's bytes around the range were touched".into());
        }
    } else if arrived.len() != delivered && !case.is_ring() && !failed_at(outcome, Call::Ftruncate)
    {
        // Writes under way at once may leave some after the first that failed.
        return Err(format!("{} bytes in the target, {delivered} reported", arrived.len()));
    }
    if let Some(position) = outcome.target_position {
        let own = !case.amidst || case.choice == Choice::Only(MethodName::Sendfile);
        let start = if own { at as u64 } else { 0 };
        let expected = if own { start + delivered as u64 } else { 0 };
        if position != expected && !failed_at(outcome, Call::Lseek) {
            return Err(format!("target position {position}, {expected} expected"));
        }
    }
    Ok(())
}

/// Invariant 6.
fn replaced(case: Case, outcome: &Outcome) -> Result<(), String> {
    let (Choice::Only(name), Ok(report)) = (case.choice, &outcome.result) else { return Ok(()) };
    match report.methods.iter().find(|used| used.name != name) {
        Some(other) => Err(format!("replaced by {}", other.name)),
        None => Ok(()),
    }
}
