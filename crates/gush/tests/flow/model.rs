//! The calls that a flow may ask for, given the answers so far.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;

use gush::flow::{Buf, Completion, Failure, Flow, Lender, Next, Op, PortState, Shelf, Terms};
use gush::pipe::{PipeLoan, Pool};
use gush::{Choice, Errno, Kind, Side};

use crate::script::{Answer, Script};

/// The bytes that every read finds: so many zeros, then data.
const READ_ZEROS: usize = 8;

/// No read is answered by more.
const MOST_READ_BYTES: usize = 40;

/// Runs of zeros begin and end at multiples of this offset in the target, or with the bytes of a
/// read.
const ZEROS_UNIT: u64 = 4096;

/// Lends as a relay's shelf does, with small buffers counted.
struct Counted {
    shelf: Shelf,
    bufs_out: usize,
}

impl Lender for Counted {
    fn pipe(&mut self) -> Option<PipeLoan> {
        self.shelf.pipe()
    }

    fn buf(&mut self, bytes: usize) -> Result<Buf, Errno> {
        self.bufs_out += 1;
        let mut buf = self.shelf.buf(bytes)?;
        let (zeros, data) = buf.as_mut_slice()[..MOST_READ_BYTES].split_at_mut(READ_ZEROS);
        zeros.fill(0);
        data.fill(1);
        Ok(buf)
    }

    fn take_back(&mut self, buf: Buf) {
        if matches!(buf, Buf::Pages(_) | Buf::Lent(_)) {
            self.bufs_out -= 1;
        }
        self.shelf.take_back(buf);
    }
}

/// The calls and answers so far: printed where a check fails.
struct Story<'a> {
    pair: &'a str,
    steps: Vec<(Op, Result<usize, Errno>)>,
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.pair)?;
        self.steps.iter().try_for_each(|(op, answer)| write!(f, " {op:?} -> {answer:?};"))
    }
}

/// The kernel's side of the story, in numbers.
#[derive(Debug, Default)]
struct Account {
    taken: u64,
    in_pipe: usize,
    in_buf: usize,
    /// The lent part of the pipe's content: the bytes in the buffer, or after them.
    lent: usize,
    delivered: u64,
    /// The size of the datagram that is next, if asked for since the last one was taken, or found
    /// missing.
    measured: Option<usize>,
    /// An empty datagram is in the buffer.
    empty_datagram: bool,
    /// A `read` answered 0, and that is an end here.
    end_seen: bool,
    /// The target has no reader, as a call answered that can have been made before the source was
    /// looked at.
    deserted: bool,
    /// The side that the last answer showed to be not ready.
    unready: Option<Side>,
    /// The sides that poll(2) has just found ready.
    polled: [bool; 2],
    /// Calls in turn that neither moved bytes nor waited.
    idle_ops: u32,
    /// Zeros become holes.
    makes_holes: bool,
    /// Of each byte in flight, whether the byte is a zero, where zeros count.
    zeros: VecDeque<bool>,
    /// Of the bytes delivered, those of holes.
    holes: u64,
    /// Where zeros become holes: the first call that failed for good.
    cause: Option<Op>,
}

impl Account {
    fn in_flight(&self) -> u64 {
        (self.in_pipe + self.in_buf) as u64
    }

    /// The bytes of the next run of data: whole units of the target are data or zeros, and the part
    /// of a unit in flight.
    fn run_bytes(&self, target: &PortState) -> usize {
        let at = target.offset_bytes().expect("an offset") + self.delivered;
        let mut bytes: Vec<_> = self.zeros.iter().copied().collect();
        let head = bytes.len().min((ZEROS_UNIT - at % ZEROS_UNIT) as usize);
        let rest = bytes.split_off(head);
        assert!(rest.len() as u64 <= ZEROS_UNIT, "more than a read brings");
        let is_data = |unit: &[bool]| unit.contains(&false);
        if !is_data(&bytes) {
            return 0;
        }
        head + if is_data(&rest) { rest.len() } else { 0 }
    }

    /// Where the zeros at the head of the bytes in flight end: nobody may make a hole of more.
    fn zeros_ahead(&self) -> usize {
        self.zeros.iter().take_while(|&&is_zero| is_zero).count()
    }

    /// May the flow ask for this call now?
    fn check(&self, op: Op, [source, target]: [&PortState; 2], story: &Story<'_>) {
        // Invariant 5: nothing that can idle is spliced from or to before it was polled, unless a
        // flag keeps the call from waiting: O_NONBLOCK, or for splice(2) that one side is a pipe.
        let (touches_source, touches_target) = match op {
            Op::Fill(_) | Op::Empty | Op::Direct(_) | Op::Sendfile(_) => op.touches(),
            _ => (false, false),
        };
        let is_sendfile = matches!(op, Op::Sendfile(_));
        for (touched, state, polled) in
            [(touches_source, source, self.polled[0]), (touches_target, target, self.polled[1])]
        {
            let may_wait = state.kind().can_idle()
                && !state.is_nonblocking()
                && (is_sendfile || state.kind() != Kind::Pipe);
            assert!(
                !touched || !may_wait || polled,
                "{story} {op:?} could wait, and was not polled"
            );
        }
        // Only a run of zeros is waited for to end.
        let waits_for_more = self.makes_holes && self.zeros_ahead() as u64 == self.in_flight();
        let empty_handed = (self.in_flight() == 0 || waits_for_more) && !self.empty_datagram;
        if source.kind() == Kind::Datagram
            && let Op::Read(most) | Op::Fill(most) = op
        {
            let measured = self.measured.unwrap_or_else(|| panic!("{story} {op:?}: not measured"));
            assert!(measured <= most, "{story} {op:?}: it would be cut");
        }
        match op {
            Op::Measure | Op::Read(_) | Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) => {
                assert!(empty_handed, "{story}: takes more while bytes are in flight");
                assert!(!self.end_seen, "{story}: takes more after the end");
            }
            Op::Write => {
                assert!(self.in_buf > 0 || self.empty_datagram, "{story}: writes nothing");
                assert_eq!(self.lent, 0, "{story}: writes bytes that the pipe delivers");
            }
            Op::Lend => {
                assert!(self.in_buf > 0 && self.lent == 0, "{story}: lends nothing, or twice")
            }
            Op::Discard => {
                assert!(self.in_buf == 0 && self.lent > 0, "{story}: discards bytes");
            }
            Op::Empty if self.in_buf > 0 => assert!(self.lent > 0, "{story}: nothing was lent"),
            Op::Empty | Op::Spill => {
                assert!(self.in_pipe > 0 && self.in_buf == 0, "{story}: no bytes in the pipe");
            }
            Op::Punch(zeros) => {
                assert!(self.makes_holes && zeros > 0, "{story}: no hole is to be made");
                assert!(zeros <= self.zeros_ahead() as u64, "{story}: data becomes a hole");
            }
            Op::AskEnd => assert!(self.deserted, "{story}: the target has a reader"),
            Op::Ready(_) => {}
        }
        assert!(!self.deserted || op == Op::AskEnd, "{story}: {op:?} without asking for the end");
        if self.makes_holes && op == Op::Write {
            assert!(self.run_bytes(target) > 0, "{story}: zeros are written");
        }
        if let Op::Read(most) | Op::Fill(most) | Op::Direct(most) | Op::Sendfile(most) = op {
            assert!(most > 0, "{story}: a call for nothing");
        }
    }

    fn learn(
        &mut self,
        op: Op,
        answer: Result<usize, Errno>,
        source: &PortState,
        target: &PortState,
    ) {
        let bytes = answer.unwrap_or(0);
        let is_gone = answer == Err(Errno::AGAIN) && op.touches().0;
        if is_gone || answer.is_ok() && matches!(op, Op::Read(_) | Op::Fill(_)) {
            self.measured = None;
        }
        let is_passing = matches!(answer, Ok(_) | Err(Errno::AGAIN | Errno::INTR));
        if !is_passing || answer == Ok(0) && matches!(op, Op::Write) {
            self.cause = self.cause.or(Some(op));
        }
        self.deserted = match op {
            Op::Direct(_) | Op::Sendfile(_) => answer == Err(Errno::PIPE),
            _ => op == Op::AskEnd && matches!(answer, Err(Errno::INTR | Errno::AGAIN)),
        };
        match op {
            Op::Ready(Side::Source) => self.polled[0] = answer.is_ok(),
            Op::Ready(Side::Target) => self.polled[1] = answer.is_ok(),
            _ => self.polled = [false; 2],
        }
        match op {
            Op::Read(_) => {
                self.taken += bytes as u64;
                self.in_buf += bytes;
                if self.makes_holes {
                    self.zeros.extend((0..bytes).map(|at| at < READ_ZEROS));
                }
                if answer == Ok(0) {
                    self.end_seen = source.ends_at_zero();
                    self.empty_datagram = !source.ends_at_zero() && target.kind() == Kind::Datagram;
                }
            }
            Op::Fill(_) => {
                self.taken += bytes as u64;
                self.in_pipe += bytes;
            }
            Op::Write => {
                self.in_buf -= bytes;
                self.delivered += bytes as u64;
                self.zeros.drain(..if self.makes_holes { bytes } else { 0 });
                self.empty_datagram &= answer.is_err();
            }
            Op::Lend => self.lent = bytes,
            // A pipe that cannot be emptied is dropped.
            Op::Discard if answer == Err(Errno::INTR) => {}
            Op::Discard => self.lent = if answer.is_ok() { self.lent - bytes } else { 0 },
            Op::Empty if self.lent > 0 => {
                self.lent -= bytes;
                self.in_buf -= bytes;
                self.delivered += bytes as u64;
                // Refused: what was lent is dropped with its pipe, and the buffer is written.
                let stays = matches!(answer, Err(Errno::AGAIN | Errno::INTR)) || bytes > 0;
                self.lent = if stays { self.lent } else { 0 };
            }
            Op::Empty => {
                self.in_pipe -= bytes;
                self.delivered += bytes as u64;
            }
            Op::Spill => {
                self.in_pipe -= bytes;
                self.in_buf += bytes;
            }
            Op::Direct(_) | Op::Sendfile(_) => {
                self.taken += bytes as u64;
                self.delivered += bytes as u64;
            }
            Op::Measure => self.measured = answer.ok().or(self.measured),
            Op::Punch(_) => {
                self.in_buf -= bytes;
                self.delivered += bytes as u64;
                self.zeros.drain(..bytes);
                self.holes += bytes as u64;
            }
            Op::AskEnd => self.end_seen |= answer == Ok(0),
            Op::Ready(_) => {}
        }
        // A terminal's end is typed, and the splice that answers 0 has taken it.
        if source.kind() == Kind::Terminal
            && matches!(op, Op::Fill(_) | Op::Direct(_))
            && answer == Ok(0)
        {
            self.end_seen = true;
        }
    }

    /// The last way was refused, and the driver takes the bytes in flight from the source again.
    fn drop_in_flight(&mut self) {
        (self.in_pipe, self.in_buf, self.lent) = (0, 0, 0);
        self.zeros.clear();
        self.taken = self.delivered;
    }

    /// The first failure is reported, and zeros that came before a failure of the source are a
    /// hole, unless making that failed, too.
    fn check_cause(&self, failure: &Failure, story: &Story<'_>) {
        let (Failure::Fault(fault), Some(cause)) = (failure, self.cause) else {
            panic!("{story}: without a cause: {failure:?}");
        };
        assert_eq!(fault.call, cause.call(), "{story}: another failure is reported");
        let last = story.steps.last().map(|&(op, _)| op);
        if fault.side == Side::Source && !matches!(last, Some(Op::Punch(_))) {
            assert_eq!(self.in_flight(), 0, "{story}: zeros are not delivered");
        }
    }
}

/// The most that a call may be answered.
fn most_of(op: Op, account: &Account, [source, target]: [&PortState; 2], terms: &Terms) -> usize {
    match op {
        Op::Read(_) if source.kind() == Kind::Datagram => account.measured.unwrap_or(0),
        Op::Read(most) | Op::Direct(most) | Op::Sendfile(most) => most.min(MOST_READ_BYTES),
        // Two pieces, so that a spill and a short `Empty` have something to leave.
        Op::Fill(most) => most.min(24),
        Op::Write if terms.make_holes => account.run_bytes(target),
        Op::Write => account.in_buf,
        // Whole pages are given away: the rest after the bytes goes with them.
        Op::Lend => account.in_buf + 3,
        Op::Discard => account.lent,
        Op::Empty if account.lent > 0 => account.in_buf.min(account.lent),
        Op::Empty | Op::Spill => account.in_pipe,
        Op::Ready(_) | Op::AskEnd => 1,
        Op::Punch(zeros) => zeros as usize,
        Op::Measure => 30,
    }
}

/// How much a flow may take, from call to call.
const MAY_TAKE_BYTES: [u64; 3] = [u64::MAX, 7, u64::MAX];

/// Nothing takes more than was permitted; only a datagram is taken whole.
fn check_permit(op: Op, source: &PortState, may_take_bytes: u64, story: &Story<'_>) {
    if let Op::Read(most) | Op::Fill(most) | Op::Direct(most) | Op::Sendfile(most) = op {
        let is_permitted = most as u64 <= may_take_bytes || source.kind() == Kind::Datagram;
        assert!(is_permitted, "{story}: {op:?}, where {may_take_bytes} bytes may be taken");
    }
}

/// The side that an `EAGAIN` of this call is about, where the kernel's answer leaves no other.
fn side_of_again(op: Op, source: &PortState) -> Option<Side> {
    match op {
        Op::Ready(side) => Some(side),
        Op::Measure | Op::Read(_) | Op::AskEnd => Some(Side::Source),
        // A file's bytes are always there.
        Op::Write | Op::Empty | Op::Punch(_) => Some(Side::Target),
        // The pipe is empty; the urgent mark of a stream answers EAGAIN, too, with the source
        // ready.
        Op::Fill(_) if source.kind() != Kind::Stream => Some(Side::Source),
        Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) => None,
        Op::Spill | Op::Lend | Op::Discard => None,
    }
}

thread_local! {
    static POOL: Pool = Pool::new(16 << 20, 16);
    /// The buffers that came back from earlier scripts: millions of scripts map memory once.
    /// Never dropped: the seam of the feature `faults` has a thread's own data, which are gone by
    /// then.
    static SHELF: RefCell<ManuallyDrop<Shelf>> =
        RefCell::new(ManuallyDrop::new(Shelf::new(POOL.with(Pool::clone))));
}

/// Plays a script until the script or the flow ends; returns the number of answers taken.
pub fn play(
    name: &str,
    source: PortState,
    target: PortState,
    terms: &Terms,
    script: &mut Script,
) -> usize {
    let pool = POOL.with(Pool::clone);
    let empty = || ManuallyDrop::new(Shelf::new(pool.clone()));
    let shelf = ManuallyDrop::into_inner(SHELF.with(|shelf| shelf.replace(empty())));
    let mut lender = Counted { shelf, bufs_out: 0 };
    let mut flow = Flow::between(source, target, terms).expect("a way for every pair of these");
    let mut account = Account { makes_holes: terms.make_holes, ..Account::default() };
    let mut story = Story { pair: name, steps: Vec::new() };
    // A method that was named was refused: there is no other, and what was taken is all that is
    // delivered.
    let mut is_refused = false;
    loop {
        // Where zeros become holes every read is a whole one: a buffer has zeros and data where it
        // was lent.
        let may_take_bytes = match account.makes_holes {
            true => u64::MAX,
            false => MAY_TAKE_BYTES[story.steps.len() % MAY_TAKE_BYTES.len()],
        };
        match flow.next(may_take_bytes, &mut lender) {
            Next::Do(op) => {
                account.check(op, [&source, &target], &story);
                check_permit(op, &source, may_take_bytes, &story);
                let (takes, _) = op.touches();
                assert!(!(is_refused && takes), "{story}: {op:?} after a refusal");
                let Some(answer) = script.next() else { break };
                let answer =
                    given(answer, op, most_of(op, &account, [&source, &target], terms), &source);
                let before = (account.taken, account.delivered);
                account.learn(op, answer, &source, &target);
                let had_clears = side_of_again(op, &source);
                assert_eq!(flow.clears(op), had_clears, "{story}: the side of an EAGAIN");
                let moved = flow.learn(op, answer, &mut ());
                is_refused |= moved.refusal.is_some() && terms.choice != Choice::Auto;
                story.steps.push((op, answer));
                // What is written instead is a copy; the pages are dropped.
                lender.bufs_out -= usize::from((op, answer) == (Op::Lend, Err(Errno::AGAIN)));
                let now = (moved.taken_bytes, moved.delivered_bytes);
                let seen = (account.taken - before.0, account.delivered - before.1);
                assert_eq!(now, seen, "{story}: what the answer meant");
                if moved.refusal.is_some() && terms.rereads && terms.choice != Choice::Auto {
                    account.drop_in_flight();
                }
                account.unready = match answer {
                    Err(Errno::AGAIN) => had_clears,
                    _ => None,
                };
                // A flow that makes calls for ever without progress would spin in its driver.
                let is_progress = seen != (0, 0)
                    || account.end_seen
                    || moved.refusal.is_some()
                    || answer == Err(Errno::INTR)
                    || matches!(op, Op::Spill | Op::Measure | Op::Lend | Op::Discard);
                account.idle_ops = if is_progress { 0 } else { account.idle_ops + 1 };
                assert!(
                    account.idle_ops <= Flow::MOST_IDLE_OPS,
                    "{story}: calls without progress and without waiting"
                );
            }
            Next::Wait(side) => {
                let unready = account.unready.take();
                assert_eq!(unready, Some(side), "{story}: nothing showed that this side waits");
                account.idle_ops = 0;
                flow.rest(&mut lender);
                assert!(flow.is_at_rest(), "{story}: parked with idle means");
                // What is lent to a pipe is in flight there.
                let lent = usize::from(account.lent > 0);
                assert_eq!(lender.bufs_out, lent, "{story}: parked with a buffer");
                let held = usize::from(account.in_pipe + account.lent > 0);
                assert_eq!(pool.usage().in_use, held, "{story}: parked with a pipe");
            }
            Next::Throttled => panic!("{story}: everything may be taken"),
            Next::Ended(Completion::Eof) => {
                assert!(account.end_seen, "{story}: no read answered 0");
                assert_eq!(account.in_flight(), 0, "{story}");
                break;
            }
            Next::Ended(Completion::Limit) => {
                let limit = terms.length_bytes.expect("a limit");
                assert!(account.taken >= limit, "{story}: the limit is not reached");
                assert_eq!(account.taken, limit, "{story}: more than the limit");
                assert_eq!(account.in_flight(), 0, "{story}");
                break;
            }
            Next::Failed(failure) => {
                if terms.make_holes {
                    account.check_cause(&failure, &story);
                } else {
                    check_failure(&failure, &story);
                }
                break;
            }
        }
        assert_eq!(flow.taken_bytes(), account.taken, "{story}");
        assert_eq!(flow.delivered_bytes(), account.delivered, "{story}");
        assert_eq!(flow.hole_bytes(), account.holes, "{story}");
        assert_eq!(flow.in_flight_bytes(), account.in_flight(), "{story}: lost or twice");
    }
    assert_eq!(flow.in_flight_bytes(), account.in_flight(), "{story}: lost or twice");
    flow.rest(&mut lender);
    drop(flow);
    SHELF.with(|shelf| shelf.replace(ManuallyDrop::new(lender.shelf)));
    assert_eq!(pool.usage().in_use, 0, "{story}: a pipe did not come back");
    script.used()
}

/// The answer, as the kernel could give it to this call.
fn given(answer: Answer, op: Op, most: usize, source: &PortState) -> Result<usize, Errno> {
    match (op, answer) {
        // A datagram comes whole.
        (Op::Read(_), Answer::Short | Answer::One | Answer::Zero)
            if source.kind() == Kind::Datagram =>
        {
            Ok(most)
        }
        // A hole is made as a whole, or its zeros are written in parts.
        (Op::Punch(_), Answer::Zero) => Ok(most),
        // Of what is neither a pipe, a stream nor a file.
        (Op::AskEnd, Answer::Refused) => Err(Errno::OPNOTSUPP),
        // poll(2) with a timeout of 0 is ready or not.
        (Op::Ready(_), Answer::Full | Answer::Short | Answer::One) => Ok(0),
        (Op::Ready(_), Answer::Zero | Answer::Again) => Err(Errno::AGAIN),
        // Our own pipe has the bytes that were put into it.
        (Op::Discard, Answer::Again | Answer::Interrupted) => answer.to(most),
        (Op::Spill | Op::Discard, Answer::Again | Answer::Zero) => answer_of_pipe(most),
        _ => answer.to(most),
    }
}

fn answer_of_pipe(most: usize) -> Result<usize, Errno> {
    Ok(most)
}

/// A flow fails only after an answer that no other way is left for: an error, nothing where there
/// was something, or a message that was cut.
fn check_failure(failure: &Failure, story: &Story<'_>) {
    let (op, answer) = *story.steps.last().expect("a flow does not begin with a failure");
    if op == Op::AskEnd {
        let Failure::Fault(fault) = failure else { panic!("{story}: {failure:?}") };
        let reported = match answer {
            Err(errno) if errno != Errno::AGAIN => (Side::Source, errno),
            _ => (Side::Target, Errno::PIPE),
        };
        assert_eq!((fault.side, fault.errno), reported, "{story}");
        return;
    }
    // After a refusal the bytes in flight are written first, and then the refused call is reported.
    let is_refused = |&(op, answer): &(Op, Result<usize, Errno>)| match failure {
        Failure::Fault(fault) => op.call() == fault.call && errno_of(answer) == Some(fault.errno),
        Failure::Refused(refusal) => {
            Some(op.call()) == refusal.call && errno_of(answer) == refusal.errno
        }
        _ => answer == Ok(0),
    };
    let drained = story.steps.iter().any(is_refused);
    let is_error = matches!(answer, Err(errno) if ![Errno::AGAIN, Errno::INTR].contains(&errno));
    // A message that a write cut, or one that does not fit what is left or the pipe.
    let is_cut_or_stuck = matches!((op, answer), (Op::Write | Op::Measure, Ok(_)));
    assert!(
        is_error || answer == Ok(0) || is_cut_or_stuck || drained,
        "{story}: failed without a reason: {failure:?}"
    );
}

/// The error of an answer; nothing of something is EIO.
fn errno_of(answer: Result<usize, Errno>) -> Option<Errno> {
    match answer {
        Ok(0) => Some(Errno::IO),
        Ok(_) => None,
        Err(errno) => Some(errno),
    }
}
