//! `splice`: page references move, not bytes. Direct where one end is a pipe, else through a private one.
//!
//! From a file the pages of the page cache are *shared*: a later write to the file shows in what has
//! not been consumed yet. A target with O_APPEND, and /dev/full, answer EINVAL (splice(2),
//! `do_splice_from` of `fs/splice.c`).

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::{
    Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes, splices_fit_direct,
};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::kernel::Kernel;
use crate::pipe::{self, Pipe};
use crate::port::{Port, Side};
use crate::sys::{self, Call};
use crate::tuning::Tuning;

/// What an unprivileged process may have (`/proc/sys/fs/pipe-max-size`), and as fast as any larger.
const PIPE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Splice;

impl Method for Splice {
    fn name(&self) -> MethodName {
        MethodName::Splice
    }

    fn traits(&self) -> Traits {
        Traits { shares_source: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        takes_splices(self.name(), pair)?;
        splices_fit_direct(self.name(), pair)
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let source = Port::new(&pair.source, pair.source_at);
        let target = Port::new(&pair.target, pair.target_at);
        let pipe_bytes = tuning.pipe_or(PIPE_BYTES);
        let call_bytes = tuning.buffer_or(usize::MAX);
        let piped = [source.kind, target.kind].contains(&Kind::Pipe);
        let by_kernel = |errno| Refusal::by_kernel(self.name(), Call::Pipe, errno);
        if piped {
            for port in [source, target].into_iter().filter(|port| port.kind == Kind::Pipe) {
                pipe::grow(port.fd, pipe_bytes).map_err(by_kernel)?;
            }
            return Ok(Box::new(Direct { source, target, call_bytes }));
        }
        let pipe = Pipe::new(pipe_bytes).map_err(by_kernel)?;
        Ok(Box::new(ThroughPipe { source, target, pipe, call_bytes, spill: Spill::default() }))
    }
}

/// A target with O_APPEND answers EINVAL, but only once bytes are in the private pipe: it is refused
/// before.
pub(super) fn takes_splices(method: MethodName, pair: &Pair<'_>) -> Result<(), Refusal> {
    if !pair.target.is_append() {
        return Ok(());
    }
    let why = "splice into a target with O_APPEND".into();
    Err(Refusal { method, errno: Some(Errno::INVAL), why })
}

/// One of the two is a pipe: one call a step.
struct Direct<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
    call_bytes: usize,
}

impl Transfer for Direct<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if let Err(step) = both_ready(&self.source, &self.target) {
            return step;
        }
        let answer = sys::pipe::splice(
            self.source.fd,
            self.source.at.as_mut(),
            self.target.fd,
            self.target.at.as_mut(),
            call_bytes(budget_bytes, self.call_bytes),
            SpliceFlags::NONBLOCK,
        );
        match answer {
            Ok(0) => Step::Dry,
            Ok(moved) => Step::Moved(moved as u64),
            Err(Errno::AGAIN) => Step::WouldBlock(self.who_waits()),
            Err(errno) => Step::from_errno(Call::Splice, self.who_fails(errno), errno),
        }
    }
}

impl Direct<'_> {
    /// EAGAIN does not say which side: where both can be meant the source is asked, and if it has
    /// bytes it is the target.
    fn who_waits(&self) -> Side {
        if !self.source.kind.can_idle() {
            return Side::Target;
        }
        if self.target.kind != Kind::Pipe {
            return Side::Source;
        }
        match sys::pipe::is_ready(self.source.fd, rustix::event::PollFlags::IN) {
            Ok(true) => Side::Target,
            _ => Side::Source,
        }
    }

    fn who_fails(&self, errno: Errno) -> Side {
        match errno {
            Errno::IO if self.source.kind != Kind::Pipe => Side::Source,
            _ => Side::Target,
        }
    }
}

/// Neither is a pipe: fill a private one, empty it.
struct ThroughPipe<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
    pipe: Pipe,
    call_bytes: usize,
    spill: Spill,
}

impl Transfer for ThroughPipe<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if self.pipe.is_empty() {
            match self.source.is_readable() {
                Ok(true) => {}
                Ok(false) => return Step::WouldBlock(Side::Source),
                Err(errno) => return Step::from_errno(Call::Poll, Side::Source, errno),
            }
            let most = call_bytes(budget_bytes, self.call_bytes);
            match self.pipe.fill(&mut self.source, most) {
                Ok(0) => return Step::Dry,
                Ok(_) => {}
                Err(errno) => return Step::from_errno(Call::Splice, Side::Source, errno),
            }
        }
        empty(&mut self.pipe, &mut self.target, u64::MAX)
    }

    fn in_flight(&self) -> u64 {
        self.pipe.held_bytes() + self.spill.held_bytes()
    }

    fn drain(&mut self) -> Step {
        self.spill.drain(&mut self.pipe, &mut self.target)
    }
}

/// Empties a private pipe into a target as far as the target takes it; leaves `keep` bytes at most
/// when `most` says so.
pub(super) fn empty(pipe: &mut Pipe, target: &mut Port<'_>, most: u64) -> Step {
    let mut moved = 0;
    while !pipe.is_empty() && moved < most {
        let step = match target.is_writable() {
            Ok(true) => match pipe.empty_into(target, most - moved) {
                // A target that takes nothing of something never will.
                Ok(0) => Step::Refused(Fault {
                    call: Call::Splice,
                    side: Side::Target,
                    errno: Errno::IO,
                }),
                Ok(put) => Step::Moved(put as u64),
                Err(errno) => Step::from_errno(Call::Splice, Side::Target, errno),
            },
            Ok(false) => Step::WouldBlock(Side::Target),
            Err(errno) => Step::from_errno(Call::Poll, Side::Target, errno),
        };
        match step {
            Step::Moved(put) if put > 0 => moved += put,
            _ if moved > 0 => break,
            step => return step,
        }
    }
    Step::Moved(moved)
}

fn both_ready(source: &Port<'_>, target: &Port<'_>) -> Result<(), Step> {
    let target_ready = if target.kind == Kind::Pipe { Ok(true) } else { target.is_writable() };
    for (ready, side) in [(source.is_readable(), Side::Source), (target_ready, Side::Target)] {
        match ready {
            Ok(true) => {}
            Ok(false) => return Err(Step::WouldBlock(side)),
            Err(errno) => return Err(Step::from_errno(Call::Poll, side, errno)),
        }
    }
    Ok(())
}

/// Where bytes go that must leave a private pipe by plain writes.
#[derive(Debug, Default)]
pub(super) struct Spill {
    bytes: Vec<u8>,
    begin: usize,
}

impl Spill {
    const BYTES: usize = 64 << 10;

    fn held_bytes(&self) -> u64 {
        (self.bytes.len() - self.begin) as u64
    }

    fn drain(&mut self, pipe: &mut Pipe, target: &mut Port<'_>) -> Step {
        if self.held_bytes() == 0 {
            self.begin = 0;
            self.bytes.resize(Self::BYTES, 0);
            let got = pipe.read_out(&mut self.bytes);
            self.bytes.truncate(*got.as_ref().unwrap_or(&0));
            if let Err(errno) = got {
                return Step::from_errno_final(Call::Read, Side::Source, errno);
            }
        }
        if self.held_bytes() == 0 {
            return Step::Moved(0);
        }
        match target.write(&self.bytes[self.begin..]) {
            Ok(0) => {
                Step::Failed(Fault { call: Call::Write, side: Side::Target, errno: Errno::IO })
            }
            Ok(put) => {
                self.begin += put;
                Step::Moved(put as u64)
            }
            Err(errno) => Step::from_errno_final(Call::Write, Side::Target, errno),
        }
    }
}
