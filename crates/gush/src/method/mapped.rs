//! Mapped files, seen through one window at a time.
//!
//! No Rust reference into a mapping exists. Bytes pass through the kernel, which answers EFAULT for
//! a truncated page; `mmap-copy`, which copies in user space, is under the guard of
//! `sys/sigbus.rs`. A target that cannot be stored into (full disk, truncated) refuses the method,
//! and plain writes then give the reason.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{self, Errno};

use super::{MethodName, Pair, Refusal, Step, call_bytes, source_offset, target_offset};
use crate::endpoint::{Endpoint, Kind};
use crate::fault::Fault;
use crate::port::Side;
use crate::sys::map::{FilledBy, Window};
use crate::sys::{self, Call};

/// Large enough to spread the cost of a mapping, small enough for the page tables to stay cached.
pub(super) const WINDOW_BYTES: usize = 1 << 20;

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

    /// The window over the next bytes, the offset in it, and how many bytes may be filled.
    pub(super) fn next(&mut self, budget_bytes: u64) -> Result<(&Window, usize, usize), Step> {
        if self.window.as_ref().is_none_or(|(window, used)| *used == window.len()) {
            self.window = None;
            let size_bytes = self
                .size_bytes()
                .map_err(|errno| Step::from_errno(Call::Fstat, Side::Source, errno))?;
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

    /// Moves on, unless the file has shrunk below the bytes just taken.
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

    fn size_bytes(&self) -> io::Result<u64> {
        if self.endpoint.kind() == Kind::Block {
            return Ok(self.endpoint.size_bytes());
        }
        sys::file::size_bytes(self.endpoint.fd())
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

    /// The window over the next bytes, the offset in it, and how many bytes may be filled.
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

    /// Moves on, unless the file has shrunk below the bytes just filled.
    pub(super) fn filled(&mut self, bytes: usize) -> Step {
        self.at += bytes as u64;
        if let Some((window, used)) = &mut self.window {
            *used += bytes;
            if *used < window.len() {
                return Step::Moved(bytes as u64);
            }
        }
        match sys::file::size_bytes(self.endpoint.fd()) {
            Ok(size_bytes) if size_bytes < self.at => target_fault(Call::Mmap),
            _ => Step::Moved(bytes as u64),
        }
    }
}

pub(super) fn source_fault(call: Call) -> Step {
    Step::Failed(Fault { call, side: Side::Source, errno: Errno::FAULT })
}

/// No room, or truncated: which of the two, plain writes will say.
pub(super) fn target_fault(call: Call) -> Step {
    Step::Refused(Fault { call, side: Side::Target, errno: Errno::FAULT })
}
