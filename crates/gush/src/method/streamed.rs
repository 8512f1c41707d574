//! A flow ready for a move, with the descriptors and its own pipe and buffer.

use rustix::io;

use super::{MethodName, Pair, Refusal, Setup};
use crate::flow::{Buf, Fds, Flow, Lender, PortState, Terms};
use crate::mover::Choice;
use crate::pages::Pages;
use crate::pipe::{Pipe, PipeLoan};

/// A flow by one method, for a driver.
pub(crate) struct Streamed<'fd> {
    pub(crate) flow: Flow,
    pub(crate) fds: Fds<'fd>,
    pub(crate) buffers: Buffers,
    terms: Terms,
}

/// The pipe of a flow, made before the start, and the buffer.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(super) pipe: Option<Pipe>,
    /// The size of another pipe, where the flow had to give up the first.
    pub(super) pipe_bytes: usize,
    pub(super) buf: Option<Buf>,
    /// A buffer is made as large as this, so that a first short call does not decide for all.
    pub(super) buf_bytes: usize,
}

impl Lender for Buffers {
    fn pipe(&mut self) -> Option<PipeLoan> {
        let pipe = self.pipe.take().or_else(|| Pipe::new(self.pipe_bytes).ok());
        pipe.map(PipeLoan::alone)
    }

    fn buf(&mut self, bytes: usize) -> io::Result<Buf> {
        match self.buf.take() {
            Some(buf) if buf.len_bytes() >= bytes => Ok(buf),
            _ => Pages::new(bytes.max(self.buf_bytes)).map(Buf::Pages),
        }
    }

    fn take_back(&mut self, buf: Buf) {
        self.buf = buf.renewed();
    }
}

impl<'fd> Streamed<'fd> {
    /// A flow by `method` on the user's terms, with these buffers.
    pub(super) fn new(
        method: MethodName,
        pair: &Pair<'fd>,
        setup: &Setup,
        terms: Terms,
        buffers: Buffers,
    ) -> Result<Self, Refusal> {
        let terms = Terms {
            choice: Choice::Only(method),
            rereads: pair.source.has_offsets(),
            make_holes: setup.makes_holes,
            ..terms
        };
        let flow = flow_between(pair, &terms)?;
        let fds = Fds { source: pair.source.fd(), target: pair.target.fd() };
        Ok(Self { flow, fds, buffers, terms })
    }

    /// Keeps only the pipe and buffer with bytes in flight; the flow borrows anew later.
    pub(crate) fn park(&mut self) {
        self.flow.rest(&mut self.buffers);
        (self.buffers.pipe, self.buffers.buf) = (None, None);
    }

    /// The same between other places of the same two files; `false` if that is refused.
    pub(crate) fn reposition(&mut self, pair: &Pair<'fd>) -> bool {
        self.flow.rest(&mut self.buffers);
        match flow_between(pair, &self.terms) {
            Ok(flow) => self.flow = flow,
            Err(_) => return false,
        }
        true
    }
}

fn flow_between(pair: &Pair<'_>, terms: &Terms) -> Result<Flow, Refusal> {
    let source = PortState::of_endpoint(&pair.source, pair.source_at);
    let target = PortState::of_endpoint(&pair.target, pair.target_at);
    let lengths =
        Terms { length_bytes: pair.length_bytes, expected_bytes: pair.expected_bytes, ..*terms };
    Flow::between(source, target, &lengths)
}
