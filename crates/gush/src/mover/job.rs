//! One move from its options to its report: the endpoints, where they stand, what was done.

use std::time::Instant;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::holes::Hole;
use super::{Holes, Mover};
use crate::digest::Tap;
use crate::endpoint::{Endpoint, HoleReport, Kind};
use crate::error::Error;
use crate::fault::Fault;
use crate::method::{MethodName, Refusal};
use crate::port::Side;
use crate::profile::Rule;
use crate::progress::{Control, Limiter, Pace, Progress};
use crate::report::{MethodUse, Report};
use crate::sys::{self, Call, Counts};
use crate::tuning::Measured;

/// A move under way.
pub(super) struct Job<'a> {
    pub(super) options: Mover<'a>,
    pub(super) source: Endpoint<'a>,
    pub(super) target: Endpoint<'a>,
    /// Where each side started, where it has offsets.
    pub(super) source_base: Option<u64>,
    pub(super) target_base: Option<u64>,
    /// Bytes of the source that are dealt with: delivered, or left out as holes.
    pub(super) moved_bytes: u64,
    pub(super) hole_bytes: u64,
    /// A hole that was passed over in the source and not yet made in the target.
    pub(super) pending_hole: Option<Hole>,
    /// Do the descriptors' own positions lag behind `moved_bytes`?
    pub(super) positions_lag: bool,
    /// The end of the source was seen by a `read` that answered 0.
    pub(super) ended: bool,
    pub(super) pace: Pace,
    pub(super) limiter: Option<Limiter>,
    pub(super) started: Instant,
    /// When the observer was last asked.
    pub(super) asked: Instant,
    pub(super) uses: Vec<MethodUse>,
    pub(super) refusals: Vec<Refusal>,
    /// Did every method so far show its bytes to the tap?
    pub(super) all_seen: bool,
    pub(super) may_share_work: bool,
    /// The target still holds what this move is to replace.
    pub(super) has_old_content: bool,
    /// Some of what this move is to replace was cut off.
    pub(super) lost_old_content: bool,
    /// The source became shorter, and bytes from behind its new end may lie behind the target's.
    pub(super) overshot: bool,
    /// Blocks were reserved behind the target's end.
    pub(super) reserved: bool,
    /// What the user's profile says about this pair and size.
    pub(super) rule: Option<&'a Rule>,
    /// The source's own position was moved by asking for holes, though an offset was given.
    pub(super) source_disturbed: bool,
}

impl<'a> Job<'a> {
    pub(super) fn new(mut options: Mover<'a>) -> Result<Self, Error> {
        let look = |fd, side| {
            Endpoint::look(fd).map_err(|(call, errno)| Error::failed(Fault { call, side, errno }))
        };
        let source = look(options.source, Side::Source)?;
        let target = look(options.target, Side::Target)?;
        let base = |endpoint: &Endpoint<'_>, explicit: Option<u64>, can: bool, side| match explicit
        {
            Some(_) if !can => {
                Err(Error::failed(Fault { call: Call::Lseek, side, errno: Errno::SPIPE }))
            }
            Some(offset) => Ok(Some(offset)),
            None if can => Ok(endpoint.position()),
            None => Ok(None),
        };
        let source_base = base(&source, options.source_offset, source.has_offsets(), Side::Source)?;
        let target_base =
            base(&target, options.target_offset, target.takes_offsets(), Side::Target)?;
        options.tuning.tap = Tap::if_wanted(options.digest);
        let watched = options.is_watched();
        let has_old_content = options.replace
            && target.kind() == Kind::File
            && target_base.is_some_and(|base| target.size_bytes() > base);
        let limiter = options.rate.map(Limiter::new);
        Ok(Self {
            source,
            target,
            source_base,
            target_base,
            moved_bytes: 0,
            hole_bytes: 0,
            pending_hole: None,
            positions_lag: false,
            ended: false,
            pace: Pace::new(watched || limiter.is_some()),
            limiter,
            started: Instant::now(),
            asked: Instant::now(),
            uses: Vec::new(),
            refusals: Vec::new(),
            all_seen: true,
            has_old_content,
            lost_old_content: false,
            overshot: false,
            reserved: false,
            source_disturbed: false,
            rule: None,
            may_share_work: options.tuning.tap.is_none() && options.rate.is_none(),
            options,
        })
    }

    pub(super) fn run(mut self) -> Result<Report, Error> {
        if self.options.is_cancelled() {
            return Err(self.stopped(0));
        }
        self.refuse_same_file()?;
        self.ask_profile();
        self.advise();
        let outcome = self.preallocate().and_then(|()| self.move_all());
        // What was read of a file and not delivered is still in the file: its position goes back.
        self.positions_lag |= outcome.is_err();
        let outcome = outcome.and_then(|()| self.cut_what_is_left());
        let settled = self.settle();
        let lost_old_content = self.lost_old_content;
        outcome.and(settled).map_err(|error| error.having_cut(lost_old_content))?;
        let profile = self.profile_account();
        Ok(Report {
            bytes: self.moved_bytes,
            hole_bytes: self.hole_bytes,
            elapsed: self.started.elapsed(),
            methods: self.uses,
            refusals: self.refusals,
            profile,
            #[cfg(feature = "digest")]
            digest: self.options.tuning.tap.filter(|_| self.all_seen).map(|tap| tap.digest()),
        })
    }

    /// Moves what is left, the holes apart from the data where they are to stay holes.
    fn move_all(&mut self) -> Result<(), Error> {
        let report = match self.options.holes {
            Holes::Keep | Holes::Make if self.are_both_files() => self.source.holes(),
            _ => HoleReport::None,
        };
        let makes_holes = self.options.holes == Holes::Make && self.are_both_files();
        self.options.tuning.make_holes = makes_holes;
        match report {
            HoleReport::Believed => self.move_around_holes(),
            HoleReport::Suspect if !makes_holes => self.move_and_look_for_holes(),
            HoleReport::Suspect | HoleReport::None => self.move_data(self.options.length_bytes),
        }
    }

    pub(super) fn are_both_files(&self) -> bool {
        self.source.kind() == Kind::File
            && self.target.kind() == Kind::File
            && self.target_base.is_some()
    }

    /// Asks the methods in turn until one has moved `length_bytes`, or everything.
    pub(super) fn move_data(&mut self, length_bytes: Option<u64>) -> Result<(), Error> {
        let goal = length_bytes.map(|length| self.moved_bytes.saturating_add(length));
        for &name in self.candidates().iter() {
            let refused = self.refusals.iter().any(|refusal| refusal.method == name);
            if self.ended || goal == Some(self.moved_bytes) || (!refused && self.ask(name, goal)?) {
                return Ok(());
            }
        }
        match self.refusals.last() {
            Some(refusal) => Err(self.given_up(refusal)),
            None => Ok(()),
        }
    }

    /// Tries one method; answers whether it got to the goal. A refusal holds for the rest of the move.
    pub(super) fn ask(&mut self, name: MethodName, goal: Option<u64>) -> Result<bool, Error> {
        let Some(refusal) = self.try_method(name, goal)? else { return Ok(true) };
        if let Some(memory) = self.options.refusals {
            memory.learn(&refusal, &self.source, &self.target);
        }
        self.refusals.push(refusal);
        Ok(false)
    }

    fn try_method(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        if let Err(refusal) = self.may_use(name) {
            return Ok(Some(refusal));
        }
        self.options.tuning.measured =
            self.rule.map_or_else(Measured::default, |rule| rule.measured_for(name));
        if let Some(refusal) = self.make_way(name, goal)? {
            return Ok(Some(refusal));
        }
        if self.ended || goal == Some(self.moved_bytes) {
            return Ok(None);
        }
        if self.threads_for(name, goal) > 1 {
            self.move_in_parallel(name, goal)
        } else {
            self.move_by(name, goal)
        }
    }

    /// After the last step, and after a failure: positions behind the last byte moved, and a target
    /// that ends there if it ended in a hole.
    fn settle(&mut self) -> Result<(), Error> {
        if self.reserved && Some(self.moved_bytes) != self.expected_bytes() {
            self.give_back()?;
        }
        if (self.hole_bytes > 0 || self.overshot)
            && let Some(end) = self.target_at()
        {
            let size_bytes = sys::file::size_bytes(self.target.fd())
                .map_err(|errno| self.failed(Call::Fstat, Side::Target, errno))?;
            if size_bytes < end || (self.overshot && size_bytes > end) {
                sys::file::ftruncate(self.target.fd(), end)
                    .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?;
            }
        }
        if let (true, Some(position)) = (self.source_disturbed, self.source.position()) {
            sys::file::seek(self.source.fd(), SeekFrom::Start(position))
                .map_err(|errno| self.failed(Call::Lseek, Side::Source, errno))?;
        }
        self.catch_up_positions()
    }

    /// How many bytes are to be expected from where we stand, where the source or the user tells.
    pub(super) fn expected_bytes(&self) -> Option<u64> {
        let in_file = self.source_base.map(|base| self.source.size_bytes().saturating_sub(base));
        match (in_file, self.options.length_bytes) {
            (Some(file), Some(length)) => Some(file.min(length)),
            (file, length) => file.or(length),
        }
    }

    /// Bytes between here and the goal, as far as the source's size tells.
    pub(super) fn known_left_bytes(&self, goal: Option<u64>) -> u64 {
        let expected = self.expected_bytes().unwrap_or(0);
        goal.map_or(expected, |goal| goal.min(expected)).saturating_sub(self.moved_bytes)
    }

    pub(super) fn observe(&mut self, method: MethodName) -> Control {
        let progress = Progress {
            bytes: self.moved_bytes,
            expected_bytes: self.expected_bytes(),
            elapsed: self.started.elapsed(),
            method,
        };
        self.asked = Instant::now();
        let said = self
            .options
            .observer
            .as_mut()
            .map_or(Control::Continue, |observer| observer(&progress));
        if self.options.is_cancelled() { Control::Stop } else { said }
    }

    /// The error of a move that its observer, or another thread, has ended.
    pub(super) fn stopped(&self, in_flight_bytes: u64) -> Error {
        let error = if self.options.is_cancelled() { Error::cancelled() } else { Error::stopped() };
        error.after(self.moved_bytes, in_flight_bytes)
    }

    pub(super) fn record(
        &mut self,
        name: MethodName,
        bytes: u64,
        steps: u64,
        threads: usize,
        calls: Counts,
    ) {
        if bytes == 0 && steps == 0 {
            return;
        }
        if let Some(used) = self.uses.last_mut().filter(|used| used.name == name) {
            used.bytes += bytes;
            used.steps += steps;
            used.threads = used.threads.max(threads);
            used.calls.add(calls);
        } else {
            self.uses.push(MethodUse { name, bytes, steps, threads, calls });
        }
    }

    pub(super) fn failed(&self, call: Call, side: Side, errno: Errno) -> Error {
        Error::failed(Fault { call, side, errno }).after(self.moved_bytes, 0)
    }

    /// A file may be copied within itself where the ranges are apart; then only what it holds now.
    fn refuse_same_file(&mut self) -> Result<(), Error> {
        if !(self.source.kind() == Kind::File && self.source.is_same_file(&self.target)) {
            return Ok(());
        }
        let Some(from) = self.source_base else { return Ok(()) };
        let length = self.expected_bytes().unwrap_or(0);
        let overlap = match self.target_base {
            Some(to) => from < to.saturating_add(length) && to < from.saturating_add(length),
            None => length > 0,
        };
        self.options.length_bytes = Some(length);
        if overlap { Err(Error::same_file()) } else { Ok(()) }
    }
}
