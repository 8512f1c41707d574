//! `mmap-copy`: both files mapped, memory copied in user space.
//!
//! A truncation of either file meanwhile raises SIGBUS in the middle of the copy; `sys/sigbus.rs`
//! turns the signal into EFAULT. The target has full size, and space, before the first byte.

use rustix::io::Errno;

use super::mapped::{MappedSource, MappedTarget, WINDOW_BYTES, source_fault, target_fault};
use super::{Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits};
use crate::fault::Fault;
use crate::port::Side;
use crate::sys::map::FilledBy;

#[derive(Debug)]
pub(super) struct MmapCopy;

impl Method for MmapCopy {
    fn name(&self) -> MethodName {
        MethodName::MmapCopy
    }

    fn traits(&self) -> Traits {
        Traits {
            parallel: true,
            needs_source_offset: true,
            needs_target_offset: true,
            needs_target_size: true,
            ..Traits::default()
        }
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let window_bytes = setup.buffer_or(WINDOW_BYTES);
        let source = MappedSource::new(self.name(), pair, window_bytes)?;
        let target = MappedTarget::new(self.name(), pair, window_bytes, FilledBy::UserSpace)?;
        Ok(Start::range(Copying { source, target }))
    }
}

struct Copying<'fd> {
    source: MappedSource<'fd>,
    target: MappedTarget<'fd>,
}

impl Range for Copying<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        let (from, from_offset, len) = match self.source.next(budget_bytes) {
            Ok(next) => next,
            Err(step) => return step,
        };
        let (to, to_offset, len) = match self.target.next(len as u64) {
            Ok(next) => next,
            Err(step) => return step,
        };
        match from.copy_to(from_offset, to, to_offset, len) {
            Ok(copied) => match self.target.filled(copied) {
                Step::Moved(_) => self.source.took(copied),
                step => step,
            },
            Err(Fault { call, side, errno: Errno::FAULT }) => match side {
                Side::Source => source_fault(call),
                Side::Target => target_fault(call),
            },
            Err(Fault { call, side, errno }) => Step::from_errno(call, side, errno),
        }
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.source.reposition(pair) && self.target.reposition(pair)
    }
}
