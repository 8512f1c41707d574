//! `read-write`: a buffer, `read` into it, `write` from it. Works wherever bytes move at all.
//!
//! With holes to be made (`--sparse=always`) runs of zero blocks are passed over instead of written.

use super::zeros::{self, Run};
use super::{Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes};
use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::pages::Pages;
use crate::port::{Port, Side};
use crate::sys::Call;
use crate::tuning::Tuning;

/// Fits the second-level cache together with the pages it is copied from and to.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct ReadWrite;

impl Method for ReadWrite {
    fn name(&self) -> MethodName {
        MethodName::ReadWrite
    }

    fn traits(&self) -> Traits {
        Traits {
            sees_bytes: true,
            proves_end: true,
            parallel: true,
            gains_from_threads: true,
            ..Traits::default()
        }
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let wanted = tuning.buffer_or(BUFFER_BYTES);
        let expected = pair.length_bytes.filter(|_| pair.source.kind() == Kind::File);
        let buffer_bytes = match expected {
            Some(length) if tuning.get_buffer_bytes().is_none() => {
                wanted.min(call_bytes(length.saturating_add(1), usize::MAX))
            }
            _ => wanted,
        };
        let buffer = Pages::new(buffer_bytes)
            .map_err(|errno| Refusal::by_kernel(self.name(), Call::Mmap, errno))?;
        Ok(Box::new(Copying {
            source: Port::new(&pair.source, pair.source_at),
            target: Port::new(&pair.target, pair.target_at),
            buffer,
            buffer_bytes,
            begin: 0,
            end: 0,
            hole_bytes: 0,
            block_bytes: tuning
                .make_holes
                .then(|| usize::try_from(pair.target.block_bytes()).unwrap_or(4096)),
            tuning: tuning.clone(),
        }))
    }
}

struct Copying<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
    buffer: Pages,
    buffer_bytes: usize,
    /// `begin..end` of the buffer is in flight.
    begin: usize,
    end: usize,
    hole_bytes: u64,
    /// Where holes are to be made, the size of a block.
    block_bytes: Option<usize>,
    tuning: Tuning,
}

impl Copying<'_> {
    fn fill(&mut self, budget_bytes: u64) -> Result<(), Step> {
        let most = call_bytes(budget_bytes, self.buffer_bytes);
        match self.source.read(&mut self.buffer.as_mut_slice()[..most]) {
            Ok(0) => Err(Step::End),
            Ok(got) => {
                (self.begin, self.end) = (0, got);
                self.tuning.show(&self.buffer.as_slice()[..got]);
                Ok(())
            }
            Err(errno) => Err(Step::from_errno_final(Call::Read, Side::Source, errno)),
        }
    }

    /// Delivers what it can of the bytes in flight, in one call.
    fn deliver(&mut self) -> Step {
        let pending = &self.buffer.as_slice()[self.begin..self.end];
        let run = match self.block_bytes {
            Some(block_bytes) => zeros::first_run(pending, block_bytes),
            None => Run::Data(pending.len()),
        };
        let (call, answer) = match run {
            Run::Data(len) => (Call::Write, self.target.write(&pending[..len])),
            Run::Zeros(len) => {
                self.hole_bytes += len as u64;
                (Call::Lseek, zeros::leave_out(&mut self.target, len))
            }
        };
        match answer {
            // write(2) of something answers 0 only where it would for ever.
            Ok(0) => Step::Failed(Fault { call, side: Side::Target, errno: Errno::IO }),
            Ok(put) => {
                self.begin += put;
                Step::Moved(put as u64)
            }
            Err(errno) => Step::from_errno_final(call, Side::Target, errno),
        }
    }
}

impl Transfer for Copying<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if self.begin == self.end
            && let Err(step) = self.fill(budget_bytes)
        {
            return step;
        }
        let mut moved = 0;
        while self.begin < self.end {
            match self.deliver() {
                Step::Moved(put) if put > 0 => moved += put,
                _ if moved > 0 => break,
                step => return step,
            }
        }
        Step::Moved(moved)
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        (self.source.at, self.target.at) = (pair.source_at, pair.target_at);
        self.begin == self.end
    }

    fn in_flight(&self) -> u64 {
        (self.end - self.begin) as u64
    }

    fn drain(&mut self) -> Step {
        self.deliver()
    }

    fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }
}
