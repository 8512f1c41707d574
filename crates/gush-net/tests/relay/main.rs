//! Relays, but for the tests that count the descriptors of the whole process (`relay_cancelled.rs`,
//! `relay_leaks.rs`).

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forwards.rs"]
mod forwards;
#[path = "../common/halting.rs"]
mod halting;
#[path = "../../examples/connect/tunnel.rs"]
mod tunnel;

mod again;
mod ends;
mod hyper;
mod idle;
mod kinds;
mod known;
mod model;
mod parted;
mod streams;
mod tcp;
mod weather;
