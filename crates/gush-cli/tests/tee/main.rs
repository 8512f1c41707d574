//! `gush tee`.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod as_gnu;
mod weather;
