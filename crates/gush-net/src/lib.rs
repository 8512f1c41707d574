//! Moves bytes between sockets, and between sockets and anything else, by the fastest sound way, for
//! programs that run on tokio.
//!
//! [`copy_bidirectional`] and [`copy`](copy()) have the arguments and results of tokio's functions of these names. [`relay`](relay())
//! and [`relay_one_way`] are the same with [`RelayOptions`] and a full account; a [`Relay`] can be interrupted and go on;
//! [`send_file`] and [`recv_file`] have a file at one side.
//!
//! # Which ends go by reference
//! They take any `AsyncRead` and `AsyncWrite`. tokio's `TcpStream` and `UnixStream`, the owned and the borrowed halves of
//! both, and [`Conduit`]s, which are any other descriptors, are recognised: between them bytes move inside the kernel.
//! Anything else goes through memory, also a `TcpStream` inside another type: a `&mut TcpStream` (say `&mut &mut stream`), a
//! `Box`, a buffered reader. [`Passed::method`] tells by which method most bytes went.
//!
//! # What holds
//! - Bytes are counted while they move ([`ByteCounts`]), in the result and in the error.
//! - The end of one side's data is passed on once everything before the end is delivered.
//! - A peer that stops reading stops the sender: at most one pipe or buffer is in flight each way.
//! - Pipes come from one pool with a budget ([`gush::pipe::Pool::shared`]); without one, bytes are copied.
//! - A splice into a socket whose peer has gone raises SIGPIPE, as no flag can forbid. Rust's start-up
//!   code ignores the signal; a program that restores the default action must not relay.

#[cfg(not(target_os = "linux"))]
compile_error!("gush-net runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod call;
mod conduit;
mod copy;
mod counts;
mod descriptor;
mod drive;
mod ends;
mod error;
mod file;
mod first;
mod options;
mod part;
mod pause;
mod relay;
mod sides;
mod silence;
mod stream;
mod sys;
mod tap;
mod whole;

pub use conduit::Conduit;
pub use copy::{copy, relay_one_way};
pub use counts::{ByteCounts, Direction};
pub use error::{End, Ended, Error, Passed, Refused, Totals};
pub use file::{recv_file, send_file};
/// The engine, whose `Choice`, `Rate`, `MethodName`, `Call` and `Errno` stand in this interface.
pub use gush;
pub use options::RelayOptions;
pub use part::{LingerError, LingerTimeouts, Used};
pub use relay::{Relay, copy_bidirectional, relay};
pub use silence::within;
pub use stream::Layer;
