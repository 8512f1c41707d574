//! Moves bytes between sockets by the fastest sound way, for programs that run on tokio.

pub mod address;
