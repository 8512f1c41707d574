//! Moves bytes between any two Linux file descriptors by the fastest way that is *sound* on the
//! running kernel.
//!
//! [`copy`] moves everything; a [`Mover`] takes more: which method, how much, from where, how
//! fast, who watches. Both answer with a [`Report`], or an [`Error`] that says which
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
//! A [`Tee`] copies one source to several targets; a [`Repeat`] writes one pattern again and again.
//!
//! The engine knows nothing of terminals, arguments, trees or addresses, and has no async runtime.
//! Its techniques have [names](MethodName), never wait by themselves, and cannot be extended from
//! outside; the blocking [`Mover`] is one driver of them. A program that waits in another way
//! drives a `Flow` itself, with the feature `unstable-flow`.
//!
//! A move may go to another thread, and be ended from another: [`Cancel`].
//!
//! # Invariants
//! 1. Nothing is lost and nothing arrives twice: each byte taken is delivered or counted.
//! 2. A move ends only when `read` returns 0, or when all of a file has been cloned.
//! 3. Falling back happens only from an untouched position.
//! 4. A lent page is never written again.
//! 5. Some splices wait for an idle source with any flags. Such a source is polled first.
//! 6. A method asked for by name is used or refused, never replaced.
//! 7. Every wait can be interrupted.
//! 8. Memory does not grow with the data: at most 16 MiB.
//! 9. The kernel is asked, not guessed.
//!
//! # Features
//! None is on by default. Without the feature `uring` that method is refused, and says why; the
//! items of the others are absent.
//!
//! | feature | brings | needs |
//! |---|---|---|
//! | `uring` | the method `uring` | io-uring |
//! | `digest` | `Mover::digest`, `Report::digest`, `digest_of`: blake3 | blake3 |
//! | `faults` | `faults`: a test answers the engine's system calls | |
//! | `unstable-flow` | the module `flow` and what its drivers need; any release may change it | |
//!
//! # Sharing
//! By default a file may be sent into a pipe or socket by reference: if somebody writes to the file
//! before the reader has taken the bytes, the reader sees the new ones. Ask for [`Mover::isolated`]
//! to exclude this.
//!
//! # What it does to your descriptors
//! Descriptors are borrowed: none is closed, and a move closes its own. A [`Tee`] leaves up to four
//! empty pipes open for the next.
//!
//! - *Position.* Without an offset, a move begins at a descriptor's position and leaves it after
//!   the last byte moved, also after a failure. With an offset the position stays. While a sparse
//!   file is read the position moves back and forth (SEEK_DATA and SEEK_HOLE of lseek(2)), which
//!   others who share the description see; the end of the move, or of [`first_difference`],
//!   restores it.
//! - *Flags.* No file status flag is set (F_SETFL of fcntl(2)): the flags belong to everybody who
//!   shares the open file. While somebody [observes](Mover::observe) or may
//!   [cancel](Mover::cancelled_by) a move into a socket without O_NONBLOCK, the bytes therefore
//!   pass through memory: a splice would hold the thread until all bytes have room. A terminal is
//!   opened once more, non-blocking, by every move.
//! - *Pipes grow.* A pipe at either side of a splice, of a [`pipe::Writer`], a [`Tee`] or a
//!   [`Repeat`], and one given to [`pipe::enlarge`], grows to 1 MiB, but at most to a sixteenth of
//!   the user's memory for pipes (`/proc/sys/fs/pipe-user-pages-soft`), and stays so. No pipe
//!   grows, these or the engine's own, unless another sixteenth (at most four times
//!   `pipe-max-size`) stays free for other programs. [`Tuning::pipe_bytes`] asks for another size;
//!   1 leaves the pipes as they are.
//! - *Packets.* No move cuts a packet of a pipe in packet mode (O_DIRECT of pipe(2)). From pipe to
//!   pipe packets stay packets; by `read-write` they become a stream.
//! - *Read-ahead.* [`Advice::Sequential`] and [`Advice::Random`] stay set on the source's
//!   description (posix_fadvise(2)). By default no advice is given.
//! - *Size.* A target becomes shorter only by [`Mover::replace`].
//!
//! # The process
//! Linking the engine runs nothing before main, and using it changes no signal disposition, except
//! that `mmap-copy`, used only by name, borrows SIGBUS while copying: other faults still reach the
//! previous disposition, which is restored afterwards. A move on several threads ends them before
//! it returns.

// Only the workspace's other crates and a driver of one's own call what the feature makes public.
#![cfg_attr(not(feature = "unstable-flow"), allow(dead_code, unused_imports))]

#[cfg(not(target_os = "linux"))]
compile_error!("gush runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod cancel;
#[cfg(feature = "digest")]
mod digest;
#[cfg(not(feature = "digest"))]
#[path = "digest/absent.rs"]
mod digest;
mod endpoint;
mod errno;
mod error;
mod fault;
mod file_system;
#[cfg(not(feature = "unstable-flow"))]
mod flow;
#[cfg(feature = "unstable-flow")]
pub mod flow;
#[cfg(not(feature = "unstable-flow"))]
mod hugepage;
#[cfg(feature = "unstable-flow")]
pub mod hugepage;
mod inspectors;
mod kernel;
mod locked;
mod method;
mod mover;
#[cfg(not(feature = "unstable-flow"))]
mod pace;
#[cfg(feature = "unstable-flow")]
pub mod pace;
#[cfg(not(feature = "unstable-flow"))]
mod page_cache;
#[cfg(feature = "unstable-flow")]
pub mod page_cache;
mod pages;
pub mod pipe;
mod plan;
mod port;
mod progress;
mod rate;
mod remedy;
mod repeat;
mod report;
mod reread;
mod socket;
mod sys;
mod tee;
mod terminal;
mod tuning;
mod wait;
mod zeros;

pub use cancel::Cancel;
#[cfg(feature = "digest")]
pub use digest::Digest;
pub use endpoint::{Endpoint, Kind};
pub use error::Error;
pub use fault::Fault;
pub use flow::Failure;
pub use kernel::{FileSplice, Kernel, Vmsplice};
pub use method::{MethodName, Refusal, UnknownMethod};
pub use mover::{Choice, Holes, Mover, copy};
pub use pages::{HUGE_PAGE_BYTES, Lent, Pages};
pub use plan::Refusals;
pub use port::Side;
pub use progress::{Control, Progress};
pub use rate::Rate;
pub use repeat::Repeat;
pub use report::{MethodUse, Report};
#[cfg(feature = "digest")]
pub use reread::digest_of;
pub use reread::first_difference;
pub use rustix::io::Errno;
#[cfg(feature = "faults")]
pub use sys::faults;
pub use sys::{Call, CallCounts};
pub use tee::{Loss, Tee, TeeReport, TeeTarget};
pub use tuning::{Advice, Space, Tuning};
pub use wait::Wait;

/// What the feature `unstable-flow` adds to the modules, in any release as it is needed.
#[cfg(feature = "unstable-flow")]
mod unstable {
    pub use crate::errno::errno_name;
    pub use crate::file_system::file_system_id;
    pub use crate::kernel::is_refusal;
    pub use crate::locked::Unpoisoned;
    pub use crate::pages::Strip;
    pub use crate::port::Port;
    pub use crate::remedy::hint_for;
    pub use crate::socket::{
        end_writing, send_kept, set_peek_offset, set_socket_option, unacknowledged_bytes,
        untaken_bytes,
    };
    pub use crate::wait::poll_now;
    pub use rustix::event::PollFlags;
}
#[cfg(feature = "unstable-flow")]
pub use unstable::*;
