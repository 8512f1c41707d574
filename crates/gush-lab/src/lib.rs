//! Measuring: how fast this machine moves bytes, by which technique, and which of them are sound.
//!
//! [`pipe`] holds the two programs of the pipe speed test; [`suite`] says as data which cases a suite
//! runs; [`runner`] runs them in turn, pinned, and keeps every raw sample; [`stats`] and [`table`]
//! make them readable, [`csv`] leaves them raw.
//!
//! ```
//! let cases = gush_lab::suite::pipe::CASES;
//! assert_eq!(cases[0].name, "write-read");
//! ```

pub mod affinity;
pub mod case;
pub mod csv;
mod error;
pub mod model;
pub mod pipe;
pub mod runner;
pub mod stats;
pub mod suite;
pub mod table;

pub use error::Error;
