//! The messages of a process, and how it ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use rustix::fs::MemfdFlags;

use super::super::label::plain;
use crate::Error;

/// A file without a name, in memory, for the messages of a process.
pub(super) fn stderr_file() -> Result<File, Error> {
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
fn last_line(mut said: &File) -> Option<String> {
    const TAIL_BYTES: u64 = 4096;
    let bytes = said.metadata().ok()?.len();
    // The reason is usually at the end.
    said.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    said.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail).into_owned();
    text.lines().rev().map(plain).find(|line| !line.is_empty())
}
