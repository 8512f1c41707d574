//! `vmsplice`: read into page-aligned memory, lend the pages to a private pipe, splice them on.
//!
//! Nothing reports when the last holder of a lent page is done (see `pages.rs`). A regular file
//! copies before the splice returns, and the memory is reused; for any other target it is given
//! away. With GIFT start and length must be page-aligned: the last piece is rounded up, and the
//! surplus drained from the pipe (vmsplice(2)).

use super::streamed::{Buffers, Streamed};
use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits, refuse_unspliceable};
use crate::flow::Terms;
use crate::kernel::{Kernel, Vmsplice as Ability, page_bytes};
use crate::pipe::Pipe;
use crate::sys::Call;

/// As many pages as a pipe of this size has slots.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Vmsplice;

impl Method for Vmsplice {
    fn name(&self) -> MethodName {
        MethodName::Vmsplice
    }

    fn traits(&self) -> Traits {
        Traits { sees_bytes: true, proves_end: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, kernel: &Kernel) -> Result<(), Refusal> {
        refuse_unspliceable(self.name(), pair)?;
        match kernel.vmsplice() {
            Ability::Absent(errno) => Err(Refusal::by_kernel(self.name(), Call::Vmsplice, errno)),
            Ability::Copies | Ability::ZeroCopy => Ok(()),
        }
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let wanted_bytes = setup.buffer_or(BUFFER_BYTES).next_multiple_of(page_bytes());
        let pipe = Pipe::new(setup.pipe_or(wanted_bytes))
            .map_err(|errno| Refusal::by_kernel(self.name(), Call::Pipe, errno))?;
        // A larger buffer would never fit into the pipe as a whole.
        let buffer_bytes = wanted_bytes.min(pipe.capacity_bytes());
        let terms = Terms { buffer_bytes, ..Terms::default() };
        let pipe_bytes = pipe.capacity_bytes();
        let buffers = Buffers { pipe: Some(pipe), pipe_bytes, buf_bytes: buffer_bytes, buf: None };
        let streamed = Streamed::new(self.name(), pair, setup, terms, buffers)?;
        Ok(Start::Flow(Box::new(streamed)))
    }
}
