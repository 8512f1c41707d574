//! What a flow holds in memory: bytes between a read and a write.

use super::Buf;

/// Bytes that were read and not yet written: `from..to` of the buffer.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) buf: Option<Buf>,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Where the zeros begin that are not to be written, or `to`.
    pub(super) run_end: u32,
    /// Something is in hand: bytes, or a datagram, which may be empty.
    pub(super) full: bool,
}

impl Hand {
    pub(super) fn held(&self) -> &[u8] {
        self.slice(self.to)
    }

    /// The bytes before the next zeros that become a hole.
    pub(super) fn run(&self) -> &[u8] {
        self.slice(self.run_end)
    }

    fn slice(&self, to: u32) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf.as_slice()[self.from as usize..to as usize])
    }

    pub(super) fn put(&mut self, bytes: usize) {
        // A buffer has at most `u32::MAX` bytes: `Flow::read` sees to that.
        (self.from, self.to, self.full) = (0, bytes as u32, true);
        self.run_end = self.to;
    }

    /// Keeps no more memory than the bytes in it need; answers the buffer, if that is another one.
    pub(super) fn shrink(&mut self) -> Option<Buf> {
        if self.full && matches!(self.buf, Some(Buf::Rest(_))) {
            return None;
        }
        let rest: Option<Box<[u8]>> = self.full.then(|| self.held().into());
        let buf = std::mem::replace(&mut self.buf, rest.map(Buf::Rest));
        (self.from, self.to, self.run_end) = (0, self.to - self.from, self.run_end - self.from);
        buf
    }

    /// The next bytes have been delivered, or counted as zeros.
    pub(super) fn gone(&mut self, bytes: usize) {
        self.from += bytes as u32;
        if self.from == self.to {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        (self.from, self.to, self.run_end, self.full) = (0, 0, 0, false);
    }
}
