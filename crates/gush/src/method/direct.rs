//! `direct`: reads and writes past the page cache (O_DIRECT, open(2)).
//!
//! Both files are opened again with O_DIRECT, so the caller's descriptors keep their flags. Memory,
//! offsets and lengths are aligned as `statx(STATX_DIOALIGN)` says (since Linux 6.1; else to 4096).
//! An unaligned head and tail go through the page cache.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{self, Errno};

use super::{
    Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, call_bytes,
    source_offset, target_offset,
};
use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::inspectors::Inspectors;
use crate::kernel::Kernel;
use crate::pages::Pages;
use crate::port::{Port, Side};
use crate::sys::{self, Call};

/// Without the page cache's read-ahead only large requests make a device fast.
const BUFFER_BYTES: usize = 1 << 20;
// Logical blocks of disks have 512 or 4096 bytes: a multiple of 4096 suits both.
const COMMON_ALIGNMENT: u64 = 4096;

#[derive(Debug)]
pub(super) struct Direct;

impl Method for Direct {
    fn name(&self) -> MethodName {
        MethodName::Direct
    }

    fn traits(&self) -> Traits {
        Traits {
            sees_bytes: true,
            proves_end: true,
            parallel: true,
            needs_source_offset: true,
            needs_target_offset: true,
            ..Traits::default()
        }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        let source_at = source_offset(self.name(), pair)?;
        let target_at = target_offset(self.name(), pair)?;
        let alignment = alignment(&pair.source).max(alignment(&pair.target));
        // One buffer serves both files: bytes aligned for one would never be for the other.
        if source_at % alignment != target_at % alignment {
            return Err(Refusal::because(
                self.name(),
                "source and target offsets are not aligned alike",
            ));
        }
        Ok(())
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let open = |endpoint: &Endpoint<'fd>, access| {
            sys::file::reopen(endpoint.fd(), access | OFlags::DIRECT)
                .map_err(|errno| Refusal::by_kernel(self.name(), Call::Open, errno))
        };
        let alignment = alignment(&pair.source).max(alignment(&pair.target));
        // A buffer of whole units, so that a full one can be written directly.
        let unit = usize::try_from(alignment).unwrap_or(4096);
        let buffer_bytes = setup.buffer_or(BUFFER_BYTES).next_multiple_of(unit);
        Ok(Start::range(Bypassing {
            source_direct: open(&pair.source, OFlags::RDONLY)?,
            target_direct: open(&pair.target, OFlags::WRONLY)?,
            source: pair.source,
            target: pair.target,
            source_at: source_offset(self.name(), pair)?,
            target_at: target_offset(self.name(), pair)?,
            buffer: Pages::new(buffer_bytes)
                .map_err(|errno| Refusal::by_kernel(self.name(), Call::Mmap, errno))?,
            begin: 0,
            end: 0,
            alignment,
            inspectors: setup.inspectors.clone(),
        }))
    }
}

fn alignment(endpoint: &Endpoint<'_>) -> u64 {
    sys::file::direct_alignment(endpoint.fd())
        .ok()
        .flatten()
        // 0 means that the file takes no O_DIRECT; anything odd would break the arithmetic below.
        .filter(|alignment| alignment.is_power_of_two())
        .map_or(COMMON_ALIGNMENT, |alignment| alignment.max(512))
}

struct Bypassing<'fd> {
    source_direct: OwnedFd,
    target_direct: OwnedFd,
    source: Endpoint<'fd>,
    target: Endpoint<'fd>,
    source_at: u64,
    target_at: u64,
    buffer: Pages,
    /// `begin..end` of the buffer is in flight.
    begin: usize,
    end: usize,
    alignment: u64,
    inspectors: Option<Inspectors>,
}

impl Bypassing<'_> {
    fn fill(&mut self, budget_bytes: u64) -> Result<(), Step> {
        let head = (self.alignment - self.source_at % self.alignment) % self.alignment;
        let whole = budget_bytes - budget_bytes % self.alignment;
        // The head reaches a boundary; a rest below one unit cannot be read directly.
        let answer = if head > 0 || whole == 0 {
            let most = if head > 0 { head.min(budget_bytes) } else { budget_bytes };
            let most = call_bytes(most, self.buffer.len_bytes());
            let into = &mut self.buffer.as_mut_slice()[..most];
            Port::new(&self.source, Some(self.source_at)).read(into)
        } else {
            let most = call_bytes(whole, self.buffer.len_bytes());
            let into = &mut self.buffer.as_mut_slice()[..most];
            sys::data::pread(self.source_direct.as_fd(), into, self.source_at)
        };
        match answer {
            Ok(0) => Err(Step::End),
            Ok(got) => {
                self.source_at += got as u64;
                (self.begin, self.end) = (0, got);
                Ok(())
            }
            Err(errno) => Err(Step::from_errno(Call::Pread, Side::Source, errno)),
        }
    }

    /// Writes the aligned part directly, all else through the page cache.
    fn deliver(&mut self) -> io::Result<usize> {
        let pending = &self.buffer.as_slice()[self.begin..self.end];
        let unit = usize::try_from(self.alignment).unwrap_or(4096);
        let whole = pending.len() - pending.len() % unit;
        let aligned =
            self.target_at.is_multiple_of(self.alignment) && self.begin.is_multiple_of(unit);
        // The tail, and what a short write left unaligned, goes through the page cache.
        let put = if aligned && whole > 0 {
            sys::data::pwrite(self.target_direct.as_fd(), &pending[..whole], self.target_at)?
        } else {
            Port::new(&self.target, Some(self.target_at)).write(pending)?
        };
        if let Some(inspectors) = &self.inspectors {
            inspectors.show(&pending[..put]);
        }
        self.target_at += put as u64;
        self.begin += put;
        Ok(put)
    }

    fn delivered(&mut self) -> Step {
        match self.deliver() {
            Ok(0) => {
                Step::Failed(Fault { call: Call::Pwrite, side: Side::Target, errno: Errno::IO })
            }
            Ok(put) => Step::Moved(put as u64),
            Err(errno) => Step::from_errno(Call::Pwrite, Side::Target, errno),
        }
    }
}

impl Range for Bypassing<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if self.begin == self.end
            && let Err(step) = self.fill(budget_bytes)
        {
            return step;
        }
        let mut moved = 0;
        while self.begin < self.end {
            match self.delivered() {
                Step::Moved(put) if put > 0 => moved += put,
                // The bytes that arrived are reported first; the call fails again in the next step.
                _ if moved > 0 => break,
                step => return step,
            }
        }
        Step::Moved(moved)
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        let (Some(source_at), Some(target_at)) = (pair.source_at, pair.target_at) else {
            return false;
        };
        (self.source_at, self.target_at) = (source_at, target_at);
        self.begin == self.end
    }
}
