//! The traced side: a process that lets its parent trace it and becomes the program to count.
//!
//! The process stops itself once. A seccomp(2) filter that returns RET_TRACE then stops each call
//! once, at entry; where filters are denied, the process stops itself a second time, and the tracer
//! uses PTRACE_SYSCALL with two stops a call.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::Error;

/// Becomes `program WORDS`, traced by the parent; answers only when that fails.
///
/// # Errors
/// The error of ptrace(2) or execve(2).
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
    if stop_at_every_call().is_none() {
        raise(Signal::SIGSTOP).map_err(denied)?;
    }
    let error = Command::new(program).args(words).exec();
    Err(Error::not_started(&program.to_string_lossy(), error))
}

fn stop_at_every_call() -> Option<()> {
    let here = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let filter =
        // No rule at all: every call meets the default action, which is the stop.
        SeccompFilter::new(BTreeMap::new(), SeccompAction::Trace(0), SeccompAction::Allow, here)
            .ok()?;
    let program = BpfProgram::try_from(filter).ok()?;
    seccompiler::apply_filter(&program).ok()
}
