//! Moves bytes between sockets, and between sockets and anything else, by the fastest sound way, for
//! programs that run on tokio.
//!
//! [`copy_bidirectional`] relays between two ends, [`copy`](copy()) goes one way, [`send_file`] and
//! [`recv_file`] have a file at one side. They take tokio's `TcpStream` and `UnixStream`, the owned
//! halves of both, and [`Conduit`]s, which are any other descriptors.
//!
//! # What holds
//! - Bytes are counted while they move ([`Counts`]), in the result and in the error.
//! - The end of one side's data is passed on once everything before it is delivered.
//! - A peer that stops reading stops its sender: at most one pipe or buffer is in flight each way.
//! - Pipes come from one pool with a budget ([`gush::pipe::Pool::shared`]); without one, bytes are copied.
//! - A splice into a socket whose peer has gone raises SIGPIPE, as no flag can forbid. Rust's start-up
//!   code ignores it; a program that restores it ([`gush_process::restore_sigpipe`]) must not relay.

#[cfg(test)]
use gush_test as _;

pub mod address;
mod conduit;
mod copy;
mod counts;
mod drive;
mod ends;
mod error;
mod file;
pub mod link;
pub mod open;
mod options;
pub mod proxy;
mod relay;
mod silence;
mod tap;
mod watch;
mod whole;

pub use conduit::Conduit;
pub use copy::copy;
pub use counts::{Counts, Way};
pub use ends::{Duplex, Source, Target};
pub use error::{End, Ended, Error, Passed, Totals};
pub use file::{recv_file, send_file};
pub use options::Options;
pub use relay::{Relay, copy_bidirectional};
