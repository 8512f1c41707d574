//! `mmap-write`: the source is mapped, the target is written from the mapping.
//!
//! A truncated page makes `write` answer EFAULT or a short count, never SIGBUS; a file that shrank
//! within its last page reads as zeros there, so the size is checked after each window.

use rustix::io::Errno;

use super::mapped::{MappedSource, WINDOW_BYTES, source_fault};
use super::{
    Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, refuse_unaligned,
    source_offset,
};
use crate::kernel::Kernel;
use crate::port::{Port, Side};
use crate::sys::Call;

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
        source_offset(self.name(), pair)?;
        refuse_unaligned(self.name(), pair)
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let source = MappedSource::new(self.name(), pair, setup.buffer_or(WINDOW_BYTES))?;
        let target = Port::new(&pair.target, pair.target_at);
        Ok(Start::range(Writing { source, target }))
    }
}

struct Writing<'fd> {
    source: MappedSource<'fd>,
    target: Port<'fd>,
}

impl Range for Writing<'_> {
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
        self.target.go_to(pair.target_at);
        self.source.reposition(pair)
    }
}
