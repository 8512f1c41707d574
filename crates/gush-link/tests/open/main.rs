//! Opening addresses, but for the limit of descriptors, which is the process's (`open_limit.rs`).

#[path = "../open_common/mod.rs"]
mod open_common;

mod files;
mod programs;
mod proxied;
mod sockets;
mod weather;
