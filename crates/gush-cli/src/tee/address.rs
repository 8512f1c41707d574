//! `--to`: an address of `gush link` as an output.
//!
//! A link of its own, one way, stands between the output's pipe and the address. So the bytes leave this process by
//! reference, and every kind of address is one of the link's.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[cfg(feature = "link")]
use gush_link::address::{Address, Target};
use gush_text::quote;
use rustix::fs::stat;
use rustix::process::{Pid, Signal, kill_process};

/// A running link to an address.
#[derive(Debug)]
pub struct Remote {
    link: Child,
    /// The address is a program, which reads a pipe as that of `>(program)` does.
    pub is_program: bool,
}

impl Remote {
    /// Starts a link to `address`, and answers the pipe that leads there. The link's messages are those of the command `as_name`.
    ///
    /// # Errors
    /// What is wrong with the address, which may also be the file that is read, or that of starting this program again.
    pub fn open(address: &OsStr, as_name: &str) -> Result<(File, Self), String> {
        let (files, is_program) = behind(address)?;
        if files.iter().any(|path| super::is_source(stat(path))) {
            let name = quote::if_needed(address.as_ref());
            return Err(format!("{name}: {}", super::IS_SOURCE));
        }
        let started = |error: io::Error| gush_text::os_text(&error);
        gush_process::restore_sigchld();
        let mut command = Command::new("/proc/self/exe");
        // Standard output is inherited: an address may name it, as `-` does.
        command
            .args(["link", "--speak-for", as_name, "-u", "-"])
            .arg(address)
            .stdin(Stdio::piped());
        if is_program {
            // What a program has left unread is told here, if the mode says so.
            command.args(["--log", "error"]);
        }
        let mut child = command.spawn().map_err(started)?;
        let stdin = child.stdin.take().map(OwnedFd::from);
        let file =
            stdin.map(File::from).ok_or_else(|| started(io::ErrorKind::BrokenPipe.into()))?;
        Ok((file, Self { link: child, is_program }))
    }

    /// Waits until the address has everything; answers whether it has. A link that fails tells why itself.
    pub fn finish(mut self) -> bool {
        self.link.wait().is_ok_and(|status| status.success())
    }
}

/// Ends an unfinished link, where another output fails at the start: no process is left behind.
impl Drop for Remote {
    fn drop(&mut self) {
        if let Ok(None) = self.link.try_wait() {
            let _ = kill_process(Pid::from_child(&self.link), Signal::TERM);
            let _ = self.link.wait();
        }
    }
}

/// The files that a link may open to write to `address`, of alternatives each, because the opening decides between them; and is the address
/// a program?
///
/// # Errors
/// What is wrong with the address, before anything is started.
#[cfg(feature = "link")]
fn behind(address: &OsStr) -> Result<(Vec<PathBuf>, bool), String> {
    let address = Address::from_os(address).map_err(|error| error.to_string())?;
    Ok((files_of(&address), matches!(address.target(), Target::Exec(_) | Target::Shell(_))))
}

#[cfg(feature = "link")]
fn files_of(address: &Address) -> Vec<PathBuf> {
    match address.target() {
        Target::File(path) | Target::Path(path) => vec![path.clone()],
        // The file that an inherited descriptor has open.
        Target::Fd(number) => vec![gush_text::fd_path(*number).into()],
        Target::Joined(parts) => files_of(&parts[1]),
        Target::FirstOf(choices) => choices.iter().flat_map(files_of).collect(),
        _ => Vec::new(),
    }
}

#[cfg(not(feature = "link"))]
fn behind(_address: &OsStr) -> Result<(Vec<PathBuf>, bool), String> {
    Err(crate::about::why_left_out("link"))
}
