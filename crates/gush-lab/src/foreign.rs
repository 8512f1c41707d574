//! C functions without a safe binding: stdio streams, whole-file mappings, cachestat(2), the
//! kernel's own test of pages, wait4(2), perf_event_open(2).
//!
//! The only module of the suites with `unsafe`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr::{self, NonNull};

use libc::{c_int, c_void};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::runner::Usage;

/// A stream of the C library (fopen(3)), closed when dropped.
struct Stream(NonNull<libc::FILE>);

impl Stream {
    fn open(path: &Path, mode: &CStr) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: both are strings that end with a zero byte and live longer than the call.
        let stream = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        NonNull::new(stream).map(Self).ok_or_else(io::Error::last_os_error)
    }

    /// The error of the stream (ferror(3)); an end of file is none.
    fn check(&self) -> io::Result<()> {
        // SAFETY: the stream is open for as long as `self`.
        if unsafe { libc::ferror(self.0.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Writes the rest of the buffer.
    fn close(self) -> io::Result<()> {
        let stream = self.0;
        std::mem::forget(self);
        // SAFETY: the stream is open, and nobody uses it afterwards: its owner was forgotten.
        if unsafe { libc::fclose(stream.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and nobody uses it afterwards.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

/// Copies piece by piece until `copy` has read nothing, or written less; answers the bytes.
fn copy_streams(
    source: &Path,
    target: &Path,
    mut copy: impl FnMut(&Stream, &Stream) -> (usize, usize),
) -> io::Result<u64> {
    let (from, to) = (Stream::open(source, c"r")?, Stream::open(target, c"w")?);
    let mut bytes = 0;
    loop {
        let (got, put) = copy(&from, &to);
        bytes += put as u64;
        if got == 0 || put < got {
            break;
        }
    }
    from.check()?;
    to.check()?;
    to.close()?;
    Ok(bytes)
}

/// Copies by fgetc(3) and fputc(3), a character at a time; answers the bytes.
pub(crate) fn copy_by_characters(source: &Path, target: &Path) -> io::Result<u64> {
    copy_streams(source, target, |from, to| {
        // SAFETY: `from` is open.
        match unsafe { libc::fgetc(from.0.as_ptr()) } {
            libc::EOF => (0, 0),
            // SAFETY: `to` is open.
            got => (1, usize::from(unsafe { libc::fputc(got, to.0.as_ptr()) } != libc::EOF)),
        }
    })
}

/// Copies by fread(3) and fwrite(3), `block_bytes` at a time; answers the bytes.
pub(crate) fn copy_by_blocks(source: &Path, target: &Path, block_bytes: usize) -> io::Result<u64> {
    let mut block = vec![0_u8; block_bytes];
    copy_streams(source, target, |from, to| {
        // SAFETY: `from` is open, and `block` holds `block_bytes` bytes that nobody else refers to.
        let got =
            unsafe { libc::fread(block.as_mut_ptr().cast(), 1, block_bytes, from.0.as_ptr()) };
        // SAFETY: `to` is open, and `got` bytes of `block` were read into it.
        let put = unsafe { libc::fwrite(block.as_ptr().cast(), 1, got, to.0.as_ptr()) };
        (got, put)
    })
}

/// A whole file in memory, unmapped when dropped.
struct Mapping {
    base: *mut c_void,
    len_bytes: usize,
}

impl Mapping {
    fn of(file: &File, len_bytes: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(ptr::null_mut(), len_bytes, prot, MapFlags::SHARED, file, 0) }?;
        Ok(Self { base, len_bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and no reference into it exists.
        let _ = unsafe { munmap(self.base, self.len_bytes) };
    }
}

/// Maps both files whole and copies memory (memcpy(3)); answers the bytes.
///
/// If another process truncates a file meanwhile, SIGBUS ends this process, as it does the
/// textbook's; the engine's `mmap-copy` survives.
pub(crate) fn copy_by_whole_mappings(source: &File, target: &File) -> io::Result<u64> {
    let bytes = source.metadata()?.len();
    let Ok(len_bytes @ 1..) = usize::try_from(bytes) else { return Ok(0) };
    target.set_len(bytes)?;
    let from = Mapping::of(source, len_bytes, ProtFlags::READ)?;
    let to = Mapping::of(target, len_bytes, ProtFlags::READ | ProtFlags::WRITE)?;
    // SAFETY: both mappings are `len_bytes` long, live, and apart; no Rust reference into either
    // exists.
    unsafe { ptr::copy_nonoverlapping(from.base.cast::<u8>(), to.base.cast(), len_bytes) };
    Ok(bytes)
}

/// How many pages of a file the page cache holds.
///
/// By cachestat(2) (Linux 6.5), before that by mincore(2), which needs write permission.
pub(crate) fn cached_pages(file: &File) -> io::Result<u64> {
    match cachestat(file) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => mincore(file),
        answer => answer,
    }
}

fn cachestat(file: &File) -> io::Result<u64> {
    /// The same on every architecture (`scripts/syscall.tbl`).
    const CACHESTAT: libc::c_long = 451;
    // `struct cachestat_range` and `struct cachestat` (`include/uapi/linux/mman.h`); a length of 0
    // means up to the end.
    let range = [0_u64; 2];
    let mut stat = [0_u64; 5];
    // SAFETY: the kernel reads two words of `range` and writes five of `stat`, which both live
    // longer than the call.
    let answer = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0_u32)
    };
    if answer == 0 { Ok(stat[0]) } else { Err(io::Error::last_os_error()) }
}

fn mincore(file: &File) -> io::Result<u64> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if bytes == 0 {
        return Ok(0);
    }
    let mapping = Mapping::of(file, bytes, ProtFlags::READ)?;
    let mut pages = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
    // SAFETY: the mapping is `bytes` long, and `pages` has a byte for each of its pages.
    let answer = unsafe { libc::mincore(mapping.base, bytes, pages.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(pages.iter().filter(|page| **page & 1 != 0).count() as u64)
}

/// Reaps a child (wait4(2)): the exit status, and the resources used by it and its reaped children.
///
/// Blocks for as long as the child runs.
pub(crate) fn wait4(child: u32) -> io::Result<(ExitStatus, Usage)> {
    let child = libc::pid_t::try_from(child).map_err(io::Error::other)?;
    let mut status: c_int = 0;
    // SAFETY: a structure of numbers, of which each may be zero.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the kernel writes one number and one structure, which both live longer than the
        // call.
        let answer = unsafe { libc::wait4(child, &raw mut status, 0, &raw mut used) };
        if answer == child {
            return Ok((ExitStatus::from_raw(status), Usage::from(&used)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// `struct perf_event_attr` in its first form (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Debug, Default)]
struct EventAttributes {
    kind: u32,
    size_bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// An event counted in the processes that this thread starts, from their execve(2) to their end
/// (perf_event_open(2)).
#[derive(Debug)]
pub(crate) struct PerfEvent(OwnedFd);

impl PerfEvent {
    /// An event of the processor, by its number in `perf_hw_id`.
    pub(crate) fn hardware(event: u64) -> io::Result<Self> {
        const HARDWARE: u32 = 0;
        Self::open(HARDWARE, event)
    }

    fn open(kind: u32, config: u64) -> io::Result<Self> {
        /// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
        const TIMES: u64 = 1 | 2;
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        // A field of bits, which begins with the highest on such machines.
        let bit = |place: u32| 1 << if cfg!(target_endian = "big") { 63 - place } else { place };
        let (disabled, inherit, enable_on_exec) = (bit(0), bit(1), bit(12));
        let attributes = EventAttributes {
            kind,
            size_bytes: size_of::<EventAttributes>() as u32,
            config,
            read_format: TIMES,
            flags: disabled | inherit | enable_on_exec,
            ..EventAttributes::default()
        };
        let (own, any_processor, no_group): (libc::pid_t, c_int, c_int) = (0, -1, -1);
        // SAFETY: the kernel reads as many bytes of the structure as it says, which lives longer
        // than the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                own,
                any_processor,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        match c_int::try_from(fd) {
            // SAFETY: the call has opened it, and nobody else knows of it.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The count in all processes that have ended, scaled up if other events had the counter for a
    /// part of the time; none if it never counted.
    pub(crate) fn count(&self) -> Option<f64> {
        let mut bytes = [0; 3 * size_of::<u64>()];
        rustix::io::read(&self.0, &mut bytes).ok().filter(|&read| read == bytes.len())?;
        let word = |at: usize| {
            let bytes = bytes[8 * at..][..8].try_into().unwrap_or_default();
            u64::from_ne_bytes(bytes) as f64
        };
        let [count, enabled, running] = [0, 1, 2].map(word);
        (running > 0.0).then(|| count * enabled / running)
    }
}

/// `struct gup_test` (`mm/gup_test.h`).
#[repr(C)]
#[derive(Debug, Default)]
struct GupTest {
    get_delta_us: u64,
    put_delta_us: u64,
    address: u64,
    size_bytes: u64,
    pages_per_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
}

/// Microseconds that `get_user_pages_fast` takes for `memory` in the kernel, by the kernel's own
/// test (`/sys/kernel/debug/gup_test`, CONFIG_GUP_TEST), 512 pages a call.
pub(crate) fn gup_fast_us(test: BorrowedFd<'_>, memory: &[u8]) -> io::Result<u64> {
    /// `GUP_FAST_BENCHMARK`: `_IOWR('g', 1, struct gup_test)`.
    const REQUEST: u64 = 3 << 30 | (size_of::<GupTest>() as u64) << 16 | (b'g' as u64) << 8 | 1;
    let mut test_of = GupTest {
        address: memory.as_ptr() as u64,
        size_bytes: memory.len() as u64,
        pages_per_call: 512,
        ..GupTest::default()
    };
    // SAFETY: the request says how large the structure is that the kernel reads and writes back;
    // the pages of `memory` are only looked up and let go, and are borrowed meanwhile.
    let answer: c_int =
        unsafe { libc::ioctl(test.as_raw_fd(), REQUEST as _, ptr::from_mut(&mut test_of)) };
    if answer == 0 { Ok(test_of.get_delta_us) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Of the software's events, which every machine has; those of the processor differ in number.
    #[test]
    fn an_event_counts_in_ended_children_alone() {
        const SOFTWARE: u32 = 1;
        const PAGE_FAULTS: u64 = 2;
        let event = match PerfEvent::open(SOFTWARE, PAGE_FAULTS) {
            Err(error)
                if [Some(libc::EACCES), Some(libc::EPERM)].contains(&error.raw_os_error()) =>
            {
                return gush_test::skipped(&format!("perf_event_open: {error}"));
            }
            event => event.unwrap(),
        };
        drop(vec![1_u8; 8 << 20]);
        assert_eq!(event.count(), None, "nothing of this process");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (_, used) = wait4(child.id()).unwrap();
        // Reaped already.
        let _ = child.try_wait();
        let counted = event.count().unwrap();
        assert!(counted > 10.0 && counted <= (used.minor_faults + used.major_faults) as f64);
    }

    #[test]
    fn cachestat_and_mincore_agree() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let pages = 100_000_u64.div_ceil(rustix::param::page_size() as u64);
        assert_eq!(mincore(&file).unwrap(), pages);
        assert_eq!(cached_pages(&file).unwrap(), pages);
    }

    #[test]
    fn streams_and_mappings_copy_everything() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("a"), dir.path().join("b"));
        let bytes: Vec<u8> = (0..70_001_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&source, &bytes).unwrap();
        let same = |copied: io::Result<u64>| {
            assert_eq!(copied.unwrap(), bytes.len() as u64);
            assert!(std::fs::read(&target).unwrap() == bytes);
            std::fs::remove_file(&target).unwrap();
        };
        same(copy_by_characters(&source, &target));
        same(copy_by_blocks(&source, &target, 1000));
        let from = File::open(&source).unwrap();
        let to = File::options().read(true).write(true).create_new(true).open(&target).unwrap();
        same(copy_by_whole_mappings(&from, &to));
    }

    #[test]
    fn streams_report_full_disks() {
        let full = Path::new("/dev/full");
        let source = std::env::current_exe().unwrap();
        for answer in [copy_by_characters(&source, full), copy_by_blocks(&source, full, 4096)] {
            assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        }
    }
}
