//! `gush pv`, but for the watching of other processes, which has a program of its own
//! (`pv_processes.rs`).

#[path = "../common/mod.rs"]
mod common;

mod as_pv;
mod beyond;
mod command;
mod lines;
mod moves;
mod packets;
mod pairs;
mod pipeline;
mod screen;
