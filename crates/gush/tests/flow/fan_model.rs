//! Plays scripts with a fan: each call is held against the account, and so are waits, losses and
//! the end.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use gush::flow::{
    Buf, Completion, Failure, Fan, FanNext, FanOp, Flow, Interest, Lender, Op, PortState, Shelf,
    Spread, Terms, Who,
};
use gush::pipe::{PipeLoan, Pool};
use gush::{Choice, Errno, Kind};

use crate::fan_account::{Account, Lane, Story};
use crate::script::{Answer, Script};

/// Lends as a relay's shelf does, with buffers counted.
struct Counted {
    shelf: Shelf,
    bufs_out: usize,
    /// No pipe but the first can be had.
    is_short_of_pipes: bool,
    /// No memory can be had for so many times.
    denials: u32,
    pool: Pool,
}

impl Lender for Counted {
    fn pipe(&mut self) -> Option<PipeLoan> {
        if self.is_short_of_pipes && self.pool.usage().in_use > 0 {
            None
        } else {
            self.shelf.pipe()
        }
    }

    fn buf(&mut self, bytes: usize) -> Result<Buf, Errno> {
        if self.denials > 0 {
            self.denials -= 1;
            return Err(Errno::NOMEM);
        }
        self.bufs_out += 1;
        self.shelf.buf(bytes)
    }

    fn take_back(&mut self, buf: Buf) {
        if matches!(buf, Buf::Pages(_)) {
            self.bufs_out -= 1;
        }
        self.shelf.take_back(buf);
    }
}

/// The events in the scripts that were played.
#[derive(Debug, Default)]
pub struct Seen {
    lagged: u64,
    handed_over: u64,
    spilled: u64,
    lane_spilled: u64,
    lost_and_went_on: u64,
    hung_up: u64,
    deserted: u64,
    denied: u64,
    ended: u64,
}

impl Seen {
    pub fn is_complete(&self) -> bool {
        let Self { lagged, handed_over, spilled, lane_spilled, .. } = *self;
        let Self { lost_and_went_on, hung_up, deserted, denied, ended, .. } = *self;
        let of_pipes = [lagged, handed_over, spilled, lane_spilled];
        let of_lanes = [lost_and_went_on, hung_up, deserted, denied, ended];
        of_pipes.iter().chain(&of_lanes).all(|&times| times > 50)
    }
}

/// The most that a call may be answered.
fn most_of(op: FanOp, account: &Account, source: &PortState) -> usize {
    let most = match op {
        FanOp::Intake(Op::Read(_)) if source.kind() == Kind::Datagram => account.measured as u64,
        FanOp::Intake(Op::Read(most)) => most.min(40) as u64,
        // Several pieces, so that a lane can lag another.
        FanOp::Intake(Op::Fill(most)) => most.min(24) as u64,
        FanOp::Intake(Op::Measure) => 30,
        FanOp::Intake(Op::Spill) | FanOp::Tee(_) => account.piped(),
        FanOp::Intake(_) | FanOp::Look(_) => 0,
        FanOp::Move(_, most) => most as u64,
        FanOp::Lane(target, op) => {
            let lane = &account.lanes[usize::from(target)];
            match op {
                Op::Write if lane.in_buf > 0 => lane.in_buf,
                Op::Write if lane.owes_empty => 0,
                Op::Write => account.buf.1 - lane.delivered,
                Op::Empty | Op::Spill => lane.in_pipe,
                _ => 0,
            }
        }
    };
    usize::try_from(most).expect("small")
}

/// The answer, as the kernel could give it to this call.
fn given(answer: Answer, op: FanOp, most: usize, source: &PortState) -> Result<usize, Errno> {
    match (op, answer) {
        // A datagram comes whole.
        (FanOp::Intake(Op::Read(_)), Answer::Short | Answer::One | Answer::Zero)
            if source.kind() == Kind::Datagram =>
        {
            Ok(most)
        }
        // poll(2) with a timeout of 0 is ready or not.
        (
            FanOp::Intake(Op::Ready(_)) | FanOp::Lane(_, Op::Ready(_)),
            Answer::Full | Answer::Short | Answer::One,
        ) => Ok(0),
        (
            FanOp::Intake(Op::Ready(_)) | FanOp::Lane(_, Op::Ready(_)),
            Answer::Zero | Answer::Again,
        ) => Err(Errno::AGAIN),
        (FanOp::Look(_), Answer::Refused | Answer::Error) => Err(Errno::PIPE),
        (FanOp::Look(_), Answer::Interrupted) => Err(Errno::INTR),
        (FanOp::Look(_), _) => Ok(0),
        // Our own pipe has the bytes that were put into it.
        (FanOp::Intake(Op::Spill) | FanOp::Lane(_, Op::Spill), Answer::Again | Answer::Zero) => {
            Ok(most)
        }
        _ => answer.to(most),
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

/// Plays a script until the script or the fan ends; returns the number of answers taken. With a
/// seed, the driver throttles and is short of pipes, too.
pub fn play(
    name: &str,
    source: PortState,
    targets: &[PortState],
    terms: &Terms,
    script: &mut Script,
    random: Option<(u64, &mut Seen)>,
) -> usize {
    let mut unseen = Seen::default();
    let is_random = random.is_some();
    let (seed, seen) = random.unwrap_or((0, &mut unseen));
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut chance = |one_in: u32| is_random && dice.u32(..one_in) == 0;
    let pool = POOL.with(Pool::clone);
    let is_short_of_pipes = chance(8);
    let empty = || ManuallyDrop::new(Shelf::new(pool.clone()));
    let mut lender = Counted {
        shelf: ManuallyDrop::into_inner(SHELF.with(|shelf| shelf.replace(empty()))),
        bufs_out: 0,
        is_short_of_pipes,
        denials: 0,
        pool: pool.clone(),
    };
    let mut fan = Fan::between(source, targets, terms).expect("a way for all of these");
    // Each lane looks once for a hang-up, is polled, and answers EAGAIN to one call.
    let most_idle_ops = Flow::MOST_IDLE_OPS + 3 * targets.len() as u32;
    let lanes = vec![Lane::default(); targets.len()];
    let isolated = terms.isolated || terms.through_memory;
    let named = terms.choice != Choice::Auto;
    let mut account = Account { isolated, named, lanes, ..Account::default() };
    let mut story = Story { fan: name, steps: Vec::new() };
    let mut was_denied = false;
    loop {
        let may_take = if chance(10) { 0 } else { u64::MAX };
        lender.denials = u32::from(chance(100));
        let denials = lender.denials;
        let next = fan.next(may_take, &mut lender);
        was_denied |= lender.denials < denials;
        seen.denied += u64::from(lender.denials < denials);
        match next {
            FanNext::Do(op) => {
                let clears = fan.clears(op);
                let straight = clears.is_some() && matches!(op, FanOp::Tee(_) | FanOp::Move(..));
                if let FanOp::Lane(target, Op::Empty | Op::Spill | Op::Ready(_)) = op
                    && account.infer_hand_over(usize::from(target), &story)
                {
                    seen.handed_over += 1;
                }
                account.check(op, &source, targets, straight, &story);
                let Some(answer) = script.next() else { break };
                let answer = given(answer, op, most_of(op, &account, &source), &source);
                let now = account.learn(op, answer, &source, targets, straight);
                account.note_unready_source(op, answer, clears);
                let moved = fan.learn(op, answer);
                story.steps.push((op, answer));
                account.refused |=
                    account.named && moved.refusal.is_some() && !matches!(op, FanOp::Lane(..));
                let reported = (moved.taken_bytes, moved.delivered_bytes);
                assert_eq!(reported, now, "{story}: what the answer meant");
                seen.spilled += u64::from(op == FanOp::Intake(Op::Spill));
                seen.lane_spilled += u64::from(matches!(op, FanOp::Lane(_, Op::Spill)));
                seen.lagged += u64::from(
                    matches!(op, FanOp::Move(_, most) if (most as u64) < account.piped()),
                );
                let is_own = matches!(
                    op,
                    FanOp::Intake(Op::Spill | Op::Measure)
                        | FanOp::Lane(_, Op::Spill)
                        | FanOp::Tee(_)
                        | FanOp::Move(..)
                );
                let is_progress = now != (0, 0)
                    || account.end_seen
                    || moved.refusal.is_some()
                    || answer == Err(Errno::INTR)
                    || (is_own && answer.is_ok());
                account.idle_ops = if is_progress { 0 } else { account.idle_ops + 1 };
                assert!(
                    account.idle_ops <= most_idle_ops,
                    "{story}: calls without progress and without waiting"
                );
            }
            FanNext::Wait => {
                check_wait(&mut fan, &mut account, &mut lender, targets, &story);
                wake(&mut fan, &mut account, &mut chance);
            }
            FanNext::Throttled => {
                assert_eq!(may_take, 0, "{story}: everything may be taken");
                let all = account.live().all(|lane| lane.delivered == account.taken);
                assert!(all, "{story}: throttled with bytes in flight");
                account.idle_ops = 0;
            }
            FanNext::Lost(target) => {
                if !was_denied {
                    check_lost(&fan, target, account.named, &story);
                }
                let lane = &mut account.lanes[usize::from(target)];
                assert!(!lane.lost, "{story}: reported twice");
                let hung_up = matches!(story.steps.last(), Some((FanOp::Look(_), _)));
                seen.hung_up += u64::from(hung_up);
                lane.lost = true;
                seen.lost_and_went_on += u64::from(account.live().count() > 0);
            }
            FanNext::Deserted => {
                assert_eq!(account.live().count(), 0, "{story}: a target is left");
                seen.deserted += 1;
                break;
            }
            FanNext::Ended(end) => {
                match end {
                    Completion::Eof => assert!(account.end_seen, "{story}: no read answered 0"),
                    Completion::Limit => {
                        assert_eq!(Some(account.taken), terms.length_bytes, "{story}")
                    }
                }
                let all = account.live().all(|lane| lane.delivered == account.taken);
                assert!(all && account.live().count() > 0, "{story}: ended with bytes in flight");
                seen.ended += 1;
                break;
            }
            FanNext::Failed(failure) => {
                if !was_denied {
                    check_failure(&failure, &story);
                }
                break;
            }
        }
        assert_eq!(fan.taken_bytes(), account.taken, "{story}");
        for (target, lane) in (0..).zip(&account.lanes) {
            assert_eq!(fan.delivered_bytes(target), lane.delivered, "{story}: target {target}");
            assert_eq!(fan.is_live(target), !lane.lost, "{story}: target {target}");
            if !lane.lost {
                let in_flight = account.taken - lane.delivered;
                assert_eq!(fan.in_flight_bytes(target), in_flight, "{story}: lost or twice");
            }
        }
    }
    // Random scripts drop the fan with its means.
    if !is_random {
        fan.rest(&mut lender);
    }
    drop(fan);
    SHELF.with(|shelf| shelf.replace(ManuallyDrop::new(lender.shelf)));
    assert_eq!(pool.usage().in_use, 0, "{story}: a pipe did not come back");
    script.used()
}

/// A fan waits for sides that have shown to be not ready, and holds nothing but the bytes in
/// flight.
fn check_wait(
    fan: &mut Fan,
    account: &mut Account,
    lender: &mut Counted,
    targets: &[PortState],
    story: &Story<'_>,
) {
    let mut waits = 0;
    fan.waits(&mut |who, interest| match (who, interest) {
        (Who::Source, Interest::Readable) => {
            assert!(account.source_unready, "{story}: nothing showed that the source waits");
            waits += 1;
        }
        (Who::Target(target), Interest::Writable) => {
            let lane = account.lanes[usize::from(target)];
            assert!(lane.unready && !lane.lost, "{story}: nothing showed that {target} waits");
            let needs = lane.delivered < account.taken || lane.owes_empty;
            assert!(needs, "{story}: target {target} has nothing to take");
            waits += 1;
        }
        (Who::Target(target), Interest::HangUp) => {
            assert!(!account.lanes[usize::from(target)].lost, "{story}: {target} is lost");
        }
        other => panic!("{story}: waits for {other:?}"),
    });
    assert!(waits > 0, "{story}: waits for nothing");
    for (target, lane) in account.lanes.iter().enumerate().filter(|(_, lane)| !lane.lost) {
        let mut is_named = false;
        fan.waits(&mut |who, _| is_named |= who == Who::Target(target as u16));
        let can_hang_up = matches!(targets[target].kind(), Kind::Pipe | Kind::Stream);
        assert_eq!(
            is_named,
            can_hang_up || lane.unready,
            "{story}: target {target} is not watched"
        );
    }
    account.idle_ops = 0;
    fan.rest(lender);
    assert_eq!(lender.bufs_out, 0, "{story}: parked with a buffer");
    let own = account.live().filter(|lane| lane.in_pipe > 0).count();
    let held = usize::from(account.needs_pipe()) + own;
    assert_eq!(lender.pool.usage().in_use, held, "{story}: parked with a pipe");
}

fn wake(fan: &mut Fan, account: &mut Account, chance: &mut impl FnMut(u32) -> bool) {
    let mut woken = Vec::new();
    fan.waits(&mut |who, interest| woken.push((who, interest)));
    for (who, interest) in woken {
        if interest == Interest::HangUp && !chance(4) {
            continue;
        }
        fan.wake(who);
        match who {
            Who::Source => account.source_unready = false,
            Who::Target(target) => account.lanes[usize::from(target)].unready = false,
        }
    }
}

/// A target is lost only after an answer of its own that was an error, nothing where there was
/// something, or a message that was cut. A refusal is no reason, unless the method was named.
fn check_lost(fan: &Fan, target: u16, named: bool, story: &Story<'_>) {
    let failure = fan.failure(target).expect("a reason");
    let is_reason = |&(op, answer): &(FanOp, Result<usize, Errno>)| {
        let is_error =
            matches!(answer, Err(errno) if ![Errno::AGAIN, Errno::INTR].contains(&errno));
        let is_refusal = answer == Err(Errno::INVAL) || answer == Ok(0);
        match op {
            FanOp::Lane(lane, Op::Write) => lane == target && (is_error || answer.is_ok()),
            FanOp::Lane(lane, Op::Empty) => {
                lane == target && if is_refusal { named } else { is_error }
            }
            FanOp::Tee(lane) | FanOp::Move(lane, _) => lane == target && is_error && !is_refusal,
            FanOp::Lane(lane, _) | FanOp::Look(lane) => lane == target && is_error,
            FanOp::Intake(_) => false,
        }
    };
    assert!(
        story.steps.iter().any(is_reason),
        "{story}: {target} failed without a reason: {failure:?}"
    );
}

/// A fan fails only after an answer to the intake that no other way is left for.
fn check_failure(failure: &Failure, story: &Story<'_>) {
    let is_reason = |&(op, answer): &(FanOp, Result<usize, Errno>)| {
        let is_error =
            matches!(answer, Err(errno) if ![Errno::AGAIN, Errno::INTR].contains(&errno));
        let is_of_intake = matches!(op, FanOp::Intake(_) | FanOp::Tee(_) | FanOp::Move(..));
        // A datagram that does not fit what is left; no room in an empty pipe of a lane's own.
        let is_odd = op == FanOp::Intake(Op::Measure) || answer == Err(Errno::AGAIN);
        is_of_intake && (is_error || answer == Ok(0) || is_odd)
    };
    let is_short = matches!(failure, Failure::Refused(refusal) | Failure::FalseEnd(refusal) if refusal.errno.is_none());
    let has_reason = is_short || story.steps.iter().any(is_reason);
    assert!(has_reason, "{story}: failed without a reason: {failure:?}");
}
