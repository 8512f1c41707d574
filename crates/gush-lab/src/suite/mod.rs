//! Which cases are measured, as data.

pub mod matrix;
pub mod pipe;
