//! `gush lab explain`: where the time of a case goes, as the kernel itself tells it.
//!
//! [`perf`] records a case while it runs, [`Stacks`] sums up what was recorded and draws it, and
//! [`kind_of`] says by a table what a kernel function is about.

mod kinds;
pub mod perf;
mod stacks;

pub use kinds::{Kind, kind_of};
pub use stacks::{Share, Stacks};
