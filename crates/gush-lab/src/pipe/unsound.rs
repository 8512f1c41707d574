//! The one deliberate breach of "a lent page is never written again", so that tests can measure and
//! catch the breach.
#![allow(unsafe_code)]

use gush::Lent;

/// Writes lent memory again, although a reader may still hold the pages.
///
/// Nothing reports when the last holder is done: a reader that spliced or teed the pages onward
/// sees the new bytes in place of the bytes sent.
pub(super) fn refill(lent: Lent, fill: impl FnOnce(&mut [u8])) -> Lent {
    // SAFETY: NOT upheld, on purpose: readers may hold the pages without having copied them. What
    // they see changes under them, which is what the hostile reader is there to catch. The memory
    // itself stays valid: it is owned by `pages`, mapped, and referred to by nobody else in this
    // process.
    let mut pages = unsafe { lent.reclaim_unchecked() };
    fill(pages.as_mut_slice());
    pages.lend()
}
