//! The outcome of a move, compared with the model's.

use gush::{Choice, Control, Errno, Error, Mover, Report, Tuning};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};

use crate::common::{Source, SourceKind, Target, TargetKind, noise};
use crate::plan::{Place, Plan};

/// Where a descriptor stands whose offset is named.
const ELSEWHERE: u64 = 17;
const DEVICE_BYTES: usize = 1 << 20;

fn content(plan: &Plan) -> Vec<u8> {
    let mut content = noise(plan.seed, plan.len);
    if let Some((at, len, _)) = plan.zeros {
        content[at..at + len].fill(0);
    }
    content
}

/// Moves as planned; the error names the difference from the model.
pub fn of(plan: &Plan) -> Result<(), String> {
    let content = content(plan);
    let source = Source::new(plan.from, &content, plan.seed, plan.dawdle)?;
    if let Some((at, len, true)) = plan.zeros {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&source.fd, flags, at as u64, len as u64)
            .map_err(|errno| format!("punching: {errno}"))?;
    }
    let mut before = noise(plan.seed ^ 1, plan.before_len);
    let target = Target::new(plan.to, &before, plan.seed ^ 2, plan.dawdle)?;
    if !plan.to.has_offsets() {
        before.clear();
    } else if plan.to == TargetKind::Block {
        before.resize(DEVICE_BYTES, 0);
    }
    let result = moved(plan, &source, &target);
    let positions = (
        plan.from.has_offsets().then(|| source.position()),
        plan.to.takes_offsets().then(|| target.position()),
    );
    let model = Model { plan, content: &content, before: &before };
    let delivered = model.judge_result(&result)?;
    model.judge_positions(delivered, positions)?;
    let stopped_early = result.is_err();
    let rest = if plan.from.has_offsets() { Vec::new() } else { source.rest() };
    if !plan.from.has_offsets() {
        model.judge_rest(&result, delivered, &rest)?;
    }
    model.judge_target(delivered, stopped_early, &target.content())
}

fn moved(plan: &Plan, source: &Source, target: &Target) -> Result<Report, Error> {
    if plan.nonblocking {
        for fd in [&source.fd, &target.fd] {
            let flags = rustix::fs::fcntl_getfl(fd).expect("flags");
            rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("O_NONBLOCK");
        }
    }
    let mut tuning = Tuning::default();
    if let Some(bytes) = plan.buffer_bytes {
        tuning = tuning.buffer_bytes(bytes);
    }
    if let Some(bytes) = plan.pipe_bytes {
        tuning = tuning.pipe_bytes(bytes);
    }
    let mut mover = Mover::new(&source.fd, &target.fd).method(plan.choice).tuning(tuning);
    mover = mover.threads(plan.threads).holes(plan.holes).digest(plan.digest);
    mover = mover.isolated(plan.isolated);
    let own = |place| match place {
        Place::Own(at) => at as u64,
        Place::Named(_) => ELSEWHERE,
    };
    if plan.from.has_offsets() {
        rustix::fs::seek(&source.fd, SeekFrom::Start(own(plan.source))).expect("seek");
    }
    if plan.to.takes_offsets() {
        rustix::fs::seek(&target.fd, SeekFrom::Start(own(plan.target))).expect("seek");
    }
    if let Place::Named(at) = plan.source {
        mover = mover.source_offset_bytes(at as u64);
    }
    if let Place::Named(at) = plan.target {
        mover = mover.target_offset_bytes(at as u64);
    }
    if let Some(length) = plan.length {
        mover = mover.length_bytes(length as u64);
    }
    let mut observer = |progress: &gush::Progress| match plan.stop_at {
        Some(at) if progress.bytes >= at => Control::Stop,
        _ => Control::Continue,
    };
    if plan.stop_at.is_some() {
        mover = mover.observe(&mut observer);
    }
    mover.run()
}

struct Model<'a> {
    plan: &'a Plan,
    content: &'a [u8],
    before: &'a [u8],
}

impl Model<'_> {
    /// The bytes to move.
    fn expected(&self) -> &[u8] {
        let from = self.content.get(self.plan.source.offset()..).unwrap_or_default();
        &from[..self.plan.length.unwrap_or(from.len()).min(from.len())]
    }

    fn judge_result(&self, result: &Result<Report, Error>) -> Result<usize, String> {
        let expected = self.expected();
        let error = match result {
            Ok(report) => return self.judge_report(report),
            Err(error) => error,
        };
        let delivered = usize::try_from(error.delivered_bytes()).map_err(|e| e.to_string())?;
        if delivered > expected.len() {
            return Err(format!("more delivered than there is: {error}"));
        }
        // Past the page cache go aligned pieces only; the first odd one may come late.
        let odd = self.plan.to == TargetKind::Direct || self.plan.from == SourceKind::Direct;
        let odd = odd && error.io_error().and_then(Errno::from_io_error) == Some(Errno::INVAL);
        let named = self.plan.choice != Choice::Auto;
        if error.is_stopped() && self.plan.stop_at.is_some() {
            return Ok(delivered);
        }
        if error.is_refused() && named && (delivered == 0 || odd) {
            return Ok(delivered);
        }
        Err(format!("{error}: {:?}", error.io_error()))
    }

    fn judge_report(&self, report: &Report) -> Result<usize, String> {
        let expected = self.expected();
        if report.bytes != expected.len() as u64 || report.hole_bytes > report.bytes {
            return Err(format!("{} bytes expected: {}", expected.len(), report.explain()));
        }
        let used: u64 = report.methods.iter().map(|used| used.bytes).sum();
        if used > report.bytes {
            return Err(format!("the methods' bytes do not add up: {}", report.explain()));
        }
        if let Choice::Only(name) = self.plan.choice {
            if report.methods.iter().any(|used| used.name != name) {
                return Err(format!("replaced: {}", report.explain()));
            }
            let sees = name.sees_bytes();
            if self.plan.digest && sees && report.digest.is_none() {
                return Err(format!("no digest: {}", report.explain()));
            }
        } else if self.plan.digest && report.digest.is_none() {
            return Err(format!("no digest: {}", report.explain()));
        }
        if let Some(digest) = report.digest
            && digest.to_string() != blake3::hash(expected).to_string()
        {
            return Err(format!("another digest: {}", report.explain()));
        }
        Ok(expected.len())
    }

    fn judge_positions(
        &self,
        delivered: usize,
        positions: (Option<u64>, Option<u64>),
    ) -> Result<(), String> {
        let wanted = |place| match place {
            Place::Own(at) => (at + delivered) as u64,
            Place::Named(_) => ELSEWHERE,
        };
        for (side, place, found) in
            [("source", self.plan.source, positions.0), ("target", self.plan.target, positions.1)]
        {
            if let Some(found) = found
                && found != wanted(place)
            {
                return Err(format!("the {side} stands at {found}, not at {}", wanted(place)));
            }
        }
        Ok(())
    }

    /// Invariant 1 for streams: a plain reader gets the next bytes.
    fn judge_rest(
        &self,
        result: &Result<Report, Error>,
        delivered: usize,
        rest: &[u8],
    ) -> Result<(), String> {
        let lost = result.as_ref().err().map_or(0, Error::in_flight_bytes);
        let gone = delivered + usize::try_from(lost).map_err(|e| e.to_string())?;
        let is_next = self.content.get(gone..) == Some(rest);
        if is_next { Ok(()) } else { Err(format!("{gone} bytes gone, {} left", rest.len())) }
    }

    fn judge_target(
        &self,
        delivered: usize,
        stopped_early: bool,
        arrived: &[u8],
    ) -> Result<(), String> {
        let expected = self.expected();
        let moved = &expected[..delivered];
        if !self.plan.to.has_offsets() {
            let right = self.plan.to == TargetKind::Null || arrived == moved;
            return if right { Ok(()) } else { Err(self.difference(arrived, moved)) };
        }
        let at = match self.plan.to {
            TargetKind::Append => self.before.len(),
            _ => self.plan.target.offset(),
        };
        let mut model = self.before.to_vec();
        if !moved.is_empty() {
            model.resize(model.len().max(at + moved.len()), 0);
            model[at..at + moved.len()].copy_from_slice(moved);
        }
        // Behind what had arrived, a move that ended early may have written what would have come;
        // past the page cache sendfile(2) of 4,097 bytes writes the first page, and then answers
        // EINVAL for all.
        let end = at + delivered;
        let reach = (at + expected.len()).min(model.len()).min(arrived.len());
        let may_have_written = delivered > 0 || self.plan.to == TargetKind::Direct;
        if stopped_early && may_have_written && reach > end {
            let tried = &expected[delivered..reach - at];
            let kept = model[end..reach].iter().zip(tried).zip(&arrived[end..reach]);
            let foreign = kept.filter(|((was, new), is)| is != was && is != new && **is != 0);
            if foreign.count() > 0 {
                return Err("foreign bytes after what had arrived".into());
            }
            model[end..reach].copy_from_slice(&arrived[end..reach]);
        }
        if arrived == model { Ok(()) } else { Err(self.difference(arrived, &model)) }
    }

    fn difference(&self, arrived: &[u8], model: &[u8]) -> String {
        let at = arrived.iter().zip(model).position(|(is, should)| is != should);
        let sizes = format!("{} bytes, the model has {}", arrived.len(), model.len());
        format!("{sizes}, first difference at {at:?}")
    }
}
