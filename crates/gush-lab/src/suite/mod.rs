//! Which cases are measured, as data.

pub mod pipe;
