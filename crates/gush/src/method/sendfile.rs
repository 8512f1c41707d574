//! `sendfile`: the kernel splices from the source's page cache through a pipe of its own.
//!
//! The source must support splice_read (a file, or into a pipe also a socket or terminal); the target
//! may be anything not opened with O_APPEND (sendfile(2)). It is always written at its own position.
//! Into a socket the pages are shared, not copied.

use super::{
    Method, MethodName, Pair, Refusal, Step, Traits, Transfer, call_bytes, is_aligned_for_direct,
};
use crate::kernel::Kernel;
use crate::port::{Port, Side};
use crate::progress::Pace;
use crate::sys::{self, Call};
use crate::tuning::Tuning;

/// One call to a stream: a blocking socket holds the call until all of it is accepted.
const STREAM_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(super) struct Sendfile;

impl Method for Sendfile {
    fn name(&self) -> MethodName {
        MethodName::Sendfile
    }

    fn traits(&self) -> Traits {
        Traits { shares_source: true, needs_own_target_position: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        is_aligned_for_direct(self.name(), pair)?;
        if pair.target_at.is_some() {
            return Err(Refusal::because(
                self.name(),
                "it writes at the target's own position, and an offset was given",
            ));
        }
        Ok(())
    }

    fn start<'fd>(
        &self,
        pair: &Pair<'fd>,
        tuning: &Tuning,
    ) -> Result<Box<dyn Transfer + Send + 'fd>, Refusal> {
        let source = Port::new(&pair.source, pair.source_at);
        let target = Port::new(&pair.target, None);
        let most_bytes =
            if target.kind.can_idle() { STREAM_BYTES } else { Pace::MOST_BYTES as usize };
        let call_bytes = tuning.buffer_or(most_bytes);
        Ok(Box::new(Sending { source, target, call_bytes }))
    }
}

struct Sending<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
    call_bytes: usize,
}

impl Transfer for Sending<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        for (ready, side) in
            [(self.source.is_readable(), Side::Source), (self.target.is_writable(), Side::Target)]
        {
            match ready {
                Ok(true) => {}
                Ok(false) => return Step::WouldBlock(side),
                Err(errno) => return Step::from_errno(Call::Poll, side, errno),
            }
        }
        let len = call_bytes(budget_bytes, self.call_bytes);
        let source = self.source.fd;
        match sys::file::sendfile(source, self.source.at.as_mut(), self.target.fd, len) {
            Ok(0) => Step::Dry,
            Ok(sent) => Step::Moved(sent as u64),
            Err(errno) => Step::from_errno(Call::Sendfile, Side::Target, errno),
        }
    }
}
