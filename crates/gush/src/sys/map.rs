//! Windows onto files: mapped memory that another process may change or truncate at any time.
//!
//! No reference into a window ever exists. Bytes pass through the kernel, which answers EFAULT for
//! a page that a truncation took away, or through [`Window::copy_to`], which survives SIGBUS.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::io::{self, Errno, retry_on_intr};
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use super::data::{self, Nowait};
use super::seam::{plain, sized};
use super::{Call, sigbus};
use crate::fault::Fault;
use crate::port::Side;

/// Anonymous, private memory, to be read and written (mmap(2)).
pub(crate) fn anonymous(len: usize) -> io::Result<*mut c_void> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    plain(Call::Mmap, || {
        // SAFETY: a new mapping at an address of the kernel's choice: nothing else is there.
        unsafe { mm::mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE) }
    })
}

/// # Safety
/// The range must belong to the caller, and nothing may refer into the range any more (munmap(2)).
pub(crate) unsafe fn unmap(base: *mut c_void, len: usize) -> io::Result<()> {
    // SAFETY: promised by the caller.
    plain(Call::Munmap, || unsafe { mm::munmap(base, len) })
}

/// # Safety
/// The range must belong to the caller; where the advice drops content, as `MADV_DONTNEED` does,
/// nothing may rely on the content any more (madvise(2)).
pub(crate) unsafe fn advise(base: *mut c_void, len: usize, advice: Advice) -> io::Result<()> {
    // SAFETY: promised by the caller.
    let call = |len| unsafe { mm::madvise(base, len, advice) }.map(|()| 0);
    // As a call of so many bytes, so that a test's plan can answer 0 in the place of the kernel.
    retry_on_intr(|| sized(Call::Madvise, len, call)).map(drop)
}

/// # Safety
/// The range must belong to the caller (mlock(2)).
pub(crate) unsafe fn lock(base: *mut c_void, len: usize) -> io::Result<()> {
    // SAFETY: promised by the caller.
    plain(Call::Mlock, || unsafe { mm::mlock(base, len) })
}

/// Who stores into a target's window; the kind decides the size of the folios to wish for.
///
/// ext4 walks all blocks of a folio at the first store to each of its pages (`block_page_mkwrite`
/// of fs/buffer.c). Stores of user space find every page that way, so large folios cost four times
/// as much as small ones there (1 GiB: 4.6 s and 1.1 s); `pread` into the window gains from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilledBy {
    Kernel,
    UserSpace,
}

/// Part of a file, mapped; unmapped when dropped.
pub(crate) struct Window {
    base: *mut c_void,
    mapped_bytes: usize,
    /// Where the requested range begins, from the page boundary below it.
    slack_bytes: usize,
}

// SAFETY: a window owns its mapping, which every thread of the process sees alike.
unsafe impl Send for Window {}

impl Window {
    /// Maps `len` bytes of a source at any offset, for reading.
    pub(crate) fn of_source(fd: BorrowedFd<'_>, at: u64, len: usize) -> io::Result<Self> {
        let window = Self::map(fd, at, len, ProtFlags::READ)?;
        // Read once, from front to back: read-ahead may be long, and pages already read may go.
        window.advise(Advice::Sequential);
        Ok(window)
    }

    /// Maps `len` bytes of a target at any offset; the file must already be that large.
    pub(crate) fn of_target(
        fd: BorrowedFd<'_>,
        at: u64,
        len: usize,
        filled_by: FilledBy,
    ) -> io::Result<Self> {
        let window = Self::map(fd, at, len, ProtFlags::READ | ProtFlags::WRITE)?;
        window.advise(match filled_by {
            // read(2) into the window faults page after page: huge ones save most of the faults.
            FilledBy::Kernel => Advice::LinuxHugepage,
            // No read-ahead: every page of the target is about to be overwritten.
            FilledBy::UserSpace => Advice::Random,
        });
        Ok(window)
    }

    fn map(fd: BorrowedFd<'_>, at: u64, len: usize, prot: ProtFlags) -> io::Result<Self> {
        // mmap(2) takes offsets of whole pages, so the window begins up to a page before the bytes.
        let slack_bytes = usize::try_from(at % rustix::param::page_size() as u64).unwrap_or(0);
        let mapped_bytes = len + slack_bytes;
        let base = plain(Call::Mmap, || {
            // SAFETY: a new mapping at an address of the kernel's choice, owned by the window.
            unsafe {
                mm::mmap(
                    ptr::null_mut(),
                    mapped_bytes,
                    prot,
                    // Shared, also for a source: a private mapping may or may not show later
                    // changes (mmap(2)), and needs no less memory.
                    MapFlags::SHARED,
                    fd,
                    at - slack_bytes as u64,
                )
            }
        })?;
        Ok(Self { base, mapped_bytes, slack_bytes })
    }

    fn advise(&self, advice: Advice) {
        // Advice only; a kernel that refuses it loses speed, not bytes.
        // SAFETY: the range is this window's own mapping and the advice keeps its content.
        let _ = unsafe { advise(self.base, self.mapped_bytes, advice) };
    }

    pub(crate) fn len(&self) -> usize {
        self.mapped_bytes - self.slack_bytes
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        // An assertion: everything unsafe below rests on this check.
        assert!(end.is_some_and(|end| end <= self.len()), "a range outside the window");
        // SAFETY: checked to lie inside the mapping.
        unsafe { self.base.cast::<u8>().add(self.slack_bytes + offset) }
    }

    /// Writes part of the window to a descriptor; the kernel copies.
    pub(crate) fn write(
        &self,
        offset: usize,
        len: usize,
        to: BorrowedFd<'_>,
        at: Option<u64>,
        nowait: Nowait,
    ) -> io::Result<usize> {
        // SAFETY: `at` checked the range, and the borrow keeps it mapped for the call.
        unsafe { data::write_raw(to, self.at(offset, len), len, at, nowait) }
    }

    /// Reads from a file at `from_at` into part of the window; the kernel copies.
    pub(crate) fn pread(
        &mut self,
        offset: usize,
        len: usize,
        from: BorrowedFd<'_>,
        from_at: u64,
    ) -> io::Result<usize> {
        // SAFETY: `at` checked the range, and the borrow keeps it mapped for the call; no reference
        // into a window ever exists.
        unsafe { data::pread_raw(from, self.at(offset, len), len, from_at) }
    }

    /// Copies `len` bytes into another window, in user space.
    ///
    /// # Errors
    /// `EFAULT`, with the side, when either file was truncated below the range meanwhile (SIGBUS
    /// was caught).
    pub(crate) fn copy_to(
        &self,
        offset: usize,
        target: &mut Window,
        target_offset: usize,
        len: usize,
    ) -> Result<usize, Fault> {
        let mut side = Side::Source;
        let copied = sized(Call::Memcpy, len, |len| {
            let from = self.at(offset, len);
            let to = target.at(target_offset, len);
            // Two guards, so that the error names the file that was truncated.
            let guards = [
                sigbus::Guard::over(self.base as usize, self.mapped_bytes)?,
                sigbus::Guard::over(target.base as usize, target.mapped_bytes)?,
            ];
            // Other processes may write both ranges meanwhile, which changes bytes and nothing
            // else. SAFETY: `at` checked both ranges, which stay mapped while both windows are
            // borrowed, lie in different mappings, and have no reference into them; a fault at a
            // page that was truncated finds zeros there.
            unsafe { libc::memcpy(to.cast(), from.cast(), len) };
            match guards.each_ref().map(sigbus::Guard::was_hit) {
                [false, false] => Ok(len),
                [source_hit, _] => {
                    side = if source_hit { Side::Source } else { Side::Target };
                    Err(Errno::FAULT)
                }
            }
        });
        copied.map_err(|errno| Fault { call: Call::Memcpy, side, errno })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is this window's own and nothing refers into it any more.
        let _ = unsafe { unmap(self.base, self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// The page that takes the lost one's place holds zeros, which are no bytes of the file.
    #[test]
    fn a_copy_from_or_to_a_truncated_file_is_an_error_of_that_side() {
        const BYTES: usize = 1 << 16;
        for side in [Side::Source, Side::Target] {
            let files = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
            for file in &files {
                file.set_len(BYTES as u64).expect("room");
            }
            let [source, target] = &files;
            let from = Window::of_source(source.as_fd(), 0, BYTES).expect("a mapping");
            let mut to = Window::of_target(target.as_fd(), 0, BYTES, FilledBy::UserSpace)
                .expect("a mapping");
            files[side as usize].set_len(0).expect("cut");
            let fault = from.copy_to(0, &mut to, 0, BYTES).expect_err("its pages are gone");
            assert_eq!((fault.side, fault.errno), (side, Errno::FAULT));
        }
    }
}
