//! A program's buffer, as the options ask: huge, checked, locked, touched or not.

use gush::{Errno, Pages};

use super::options::Shared;
use super::pattern::Pattern;
use crate::Error;

/// Memory of at least `len_bytes`, filled with the beginning of `pattern` unless the options say
/// untouched.
pub(super) fn allocate(
    len_bytes: usize,
    options: &Shared,
    pattern: Pattern,
) -> Result<Pages, Error> {
    let mut pages = if options.huge_page {
        Pages::huge(len_bytes).map_err(|errno| {
            Error::failed("no huge pages can be asked for here: leave out --huge-page", errno)
        })?
    } else {
        Pages::new(len_bytes).map_err(|errno| {
            Error::failed(format!("no memory for a buffer of {len_bytes} bytes"), errno)
        })?
    };
    if options.lock_memory {
        pages.lock().map_err(|errno| lock_refused(errno, pages.len_bytes()))?;
    }
    if !options.dont_touch_pages {
        pattern.fill(0, pages.as_mut_slice());
    }
    if options.check_huge_page {
        check_huge(&pages)?;
    }
    Ok(pages)
}

fn lock_refused(errno: Errno, len_bytes: usize) -> Error {
    Error::failed(
        format!(
            "cannot lock {len_bytes} bytes of memory: raise the limit (ulimit -l, RLIMIT_MEMLOCK), take a smaller --buffer-size, or leave out --lock-memory"
        ),
        errno,
    )
}

/// From now on this process gets pages of the usual size alone (PR_SET_THP_DISABLE of prctl(2)).
pub fn without_huge_pages() -> Result<(), Error> {
    nix::sys::prctl::set_thp_disable(true).map_err(|errno| {
        let why = std::io::Error::from(errno);
        Error::failed("huge pages cannot be kept away: leave out --no-huge-page", why)
    })
}

/// Makes sure that huge pages back all of `pages`.
pub(super) fn check_huge(pages: &Pages) -> Result<(), Error> {
    match gush::hugepage::count(pages) {
        Ok((huge, all)) if huge == all => Ok(()),
        Ok((huge, all)) => Err(Error::refused(format!(
            "no huge page: only {huge} of {all} stretches of 2 MiB have one; see /sys/kernel/mm/transparent_hugepage/enabled, free memory, or leave out --check-huge-page"
        ))),
        Err(error) => Err(Error::failed(
            "cannot check for huge pages: /proc/kpageflags is for root; run as root, or leave out --check-huge-page",
            error,
        )),
    }
}
