//! Driving ranges: parts of a file copied between named offsets, around the flow of a move.
//!
//! A range has nothing in flight between its steps, so a refusal or failure leaves nothing to
//! deliver. It cannot prove the end: a `read` is asked after the last one.
//!
//! A file's size says how much to ask for, and proves nothing: a `pread` of one byte follows, and
//! only its 0 ends the move. The ring's 0 is no proof either, since FUSE answers it at the size
//! that it knows. A method that reports the end nine times in turn where a read finds bytes is
//! refused (copy_file_range on procfs); a file that grows does so a few times.

use std::thread;

use rustix::io::Errno;

use super::account::Tally;
use super::drive::{Halt, Move};
use super::space::OpenEnd;
use crate::error::Error;
use crate::fault::Fault;
use crate::flow::FalseEnds;
use crate::method::{MethodName, Range, Refusal, Step, Traits};
use crate::port::{Port, Side};
use crate::report::MethodUse;
use crate::sys::Call;

/// How far a range got.
#[derive(PartialEq, Eq)]
enum Reached {
    /// As far as was asked.
    Goal,
    /// The range's own `read` answered 0.
    End,
    /// Another call answered 0, which proves nothing.
    Nothing,
    /// The source, a mapped file, became shorter.
    Cut,
}

impl<'a> Move<'a> {
    /// Copies a range up to the source's known end, and asks whether more follows. Returns whether
    /// the move is at the goal; if not, another range follows.
    pub(super) fn move_by_range(
        &mut self,
        name: MethodName,
        mut range: Box<dyn Range + Send + 'a>,
        goal: Option<u64>,
        false_ends: &mut FalseEnds,
        tally: &Tally,
    ) -> Result<bool, Halt> {
        let (before_bytes, mut steps) = (self.cursor.moved_bytes, 0);
        let outcome = self.copy_and_prove(name, range.as_mut(), goal, false_ends, &mut steps);
        // Before the tally: buffers and rings are unmapped by calls, which count as this method's.
        drop(range);
        let bytes = self.cursor.moved_bytes - before_bytes;
        self.cursor.positions_lag |= bytes > 0;
        if !matches!(outcome, Err(Halt::Refused(_))) || bytes > 0 {
            let calls = tally.calls();
            self.account.record(MethodUse { name, bytes, steps, threads: 1, calls });
        }
        outcome
    }

    /// Invariant: `false_ends` counts those at the cursor's place.
    fn copy_and_prove(
        &mut self,
        name: MethodName,
        range: &mut dyn Range,
        goal: Option<u64>,
        false_ends: &mut FalseEnds,
        steps: &mut u64,
    ) -> Result<bool, Halt> {
        let traits = name.method().traits();
        let known_bytes = self.cursor.known_left_bytes(&self.ends, goal);
        let is_sized = self.cursor.source_at().is_some();
        let (before_bytes, doubts) = (self.cursor.moved_bytes, false_ends.any());
        // A mapped target needs a size, and a made-up file does not know its own.
        if doubts && known_bytes == 0 && traits.needs_target_size {
            return Err(self.false_end(name));
        }
        let mut reached = Reached::Nothing;
        // A method that moves a whole file shows at an empty one, too, that it serves.
        let is_whole = traits.whole && goal.is_none() && before_bytes == 0;
        if known_bytes > 0 || doubts || !is_sized || is_whole {
            let most_bytes = match known_bytes {
                // No further than the size: a call there would answer 0, and the read follows
                // anyway.
                known_bytes if known_bytes > 0 && !traits.whole => known_bytes,
                _ => goal.map_or(u64::MAX, |goal| goal.saturating_sub(self.cursor.moved_bytes)),
            };
            reached = self.move_range(name, range, most_bytes, goal, steps)?;
        }
        if self.cursor.moved_bytes > before_bytes {
            false_ends.forget();
        }
        self.cursor.ended |= reached == Reached::End;
        if reached == Reached::Cut || self.cursor.is_at(goal) {
            return Ok(self.cursor.is_at(goal));
        }
        self.cursor.ended = !self.has_more(name)?;
        if self.cursor.ended {
            return Ok(true);
        }
        if reached != Reached::Goal && !false_ends.add() {
            return Err(self.false_end(name));
        }
        let looked = self.ends.source.look_at_size();
        looked.map_err(|errno| self.cursor.failed(Call::Fstat, Side::Source, errno))?;
        Ok(false)
    }

    /// Copies one range of at most `most_bytes`, and cuts off bytes past the range.
    fn move_range(
        &mut self,
        name: MethodName,
        range: &mut dyn Range,
        most_bytes: u64,
        goal: Option<u64>,
        steps: &mut u64,
    ) -> Result<Reached, Halt> {
        let before_bytes = self.cursor.moved_bytes;
        let open_end = self.open_end(name, name.method().traits(), goal)?;
        let outcome = self.step_through(name, range, most_bytes, steps);
        let arrived_end =
            self.cursor.target_at().filter(|_| self.cursor.moved_bytes > before_bytes);
        // Trimmed after a failure too: a reserved size would pass for data.
        let trimmed = open_end.map_or(Ok(()), |end| end.trim(arrived_end));
        // The first failure is reported; trimming may have failed because of it.
        let reached = outcome?;
        trimmed.map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))?;
        Ok(reached)
    }

    /// Invariant: all before the cursor has arrived, and nothing is in flight between two steps.
    fn step_through(
        &mut self,
        name: MethodName,
        range: &mut dyn Range,
        most_bytes: u64,
        steps: &mut u64,
    ) -> Result<Reached, Halt> {
        let is_whole = name.method().traits().whole;
        let mut left_bytes = most_bytes;
        while left_bytes > 0 {
            let allowed_bytes = self.watch.allowance();
            if allowed_bytes == 0 {
                self.watch.pause();
                self.ask(name)?;
                continue;
            }
            *steps += 1;
            let began = self.watch.now();
            // A clone cannot be divided, and its time does not grow with its size.
            let budget_bytes = if is_whole { left_bytes } else { left_bytes.min(allowed_bytes) };
            match range.step(budget_bytes) {
                Step::Moved(bytes) => {
                    self.cursor.moved_bytes += bytes;
                    left_bytes = left_bytes.saturating_sub(bytes);
                    self.watch.spend(bytes);
                    self.watch.learn(bytes, began);
                    self.ask(name)?;
                }
                Step::Dry => return Ok(Reached::Nothing),
                Step::End => return Ok(Reached::End),
                Step::WouldBlock(side) => {
                    // A range has no pipe to give back.
                    self.watch
                        .wait_for(self.ends.fd(side), side, true)
                        .map_err(|errno| self.cursor.failed(Call::Poll, side, errno))?;
                    if self.watch.is_watched() && self.watch.is_due() {
                        self.ask(name)?;
                    }
                }
                Step::Refused(fault) => {
                    return Err(Refusal::by_kernel(name, fault.call, fault.errno).into());
                }
                Step::Failed(fault) if self.was_cut(fault) => return Ok(Reached::Cut),
                Step::Failed(fault) => return Err(self.cursor.after(fault, 0).into()),
            }
        }
        Ok(Reached::Goal)
    }

    /// The target's end, kept in mind where bytes can lie past those that arrived, and
    /// moved to the final place for a mapping method.
    fn open_end(
        &self,
        name: MethodName,
        traits: Traits,
        goal: Option<u64>,
    ) -> Result<Option<OpenEnd<'a>>, Halt> {
        let left_bytes = self.cursor.known_left_bytes(&self.ends, goal);
        if !(traits.writes_ahead || traits.needs_target_size) || left_bytes == 0 {
            return Ok(None);
        }
        self.reserved_end(name, left_bytes).map(Some)
    }

    /// Where the target ends now; for a mapping method the end is moved on by so many bytes.
    pub(super) fn reserved_end(
        &self,
        name: MethodName,
        left_bytes: u64,
    ) -> Result<OpenEnd<'a>, Halt> {
        let end = OpenEnd::of(self.ends.target.fd())
            .map_err(|errno| self.cursor.failed(Call::Fstat, Side::Target, errno))?;
        if name.method().traits().needs_target_size {
            end.reserve(self.cursor.target_at().unwrap_or(0), left_bytes)
                .map_err(|errno| Refusal::by_kernel(name, Call::Fallocate, errno))?;
        }
        Ok(end)
    }

    /// Only a `read` that answers 0 is the end (invariant 2). A source without offsets cannot be
    /// asked without taking bytes: the method is not believed.
    fn has_more(&mut self, name: MethodName) -> Result<bool, Error> {
        // Without an offset a look would take the byte: the method is asked again instead.
        let Some(at) = self.cursor.source_at() else { return Ok(true) };
        let mut port = Port::new(&self.ends.source, Some(at));
        loop {
            match port.read(&mut [0]) {
                // The byte is read again by the method: pread(2) took nothing away.
                Ok(got) => return Ok(got > 0),
                Err(Errno::INTR | Errno::AGAIN) => {
                    // A source that answers EAGAIN for ever must not prevent a stop.
                    self.ask(name)?;
                    thread::yield_now();
                }
                Err(errno) => return Err(self.cursor.failed(Call::Read, Side::Source, errno)),
            }
        }
    }

    /// Did the mapped source shrink? The rest can be moved: bytes from past the new end are
    /// overwritten or cut off.
    pub(super) fn was_cut(&mut self, fault: Fault) -> bool {
        let to = self.cursor.bases().1;
        let ends_target =
            self.request.replace || to.is_some_and(|to| self.ends.target.size_bytes() <= to);
        let was_cut = (fault.side, fault.errno) == (Side::Source, Errno::FAULT)
            && to.is_some()
            && ends_target
            && self.ends.source.has_shrunk() == Ok(true);
        self.loose.overshot |= was_cut;
        self.cursor.positions_lag |= was_cut;
        was_cut
    }
}
