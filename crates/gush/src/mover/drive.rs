//! One move from request to report: methods are tried in turn, driven, and prove the end.

use rustix::io::Errno;

use super::account::{Account, Tally};
use super::choice::{Choosing, Sharing};
use super::cursor::Cursor;
use super::ends::Ends;
use super::paying::Paying;
use super::request::Request;
use super::space::Loose;
use super::watch::Watch;
use super::{Holes, Observer};
use crate::endpoint::{HoleReport, Kind};
use crate::error::Error;
use crate::fault::Fault;
use crate::flow::{Completion, Failure, FalseEnds, Inspector, Next, Op};
use crate::inspectors::Inspectors;
use crate::kernel::{Kernel, is_refusal};
use crate::method::{MethodName, Pair, Refusal, Setup, Start, Streamed, Traits};
use crate::port::Side;
use crate::progress::Control;
use crate::rate::Rate;
use crate::report::{self, MethodUse, Report};
use crate::sys::Call;
use crate::wait::Woken;

/// A move under way.
pub(super) struct Move<'a> {
    pub(super) request: Request<'a>,
    pub(super) ends: Ends<'a>,
    pub(super) cursor: Cursor,
    pub(super) watch: Watch<'a>,
    pub(super) account: Account,
    pub(super) setup: Setup,
    pub(super) old: super::replace::OldContent,
    pub(super) loose: Loose,
    /// What the parts moved so far have shown of threads.
    pub(super) paying: Option<Paying>,
}

/// The reason why a method did not reach the goal.
pub(super) enum Halt {
    /// Not this way: the next method goes on from the cursor.
    Refused(Refusal),
    /// The bytes cannot move.
    Failed(Error),
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        Halt::Refused(refusal)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

impl<'a> Move<'a> {
    pub(super) fn new(
        request: Request<'a>,
        ends: Ends<'a>,
        observer: Option<Observer<'a>>,
    ) -> Result<Self, Error> {
        let cursor = Cursor::of(&request, &ends)?;
        let mut setup = Setup::of(&request.tuning);
        setup.inspectors = Inspectors::if_wanted(request.digest, request.inspector.as_ref());
        setup.is_limited = request.rate.as_ref().and_then(Rate::get).is_some();
        Ok(Self {
            watch: Watch::new(&request, observer),
            account: Account::new(),
            old: super::replace::OldContent::of(&request, &ends, &cursor),
            loose: Loose::default(),
            paying: None,
            request,
            ends,
            cursor,
            setup,
        })
    }

    /// Begins after bytes that have arrived already.
    pub(super) fn continue_after(&mut self, used: MethodUse) {
        self.cursor.skip(used.bytes);
        self.account.record(used);
    }

    pub(super) fn run(mut self) -> Result<Report, Error> {
        if self.watch.is_cancelled() {
            return Err(self.stopped(0));
        }
        self.refuse_same_file()?;
        self.advise();
        let outcome = self.preallocate().and_then(|()| self.move_all());
        // What was read of a file and not delivered is still in the file: its position goes back.
        self.cursor.positions_lag |= outcome.is_err();
        let outcome = outcome.and_then(|()| self.cut_what_is_left());
        let settled = self.settle();
        // The first error is reported with the present counts: settling undoes a hole that could
        // not be made.
        let ended = outcome.map_err(|error| self.cursor.recounted(error)).and(settled);
        let lost_old_content = self.old.is_lost();
        ended.map_err(|error| error.having_cut(lost_old_content))?;
        Ok(self.report())
    }

    fn report(self) -> Report {
        Report {
            bytes: self.cursor.moved_bytes,
            hole_bytes: self.cursor.hole_bytes,
            elapsed: self.watch.elapsed(),
            leaves_file: report::leaves_file(self.ends.source.kind(), self.ends.target.kind()),
            #[cfg(feature = "digest")]
            digest: self
                .setup
                .inspectors
                .filter(|_| self.account.all_seen)
                .and_then(|inspectors| inspectors.digest()),
            methods: self.account.uses,
            refusals: self.account.refusals,
        }
    }

    /// A file or block device may be copied within itself where the ranges are apart; then only the
    /// bytes that are there now. A device may also be written in place.
    fn refuse_same_file(&mut self) -> Result<(), Error> {
        let Ends { source, target } = &self.ends;
        if !source.is_same_content(target) {
            return Ok(());
        }
        let (Some(from), to) = self.cursor.bases() else { return Ok(()) };
        if source.kind() == Kind::Block && to == Some(from) {
            return Ok(());
        }
        let length = self.cursor.expected_bytes(&self.ends).unwrap_or(0);
        // What is replaced goes from `to` to the end of the file, and the source's bytes with it.
        let replaces = self.request.replace && source.kind() == Kind::File;
        let overlap = match to {
            Some(to) if replaces => length > 0 && to < from.saturating_add(length),
            Some(to) => from < to.saturating_add(length) && to < from.saturating_add(length),
            None => length > 0,
        };
        self.cursor.limit(length);
        if overlap { Err(Error::same_file()) } else { Ok(()) }
    }

    /// Moves the rest, the holes apart from the data where they are to stay holes.
    fn move_all(&mut self) -> Result<(), Error> {
        let are_files = self.ends.are_both_files();
        let report = match self.request.holes {
            Holes::Keep | Holes::Make if are_files => self.ends.source.holes(),
            // A named method moves every byte, and O_DIRECT asks for aligned memory.
            Holes::Fill
                if are_files
                    && self.request.choice == super::Choice::Auto
                    && self.cursor.target_at().is_some()
                    && !self.ends.target.is_direct() =>
            {
                self.ends.source.holes()
            }
            _ => HoleReport::None,
        };
        self.setup.makes_holes = self.request.holes == Holes::Make && are_files;
        match report {
            HoleReport::Believed => self.move_around_holes(),
            HoleReport::Suspect if self.request.holes == Holes::Keep => {
                self.move_and_look_for_holes()
            }
            HoleReport::Suspect | HoleReport::None => self.move_data(self.cursor.length_bytes()),
        }
    }

    /// Asks the methods in turn until one has moved `length_bytes`, or everything.
    pub(super) fn move_data(&mut self, length_bytes: Option<u64>) -> Result<(), Error> {
        let goal = length_bytes.map(|length| self.cursor.moved_bytes.saturating_add(length));
        let candidates = self.choosing(None).candidates();
        for &name in candidates {
            if self.cursor.is_at(goal) {
                return Ok(());
            }
            if !self.account.has_refused(name) && self.try_method(name, goal)? {
                return Ok(());
            }
        }
        self.give_up()
    }

    /// Tries one method; returns whether it reached the goal. A refusal holds for the rest of the
    /// move.
    pub(super) fn try_method(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<bool, Error> {
        let refusal = match self.attempt(name, goal) {
            Ok(()) => return Ok(true),
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Refused(refusal)) => refusal,
        };
        if let Some(memory) = self.request.refusals {
            memory.learn(&refusal, &self.ends.source, &self.ends.target);
        }
        self.account.refusals.push(refusal);
        Ok(false)
    }

    fn attempt(&mut self, name: MethodName, goal: Option<u64>) -> Result<(), Halt> {
        self.choosing(goal).may_use(name)?;
        self.make_way(name, goal)?;
        if self.cursor.is_at(goal) {
            return Ok(());
        }
        match self.choosing(goal).sharing(name) {
            None => {}
            Some(Sharing { by, threads: Some(threads) }) => {
                self.move_on_threads(by, threads, goal)?;
            }
            Some(Sharing { by, threads: None }) => self.move_on_paying_threads(name, by, goal)?,
        }
        if self.cursor.is_at(goal) {
            return Ok(());
        }
        self.move_by(name, goal)
    }

    /// Moves up to the goal, or the end, by one method on this thread.
    pub(super) fn move_by(&mut self, name: MethodName, goal: Option<u64>) -> Result<(), Halt> {
        let mut false_ends = FalseEnds::default();
        loop {
            let tally = Tally::begin();
            let pair = self.pair(name.method().traits(), goal)?;
            name.method().serves(&pair, Kernel::get())?;
            match name.method().start(&pair, &self.setup)? {
                Start::Flow(streamed) => return self.move_by_flow(name, &pair, *streamed, &tally),
                Start::Range(range) => {
                    if self.move_by_range(name, range, goal, &mut false_ends, &tally)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Drives a flow to the limit, or to the proven end.
    fn move_by_flow(
        &mut self,
        name: MethodName,
        pair: &Pair<'a>,
        mut streamed: Streamed<'a>,
        tally: &Tally,
    ) -> Result<(), Halt> {
        let before_bytes = self.cursor.moved_bytes;
        let mut steps = 0;
        let outcome = self.drive(name, &mut streamed, &mut steps);
        drop(streamed);
        let bytes = self.cursor.moved_bytes - before_bytes;
        let is_named = pair.source_at.is_some() || pair.target_at.is_some();
        self.cursor.positions_lag |= outcome.is_err() || bytes > 0 && is_named;
        if !matches!(outcome, Err(Halt::Refused(_))) || bytes > 0 {
            let calls = tally.calls();
            self.account.record(MethodUse { name, bytes, steps, threads: 1, calls });
        }
        outcome
    }

    /// The driver of a flow: the loop calls, waits, keeps to the rate, and asks the observer.
    ///
    /// Invariant: the cursor has counted what the flow has delivered.
    fn drive(
        &mut self,
        name: MethodName,
        streamed: &mut Streamed<'a>,
        steps: &mut u64,
    ) -> Result<(), Halt> {
        let mut began = None;
        self.watch.gather_between(&streamed.flow);
        loop {
            match streamed.flow.next(self.watch.allowance(), &mut streamed.buffers) {
                Next::Do(op) => {
                    began = began.or_else(|| self.watch.now());
                    let answer = streamed.flow.perform(op, streamed.fds);
                    let delivered_bytes = self.learn(streamed, op, answer);
                    *steps += u64::from(delivered_bytes > 0);
                    if delivered_bytes > 0 {
                        self.watch.learn(delivered_bytes, began.take());
                        self.watch.gather(delivered_bytes);
                    }
                    let is_step = delivered_bytes > 0 || answer == Err(Errno::INTR);
                    if self.watch.is_watched() && (is_step || self.watch.is_due()) {
                        self.ask(name).map_err(|_| self.stop(streamed))?;
                    }
                }
                Next::Wait(side) => {
                    // The time that somebody else takes says nothing about a step's size.
                    began = None;
                    self.wait(name, streamed, side)?;
                }
                Next::Throttled => {
                    self.watch.pause();
                    self.ask(name).map_err(|_| self.stop(streamed))?;
                }
                Next::Ended(end) => {
                    self.cursor.ended |= end == Completion::Eof;
                    return Ok(());
                }
                Next::Failed(failure) => {
                    let in_flight_bytes = streamed.flow.in_flight_bytes();
                    return Err(self.halted(name, *failure, in_flight_bytes));
                }
            }
        }
    }

    /// Waits for the side. A wait longer than a slice keeps nothing but bytes in flight.
    fn wait(
        &mut self,
        name: MethodName,
        streamed: &mut Streamed<'a>,
        side: Side,
    ) -> Result<(), Halt> {
        let mut is_long = false;
        loop {
            let woken = self.watch.wait_for(self.ends.fd(side), side, is_long);
            let woken = woken.map_err(|errno| {
                let fault = Fault { call: Call::Poll, side, errno };
                self.cursor.after(fault, streamed.flow.in_flight_bytes())
            })?;
            if self.watch.is_watched() && (woken == Woken::NotYet || self.watch.is_due()) {
                self.ask(name).map_err(|_| self.stop(streamed))?;
            }
            if woken == Woken::Ready {
                return Ok(());
            }
            streamed.park();
            is_long = true;
        }
    }

    /// Lets the flow learn an answer; answers the bytes delivered thereby.
    fn learn(
        &mut self,
        streamed: &mut Streamed<'_>,
        op: Op,
        answer: rustix::io::Result<usize>,
    ) -> u64 {
        let holes_before_bytes = streamed.flow.hole_bytes();
        let inspector: &mut dyn Inspector = match &mut self.setup.inspectors {
            Some(inspectors) => inspectors,
            None => &mut (),
        };
        let moved = streamed.flow.learn(op, answer, inspector);
        self.watch.spend(moved.taken_bytes);
        self.cursor.moved_bytes += moved.delivered_bytes;
        self.cursor.hole_bytes += streamed.flow.hole_bytes() - holes_before_bytes;
        moved.delivered_bytes
    }

    /// Delivers the bytes taken, without waiting, then reports who stopped the move.
    fn stop(&mut self, streamed: &mut Streamed<'_>) -> Error {
        while let Next::Do(op) = streamed.flow.next(0, &mut streamed.buffers) {
            // A run of zeros takes long to write, and the file still has it (invariant 7).
            if matches!(op, Op::Punch(_)) && self.cursor.source_at().is_some() {
                break;
            }
            let answer = streamed.flow.perform(op, streamed.fds);
            self.learn(streamed, op, answer);
        }
        self.stopped(streamed.flow.in_flight_bytes())
    }

    fn halted(&self, name: MethodName, failure: Failure, in_flight_bytes: u64) -> Halt {
        let reads = name.method().traits().proves_end;
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::FalseEnd(refusal) if !self.request.names(name) => refusal.into(),
            // Another method has other calls.
            Failure::Fault(fault)
                if !reads
                    && in_flight_bytes == 0
                    && fault.call != Call::Read
                    && is_refusal(fault.errno) =>
            {
                Refusal::by_kernel(name, fault.call, fault.errno).into()
            }
            Failure::Fault(_) | Failure::FalseEnd(_) => {
                self.cursor.halted(failure.into(), in_flight_bytes).into()
            }
        }
    }

    pub(super) fn false_end(&self, name: MethodName) -> Halt {
        let refusal = Refusal::false_end(name);
        if self.request.names(name) {
            Error::from(Failure::FalseEnd(refusal)).after(self.cursor.moved_bytes, 0).into()
        } else {
            refusal.into()
        }
    }

    /// The error of a move whose last method was refused; nothing where none was asked.
    pub(super) fn give_up(&self) -> Result<(), Error> {
        let Some(refusal) = self.account.refusals.last() else { return Ok(()) };
        Err(match (self.old.is_lost(), refusal.call, refusal.errno) {
            (true, Some(call), Some(errno)) => self.cursor.failed(call, side_of(call), errno),
            _ => Error::refused(refusal.clone()).after(self.cursor.moved_bytes, 0),
        })
    }

    /// Reports to the observer.
    ///
    /// # Errors
    /// The observer's stop, or another thread's.
    pub(super) fn ask(&mut self, name: MethodName) -> Result<(), Error> {
        let expected_bytes = self.cursor.expected_bytes(&self.ends);
        match self.watch.ask(self.cursor.moved_bytes, expected_bytes, name) {
            Control::Stop => Err(self.stopped(0)),
            _ => Ok(()),
        }
    }

    /// The error of a move that the observer, or another thread, has ended.
    pub(super) fn stopped(&self, in_flight_bytes: u64) -> Error {
        let error = if self.watch.is_cancelled() { Error::cancelled() } else { Error::stopped() };
        error.after(self.cursor.moved_bytes, self.cursor.lost(in_flight_bytes))
    }

    pub(super) fn choosing(&self, goal: Option<u64>) -> Choosing<'_, 'a> {
        let (source_base, target_base) = self.cursor.bases();
        Choosing {
            request: &self.request,
            ends: &self.ends,
            makes_holes: self.setup.makes_holes,
            is_watched: self.watch.is_watched(),
            has_ranges: source_base.is_some() && target_base.is_some(),
            left_bytes: self.cursor.known_left_bytes(&self.ends, goal),
        }
    }

    pub(super) fn pair(&mut self, traits: Traits, goal: Option<u64>) -> Result<Pair<'a>, Error> {
        self.cursor.pair(&self.ends, traits, self.setup.makes_holes, goal)
    }
}

/// Where the descriptor is that a call of a method moving between files concerns most.
fn side_of(call: Call) -> Side {
    match call {
        Call::Read | Call::Pread | Call::Preadv2 | Call::Recv | Call::UringRead => Side::Source,
        _ => Side::Target,
    }
}
