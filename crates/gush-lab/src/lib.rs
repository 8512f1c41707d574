//! Measuring: how fast this machine moves bytes, by which technique, and which of them are sound.
//!
//! [`pipe`] holds the two programs of the pipe speed test; [`suite`] has a room for each suite of
//! cases, and the table of them; [`runner`] takes the [`case`]s in turn, pinned, and keeps every
//! raw sample in the form of the [`model`]; [`stats`] and [`table`] make them readable, [`csv`]
//! leaves them raw.
//!
//! ```
//! let names: Vec<&str> = gush_lab::suite::SUITES.iter().map(|suite| suite.name).collect();
//! assert!(names.starts_with(&["pipe", "copy"]));
//! ```

// Only gush-cli uses this crate: where a name says it all, there is no doc.
#![allow(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("gush-lab runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod affinity;
pub mod bench;
pub mod case;
mod cases;
pub mod compare;
pub mod count;
pub mod csv;
mod error;
pub mod explain;
pub mod figures;
mod foreign;
pub mod model;
mod mount;
pub mod once;
pub mod pipe;
pub mod probe;
mod procfs;
pub mod report;
pub mod runner;
mod scratch;
pub mod stats;
pub mod store;
pub mod suite;
pub mod table;
pub mod transfer;
pub mod warnings;
mod write_atomic;

pub use error::Error;
pub use write_atomic::write_atomic;
