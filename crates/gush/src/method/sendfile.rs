//! `sendfile`: the kernel splices from the source's page cache through a pipe inside the kernel.
//!
//! The source must support splice_read (a file, or into a pipe also a socket or terminal); the
//! target may be anything without O_APPEND (sendfile(2)), written at its own position. Into a
//! socket the pages are shared, not copied.
//!
//! This file says which pairs the method serves, and how much one call asks for. The flow decides
//! when a call is due (`flow/decide.rs`), and makes it (`flow/op.rs`).

use super::streamed::{Buffers, Streamed};
use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits, refuse_unaligned};
use crate::flow::Terms;
use crate::kernel::Kernel;
use crate::progress::Pace;

/// One call to a stream: a blocking socket holds the call until all bytes are accepted.
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
        refuse_unaligned(self.name(), pair)?;
        if pair.target_at.is_some() {
            return Err(Refusal::because(
                self.name(),
                "it writes at the target's own position, and an offset was given",
            ));
        }
        Ok(())
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let most_bytes =
            if pair.target.kind().can_idle() { STREAM_BYTES } else { Pace::MOST_BYTES as usize };
        let terms = Terms { call_bytes: setup.buffer_or(most_bytes), ..Terms::default() };
        let streamed = Streamed::new(self.name(), pair, setup, terms, Buffers::default())?;
        Ok(Start::Flow(Box::new(streamed)))
    }
}
