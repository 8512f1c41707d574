//! `gush link`.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod calls;
mod datagrams;
mod devices;
mod dump;
mod endings;
mod ends;
mod from_socat;
mod handover;
mod identity;
mod joined;
mod limits;
mod lives;
mod locks;
mod metrics;
mod names;
mod nofork;
mod recvfrom;
mod serves;
mod shapes;
mod shared;
mod signals;
mod socat;
mod sockets;
mod stats;
mod storms;
mod terminals;
mod tls;
mod unconnected;
mod vsock;
mod weather;
mod words;
