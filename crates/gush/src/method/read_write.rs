//! `read-write`: a buffer, `read` into it, `write` from it. Works wherever bytes move at all.
//!
//! With holes to be made (`--sparse=always`) runs of zeros are passed over instead of written. A run goes on
//! across steps: zeros are in flight until data, the budget's end or the source's end shows how long the run is,
//! so that one hole is made of it whatever the size of the buffer.

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

/// The pieces of a stream that become datagrams, as with socat; a larger one than the socket takes is
/// an error (EMSGSIZE).
const STREAM_TO_DATAGRAM_BYTES: usize = 8192;

/// The largest buffer that a single datagram gets (invariant 8).
const MOST_DATAGRAM_BYTES: usize = 8 << 20;

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
        let wanted = tuning.buffer_or(match pair.target.kind() {
            Kind::Datagram => STREAM_TO_DATAGRAM_BYTES,
            _ => BUFFER_BYTES,
        });
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
            zeros_bytes: 0,
            hole_bytes: 0,
            makes_holes: tuning.make_holes && pair.target_at.is_some(),
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
    /// Zeros before `begin` that were passed over, and are not yet a hole of the target.
    zeros_bytes: u64,
    hole_bytes: u64,
    makes_holes: bool,
    tuning: Tuning,
}

impl Copying<'_> {
    fn fill(&mut self, budget_bytes: u64) -> Result<(), Step> {
        let most = match self.source.kind {
            Kind::Datagram => self.room_for_datagram(budget_bytes)?,
            _ => call_bytes(budget_bytes, self.buffer_bytes),
        };
        match self.source.read(&mut self.buffer.as_mut_slice()[..most]) {
            Ok(0) if self.source.ends_at_zero() => Err(Step::End),
            Ok(0) => Err(Step::Moved(0)),
            Ok(got) => {
                (self.begin, self.end) = (0, got);
                self.tuning.show(&self.buffer.as_slice()[..got]);
                Ok(())
            }
            Err(errno) => Err(Step::from_errno_final(Call::Read, Side::Source, errno)),
        }
    }

    /// Makes the buffer as large as the datagram that is next: a smaller one would cut it.
    fn room_for_datagram(&mut self, datagram_bytes: u64) -> Result<usize, Step> {
        let wanted = call_bytes(datagram_bytes, MOST_DATAGRAM_BYTES);
        if wanted > self.buffer.len_bytes() {
            let fault = |errno| Fault { call: Call::Mmap, side: Side::Source, errno };
            self.buffer = Pages::new(wanted).map_err(|errno| Step::Failed(fault(errno)))?;
        }
        Ok(self.buffer.len_bytes())
    }

    /// Delivers what it can of the bytes in flight, in one call; zeros are passed over at first.
    fn deliver(&mut self) -> Step {
        let pending = &self.buffer.as_slice()[self.begin..self.end];
        let run = match self.target.at.filter(|_| self.makes_holes) {
            Some(at) => zeros::first_run(pending, at + self.zeros_bytes),
            None => Run::Data(pending.len()),
        };
        match run {
            Run::Zeros(len) => {
                self.begin += len;
                self.zeros_bytes += len as u64;
                Step::Moved(0)
            }
            Run::Data(_) if self.zeros_bytes > 0 => self.leave_out_zeros(),
            Run::Data(len) => match self.target.write(&pending[..len]) {
                // write(2) of something answers 0 only where it would for ever.
                Ok(0) => target_failed(Call::Write, Errno::IO),
                Ok(put) => {
                    self.begin += put;
                    Step::Moved(put as u64)
                }
                Err(errno) => Step::from_errno_final(Call::Write, Side::Target, errno),
            },
        }
    }

    /// Makes a hole of the zeros that were passed over: they have arrived then.
    fn leave_out_zeros(&mut self) -> Step {
        let (Some(at), zeros_bytes) = (self.target.at, self.zeros_bytes) else {
            return target_failed(Call::Fallocate, Errno::SPIPE);
        };
        match zeros::punch(&self.target, at, zeros_bytes) {
            Ok(()) => {
                self.target.at = Some(at + zeros_bytes);
                self.hole_bytes += zeros_bytes;
                self.zeros_bytes = 0;
                Step::Moved(zeros_bytes)
            }
            Err(errno) => Step::from_errno_final(Call::Fallocate, Side::Target, errno),
        }
    }
}

fn target_failed(call: Call, errno: Errno) -> Step {
    Step::Failed(Fault { call, side: Side::Target, errno })
}

impl Transfer for Copying<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if self.begin == self.end {
            match budget_bytes - self.zeros_bytes.min(budget_bytes) {
                0 => return self.leave_out_zeros(),
                budget_bytes => match self.fill(budget_bytes) {
                    Ok(()) => {}
                    Err(Step::End) if self.zeros_bytes > 0 => return self.leave_out_zeros(),
                    Err(step) => return step,
                },
            }
        }
        let mut moved = 0;
        while self.begin < self.end {
            let begin = self.begin;
            match self.deliver() {
                Step::Moved(put) if put > 0 || self.begin > begin => moved += put,
                _ if moved > 0 => break,
                step => return step,
            }
        }
        Step::Moved(moved)
    }

    fn reposition(&mut self, pair: &Pair<'_>) -> bool {
        (self.source.at, self.target.at) = (pair.source_at, pair.target_at);
        self.begin == self.end && self.zeros_bytes == 0
    }

    fn in_flight(&self) -> u64 {
        self.zeros_bytes + (self.end - self.begin) as u64
    }

    fn drain(&mut self) -> Step {
        if self.begin == self.end && self.zeros_bytes > 0 {
            return self.leave_out_zeros();
        }
        self.deliver()
    }

    fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }
}
