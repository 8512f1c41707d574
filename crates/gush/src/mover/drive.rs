//! Driving one transfer: budget, step, wait, deliver what is in flight, prove the end.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::end::Proof;
use super::job::Job;
use crate::endpoint::Kind;
use crate::error::Error;
use crate::fault::Fault;
use crate::kernel::Kernel;
use crate::method::{MethodName, Refusal, Step, Traits, Transfer};
use crate::port::Side;
use crate::progress::Control;
use crate::sys::{Call, Counts};
use crate::wait::Woken;

use super::space::OpenEnd;

/// How long a wait may last before a watched move asks its observer again (invariant 7).
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// How a transfer's drive ended, if not by an error.
enum Course {
    /// The goal, or the end of the source.
    Done,
    Refused(Refusal),
    /// Bytes went past the transfer to where it would write next: a new one must go on.
    Again,
}

impl<'a> Job<'a> {
    /// Moves up to the goal by one method; answers its refusal if it cannot go on from here.
    pub(super) fn move_by(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        loop {
            match self.move_by_one_transfer(name, goal)? {
                Course::Done => return Ok(None),
                Course::Refused(refusal) => return Ok(Some(refusal)),
                Course::Again => {}
            }
        }
    }

    fn move_by_one_transfer(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Course, Error> {
        let method = name.method();
        let traits = method.traits();
        let calls_before = Counts::of_this_thread();
        let pair = self.pair(traits, goal)?;
        if let Err(refusal) = method.serves(&pair, Kernel::get()) {
            return Ok(Course::Refused(refusal));
        }
        let mut transfer = match method.start(&pair, &self.options.tuning) {
            Ok(transfer) => transfer,
            Err(refusal) => return Ok(Course::Refused(refusal)),
        };
        let open_end = match self.open_end(name, traits, goal)? {
            Ok(open_end) => open_end,
            Err(refusal) => return Ok(Course::Refused(refusal)),
        };
        let (moved_before, holes_before) = (self.moved_bytes, self.hole_bytes);
        let mut steps = 0;
        let outcome = self.drive(name, transfer.as_mut(), goal, &mut steps);
        self.hole_bytes = holes_before + transfer.hole_bytes();
        drop(transfer);
        let moved = self.moved_bytes - moved_before;
        if moved > 0 && (pair.source_at.is_some() || pair.target_at.is_some()) {
            self.skip(0);
        }
        let arrived_end = self.target_at().filter(|_| moved > 0);
        let trimmed = open_end.map_or(Ok(()), |end| end.trim(arrived_end));
        self.all_seen &= traits.sees_bytes || moved == 0;
        let calls = Counts::of_this_thread().since(calls_before);
        if !matches!(outcome, Ok(Course::Refused(_))) || moved > 0 {
            self.record(name, moved, steps, 1, calls);
        }
        let course = outcome?;
        trimmed.map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?;
        Ok(course)
    }

    /// The target's end, kept in mind where bytes can come to lie behind those that have arrived, and
    /// moved to where it will be for a method that maps it.
    fn open_end(
        &self,
        name: MethodName,
        traits: Traits,
        goal: Option<u64>,
    ) -> Result<Result<Option<OpenEnd<'a>>, Refusal>, Error> {
        let left = self.known_left_bytes(goal);
        if !(traits.writes_ahead || traits.needs_target_size) || left == 0 {
            return Ok(Ok(None));
        }
        let end = OpenEnd::of(self.options.target)
            .map_err(|errno| self.failed(Call::Fstat, Side::Target, errno))?;
        if traits.needs_target_size
            && let Err(errno) = end.reserve(self.target_at().unwrap_or(0), left)
        {
            return Ok(Err(Refusal::by_kernel(name, Call::Fallocate, errno)));
        }
        Ok(Ok(Some(end)))
    }

    fn drive(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        goal: Option<u64>,
        steps: &mut u64,
    ) -> Result<Course, Error> {
        let traits = name.method().traits();
        // Where a read found more although the method, or the file's size, had said there was none.
        let mut doubted_at = None;
        loop {
            let Some(budget) = self.budget(name, transfer, goal)? else { return Ok(Course::Done) };
            let Some((budget, datagram_bytes)) =
                self.whole_datagram(name, transfer, budget, goal)?
            else {
                self.after_step(name, transfer, 0, Duration::ZERO)?;
                continue;
            };
            let known_left = self.known_left_bytes(goal);
            let step = if traits.proves_end || known_left > 0 || self.source_at().is_none() {
                *steps += 1;
                let began = Instant::now();
                let step = transfer.step(self.fitting(traits, budget, known_left, goal));
                if let Step::Moved(bytes) = step {
                    self.after_step(name, transfer, bytes, began.elapsed())?;
                    self.check_whole(transfer, bytes, datagram_bytes)?;
                }
                step
            } else if doubted_at == Some(self.moved_bytes) {
                if traits.needs_target_size {
                    let why = "the source grew behind the mapped target";
                    return Ok(Course::Refused(Refusal::because(name, why)));
                }
                *steps += 1;
                let step = transfer.step(budget);
                if let Step::Moved(bytes) = step {
                    self.after_step(name, transfer, bytes, Duration::ZERO)?;
                }
                step
            } else {
                Step::Dry
            };
            match step {
                Step::Moved(_) => {}
                Step::End => {
                    self.ended = true;
                    return Ok(Course::Done);
                }
                Step::Dry if self.source.kind() == Kind::Terminal => {
                    self.ended = true;
                    return Ok(Course::Done);
                }
                Step::Dry if doubted_at == Some(self.moved_bytes) => return self.false_end(name),
                Step::Dry => match self.prove_end(name, goal)? {
                    Proof::End => return Ok(Course::Done),
                    Proof::Taken | Proof::More if self.is_target_offset_alone() => {
                        return Ok(Course::Again);
                    }
                    Proof::Taken => self.after_step(name, transfer, 0, Duration::ZERO)?,
                    Proof::More => doubted_at = Some(self.moved_bytes),
                    Proof::NotYet => self.wait(name, transfer, Side::Source)?,
                },
                Step::WouldBlock(side) => self.wait(name, transfer, side)?,
                Step::Refused(fault) => {
                    self.deliver_in_flight(name, transfer)?;
                    let refusal = Refusal::by_kernel(name, fault.call, fault.errno);
                    return Ok(Course::Refused(refusal));
                }
                Step::Failed(fault) if self.was_cut(fault) => return Ok(Course::Again),
                Step::Failed(fault) => {
                    let undelivered = self.deliver_in_flight(name, transfer).err();
                    let lost = undelivered.map_or(0, |error| error.in_flight_bytes());
                    return Err(Error::failed(fault).after(self.moved_bytes, lost));
                }
            }
        }
    }

    /// Did the call fail because the source, a mapped file, became shorter? What is left of it can be moved:
    /// bytes that were written from behind its new end are written over, or cut off.
    pub(super) fn was_cut(&mut self, fault: Fault) -> bool {
        let nothing_behind = self.options.replace
            || self.target_base.is_some_and(|base| self.target.size_bytes() <= base);
        let was_cut = (fault.side, fault.errno) == (Side::Source, Errno::FAULT)
            && self.target_base.is_some()
            && nothing_behind
            && self.source.has_shrunk() == Ok(true);
        self.overshot |= was_cut;
        self.positions_lag |= was_cut;
        was_cut
    }

    /// The budget of a step: all of it at once for a method that works so, and never more than the
    /// source is known to hold for one whose own calls cannot prove the end.
    fn fitting(&self, traits: Traits, budget: u64, known_left: u64, goal: Option<u64>) -> u64 {
        if traits.whole {
            goal.map_or(u64::MAX, |goal| goal - self.moved_bytes)
        } else if known_left > 0 && !traits.proves_end {
            budget.min(known_left)
        } else {
            budget
        }
    }

    /// A stream moves into a named place: the transfer counts that place itself.
    fn is_target_offset_alone(&self) -> bool {
        self.options.target_offset.is_some() && self.source_at().is_none()
    }

    fn false_end(&self, name: MethodName) -> Result<Course, Error> {
        if self.options.choice == super::Choice::Only(name) {
            Err(Error::false_end(name).after(self.moved_bytes, 0))
        } else {
            Ok(Course::Refused(Refusal::because(name, "it reports the end before the end")))
        }
    }

    /// How much the next step may move; `None` when the goal is reached. Sleeps for the rate limit.
    fn budget(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        goal: Option<u64>,
    ) -> Result<Option<u64>, Error> {
        loop {
            let left = goal.map_or(u64::MAX, |goal| goal - self.moved_bytes);
            if left == 0 {
                return Ok(None);
            }
            let paced = self.pace.budget_bytes().min(left);
            let Some(limiter) = &mut self.limiter else { return Ok(Some(paced)) };
            match limiter.allowance() {
                Ok(allowed) => return Ok(Some(paced.min(allowed))),
                Err(pause) => {
                    thread::sleep(pause.min(SLICE));
                    if self.observe(name) == Control::Stop {
                        return Err(self.stop(transfer));
                    }
                }
            }
        }
    }

    fn after_step(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        bytes: u64,
        took: Duration,
    ) -> Result<(), Error> {
        self.moved_bytes += bytes;
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(bytes);
        }
        if self.options.is_watched() {
            self.pace.learn(bytes, took);
            if self.observe(name) == Control::Stop {
                return Err(self.stop(transfer));
            }
        }
        Ok(())
    }

    pub(super) fn wait(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        side: Side,
    ) -> Result<(), Error> {
        let slice = self.options.is_watched().then_some(SLICE);
        let fd = match side {
            Side::Source => self.source.fd(),
            Side::Target => self.target.fd(),
        };
        let woken = self.waiting().for_side(fd, side, slice).map_err(|errno| {
            self.undelivered(Fault { call: Call::Poll, side, errno }, transfer.in_flight())
        })?;
        let due = woken == Woken::NotYet || slice.is_some() && self.asked.elapsed() >= SLICE;
        if due && self.observe(name) == Control::Stop {
            return Err(self.stop(transfer));
        }
        Ok(())
    }

    /// Delivers what was taken, then says who stopped the move.
    fn stop(&mut self, transfer: &mut dyn Transfer) -> Error {
        // A target that takes nothing now must not hold up who wants to stop: one round, no waiting.
        while transfer.in_flight() > 0 {
            match transfer.drain() {
                Step::Moved(bytes) if bytes > 0 => self.moved_bytes += bytes,
                _ => break,
            }
        }
        self.stopped(self.lost(transfer.in_flight()))
    }

    /// Invariant 1: what was taken from the source arrives before anything else happens.
    fn deliver_in_flight(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
    ) -> Result<(), Error> {
        while transfer.in_flight() > 0 {
            match transfer.drain() {
                Step::Moved(bytes) => self.moved_bytes += bytes,
                Step::WouldBlock(side) => self.wait(name, transfer, side)?,
                Step::Refused(fault) | Step::Failed(fault) => {
                    return Err(self.undelivered(fault, transfer.in_flight()));
                }
                Step::Dry | Step::End => {
                    let fault = Fault { call: Call::Read, side: Side::Source, errno: Errno::IO };
                    return Err(self.undelivered(fault, transfer.in_flight()));
                }
            }
        }
        Ok(())
    }

    /// What a source with offsets still has is not lost: only a stream cannot give it again.
    fn lost(&self, in_flight_bytes: u64) -> u64 {
        if self.source_at().is_some() { 0 } else { in_flight_bytes }
    }

    pub(super) fn undelivered(&self, fault: Fault, in_flight_bytes: u64) -> Error {
        Error::failed(fault).after(self.moved_bytes, self.lost(in_flight_bytes))
    }
}
