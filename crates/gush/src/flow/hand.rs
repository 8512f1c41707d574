//! The bytes that a flow holds in memory: bytes between a read and a write.

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
    /// Memory for the next bytes, if the buffer has as much.
    pub(super) fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.buf.as_mut()?.as_mut_slice().get_mut(..bytes)
    }

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

    /// Keeps only the memory that the bytes need; returns the earlier buffer if it was replaced.
    pub(super) fn shrink(&mut self) -> Option<Buf> {
        // As small as can be already: copying again would cost and gain nothing.
        if self.full && matches!(self.buf, Some(Buf::Rest(_))) {
            return None;
        }
        // A parked flow keeps the bytes alone: the page they stood in serves others meanwhile.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A hand that holds `text`, of which the part in front of `run_end` is next to be written.
    fn hand(text: &[u8], run_end: u32) -> Hand {
        let mut hand = Hand { buf: Some(Buf::Rest(text.into())), ..Hand::default() };
        hand.put(text.len());
        hand.run_end = run_end;
        hand
    }

    #[test]
    fn what_is_in_a_hand_is_the_same_in_a_smaller_buffer() {
        let pages = crate::pages::Pages::new(8192).expect("memory");
        let mut hand = Hand { buf: Some(Buf::Pages(pages)), ..hand(b"", 0) };
        let memory = hand.buf.as_mut().expect("a buffer").as_mut_slice();
        memory[..10].copy_from_slice(b"gone, rest");
        hand.put(10);
        hand.run_end = 8;
        hand.gone(6);
        let useless = hand.shrink().expect("the larger buffer");
        assert_eq!(useless.len_bytes(), 8192);
        assert_eq!((hand.held(), hand.run()), (&b"rest"[..], &b"re"[..]));
        assert_eq!(hand.buf.as_ref().map(Buf::len_bytes), Some(4));
        assert!(hand.shrink().is_none(), "it is as small as can be");
        assert_eq!((hand.held(), hand.run()), (&b"rest"[..], &b"re"[..]));
    }

    #[test]
    fn a_hand_is_full_until_all_of_it_is_gone() {
        let mut hand = hand(b"abc", 2);
        hand.gone(2);
        assert_eq!((hand.full, hand.held()), (true, &b"c"[..]));
        hand.gone(1);
        assert_eq!((hand.full, hand.held()), (false, &b""[..]));
        // An empty datagram fills a hand, too.
        hand.put(0);
        assert!(hand.full);
        assert!(hand.shrink().is_none(), "nothing is smaller");
        hand.clear();
        assert!(!hand.full);
    }
}
