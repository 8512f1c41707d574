//! `read-mmap`: the target is mapped, and the source is read straight into the mapping.
//!
//! Buffered writes of one file take turns at the inode lock; page faults of a mapping do not.
//! Reading into the mapped target is therefore the copy of one file that scales with processors. A
//! target truncated meanwhile makes `pread` answer EFAULT, without a signal. The target has full
//! size and space before the first byte: a full disk is ENOSPC from fallocate(2).

use rustix::io::Errno;

use super::mapped::{MappedTarget, target_fault};
use super::{Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, source_offset};
use crate::port::{Port, Side};
use crate::sys::Call;
use crate::sys::map::FilledBy;

/// One window of each worker.
const WINDOW_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct ReadMmap;

impl Method for ReadMmap {
    fn name(&self) -> MethodName {
        MethodName::ReadMmap
    }

    fn traits(&self) -> Traits {
        Traits {
            parallel: true,
            gains_from_threads: true,
            needs_source_offset: true,
            needs_target_offset: true,
            needs_target_size: true,
            ..Traits::default()
        }
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        source_offset(self.name(), pair)?;
        let window_bytes = setup.buffer_or(WINDOW_BYTES);
        Ok(Start::range(Reading {
            source: Port::new(&pair.source, pair.source_at),
            target: MappedTarget::new(self.name(), pair, window_bytes, FilledBy::Kernel)?,
        }))
    }
}

struct Reading<'fd> {
    source: Port<'fd>,
    target: MappedTarget<'fd>,
}

impl Range for Reading<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        let (window, offset, len) = match self.target.next(budget_bytes) {
            Ok(next) => next,
            Err(step) => return step,
        };
        let Some(at) = self.source.offset() else { return Step::Dry };
        match window.pread(offset, len, self.source.fd, at) {
            Ok(0) => Step::End,
            Ok(got) => {
                self.source.advance(got);
                self.target.filled(got)
            }
            Err(Errno::FAULT) => target_fault(Call::Pread),
            Err(errno) => Step::from_errno(Call::Pread, Side::Source, errno),
        }
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.source.go_to(pair.source_at);
        self.target.reposition(pair)
    }
}
