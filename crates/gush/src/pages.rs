//! Page-aligned memory that can be lent to the kernel and given away.
//!
//! vmsplice(2) hands the kernel the pages themselves, and nothing reports when their last reader is
//! done. So the life of such memory is a type: [`Pages`] can be written, [`Pages::lend`] makes it
//! [`Lent`], which cannot, and the way back drops the lent pages first ([`Lent::renew`]): a reader
//! keeps the old content (invariant 4).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io;
use rustix::mm::Advice;
use rustix::pipe::SpliceFlags;

use crate::kernel::Kernel;
use crate::sys;

/// A transparent huge page on x86-64 and on arm64 with pages of 4 KiB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Anonymous, private, page-aligned memory, zero at first; unmapped when dropped.
///
/// ```
/// let mut pages = gush::Pages::new(5000)?;
/// assert_eq!(pages.len_bytes() % rustix::param::page_size(), 0);
/// pages.as_mut_slice()[..3].copy_from_slice(b"abc");
/// let lent = pages.lend();
/// assert_eq!(&lent.as_slice()[..3], b"abc");
/// let renewed = lent.renew()?;
/// assert_eq!(renewed.as_slice()[0], 0);
/// # Ok::<(), gush::Errno>(())
/// ```
///
/// Lent memory has no way to be written:
///
/// ```compile_fail,E0594
/// let lent = gush::Pages::new(4096).unwrap().lend();
/// lent.as_slice()[0] = 1;
/// ```
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is owned, seen alike by every thread, and reached only through borrows of
// `self`.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives shared slices, and no way to write.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `len_bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// `ENOMEM` from mmap(2).
    pub fn new(len_bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let len_bytes =
            // mmap(2) refuses a length of 0.
            len_bytes.max(1).checked_next_multiple_of(page_bytes).ok_or(io::Errno::NOMEM)?;
        let base = sys::map::anonymous(len_bytes)?;
        let base = NonNull::new(base.cast()).ok_or(io::Errno::NOMEM)?;
        Ok(Self { base, len_bytes })
    }

    /// Maps at least `len_bytes`, rounded up to huge pages of 2 MiB, aligned to them, and asks for
    /// them (`MADV_HUGEPAGE`). They may not come.
    ///
    /// # Errors
    /// `ENOMEM` from mmap(2); `EINVAL` from a kernel without transparent huge pages.
    ///
    /// ```
    /// let pages = gush::Pages::huge(gush::HUGE_PAGE_BYTES)?;
    /// assert_eq!(pages.address() as usize % gush::HUGE_PAGE_BYTES, 0);
    /// # Ok::<(), gush::Errno>(())
    /// ```
    pub fn huge(len_bytes: usize) -> io::Result<Self> {
        let len_bytes = len_bytes.max(1).checked_next_multiple_of(HUGE_PAGE_BYTES);
        let with_slack =
            // One huge page more, as mmap(2) aligns to a page; the slack goes back below.
            |len_bytes: usize| Some((len_bytes, len_bytes.checked_add(HUGE_PAGE_BYTES)?));
        let (len_bytes, mapped_bytes) = len_bytes.and_then(with_slack).ok_or(io::Errno::NOMEM)?;
        let mut pages = Self::new(mapped_bytes)?;
        pages.trim_to_alignment(len_bytes)?;
        // SAFETY: the advice concerns this owned mapping, and keeps its content.
        unsafe { sys::map::advise(pages.base.as_ptr().cast(), len_bytes, Advice::LinuxHugepage) }?;
        Ok(pages)
    }

    /// Keeps `len_bytes` from the first huge-page boundary on, and unmaps the rest.
    fn trim_to_alignment(&mut self, len_bytes: usize) -> io::Result<()> {
        let start = self.base.as_ptr() as usize;
        let head = start.next_multiple_of(HUGE_PAGE_BYTES) - start;
        // The tail first: then a failure leaves one mapping that `drop` still frees as a whole.
        self.unmap_from(head + len_bytes)?;
        if head > 0 {
            // SAFETY: the first `head` bytes are owned, and given up below; nothing refers into
            // them.
            unsafe { sys::map::unmap(self.base.as_ptr().cast(), head) }?;
            // SAFETY: `head` is less than what is mapped, so the pointer stays in it and is not
            // null.
            self.base = unsafe { self.base.add(head) };
            self.len_bytes = len_bytes;
        }
        Ok(())
    }

    /// Keeps the first `len_bytes` only.
    fn unmap_from(&mut self, len_bytes: usize) -> io::Result<()> {
        if len_bytes < self.len_bytes {
            // SAFETY: the range lies inside the owned mapping, and is given up below; nothing
            // refers into it.
            let tail = unsafe { self.base.add(len_bytes) };
            // SAFETY: as above.
            unsafe { sys::map::unmap(tail.as_ptr().cast(), self.len_bytes - len_bytes) }?;
            self.len_bytes = len_bytes;
        }
        Ok(())
    }

    /// Keeps the pages in memory (mlock(2)); locked pages cannot be given away by advice.
    ///
    /// # Errors
    /// `ENOMEM` or `EPERM` when `RLIMIT_MEMLOCK` is too small.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: locking changes neither content nor mapping.
        unsafe { sys::map::lock(self.base.as_ptr().cast(), self.len_bytes) }
    }

    /// Where the memory begins, to look pages up in `/proc/self/pagemap`.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// The size in bytes, a multiple of the page size.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The content.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is initialised (zero pages) and borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len_bytes) }
    }

    /// The content, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: invariant 4: pages that were lent come back only through `renew` or `reclaim`,
        // so this memory is nobody else's; `&mut self` makes the slice exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len_bytes) }
    }

    /// Lends a page to the pipe, stores into it, and returns whether the store shows at the other
    /// end.
    ///
    /// The only deliberate breach of invariant 4, on a page made, owned and freed by this function.
    ///
    /// # Errors
    /// The error of vmsplice(2) or `read_byte`.
    pub(crate) fn shows_later_store(
        to: BorrowedFd<'_>,
        read_byte: impl FnOnce(&mut u8) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut pages = Self::new(1)?;
        // Written before: the shared page of zeros would be lent otherwise.
        pages.as_mut_slice()[0] = 1;
        let lent = pages.lend();
        lent.splice_into(to, 0..1, false)?;
        // SAFETY: the mapping is live and owned; volatile, because the kernel may read it too.
        unsafe { lent.0.base.as_ptr().write_volatile(2) };
        let mut byte = 0;
        read_byte(&mut byte)?;
        Ok(byte == 2)
    }

    /// Puts pages into a pipe; only for types in which nobody can write to the pages from then on.
    fn vmsplice(
        &self,
        to: BorrowedFd<'_>,
        range: Range<usize>,
        gift: bool,
        mut flags: SpliceFlags,
    ) -> io::Result<usize> {
        let bytes = &self.as_slice()[range];
        flags.set(SpliceFlags::GIFT, gift);
        // SAFETY: invariant 4, upheld by `Lent` and `Strip`: nothing writes the pages until `renew`
        // has dropped them from this mapping, or `reclaim` knows that they were copied; unmapping
        // leaves the kernel's reference valid.
        unsafe { sys::pipe::vmsplice(to, bytes.as_ptr(), bytes.len(), flags) }
    }

    /// Drops the pages, whose holders keep them; the memory here is zero then.
    fn renew(self) -> io::Result<Self> {
        // Locked memory refuses the advice (EINVAL); the old mapping is then unmapped, whose pages
        // the holders keep.
        if Kernel::get().advice_drops_pages() && self.advise_away().is_ok() {
            Ok(self)
        } else {
            Pages::new(self.len_bytes)
        }
    }

    fn advise_away(&self) -> io::Result<()> {
        // SAFETY: the range is an owned private mapping without references into it.
        unsafe {
            sys::map::advise(self.base.as_ptr().cast(), self.len_bytes, Advice::LinuxDontNeed)
        }
    }

    /// Advises a written page away, and answers whether its content has gone.
    ///
    /// # Errors
    /// That of mmap(2) or madvise(2).
    pub(crate) fn are_dropped_by_advice() -> io::Result<bool> {
        let mut pages = Self::new(1)?;
        pages.as_mut_slice()[0] = 1;
        pages.advise_away()?;
        Ok(pages.as_slice()[0] == 0)
    }

    /// Stops all writing, so that the pages may be lent.
    ///
    /// ```
    /// let mut pages = gush::Pages::new(4096)?;
    /// pages.as_mut_slice()[..3].copy_from_slice(b"abc");
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let lent = pages.lend();
    /// let put = lent.splice_into(std::os::fd::AsFd::as_fd(&writer), 0..3, false)?;
    /// assert_eq!(put, 3);
    /// let _fresh = lent.renew()?; // a holder of the old pages keeps what was in them
    /// let mut seen = [0; 3];
    /// std::io::Read::read_exact(&mut reader, &mut seen)?;
    /// assert_eq!(&seen, b"abc");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn lend(self) -> Lent {
        Lent(self)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned; a page that the kernel still holds lives on without it.
        let _ = unsafe { sys::map::unmap(self.base.as_ptr().cast::<c_void>(), self.len_bytes) };
    }
}

/// Memory whose pages may be in the kernel's hands: to be read, lent and given away.
///
/// ```
/// let lent = gush::Pages::new(4096)?.lend();
/// assert_eq!(lent.as_slice()[0], 0);
/// # Ok::<(), gush::Errno>(())
/// ```
#[derive(Debug)]
pub struct Lent(Pages);

impl Lent {
    /// The content.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The memory, read-only.
    ///
    /// ```
    /// let lent = gush::Pages::new(4096)?.lend();
    /// assert_eq!(lent.pages().len_bytes(), 4096);
    /// # Ok::<(), gush::Errno>(())
    /// ```
    #[must_use]
    pub fn pages(&self) -> &Pages {
        &self.0
    }

    /// Puts the pages of `range` into the pipe `to` by vmsplice(2), without waiting; returns how
    /// many bytes.
    ///
    /// With `gift` (`SPLICE_F_GIFT`) start and length must be page-aligned.
    ///
    /// # Errors
    /// `EAGAIN` when the pipe is full; `EPERM`, `ENOSYS`, `EOPNOTSUPP` where vmsplice is denied.
    pub fn splice_into(
        &self,
        to: BorrowedFd<'_>,
        range: Range<usize>,
        gift: bool,
    ) -> io::Result<usize> {
        self.0.vmsplice(to, range, gift, SpliceFlags::NONBLOCK)
    }

    /// As [`Lent::splice_into`], but sleeps while the pipe is full, then puts as much as fits.
    ///
    /// # Errors
    /// As [`Lent::splice_into`], without `EAGAIN`; `EINTR` when a signal came.
    pub fn splice_into_waiting(
        &self,
        to: BorrowedFd<'_>,
        range: Range<usize>,
        gift: bool,
    ) -> io::Result<usize> {
        self.0.vmsplice(to, range, gift, SpliceFlags::empty())
    }

    /// Gives the pages away: their holders keep the content, this memory starts afresh from zero.
    ///
    /// `MADV_DONTNEED` on all pages; where the kernel refuses (locked memory), a new mapping.
    ///
    /// # Errors
    /// `ENOMEM` when the new mapping is refused.
    pub fn renew(self) -> io::Result<Pages> {
        self.0.renew()
    }

    /// Takes the pages back with their content although somebody may still read them.
    ///
    /// Published speed tests reuse their buffers like this, so that the damage can be measured;
    /// nothing sound is built on it.
    ///
    /// # Safety
    /// Every holder of the pages must have *copied* them, which no call reports: bytes that left
    /// the pipe may have been spliced or teed onward. Else a write changes what the holders see
    /// (invariant 4).
    #[must_use]
    pub unsafe fn reclaim_unchecked(self) -> Pages {
        self.0
    }

    /// Takes the pages back with their content, because every holder has *copied* them.
    ///
    /// This is known only if all bytes went through a private, now empty pipe into regular files,
    /// whose splice copies (`iter_file_splice_write` of `fs/splice.c`).
    pub(crate) fn reclaim(self) -> Pages {
        self.0
    }
}

/// Memory lent piece by piece from the start: the lent part can be read, the rest written.
///
/// ```
/// let page_bytes = rustix::param::page_size();
/// let mut strip = gush::Strip::new(gush::Pages::new(2 * page_bytes)?);
/// strip.rest_mut()[..3].copy_from_slice(b"abc");
/// strip.lend(3);
/// assert_eq!(&strip.lent()[..3], b"abc");
/// assert_eq!(strip.rest().len(), page_bytes);
/// # Ok::<(), gush::Errno>(())
/// ```
///
/// The lent part has no way to be written:
///
/// ```compile_fail,E0499
/// let mut strip = gush::Strip::new(gush::Pages::new(8192).unwrap());
/// let rest = strip.rest_mut();
/// strip.lend(3);
/// rest[0] = 1;
/// ```
#[derive(Debug)]
pub struct Strip {
    pages: Pages,
    lent_bytes: usize,
}

impl Strip {
    /// Of memory none of which is lent.
    #[must_use]
    pub fn new(pages: Pages) -> Self {
        Self { pages, lent_bytes: 0 }
    }

    /// The whole, to look pages up.
    #[must_use]
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The lent part.
    #[must_use]
    pub fn lent(&self) -> &[u8] {
        &self.pages.as_slice()[..self.lent_bytes]
    }

    /// The part not yet lent.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.pages.as_slice()[self.lent_bytes..]
    }

    /// The part not yet lent, to be written.
    #[inline]
    pub fn rest_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_slice()[self.lent_bytes..]
    }

    /// Lends the next `len_bytes` and the rest of their last page; returns where they are.
    pub fn lend(&mut self, len_bytes: usize) -> Range<usize> {
        let start = self.lent_bytes;
        // Saturating: a wrapped sum would make lent pages writable again.
        let end = self.pages.len_bytes().min(start.saturating_add(len_bytes));
        // The kernel refers to whole pages, so the rest of the last one must not be written either.
        self.lent_bytes = end.next_multiple_of(rustix::param::page_size());
        start..end
    }

    /// Puts lent bytes into the pipe `to` by vmsplice(2), without waiting; answers how many.
    ///
    /// # Errors
    /// As [`Lent::splice_into`].
    ///
    /// # Panics
    /// When part of `range` is not lent.
    pub fn splice_into(&self, to: BorrowedFd<'_>, range: Range<usize>) -> io::Result<usize> {
        // A panic, not an error: writing there would silently break the promise to the reader.
        assert!(range.end <= self.lent_bytes, "only what is lent may be put into a pipe");
        self.pages.vmsplice(to, range, false, SpliceFlags::NONBLOCK)
    }

    /// Gives the lent pages away, and starts afresh from zero with none lent.
    ///
    /// # Errors
    /// As [`Lent::renew`].
    pub fn renew(self) -> io::Result<Self> {
        self.pages.renew().map(Self::new)
    }
}

#[cfg(all(test, feature = "faults"))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::faults::{Injection, Plan};
    use crate::{Call, Errno};

    fn is_mapped(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("proc");
        maps.lines().any(|line| {
            let (start, end) =
                line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let number = |text| usize::from_str_radix(text, 16).expect("an address");
            (number(start)..number(end)).contains(&address)
        })
    }

    #[test]
    fn memory_that_could_not_be_trimmed_takes_no_memory_of_others_with_it() {
        // No multiple of a huge page: the kernel aligns those by itself since Linux 6.7.
        let mut pages = Pages::new(2 * HUGE_PAGE_BYTES + 4096).expect("memory");
        while pages.address().is_multiple_of(HUGE_PAGE_BYTES) {
            pages = Pages::new(2 * HUGE_PAGE_BYTES + 4096).expect("memory");
        }
        let (sender, receiver) = mpsc::channel();
        let plan = Plan::new(move |call, nth| {
            if (call, nth) != (Call::Munmap, 1) {
                return Injection::None;
            }
            // Others take the addresses that the first call gave up, before the second one fails.
            let others = || (0..2000).map(|_| Pages::new(4096)).collect::<io::Result<Vec<_>>>();
            let others = thread::spawn(others).join().expect("a thread").expect("memory");
            sender.send(others).expect("a test that listens");
            Injection::Fail(Errno::NOMEM)
        });
        let guard = plan.install();
        assert_eq!(pages.trim_to_alignment(HUGE_PAGE_BYTES).err(), Some(Errno::NOMEM));
        drop(pages);
        drop(guard);
        for other in receiver.recv().expect("others") {
            assert!(is_mapped(other.address()), "{:x} is gone", other.address());
        }
    }
}
