//! Every way to move bytes on every pair of ends, tried for real on this kernel.
//!
//! A cell is a way ([`Way`]), a kind of source and a kind of target ([`Kind`]). It is tried by a worker
//! process ([`Prober`]) that opens both ends, moves some bytes, and compares what arrived; so a cell that
//! hangs or dies is an outcome like any other. What came of it ([`Outcome`]) is held against what the
//! kernel's sources and manual pages promise ([`Rule`]).
//!
//! ```
//! use gush_lab::suite::matrix::{Kind, Rule, Way};
//! let way: Way = "splice-direct".parse()?;
//! let rule = Rule::of(way, Kind::Ext4, Kind::Tcp, false).unwrap();
//! assert_eq!(rule.word(), "EINVAL");
//! # Ok::<(), gush_lab::suite::matrix::UnknownWay>(())
//! ```

mod attempt;
mod cell;
mod ends;
mod expect;
mod far;
mod kind;
mod letters;
mod load;
mod notes;
mod outcome;
mod pairs;
mod places;
mod prober;
mod raw;
pub(crate) mod s4;
mod source;
mod target;
mod usage;
mod view;
mod way;
mod worker;

pub use cell::{GRID_BYTES, Matrix, Plan, S4_BYTES, cases};
pub use expect::{Expected, Rule};
pub use kind::{Kind, UnknownKind};
pub use load::Aim;
pub use outcome::{Attempt, Cost, Outcome};
pub use pairs::{Pairs, UnknownPair};
pub use places::Place;
pub use prober::Prober;
pub use view::Grid;
pub use way::{UnknownWay, Way};
pub use worker::serve;
