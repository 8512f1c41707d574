//! Moves bytes between any two Linux file descriptors by the fastest way that is *sound* on the
//! running kernel.
//!
//! [`copy`] moves everything; a [`Mover`] is told more: which method, how much, from where, how
//! fast, who watches. Both answer with a [`Report`] of what was done, or an [`Error`] that says which
//! call failed on which side and how many bytes had arrived.
//!
//! ```
//! use std::io::{Seek, Write};
//!
//! let mut source = tempfile::tempfile()?;
//! source.write_all(&[7; 100_000])?;
//! source.rewind()?;
//! let target = tempfile::tempfile()?;
//!
//! let report = gush::copy(&source, &target)?;
//! assert_eq!(report.bytes, 100_000);
//! println!("{}", report.explain());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The engine knows nothing of terminals, arguments, trees or addresses, and has no async runtime.
//! Its techniques are [`Method`]s whose [`Transfer`]s move in steps that never wait; the blocking
//! [`Mover`] is one driver of them.
//!
//! # What holds
//! 1. Nothing is lost and nothing arrives twice: what was taken from the source is delivered or counted.
//! 2. Only a `read` that answers 0 is the end.
//! 3. Falling back happens only from an untouched position.
//! 4. A lent page is never written again.
//! 5. Whatever can idle is polled before it is spliced from.
//! 6. A method asked for by name is used or refused, never replaced.
//! 7. Every wait can be interrupted.
//! 8. Memory does not grow with the data: at most 16 MiB.
//! 9. The kernel is asked, not guessed.
//!
//! # Sharing
//! By default a file may be sent into a pipe or socket by reference: if somebody writes to the file
//! before the reader has taken the bytes, the reader sees the new ones. Ask for [`Mover::isolated`]
//! where that must not be.

mod digest;
mod endpoint;
mod error;
mod fault;
pub mod hugepage;
mod kernel;
mod method;
mod mover;
mod pages;
pub mod pipe;
mod plan;
mod port;
pub mod process;
mod profile;
mod progress;
mod report;
mod reread;
mod sys;
mod tuning;
mod wait;

pub use digest::Digest;
pub use endpoint::{Endpoint, Kind};
pub use error::Error;
pub use fault::Fault;
pub use kernel::{Kernel, Vmsplice, is_refusal};
pub use method::{
    Method, MethodName, Pair, Refusal, Step, Traits, Transfer, UnknownMethod, errno_name,
};
pub use mover::{Choice, Holes, Mover, copy};
pub use pages::{HUGE_PAGE_BYTES, Lent, Pages, Strip};
pub use plan::Refusals;
pub use port::{Manner, Port, Side};
pub use profile::{Host, Profile, ProfileError};
pub use progress::{Control, Limiter, Progress, Rate};
pub use report::{MethodUse, Report};
pub use reread::digest_of;
pub use rustix::io::Errno;
#[cfg(feature = "faults")]
pub use sys::faults;
pub use sys::{Call, Counts};
pub use tuning::{Advice, Space, Tuning};
pub use wait::Wait;
