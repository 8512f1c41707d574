//! What passes the boundary: no panic outwards, and pointers inwards only after a look.

use std::os::fd::{BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Status};

/// Runs a call, and reports its outcome in the return value and in `report`, which may be null.
///
/// # Safety
/// `report` is null, or may be written.
pub(crate) unsafe fn answer(
    report: *mut Error,
    call: impl FnOnce() -> Result<(), Error>,
) -> Status {
    // A handle is only freed after a panic: the header says so.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Error::panicked()));
    let error = outcome.err().unwrap_or_else(Error::none);
    if !report.is_null() {
        // SAFETY: not null, and the caller lets us write there.
        unsafe { report.write(error) };
    }
    error.status
}

/// A descriptor of the caller.
///
/// # Safety
/// The descriptor stays open as long as the answer is used.
pub(crate) unsafe fn descriptor<'a>(fd: RawFd, name: &str) -> Result<BorrowedFd<'a>, Error> {
    if fd < 0 {
        return Err(Error::invalid(&format!("{name} is {fd}, which is not a descriptor")));
    }
    // SAFETY: not -1, and the caller keeps the descriptor open.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// A handle of the caller.
///
/// # Safety
/// `handle` is null, or came from the function that makes such handles, was not freed, and nobody
/// else uses it now.
pub(crate) unsafe fn handle<'a, T>(handle: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: null or valid, and nobody else's now.
    unsafe { handle.as_mut() }.ok_or_else(|| Error::invalid("the handle is null"))
}

/// Bytes of the caller; no byte may have any address.
///
/// # Safety
/// `len_bytes` bytes from `bytes` on may be read, and nobody writes to them meanwhile.
pub(crate) unsafe fn bytes<'a>(bytes: *const u8, len_bytes: usize) -> Result<&'a [u8], Error> {
    match (bytes.is_null(), len_bytes) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::invalid("the bytes are a null pointer")),
        (_, len_bytes) if len_bytes > isize::MAX as usize => {
            Err(Error::invalid("more bytes than there is memory"))
        }
        // SAFETY: not null, and the caller lets us read so many.
        _ => Ok(unsafe { std::slice::from_raw_parts(bytes, len_bytes) }),
    }
}

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `to` is null, or may be written.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::invalid("the place for the result is null"));
    }
    // SAFETY: not null, and the caller lets us write there.
    unsafe { to.write(value) };
    Ok(())
}

/// Frees a handle; null is fine.
///
/// # Safety
/// `handle` is null, or came from `Box::into_raw` and is never used again.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: from a box, and nobody's from now on. A panic while freeing stops here.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status() {
        let mut report = Error::none();
        // SAFETY: the place is ours.
        let status = unsafe { answer(&raw mut report, || panic!("on purpose")) };
        assert_eq!((status, report.status), (Status::Panicked, Status::Panicked));
        // SAFETY: null is allowed.
        let status = unsafe { answer(std::ptr::null_mut(), || panic!("on purpose")) };
        assert_eq!(status, Status::Panicked);
    }
}
