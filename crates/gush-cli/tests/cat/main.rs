//! `gush cat`.

#[path = "../common/mod.rs"]
mod common;

mod as_gnu;
mod ends;
mod messages;
mod start;
mod text;
mod urgent;
mod weather;
