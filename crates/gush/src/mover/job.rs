//! One move from its options to its report: the endpoints, where they stand, what was done.

use std::time::Instant;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::{Choice, Holes, Mover};
use crate::digest::Tap;
use crate::endpoint::{Endpoint, HoleReport, Kind};
use crate::error::{Error, Fault};
use crate::kernel::{Kernel, is_refusal};
use crate::method::{MethodName, Pair, Refusal, Traits};
use crate::plan;
use crate::port::Side;
use crate::progress::{Control, Limiter, Pace, Progress};
use crate::report::{MethodUse, Report};
use crate::sys::{self, Call, Counts};
use crate::tuning::{Advice, Space};

/// A move under way.
pub(super) struct Job<'a> {
    pub(super) options: Mover<'a>,
    pub(super) source: Endpoint<'a>,
    pub(super) target: Endpoint<'a>,
    /// Where each side started, where it has offsets.
    source_base: Option<u64>,
    target_base: Option<u64>,
    /// Bytes of the source that are dealt with: delivered, or left out as holes.
    pub(super) moved_bytes: u64,
    pub(super) hole_bytes: u64,
    /// Do the descriptors' own positions lag behind `moved_bytes`?
    positions_lag: bool,
    /// The end of the source was seen by a `read` that answered 0.
    pub(super) ended: bool,
    pub(super) pace: Pace,
    pub(super) limiter: Option<Limiter>,
    pub(super) started: Instant,
    pub(super) uses: Vec<MethodUse>,
    refusals: Vec<Refusal>,
    /// Did every method so far show its bytes to the tap?
    pub(super) all_seen: bool,
    may_share_work: bool,
    /// Blocks were reserved behind the target's end.
    reserved: bool,
    /// The source's own position was moved by asking for holes, though an offset was given.
    source_disturbed: bool,
}

impl<'a> Job<'a> {
    pub(super) fn new(mut options: Mover<'a>) -> Result<Self, Error> {
        let look = |fd, side| {
            Endpoint::of_borrowed(fd)
                .map_err(|errno| Error::failed(Fault { call: Call::Fstat, side, errno }))
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
        if options.digest {
            options.tuning.tap = Some(Tap::default());
        }
        let watched = options.observer.is_some();
        let limiter = options.rate.map(Limiter::new);
        Ok(Self {
            source,
            target,
            source_base,
            target_base,
            moved_bytes: 0,
            hole_bytes: 0,
            positions_lag: false,
            ended: false,
            pace: Pace::new(watched || limiter.is_some()),
            limiter,
            started: Instant::now(),
            uses: Vec::new(),
            refusals: Vec::new(),
            all_seen: true,
            reserved: false,
            source_disturbed: false,
            may_share_work: options.tuning.tap.is_none() && options.rate.is_none(),
            options,
        })
    }

    pub(super) fn run(mut self) -> Result<Report, Error> {
        self.refuse_same_file()?;
        self.advise();
        let outcome = self.preallocate().and_then(|()| self.move_all());
        let settled = self.settle();
        outcome.and(settled)?;
        Ok(Report {
            bytes: self.moved_bytes,
            hole_bytes: self.hole_bytes,
            elapsed: self.started.elapsed(),
            methods: self.uses,
            refusals: self.refusals,
            digest: self.options.tuning.tap.filter(|_| self.all_seen).map(|tap| tap.digest()),
        })
    }

    /// Moves what is left, the holes apart from the data where they are to stay holes.
    fn move_all(&mut self) -> Result<(), Error> {
        let report = match self.options.holes {
            Holes::Keep if self.are_both_files() => self.source.holes(),
            Holes::Make if self.are_both_files() => HoleReport::Suspect,
            _ => HoleReport::None,
        };
        match report {
            HoleReport::None => self.move_data(self.options.length_bytes),
            HoleReport::Believed => self.move_around_holes(),
            HoleReport::Suspect => {
                self.options.tuning.make_holes = true;
                self.move_data(self.options.length_bytes)
            }
        }
    }

    fn are_both_files(&self) -> bool {
        self.source.kind() == Kind::File
            && self.target.kind() == Kind::File
            && self.target_base.is_some()
    }

    /// Asks the methods in turn until one has moved `length_bytes`, or everything.
    pub(super) fn move_data(&mut self, length_bytes: Option<u64>) -> Result<(), Error> {
        let goal = length_bytes.map(|length| self.moved_bytes.saturating_add(length));
        for &name in self.candidates() {
            let refused = self.refusals.iter().any(|refusal| refusal.method == name);
            if self.ended || goal == Some(self.moved_bytes) || (!refused && self.ask(name, goal)?) {
                return Ok(());
            }
        }
        match self.refusals.last() {
            Some(refusal) => Err(Error::refused(refusal.clone()).after(self.moved_bytes, 0)),
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
        if self.threads_for(name, goal) > 1 {
            self.move_in_parallel(name, goal)
        } else {
            self.move_by(name, goal)
        }
    }

    /// The named method alone, or the plan's.
    pub(super) fn candidates(&self) -> &'static [MethodName] {
        match self.options.choice {
            Choice::Only(name) => {
                let at = MethodName::ALL.iter().position(|&known| known == name).unwrap_or(0);
                &MethodName::ALL[at..=at]
            }
            Choice::Auto => {
                let left_bytes = self.known_left_bytes(None);
                let threads = self.threads(left_bytes);
                plan::methods_for(&self.source, &self.target, left_bytes, threads)
            }
        }
    }

    /// What the options, the memory of refusals and the method's own nature say before it is tried.
    fn may_use(&self, name: MethodName) -> Result<(), Refusal> {
        let traits = name.method().traits();
        let named = self.options.choice == Choice::Only(name);
        let sharing = traits.shares_source
            && matches!(self.source.kind(), Kind::File | Kind::Block)
            && self.target.kind() != Kind::File;
        let why = if self.options.excluded.contains(&name) {
            "excluded by an option"
        } else if self.options.isolated && sharing {
            "it shares the source's pages, and isolation was asked for"
        } else if self.options.tuning.make_holes && name != MethodName::ReadWrite {
            "only read-write sees which blocks are zero, and holes are to be made of them"
        } else if self.options.holes == Holes::Fill && self.may_leave_holes(name) {
            "it can leave holes, and every byte is to be written"
        } else if !named && self.options.digest && !traits.sees_bytes {
            "the bytes are to be hashed, and it does not see them"
        } else if !named
            && let Some(memory) = self.options.refusals
            && memory.knows(name, &self.source, &self.target)
        {
            "refused before, between the same two file systems"
        } else {
            return Ok(());
        };
        Err(Refusal::because(name, why))
    }

    /// Sharing blocks keeps holes; so does copy_file_range where it shares blocks.
    fn may_leave_holes(&self, name: MethodName) -> bool {
        matches!(name, MethodName::Reflink | MethodName::CopyFileRange)
            && self.source.kind() == Kind::File
    }

    /// The pair as it stands now, with offsets named where the method or the user names them.
    pub(super) fn pair(&mut self, traits: Traits, goal: Option<u64>) -> Result<Pair<'a>, Error> {
        let source_named = self.options.source_offset.is_some() || traits.needs_source_offset;
        let target_named = self.options.target_offset.is_some() || traits.needs_target_offset;
        if !(source_named && target_named) {
            self.catch_up_positions()?;
        }
        Ok(Pair {
            source: self.source,
            target: self.target,
            source_at: self.source_at().filter(|_| source_named),
            target_at: self.target_at().filter(|_| target_named),
            length_bytes: goal.map(|goal| goal - self.moved_bytes),
        })
    }

    pub(super) fn source_at(&self) -> Option<u64> {
        self.source_base.map(|base| base + self.moved_bytes)
    }

    pub(super) fn target_at(&self) -> Option<u64> {
        self.target_base.map(|base| base + self.moved_bytes)
    }

    /// The pair as it stands now, with both offsets named.
    pub(super) fn pair_with_offsets(&mut self, goal: Option<u64>) -> Result<Pair<'a>, Error> {
        let both =
            Traits { needs_source_offset: true, needs_target_offset: true, ..Traits::default() };
        self.pair(both, goal)
    }

    /// Marks bytes as dealt with that no descriptor's own position knows of.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
        self.positions_lag = true;
    }

    /// Brings the descriptors' own positions, where they are what the user gave, to where we stand.
    fn catch_up_positions(&mut self) -> Result<(), Error> {
        if !self.positions_lag {
            return Ok(());
        }
        let own = [
            (
                self.source.fd(),
                self.source_at().filter(|_| self.options.source_offset.is_none()),
                Side::Source,
            ),
            (
                self.target.fd(),
                self.target_at().filter(|_| self.options.target_offset.is_none()),
                Side::Target,
            ),
        ];
        for (fd, at, side) in own {
            let Some(at) = at else { continue };
            sys::file::seek(fd, SeekFrom::Start(at)).map_err(|errno| {
                Error::failed(Fault { call: Call::Lseek, side, errno }).after(self.moved_bytes, 0)
            })?;
        }
        self.positions_lag = false;
        Ok(())
    }

    /// After the last step, and after a failure: positions behind the last byte moved, and a target
    /// that ends there if it ended in a hole.
    fn settle(&mut self) -> Result<(), Error> {
        if self.reserved && Some(self.moved_bytes) != self.expected_bytes() {
            self.give_back()?;
        }
        if self.hole_bytes > 0
            && let Some(end) = self.target_at()
        {
            let size = sys::file::fstat(self.target.fd()).map_or(0, |stat| stat.st_size);
            if u64::try_from(size).unwrap_or(0) < end {
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

    /// Asks where data or a hole begins; that moves the descriptor's own position.
    pub(super) fn seek_source(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        self.positions_lag = true;
        self.source_disturbed = self.options.source_offset.is_some();
        sys::file::seek(self.source.fd(), to)
    }

    /// How many bytes are to be expected from where we stand, where the source or the user tells.
    pub(super) fn expected_bytes(&self) -> Option<u64> {
        let in_file = self.source_base.map(|base| self.source.size_bytes().saturating_sub(base));
        match (in_file, self.options.length_bytes) {
            (Some(file), Some(length)) => Some(file.min(length)),
            (file, length) => file.or(length),
        }
    }

    /// How many threads may share what is left; processors are only counted for a file worth it.
    fn threads(&self, left_bytes: u64) -> usize {
        if !self.may_share_work || left_bytes < plan::PARALLEL_BYTES {
            return 1;
        }
        match self.options.threads {
            0 => Kernel::get().processors().min(4),
            threads => threads,
        }
    }

    /// One thread, unless the method's ranges are independent and there are enough of them.
    pub(super) fn threads_for(&self, name: MethodName, goal: Option<u64>) -> usize {
        let traits = name.method().traits();
        let apart = self.source_base.is_some() && self.target_base.is_some();
        let wanted = traits.gains_from_threads || self.options.threads > 1;
        if traits.parallel && wanted && apart && !self.options.tuning.make_holes {
            self.threads(self.known_left_bytes(goal))
        } else {
            1
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
        self.options.observer.as_mut().map_or(Control::Continue, |observer| observer(&progress))
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

    fn refuse_same_file(&self) -> Result<(), Error> {
        if !(self.source.kind() == Kind::File && self.source.is_same_file(&self.target)) {
            return Ok(());
        }
        let Some(from) = self.source_base else { return Ok(()) };
        let length = self.expected_bytes().unwrap_or(0);
        let overlap = match self.target_base {
            Some(to) => from < to.saturating_add(length) && to < from.saturating_add(length),
            None => length > 0,
        };
        if overlap { Err(Error::same_file()) } else { Ok(()) }
    }

    fn advise(&self) {
        use rustix::fs::Advice as Kernels;
        let advice = match self.options.tuning.advice {
            Advice::None => return,
            Advice::Sequential => Kernels::Sequential,
            Advice::WillNeed => Kernels::WillNeed,
            Advice::Random => Kernels::Random,
        };
        // Advice only: a descriptor that takes none (ESPIPE) is read all the same.
        let length = self.options.length_bytes.unwrap_or(0);
        let _ = sys::file::fadvise(self.source.fd(), self.source_base.unwrap_or(0), length, advice);
    }

    /// Reserves the target's space without changing its size; a file system that cannot is excused,
    /// a full one only if reserving was no more than a wish.
    fn preallocate(&mut self) -> Result<(), Error> {
        let (Some(at), Some(length)) = (self.target_base, self.expected_bytes()) else {
            return Ok(());
        };
        if self.options.tuning.space == Space::AsWritten || length == 0 || !self.are_both_files() {
            return Ok(());
        }
        let fd = self.target.fd();
        let answer = sys::file::fallocate(fd, FallocateFlags::KEEP_SIZE, at, length);
        self.reserved = true;
        match answer {
            Err(errno) if !is_refusal(errno) && self.options.tuning.space == Space::Reserve => {
                Err(self.failed(Call::Fallocate, Side::Target, errno))
            }
            // What it got hold of before it failed is given back: the copy may do with less.
            Err(_) => self.give_back(),
            Ok(()) => Ok(()),
        }
    }

    /// Frees blocks behind the target's end: truncating to the present size does (ext4, xfs).
    fn give_back(&mut self) -> Result<(), Error> {
        self.reserved = false;
        let size = sys::file::fstat(self.target.fd()).map_or(0, |stat| stat.st_size);
        sys::file::ftruncate(self.target.fd(), u64::try_from(size).unwrap_or(0))
            .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))
    }
}
