//! A pattern for a pipe: `gush_reservoir`.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use engine::Errno;

use crate::boundary::{answer, bytes, descriptor, free, give, handle};
use crate::error::{Error, Status};

/// One pattern, written into pipes again and again without a copy.
#[derive(Debug)]
pub struct Reservoir(engine::pipe::Reservoir);

/// A reservoir of a pattern, in `*reservoir`. The pattern is copied. `pipe_bytes` is the size of
/// its private pipe, such as 65536; the pattern has to fit in.
///
/// # Safety
/// So many bytes of the pattern may be read. `reservoir` and `error` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_reservoir_new(
    pattern: *const c_void,
    pattern_bytes: usize,
    pipe_bytes: usize,
    reservoir: *mut *mut Reservoir,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        answer(error, || {
            give(reservoir, std::ptr::null_mut())?;
            let pattern = bytes(pattern.cast(), pattern_bytes)?;
            let made =
                engine::pipe::Reservoir::of(pattern, pipe_bytes).map_err(|errno| match errno {
                    Errno::INVAL => {
                        Error::invalid("the pattern is empty, or the pipe cannot hold it")
                    }
                    errno => Error::reserving(errno),
                })?;
            give(reservoir, Box::into_raw(Box::new(Reservoir(made))))
        })
    }
}

/// How many bytes one call pours at most; 0 for null.
///
/// # Safety
/// `reservoir` is null or a reservoir.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_reservoir_held_bytes(reservoir: *const Reservoir) -> u64 {
    // SAFETY: null or valid, by the caller's word.
    unsafe { reservoir.as_ref() }.map_or(0, |reservoir| reservoir.0.held_bytes())
}

type Pour = fn(&mut engine::pipe::Reservoir, &BorrowedFd<'_>, usize) -> Result<usize, Errno>;

/// # Safety
/// As the two functions below.
unsafe fn pour_by(
    pour: Pour,
    (reservoir, fd, most_bytes): (*mut Reservoir, c_int, usize),
    poured_bytes: *mut usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        answer(error, || {
            give(poured_bytes, 0)?;
            let into = descriptor(fd, "fd")?;
            let reservoir = &mut handle(reservoir)?.0;
            let poured = pour(reservoir, &into, most_bytes)
                .map_err(|errno| Error::writing(reservoir.next_call(), errno))?;
            give(poured_bytes, poured)
        })
    }
}

/// Pours at most `most_bytes` into the pipe `fd`, waiting for room. `*poured_bytes` is how many,
/// and may be fewer; the pattern goes on there with the next call.
///
/// # Safety
/// `reservoir` is a reservoir that no other thread uses now. The descriptor stays open meanwhile,
/// and the places may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_reservoir_pour(
    reservoir: *mut Reservoir,
    fd: c_int,
    most_bytes: usize,
    poured_bytes: *mut usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        pour_by(
            |from, into, most| from.pour_blocking(into, most),
            (reservoir, fd, most_bytes),
            poured_bytes,
            error,
        )
    }
}

/// As `gush_reservoir_pour`, but fails with EAGAIN in `os_errno` where the pipe is full.
///
/// # Safety
/// As `gush_reservoir_pour`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_reservoir_try_pour(
    reservoir: *mut Reservoir,
    fd: c_int,
    most_bytes: usize,
    poured_bytes: *mut usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        pour_by(
            |from, into, most| from.pour(into, most),
            (reservoir, fd, most_bytes),
            poured_bytes,
            error,
        )
    }
}

/// Frees a reservoir, or nothing if it is null.
///
/// # Safety
/// `reservoir` is null or a reservoir, and never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_reservoir_free(reservoir: *mut Reservoir) {
    // SAFETY: the caller's word.
    unsafe { free(reservoir) };
}
