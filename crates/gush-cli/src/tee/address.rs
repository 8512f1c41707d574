//! `--to`: an address of `gush link` as an output.
//!
//! A separate one-way link connects the output's pipe with the address. So the bytes leave this
//! process by reference, and every kind of address works.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[cfg(feature = "link")]
use gush_link::address::{Address, Locator};
use gush_text::quote;
use rustix::fs::stat;
use rustix::process::{Pid, Signal, kill_process};

/// A running link to an address.
#[derive(Debug)]
pub struct Remote {
    link: Child,
    /// The address is a program, which reads a pipe as in `>(program)`.
    pub is_program: bool,
}

impl Remote {
    /// Starts a link to `address`, and returns the pipe that leads there. The messages of the link
    /// start with `as_name`.
    ///
    /// # Errors
    /// If the address is invalid or the file that is read, or the link cannot be started.
    pub fn open(address: &OsStr, as_name: &str) -> Result<(File, Self), String> {
        let (files, is_program) = targets_of(address)?;
        if files.iter().any(|path| super::is_source(stat(path))) {
            let name = quote::if_needed(address.as_ref());
            return Err(format!("{name}: {}", super::IS_SOURCE));
        }
        let started = |error: io::Error| gush_text::os_text(&error);
        gush_process::restore_sigchld();
        let mut command = Command::new("/proc/self/exe");
        // Standard output is inherited, as an address may name it.
        command
            .args(["link", "--speak-for", as_name, "-u", "-"])
            .arg(address)
            .stdin(Stdio::piped());
        if is_program {
            // Unread input of a program is reported here, if the mode requires it.
            command.args(["--log", "error"]);
        }
        let mut child = command.spawn().map_err(started)?;
        let stdin = child.stdin.take().map(OwnedFd::from);
        let file =
            stdin.map(File::from).ok_or_else(|| started(io::ErrorKind::BrokenPipe.into()))?;
        Ok((file, Self { link: child, is_program }))
    }

    /// Waits for the link, which reports its own errors; returns whether it succeeded.
    pub fn finish(mut self) -> bool {
        self.link.wait().is_ok_and(|status| status.success())
    }
}

/// Terminates an unfinished link, if another output fails at the start.
impl Drop for Remote {
    fn drop(&mut self) {
        if let Ok(None) = self.link.try_wait() {
            let _ = kill_process(Pid::from_child(&self.link), Signal::TERM);
            let _ = self.link.wait();
        }
    }
}

/// The files that a link may open for `address`, including alternatives, and whether it is a
/// program.
///
/// # Errors
/// If the address is invalid.
#[cfg(feature = "link")]
fn targets_of(address: &OsStr) -> Result<(Vec<PathBuf>, bool), String> {
    let address = Address::from_os(address).map_err(|error| error.to_string())?;
    Ok((files_of(&address), matches!(address.locator(), Locator::Exec(_) | Locator::Shell(_))))
}

#[cfg(feature = "link")]
fn files_of(address: &Address) -> Vec<PathBuf> {
    match address.locator() {
        Locator::File(path) | Locator::Path(path) => vec![path.clone()],
        // The file that an inherited descriptor has open.
        Locator::Fd(number) => vec![gush_text::fd_path(*number).into()],
        Locator::Joined(parts) => files_of(&parts[1]),
        Locator::FirstOf(choices) => choices.iter().flat_map(files_of).collect(),
        _ => Vec::new(),
    }
}

#[cfg(not(feature = "link"))]
fn targets_of(_address: &OsStr) -> Result<(Vec<PathBuf>, bool), String> {
    Err(crate::about::why_left_out("link"))
}
