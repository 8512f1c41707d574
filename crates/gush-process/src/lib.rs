//! What a program needs besides the engine: signals, SIGPIPE, closed or inherited descriptors,
//! sessions, users, pipes to other programs. For programs, not for libraries: each function changes
//! or takes something of the whole process.
//!
//! With the feature `start` a function runs before main and notes the inherited descriptors and the
//! disposition of SIGPIPE. Without the feature no descriptor counts as inherited or closed, and
//! SIGPIPE counts as not ignored.
#![allow(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("gush-process runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock;
mod closed;
mod identity;
mod inherit;
mod interrupt;
mod limits;
mod name;
mod ordinary;
pub mod others;
mod signal;
mod start;
mod stop;
mod title;
mod unread;

pub use clock::{LocalTime, local_time};
pub use closed::closed_at;
pub use identity::{Identity, assume, with_identity};
pub use inherit::{
    duplicate_inherited, in_new_session, take_inherited, with_descriptor, with_umask,
};
pub use interrupt::interrupt_others;
pub use limits::{has_room, raise_descriptor_limit, with_given_descriptor_limit};
pub use name::start_of_name;
pub use ordinary::leave_real_time;
pub use rustix::io::Errno;
pub use signal::{
    Signals, Termination, Then, die_of_sigpipe, fail_beyond_file_size_limit, ignore_interrupts,
    ignore_sigpipe, on_termination, restore_sigchld, restore_sigpipe, restore_terminations,
    unblocked,
};
pub use start::{sigpipe_was_ignored, was_closed};
pub use stop::Stop;
pub use title::set_title;
pub use unread::{reading_end, unread_bytes};
