//! Bad weather: files that change while they are copied, full disks, readers that go away.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod changing;
mod holes;
mod mounts;
mod odd_ends;
mod sharing;
