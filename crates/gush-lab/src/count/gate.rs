//! The traced side: a process that lets its parent trace it, stops once, and becomes the program to
//! count.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};

use crate::Error;

/// Becomes `program WORDS`, traced by the parent; returns only when that fails.
pub fn enter(program: &Path, words: &[OsString]) -> Result<std::convert::Infallible, Error> {
    let denied = |errno| {
        Error::failed(
            "this process may not be traced, so its calls cannot be counted",
            io::Error::from(errno),
        )
    };
    ptrace::traceme().map_err(denied)?;
    // The tracer sets its options at this stop, before any call can be missed.
    raise(Signal::SIGSTOP).map_err(denied)?;
    let error = Command::new(program).args(words).exec();
    Err(Error::not_started(&program.to_string_lossy(), error))
}
