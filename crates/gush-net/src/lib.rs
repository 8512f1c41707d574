//! Moves bytes between sockets, and between sockets and anything else, by the fastest sound way,
//! for programs that run on tokio.
//!
//! [`copy_bidirectional`] and [`copy`] have the arguments and results of tokio's functions of these
//! names. A [`Relay`] does the same with [`RelayOptions`] and a full account, can be interrupted
//! and go on, and also sends and receives files.
//!
//! # Which ends go by reference
//! All of them take any `AsyncRead` and `AsyncWrite`. Between these types bytes move inside the
//! kernel; everything else goes through memory. [`Passed::method`] is the method that moved most
//! bytes.
//!
//! | an end | by reference |
//! |---|---|
//! | `TcpStream`, `UnixStream`, and the halves of `split` and `into_split` | as it is |
//! | any other descriptor | as a [`Conduit`] |
//! | `unix::pipe::Receiver`, `Sender` | [`Conduit::new`] of `into_nonblocking_fd()` |
//! | `ChildStdin`, `ChildStdout`, `ChildStderr` | [`Conduit::new`] of `into_owned_fd()` |
//! | `tokio::fs::File` | [`Relay::send_file`] or [`Relay::recv_file`] with `into_std().await` |
//! | `tokio::io::split` halves | the stream that `unsplit` returns; split it by `into_split` |
//! | `tokio::io::Stdin`, `Stdout` | [`Conduit::inherited`] of a duplicate of the descriptor |
//! | a `TcpStream` in a `Box`, a `BufReader` or a `&mut &mut` reference | the stream taken out of it |
//! | TLS, `tokio::io::duplex`, any other stream | never: the bytes are in memory |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gush_net::{Conduit, Relay, RelayOptions, gush::MethodName};
//! use tokio::io::AsyncWriteExt;
//!
//! let (mut sender, receiver) = tokio::net::unix::pipe::pipe()?;
//! sender.write_all(&[7; 32 << 10]).await?;
//! drop(sender);
//! let (mut near, _far) = tokio::net::UnixStream::pair()?;
//! let mut receiver = Conduit::new(receiver.into_nonblocking_fd()?)?;
//! let totals = Relay::new(&RelayOptions::new()).copy(&mut receiver, &mut near).await?;
//! assert_eq!(totals.forward.method, Some(MethodName::Splice));
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! - Bytes are counted while they move ([`ByteCounts`]), in the result and in the error.
//! - The end of one side's data is passed on once everything before it is delivered.
//! - A peer that stops reading stops the sender: at most one pipe or buffer is in flight each way.
//! - Pipes come from one pool with a budget ([`gush::pipe::Pool::shared`]); without one, bytes are
//!   copied.
//! - A splice into a socket whose peer is gone raises SIGPIPE, which no flag can prevent. Rust's
//!   start-up code ignores the signal; a program that restores the default action must not relay.

#[cfg(not(target_os = "linux"))]
compile_error!("gush-net runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod call;
mod carry;
mod conduit;
mod counts;
mod descriptor;
mod drive;
mod ends;
mod error;
mod first;
mod half;
mod layer;
mod linger;
mod options;
mod pause;
mod relay;
mod sides;
mod silence;
mod sys;
mod tap;
mod whole;

pub use carry::{ConduitPart, DirectionState, PipeEnds, RelayState};
pub use conduit::Conduit;
pub use counts::{ByteCounts, Direction};
pub use error::{End, EndReason, Error, Passed, Totals};
/// The engine, whose `Choice`, `Rate`, `MethodName`, `Refusal` and `Errno` are part of this
/// interface.
pub use gush;
pub use layer::{Facts, Layer};
pub use linger::{LingerError, LingerTimeouts};
pub use options::RelayOptions;
pub use relay::{Relay, copy, copy_bidirectional};
pub use silence::within;
