//! Descriptors that Python objects own.

// A number is all that Python gives.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, RawFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A descriptor of the caller's object, which the Python half holds meanwhile.
#[derive(Debug)]
pub(crate) struct Held(RawFd);

impl Held {
    /// # Errors
    /// `ValueError` for a number that is not a descriptor.
    pub(crate) fn new(fd: RawFd) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyValueError::new_err(format!("{fd} is no file descriptor")));
        }
        Ok(Self(fd))
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not negative. A file that another thread closes meanwhile is an error of the
        // kernel, or another file, as with every function of the module os: no memory is at stake.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}
