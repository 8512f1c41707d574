//! Which cases are measured, as data.

pub mod copy;
pub mod matrix;
pub mod memory;
pub mod pages;
pub mod pipe;
pub mod relay;
