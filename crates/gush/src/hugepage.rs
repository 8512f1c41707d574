//! Whether memory really is backed by huge pages: asked for is not given.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::pages::{HUGE_PAGE_BYTES, Pages};

/// How many of the whole 2 MiB stretches of `pages` are huge pages, and how many there are.
///
/// Looks each up in `/proc/self/pagemap` and `/proc/kpageflags`. Untouched memory has no page yet,
/// and counts as not huge.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN: frame numbers are hidden then, and read as 0.
pub fn count(pages: &Pages) -> io::Result<(usize, usize)> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let flags = File::open("/proc/kpageflags")?;
    let all = pages.len_bytes() / HUGE_PAGE_BYTES;
    let mut huge = 0;
    for index in 0..all {
        let address = pages.address() + index * HUGE_PAGE_BYTES;
        if is_huge(&pagemap, &flags, address)? {
            huge += 1;
        }
    }
    Ok((huge, all))
}

/// Bit 63 of a pagemap entry: the page is present; bits 0 to 54: the frame number.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// `KPF_HUGE` and `KPF_THP` (`include/uapi/linux/kernel-page-flags.h`).
const HUGE: u64 = 1 << 17 | 1 << 22;

fn is_huge(pagemap: &File, flags: &File, address: usize) -> io::Result<bool> {
    let page = (address / rustix::param::page_size()) as u64;
    let entry = word(pagemap, page)?;
    if entry & PRESENT == 0 {
        return Ok(false);
    }
    match entry & FRAME {
        0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "page frame numbers are shown to CAP_SYS_ADMIN only",
        )),
        frame => Ok(word(flags, frame)? & HUGE != 0),
    }
}

fn word(file: &File, index: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index * 8)?;
    Ok(u64::from_ne_bytes(bytes))
}
