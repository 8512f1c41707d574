//! `gush lab explain`: where the time of a case goes, as the kernel reports it.
//!
//! [`perf`] records a running case, [`Stacks`] sums up and draws the recording, and
//! [`kind_of`] says by a table the kind of a kernel function.

mod calls;
mod kinds;
pub mod perf;
mod stacks;
mod switch;

pub use kinds::{WorkKind, kind_of};
pub use stacks::{Share, Stacks};
pub use switch::Switch;
