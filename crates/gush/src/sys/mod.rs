//! The one seam between the engine and the kernel.
//!
//! Every call that moves bytes, or decides whether they may move, goes through this module. It is
//! counted by name ([`Call`], [`CallCounts`]), and with the feature `faults` a test can answer it
//! ([`faults`]). Calls that rustix lacks are here, too.
#![allow(unsafe_code)]

pub(crate) mod data;
#[cfg(feature = "faults")]
pub mod faults;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod map;
pub(crate) mod pipe;
#[cfg(feature = "uring")]
pub(crate) mod ring;
mod seam;
mod sigbus;
pub(crate) mod socket;
pub(crate) mod thread;

pub use seam::{Call, CallCounts};
