//! gush for C. The header `include/gush.h` is made from this crate, and its comments are the
//! manual.
//!
//! Every function catches a panic and answers with a [`Status`]. Descriptors are borrowed, and
//! handles belong to the caller.

// The one job of this crate is the boundary to C, whose pointers and descriptors nobody but the
// caller can vouch for.
#![allow(unsafe_code)]

#[cfg(test)]
use gush_test as _;

mod boundary;
mod copy;
mod error;
mod reservoir;
mod writer;

use std::ffi::c_char;

pub use copy::{Holes, Options, Progress, Report};
pub use error::{Error, Side, Status};
pub use reservoir::Reservoir;
pub use writer::Writer;

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn gush_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
