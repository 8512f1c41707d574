//! The package of the program `gush`, which has no library: [`gush`](https://docs.rs/gush) is the
//! library to build on.
//!
//! Cargo lets tests ask for features of their own package through a library only. By that a plain
//! build is soon done, with `cp`, `cat`, `pv`, `tee` and `yes`, and the tests have every command.

#[cfg(not(target_os = "linux"))]
compile_error!("gush-cli runs on Linux only");

#[cfg(test)]
use gush_test as _;
