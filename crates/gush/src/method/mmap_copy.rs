//! `mmap-copy`: both files mapped, memory copied in user space.
//!
//! A truncation of either file meanwhile raises SIGBUS in the middle of the copy; `sys/sigbus.rs`
//! turns it into EFAULT. The target has its full size, and its space, before the first byte.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::mmap_write::{MappedSource, WINDOW_BYTES, source_fault};
use super::{
    Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes, source_offset,
    target_offset,
};
use crate::endpoint::Endpoint;
use crate::error::Fault;
use crate::kernel::Kernel;
use crate::port::Side;
use crate::sys::map::{FilledBy, Window};
use crate::sys::{self, Call};
use crate::tuning::Tuning;

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

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        source_offset(self.name(), pair)?;
        target_offset(self.name(), pair).map(drop)
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let window_bytes = tuning.buffer_or(WINDOW_BYTES);
        let source = MappedSource::new(self.name(), pair, window_bytes)?;
        let target = MappedTarget::new(self.name(), pair, window_bytes, FilledBy::UserSpace)?;
        Ok(Box::new(Copying { source, target }))
    }
}

/// A target seen through one window at a time; the file must be as large as the windows reach.
pub(super) struct MappedTarget<'fd> {
    endpoint: Endpoint<'fd>,
    /// A shared mapping needs a description that may read, too (mmap(2), EACCES).
    readable: Option<OwnedFd>,
    at: u64,
    window_bytes: usize,
    filled_by: FilledBy,
    window: Option<(Window, usize)>,
}

impl<'fd> MappedTarget<'fd> {
    pub(super) fn new(
        name: MethodName,
        pair: &Pair<'fd>,
        window_bytes: usize,
        filled_by: FilledBy,
    ) -> Result<Self, Refusal> {
        let endpoint = pair.target;
        let at = target_offset(name, pair)?;
        let readable = endpoint
            .is_write_only()
            .then(|| sys::file::reopen(endpoint.fd(), OFlags::RDWR))
            .transpose()
            .map_err(|errno| Refusal::by_kernel(name, Call::Open, errno))?;
        Ok(Self { endpoint, readable, at, window_bytes, filled_by, window: None })
    }

    pub(super) fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.window = None;
        pair.target_at.map(|at| self.at = at).is_some()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.readable.as_ref().map_or(self.endpoint.fd(), AsFd::as_fd)
    }

    /// The window over the next bytes, the offset in it, and how many of them may be filled.
    pub(super) fn next(&mut self, budget_bytes: u64) -> Result<(&mut Window, usize, usize), Step> {
        if self.window.as_ref().is_none_or(|(window, used)| *used == window.len()) {
            self.window = None;
            let len = call_bytes(budget_bytes, self.window_bytes);
            let window = Window::of_target(self.fd(), self.at, len, self.filled_by)
                .map_err(|errno| Step::from_errno(Call::Mmap, Side::Target, errno))?;
            self.window = Some((window, 0));
        }
        match &mut self.window {
            Some((window, used)) => {
                let len = call_bytes(budget_bytes, window.len() - *used);
                Ok((window, *used, len))
            }
            None => Err(Step::Dry),
        }
    }

    /// Moves on, unless the file has shrunk below what was just filled.
    pub(super) fn filled(&mut self, bytes: usize) -> Step {
        self.at += bytes as u64;
        if let Some((window, used)) = &mut self.window {
            *used += bytes;
            if *used < window.len() {
                return Step::Moved(bytes as u64);
            }
        }
        match sys::file::fstat(self.endpoint.fd()) {
            Ok(stat) if u64::try_from(stat.st_size).unwrap_or(0) < self.at => {
                target_fault(Call::Mmap)
            }
            _ => Step::Moved(bytes as u64),
        }
    }
}

/// No room, or truncated: which of the two, plain writes will say.
pub(super) fn target_fault(call: Call) -> Step {
    Step::Refused(Fault { call, side: Side::Target, errno: Errno::FAULT })
}

struct Copying<'fd> {
    source: MappedSource<'fd>,
    target: MappedTarget<'fd>,
}

impl Transfer for Copying<'_> {
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
            Err(Errno::FAULT) => source_fault(Call::Memcpy),
            Err(errno) => Step::from_errno(Call::Memcpy, Side::Source, errno),
        }
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        self.source.reposition(pair) && self.target.reposition(pair)
    }
}
