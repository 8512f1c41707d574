//! `read-write`: a buffer, `read` into that, `write` from that. Works wherever bytes move at all.
//!
//! With holes to be made (`--sparse=always`) runs of zeros are passed over instead of written.

use super::streamed::{Buffers, Streamed};
use super::{Method, MethodName, Pair, Refusal, Setup, Start, Traits};
use crate::endpoint::Kind;
use crate::flow::Terms;

/// Fits the second-level cache together with the pages of source and target.
const BUFFER_BYTES: usize = 256 << 10;
/// The buffer of a small file's copy: untouched pages cost nothing, and the file may grow.
const LEAST_BUFFER_BYTES: usize = 64 << 10;

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

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        let terms = Terms::default();
        let terms = match pair.target.kind() {
            // The user's buffer is what a datagram holds.
            Kind::Datagram => {
                Terms { message_bytes: setup.buffer_or(terms.message_bytes), ..terms }
            }
            _ => terms,
        };
        let buffer_bytes = setup.buffer_or(BUFFER_BYTES);
        let expected_bytes = pair.expected_bytes.filter(|_| !setup.buffer_is_named);
        // One more than is expected: the read that gets all of it shows that there is no more.
        let buf_bytes = expected_bytes
            .and_then(|expected| usize::try_from(expected.saturating_add(1)).ok())
            .map_or(buffer_bytes, |expected| expected.max(LEAST_BUFFER_BYTES).min(buffer_bytes));
        let terms = Terms { buffer_bytes: buf_bytes, ..terms };
        let buffers = Buffers { buf_bytes, ..Buffers::default() };
        let streamed = Streamed::new(self.name(), pair, setup, terms, buffers)?;
        Ok(Start::Flow(Box::new(streamed)))
    }
}
