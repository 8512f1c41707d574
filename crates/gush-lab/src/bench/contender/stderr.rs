//! The messages of a process, and how it ended.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fstat};

use super::super::label::plain;
use super::super::printed::tail;
use crate::Error;

/// A file without a name, in memory, for the messages of a process: the one `kept` after an earlier
/// process, if that wrote none and set no flags.
pub(super) fn stderr_file(kept: Option<File>) -> Result<File, Error> {
    let is_unused = |file: &File| {
        fstat(file).is_ok_and(|there| there.st_size == 0)
            && fcntl_getfl(file).is_ok_and(|flags| flags - OFlags::LARGEFILE == OFlags::RDWR)
    };
    if let Some(file) = kept.filter(is_unused) {
        return Ok(file);
    }
    // In memory: no directory need be writable, and no file remains.
    let made: Result<OwnedFd, _> = rustix::fs::memfd_create("stderr", MemfdFlags::CLOEXEC);
    made.map(File::from)
        .map_err(|errno| Error::failed("cannot make a file for standard error", errno))
}

pub(super) fn copy_of(file: &File) -> Result<Stdio, Error> {
    let copy = file.try_clone();
    copy.map(Stdio::from).map_err(|error| Error::failed("cannot duplicate a descriptor", error))
}

/// How a process ended, and its last words, unless the process succeeded.
pub(super) fn succeeded(status: ExitStatus, said: &File) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => status.to_string(),
    };
    Err(match last_line(said) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    })
}

/// The last line that is not empty, of the last 4 KiB.
fn last_line(said: &File) -> Option<String> {
    // The reason is usually at the end.
    tail(said, 4096).ok()?.lines().rev().map(plain).find(|line| !line.is_empty())
}
