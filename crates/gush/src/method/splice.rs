//! `splice`: page references move, not bytes; through a private pipe where neither end is a pipe,
//! and for a long file also into a pipe (`gains_by_own_pipe` says why).
//!
//! From a file the pages of the page cache are *shared*: a later write to the file shows in bytes
//! not yet consumed. O_APPEND and /dev/full answer EINVAL (`do_splice_from` of `fs/splice.c`).

use super::streamed::{Buffers, Streamed};
use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits, refuse_unspliceable};
use crate::endpoint::Kind;
use crate::flow::{Terms, gains_by_own_pipe, splices_directly};
use crate::kernel::Kernel;
use crate::pipe::{self, Pipe};
use crate::sys::Call;

/// A smaller pipe, as past the user's limit, costs more calls than the splice saves.
const LEAST_OWN_BYTES: usize = 256 << 10;

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
        refuse_unspliceable(self.name(), pair)
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let pipe_bytes = setup.pipe_or(pipe::USUAL_BYTES);
        // Below a rate limit the ends need not overlap, and each call wakes the writer: a pipe a
        // call.
        let call_bytes = setup.buffer_or(if setup.is_limited { pipe_bytes } else { usize::MAX });
        let ends = [pair.source, pair.target];
        let by_kernel = |errno| Refusal::by_kernel(self.name(), Call::Pipe, errno);
        let kinds = ends.map(|end| end.kind());
        let direct = splices_directly(kinds);
        let pipe = if direct {
            let named_bytes = setup.pipe_is_named.then_some(pipe_bytes);
            let pipe_bytes = pipe::asked_bytes(named_bytes, pipe_bytes);
            // The caller's pipe grows and stays so, as the crate's page says.
            for end in ends.iter().filter(|end| end.kind() == Kind::Pipe) {
                pipe::grow(end.fd(), pipe_bytes).map_err(by_kernel)?;
            }
            // What is filled once gains nothing.
            let is_long = pair.expected_bytes.is_some_and(|bytes| bytes > pipe::USUAL_BYTES as u64);
            (is_long && gains_by_own_pipe(kinds))
                // Without a pipe of our own the direct splice serves: a refusal is no failure.
                .then(|| Pipe::new(pipe_bytes).ok())
                .flatten()
                .filter(|pipe| pipe.capacity_bytes() >= LEAST_OWN_BYTES)
        } else {
            Some(Pipe::new(pipe_bytes).map_err(by_kernel)?)
        };
        let terms = Terms { call_bytes, own_pipe: direct && pipe.is_some(), ..Terms::default() };
        let buffers = Buffers { pipe, pipe_bytes, ..Buffers::default() };
        Ok(Start::Flow(Box::new(Streamed::new(self.name(), pair, setup, terms, buffers)?)))
    }
}
