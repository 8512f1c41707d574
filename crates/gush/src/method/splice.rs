//! `splice`: page references move, not bytes. Directly where one end is a pipe, else through a private pipe. A long file goes
//! through a private pipe also into a pipe (`gains_by_own_pipe` says why).
//!
//! From a file the pages of the page cache are *shared*: a later write to the file shows in the bytes that have
//! not been consumed yet. A target with O_APPEND, and /dev/full, answer EINVAL (splice(2),
//! `do_splice_from` of `fs/splice.c`).

use super::streamed::{Means, Streamed};
use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits, refuse_unspliceable};
use crate::endpoint::Kind;
use crate::flow::{Terms, gains_by_own_pipe, splices_directly};
use crate::kernel::Kernel;
use crate::pipe::{self, Pipe};
use crate::sys::Call;

/// A smaller pipe of our own, as after the user's pages for pipes are used up, costs more calls than the splice saves.
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
        // Below a rate limit both ends need not work at once, and each call wakes the writer once: a whole pipe a call.
        let call_bytes = setup.buffer_or(if setup.is_limited { pipe_bytes } else { usize::MAX });
        let ends = [pair.source, pair.target];
        let by_kernel = |errno| Refusal::by_kernel(self.name(), Call::Pipe, errno);
        let kinds = ends.map(|end| end.kind());
        let direct = splices_directly(kinds);
        let pipe = if direct {
            let named_bytes = setup.pipe_is_named.then_some(pipe_bytes);
            let pipe_bytes = pipe::asked_bytes(named_bytes, pipe_bytes);
            // The caller's own pipe grows and stays so: the crate's page on descriptors tells of that.
            for end in ends.iter().filter(|end| end.kind() == Kind::Pipe) {
                pipe::grow(end.fd(), pipe_bytes).map_err(by_kernel)?;
            }
            // What is filled once gains nothing.
            let is_long = pair.expected_bytes.is_some_and(|bytes| bytes > pipe::USUAL_BYTES as u64);
            (is_long && gains_by_own_pipe(kinds))
                // Without a pipe of our own the direct splice serves as well, so a refusal is no failure.
                .then(|| Pipe::new(pipe_bytes).ok())
                .flatten()
                .filter(|pipe| pipe.capacity_bytes() >= LEAST_OWN_BYTES)
        } else {
            Some(Pipe::new(pipe_bytes).map_err(by_kernel)?)
        };
        let terms = Terms { call_bytes, own_pipe: direct && pipe.is_some(), ..Terms::default() };
        let means = Means { pipe, pipe_bytes, ..Means::default() };
        Ok(Start::Flow(Box::new(Streamed::new(self.name(), pair, setup, terms, means)?)))
    }
}
