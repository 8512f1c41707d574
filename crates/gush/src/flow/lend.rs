//! Buffers and pipes, which a flow borrows while bytes are inside.

use rustix::io;

use crate::pages::{Lent, Pages};
use crate::pipe::{PipeLoan, Pool};

/// Memory between a flow's read and write.
#[derive(Debug)]
pub enum Buf {
    /// Page-aligned, kept on a shelf for the next flow.
    Pages(Pages),
    /// Pages perhaps held by a pipe, so that nobody may write to them.
    Lent(Lent),
    /// Only as large as the waiting bytes: a parked flow pins no more.
    Rest(Box<[u8]>),
}

impl Buf {
    /// The whole memory, filled or not.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Buf::Pages(pages) => pages.as_slice(),
            Buf::Lent(pages) => pages.as_slice(),
            Buf::Rest(rest) => rest,
        }
    }

    /// The memory, to be read into; empty where lent.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Buf::Pages(pages) => pages.as_mut_slice(),
            // Invariant 4, also against a driver that asks at the wrong time.
            Buf::Lent(_) => &mut [],
            Buf::Rest(rest) => rest,
        }
    }

    /// The same memory to write to, or none: pages perhaps held by a pipe are given away.
    pub(crate) fn renewed(self) -> Option<Self> {
        match self {
            // Lent pages are dropped and not used again: their holder may still read them.
            Buf::Lent(pages) => pages.renew().ok().map(Buf::Pages),
            buf => Some(buf),
        }
    }

    pub(super) fn can_be_filled(&self, bytes: usize) -> bool {
        !matches!(self, Buf::Lent(_)) && self.len_bytes() >= bytes
    }

    /// From here on the pages may be put into pipes, and not be written; `false` if there are none.
    pub(super) fn lend(&mut self) -> bool {
        if let Buf::Pages(_) = self
            && let Buf::Pages(pages) = std::mem::replace(self, Buf::Rest(Box::default()))
        {
            *self = Buf::Lent(pages.lend());
        }
        matches!(self, Buf::Lent(_))
    }

    /// Takes lent pages back: they went through a private, now empty pipe into regular files.
    pub(super) fn reclaim(&mut self) {
        if let Buf::Lent(_) = self
            && let Buf::Lent(pages) = std::mem::replace(self, Buf::Rest(Box::default()))
        {
            *self = Buf::Pages(pages.reclaim());
        }
    }

    /// The size in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.as_slice().len()
    }
}

/// Who lends means to a flow: a shelf of one thread, a test.
///
/// A buffer comes back by [`Lender::take_back`], or is dropped with the flow.
pub trait Lender {
    /// An empty pipe, or none when the budget is used up.
    fn pipe(&mut self) -> Option<PipeLoan>;

    /// Memory of at least `bytes`.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn buf(&mut self, bytes: usize) -> io::Result<Buf>;

    /// Memory no longer needed.
    fn take_back(&mut self, buf: Buf);
}

/// The means of one thread: a few buffers, and pipes from a pool shared by threads.
#[derive(Debug)]
pub struct Shelf {
    pool: Pool,
    bufs: Vec<Buf>,
}

impl Shelf {
    /// The smallest buffer of a shelf, so that one serves every flow: the largest datagram of UDP.
    pub const LEAST_BUF_BYTES: usize = 64 << 10;
    /// The most buffers on a shelf: for a flow, and for another flow driven by an observer.
    const MOST_BUFS: usize = 2;
    /// A larger buffer is freed on return: a thread would keep 8 MiB for ever.
    const MOST_KEPT_BYTES: usize = 1 << 20;

    /// An empty shelf over a pool.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool, bufs: Vec::new() }
    }
}

impl Lender for Shelf {
    fn pipe(&mut self) -> Option<PipeLoan> {
        self.pool.take()
    }

    fn buf(&mut self, bytes: usize) -> io::Result<Buf> {
        match self.bufs.pop() {
            // A smaller buffer is freed, so that small ones do not pile up.
            Some(buf) if buf.len_bytes() >= bytes => Ok(buf),
            _ => Pages::new(bytes.max(Self::LEAST_BUF_BYTES)).map(Buf::Pages),
        }
    }

    fn take_back(&mut self, buf: Buf) {
        if let Some(Buf::Pages(pages)) = buf.renewed()
            // One for each direction of a relay: more would only be memory at rest.
            && self.bufs.len() < Self::MOST_BUFS
            && pages.len_bytes() <= Self::MOST_KEPT_BYTES
        {
            self.bufs.push(Buf::Pages(pages));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lender, Pool, Shelf};

    #[test]
    fn a_large_buffer_is_not_kept() {
        let mut shelf = Shelf::new(Pool::new(0, 0));
        for (bytes, kept) in [(Shelf::MOST_KEPT_BYTES + 1, 0), (Shelf::MOST_KEPT_BYTES, 1)] {
            let buf = shelf.buf(bytes).expect("memory");
            shelf.take_back(buf);
            assert_eq!(shelf.bufs.len(), kept, "{bytes} bytes");
        }
    }
}
