//! Getting pages, in this process, under a clock that runs during the calls alone.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gush::{HUGE_PAGE_BYTES, Lent, Pages};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};

use super::{Lending, Taker, gup_test};
use crate::model::Measured;
use crate::{Error, foreign};

/// The bytes of one call, all of which the pipe holds: 64 slots of 4 KiB.
const CALL_BYTES: usize = 256 << 10;
/// The bytes of one pass.
const FIELD_BYTES: usize = 64 << 20;
/// The bytes of a measurement by default.
pub(super) const BYTES: u64 = 2 << 30;
/// The unit of a pipe's slot and of the cost, whichever page size backs the memory.
const PAGE_BYTES: u64 = 4096;

/// Measures in this process, over `bytes` or 2 GiB.
pub fn once(lending: &Lending, bytes: Option<u64>) -> Result<Measured, Error> {
    if !lending.huge {
        // Where huge pages come to everybody ("always"), small ones must be asked for.
        nix::sys::prctl::set_thp_disable(true).map_err(|errno| {
            Error::failed("cannot ask for pages of 4 KiB", io::Error::from(errno))
        })?;
    }
    let passes = bytes.unwrap_or(BYTES).div_ceil(FIELD_BYTES as u64);
    let cost = match lending.taker {
        Taker::Vmsplice => by_vmsplice(lending, passes)?,
        Taker::GupTest => by_gup_test(lending, passes)?,
    };
    let bytes = passes * FIELD_BYTES as u64;
    let per_page = |took: Duration| took.as_secs_f64() * 1e9 / (bytes / PAGE_BYTES) as f64;
    Ok(Measured::timed(bytes, cost.getting.as_secs_f64())
        .with("memory", if lending.touched { "touched" } else { "untouched" })
        .with("page_bytes", if lending.huge { HUGE_PAGE_BYTES as u64 } else { PAGE_BYTES })
        .with("ns_per_page", per_page(cost.getting))
        .with("drop_ns_per_page", cost.dropping.map(per_page))
        .with("huge_checked", cost.huge_checked))
}

struct Cost {
    getting: Duration,
    dropping: Option<Duration>,
    /// Whether the page size was checked, which needs root.
    huge_checked: bool,
}

fn by_vmsplice(lending: &Lending, passes: u64) -> Result<Cost, Error> {
    let pipe = Pipe::new()?;
    let (mut lent, mut huge_checked) = field(lending)?;
    let (mut getting, mut dropping) = (Duration::ZERO, Duration::ZERO);
    for pass in 0..passes {
        for start in (0..FIELD_BYTES).step_by(CALL_BYTES) {
            let began = Instant::now();
            let put = lent
                .splice_into(pipe.to.as_fd(), start..start + CALL_BYTES, false)
                .map_err(|errno| Error::failed("vmsplice is refused here", errno))?;
            let got = Instant::now();
            if put != CALL_BYTES {
                return Err(Error::refused(format!("the pipe took {put} bytes of {CALL_BYTES}")));
            }
            pipe.drop_all(put)?;
            getting += got - began;
            dropping += got.elapsed();
        }
        if !lending.touched {
            // What was never touched has no pages to look at before the kernel has got them.
            if pass == 0 {
                huge_checked = check(lending, lent.pages())?;
            }
            // Fresh again: what was only looked at maps the one page of zeros.
            let renewed = lent.renew().map_err(|errno| Error::failed("no new memory", errno))?;
            lent = renewed.lend();
        }
    }
    Ok(Cost { getting, dropping: Some(dropping), huge_checked })
}

/// Memory to lend, touched or not; and whether the page size was checked.
fn field(lending: &Lending) -> Result<(Lent, bool), Error> {
    let made = if lending.huge { Pages::huge(FIELD_BYTES) } else { Pages::new(FIELD_BYTES) };
    let mut pages = made.map_err(|errno| Error::failed("no memory of that kind", errno))?;
    if !lending.touched {
        return Ok((pages.lend(), false));
    }
    pages.as_mut_slice().fill(1);
    let checked = check(lending, &pages)?;
    Ok((pages.lend(), checked))
}

/// Whether the pages have the expected size; false where the check is not allowed.
///
/// Memory that was only read is backed by the one page of zeros, of 4 KiB or of 2 MiB
/// (`use_zero_page` of `admin-guide/mm/transhuge.rst`).
fn check(lending: &Lending, pages: &Pages) -> Result<bool, Error> {
    match gush::hugepage::count(pages) {
        Ok((huge, all)) if lending.huge && huge < all => Err(Error::refused(format!(
            "{huge} of {all} huge pages came: see /sys/kernel/mm/transparent_hugepage/enabled{}",
            if lending.touched { "" } else { " and use_zero_page next to it" }
        ))),
        Ok((huge, _)) if !lending.huge && huge > 0 => {
            Err(Error::refused(format!("{huge} huge pages came where none was wanted")))
        }
        Ok(_) => Ok(true),
        // Frame numbers are shown to root only.
        Err(_) => Ok(false),
    }
}

/// A pipe that holds one call, and the target of its bytes.
struct Pipe {
    from: PipeReader,
    to: PipeWriter,
    null: File,
}

impl Pipe {
    fn new() -> Result<Self, Error> {
        let failed = |error| Error::failed("no pipe of 256 KiB", error);
        let (from, to) = io::pipe().map_err(failed)?;
        fcntl_setpipe_size(&to, CALL_BYTES).map_err(|errno| failed(errno.into()))?;
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .map_err(|error| Error::failed("cannot open /dev/null", error))?;
        Ok(Self { from, to, null })
    }

    fn drop_all(&self, bytes: usize) -> Result<(), Error> {
        let mut left = bytes;
        while left > 0 {
            match splice(&self.from, None, &self.null, None, left, SpliceFlags::MOVE) {
                Ok(0) => return Err(Error::refused("the pipe lost bytes")),
                Ok(dropped) => left -= dropped,
                Err(errno) => return Err(Error::failed("cannot splice to /dev/null", errno)),
            }
        }
        Ok(())
    }
}

fn by_gup_test(lending: &Lending, passes: u64) -> Result<Cost, Error> {
    let test = gup_test()?;
    let (memory, huge_checked) = field(lending)?;
    let mut getting = Duration::ZERO;
    for _ in 0..passes {
        let took_us = foreign::gup_fast_us(test.as_fd(), memory.as_slice())
            .map_err(|error| Error::failed("the kernel's own test failed", error))?;
        getting += Duration::from_micros(took_us);
    }
    Ok(Cost { getting, dropping: None, huge_checked })
}
