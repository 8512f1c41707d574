//! `mmap-write`: the source is mapped, the target is written from the mapping.
//!
//! A page that a truncation took away makes `write` answer EFAULT or a short count, never SIGBUS; a
//! file that shrank within its last page reads as zeros there, so the size is checked after each window.

use rustix::io::Errno;

use super::{Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes, source_offset};
use crate::endpoint::Endpoint;
use crate::error::Fault;
use crate::kernel::Kernel;
use crate::port::{Port, Side};
use crate::sys::map::Window;
use crate::sys::{self, Call};
use crate::tuning::Tuning;

/// Large enough to spread the cost of a mapping, small enough for the page tables to stay cached.
pub(super) const WINDOW_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct MmapWrite;

impl Method for MmapWrite {
    fn name(&self) -> MethodName {
        MethodName::MmapWrite
    }

    fn traits(&self) -> Traits {
        Traits { parallel: true, needs_source_offset: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        source_offset(self.name(), pair).map(drop)
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let source = MappedSource::new(self.name(), pair, tuning.buffer_or(WINDOW_BYTES))?;
        let target = Port::new(&pair.target, pair.target_at);
        Ok(Box::new(Writing { source, target }))
    }
}

/// A source seen through one window at a time.
pub(super) struct MappedSource<'fd> {
    endpoint: Endpoint<'fd>,
    at: u64,
    window_bytes: usize,
    window: Option<(Window, usize)>,
}

impl<'fd> MappedSource<'fd> {
    pub(super) fn new(
        name: MethodName,
        pair: &Pair<'fd>,
        window_bytes: usize,
    ) -> Result<Self, Refusal> {
        let at = source_offset(name, pair)?;
        Ok(Self { endpoint: pair.source, at, window_bytes, window: None })
    }

    /// The window over the next bytes, the offset in it, and how many of them there are; `Dry` at
    /// the end of the file.
    pub(super) fn next(&mut self, budget_bytes: u64) -> Result<(&Window, usize, usize), Step> {
        if self.window.as_ref().is_none_or(|(window, used)| *used == window.len()) {
            self.window = None;
            let size_bytes = self.size_bytes()?;
            let len = call_bytes(size_bytes.saturating_sub(self.at), self.window_bytes);
            if len == 0 {
                return Err(Step::Dry);
            }
            let len = call_bytes(budget_bytes, len);
            let window = Window::of_source(self.endpoint.fd(), self.at, len)
                .map_err(|errno| Step::from_errno(Call::Mmap, Side::Source, errno))?;
            self.window = Some((window, 0));
        }
        match &self.window {
            Some((window, used)) => {
                let len = call_bytes(budget_bytes, window.len() - used);
                Ok((window, *used, len))
            }
            None => Err(Step::Dry),
        }
    }

    /// Moves on, unless the file has shrunk below what was just taken.
    ///
    /// A size that cannot be asked for says nothing about bytes that have already arrived.
    pub(super) fn took(&mut self, bytes: usize) -> Step {
        self.at += bytes as u64;
        if let Some((_, used)) = &mut self.window {
            *used += bytes;
        }
        match self.size_bytes() {
            Ok(size_bytes) if size_bytes < self.at => source_fault(Call::Mmap),
            _ => Step::Moved(bytes as u64),
        }
    }

    pub(super) fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.window = None;
        pair.source_at.map(|at| self.at = at).is_some()
    }

    fn size_bytes(&self) -> Result<u64, Step> {
        if self.endpoint.kind() == crate::Kind::Block {
            return Ok(self.endpoint.size_bytes());
        }
        sys::file::fstat(self.endpoint.fd())
            .map(|stat| u64::try_from(stat.st_size).unwrap_or(0))
            .map_err(|errno| Step::from_errno(Call::Fstat, Side::Source, errno))
    }
}

struct Writing<'fd> {
    source: MappedSource<'fd>,
    target: Port<'fd>,
}

impl Transfer for Writing<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        let (window, offset, len) = match self.source.next(budget_bytes) {
            Ok(next) => next,
            Err(step) => return step,
        };
        match self.target.write_window(window, offset, len) {
            Ok(0) | Err(Errno::FAULT) => source_fault(Call::Write),
            Ok(put) => self.source.took(put),
            Err(errno) => Step::from_errno(Call::Write, Side::Target, errno),
        }
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.target.at = pair.target_at;
        self.source.reposition(pair)
    }
}

pub(super) fn source_fault(call: Call) -> Step {
    Step::Failed(Fault { call, side: Side::Source, errno: Errno::FAULT })
}
