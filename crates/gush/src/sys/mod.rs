//! The one seam between the engine and the kernel.
//!
//! Every call that moves bytes, or decides whether they may move, goes through a function of this
//! room. It is counted by name ([`Call`], [`Counts`]), and with the feature `faults` a test can
//! answer it instead of the kernel ([`faults`]). What rustix lacks is here too.
#![allow(unsafe_code)]

pub(crate) mod data;
#[cfg(feature = "faults")]
pub mod faults;
pub(crate) mod file;
pub(crate) mod map;
pub(crate) mod pipe;
#[cfg(feature = "uring")]
pub(crate) mod ring;
mod seam;
mod sigbus;
pub(crate) mod socket;

pub use seam::{Call, Counts};
