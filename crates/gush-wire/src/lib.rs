//! A tree on its way to another machine, or from it: one side [sends](send()) or
//! [receives](receive()), and the other one [serves](serve()) it.
//!
//! The two are joined by pairs of byte streams, most often those of `ssh HOST gush serve-tree`
//! ([`Remote`]): one, or several where one is slower than the walk. Records ([`record`]) are small
//! and hold an entry's values; the data of files is in frames ([`frame`]) whose bytes the engine
//! moves between file and stream. Answers come back while later entries are sent, and a window
//! bounds how many are awaited.
//!
//! The receiver trusts nothing: names are single components, links are never followed, lengths are
//! bounded before memory is taken, and a frame that makes no sense ends the session.

#[cfg(not(target_os = "linux"))]
compile_error!("gush-wire runs on Linux only");

#[cfg(test)]
use gush_test as _;

pub mod compress;
mod entry;
mod error;
pub mod frame;
mod greeting;
mod join;
mod packing;
mod receive;
pub mod record;
mod remote;
mod send;
mod serve;

pub use error::Error;
pub use receive::receive;
pub use record::Streams;
pub use remote::{Address, Remote};
pub use send::{Request, Transport, send};
pub use serve::serve;
