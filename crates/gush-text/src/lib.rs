//! The text that all commands read and print, each idea once: numbers, sizes, lengths of time,
//! quoting, OS errors.

#[cfg(not(target_os = "linux"))]
compile_error!("gush-text runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod error;
mod fd;
mod number;
pub mod quote;
mod remedy;
mod size;
pub mod table;
mod time;
mod width;
mod word;

pub use error::{errno_text, in_brackets, noted, os_text};
pub use fd::fd_path;
pub use number::{exact_bytes, plural, rounded, rounded_bytes, scaled, three_digits, typed_bytes};
pub use remedy::{Doing, missing_directory, mkdir_remedy, remedy, remedy_at};
pub use size::{
    SizeError, buffer_bytes, memory_bytes, pipe_bytes, rate_bytes_per_second, size_bytes,
    some_bytes,
};
pub use time::{seconds, some_time, with_unit};
pub use width::{end_of, shortened, start_of, width, without_controls, wrapped};
pub use word::{nearest, suggestion, unknown};
