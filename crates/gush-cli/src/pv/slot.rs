//! `-c`: several pv in one terminal, each with a separate line.
//!
//! All of them share a file under a lock, with the process of each line from top to bottom. Whenever nobody holds the lock,
//! the cursor is at the beginning of the line below the last of them. A new line is made by a line feed from there, so that
//! a terminal whose cursor is on the last row scrolls by itself, and moving is relative: the terminal is asked nothing.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::process::{Pid, getpid, getuid, test_kill_process};
use rustix::stdio::stderr as stderr_fd;
use rustix::termios::tcgetwinsize;

use super::screen::put;

/// One line of the terminal.
#[derive(Debug)]
pub struct Slot {
    lines: File,
    at: usize,
}

impl Slot {
    /// A new line at the bottom; nothing where no file can be shared.
    pub fn take() -> Option<Self> {
        let mut slot = Self { lines: shared().ok()?, at: 0 };
        slot.locked(|slot| {
            let mut owners = slot.owners();
            // Left over from processes that were killed: the lines begin anew.
            if !owners.iter().any(|owner| is_alive(*owner)) {
                owners.clear();
            }
            owners.push(getpid().as_raw_nonzero().get());
            slot.at = owners.len() - 1;
            slot.write(&owners);
            // Under the lock, so that the cursor is where all the others expect it.
            put("\n");
        });
        Some(slot)
    }

    /// Writes `line` into the slot.
    pub fn show(&self, line: &str) {
        let mut lines = &self.lines;
        if flock(&self.lines, FlockOperation::LockExclusive).is_err() {
            return;
        }
        // Others may have come since: the line is further up by as many.
        let up = read(&mut lines).len().saturating_sub(self.at);
        // A line that has left the terminal at the top stays as it was.
        let rows = tcgetwinsize(stderr_fd()).map_or(25, |size| usize::from(size.ws_row));
        if (1..rows.max(2)).contains(&up) {
            put(format_args!("\x1b[{up}A\r{line}\x1b[K\r\x1b[{up}B"));
        }
        let _ = flock(&self.lines, FlockOperation::Unlock);
    }

    fn locked(&mut self, work: impl FnOnce(&mut Self)) {
        if flock(&self.lines, FlockOperation::LockExclusive).is_ok() {
            work(self);
            let _ = flock(&self.lines, FlockOperation::Unlock);
        }
    }

    fn owners(&mut self) -> Vec<i32> {
        read(&mut &self.lines)
    }

    /// A failed write changes no other process's line.
    fn write(&mut self, owners: &[i32]) {
        let text: String = owners.iter().map(|owner| format!("{owner}\n")).collect();
        let written = self.lines.rewind().and_then(|()| self.lines.set_len(0));
        let _ = written.and_then(|()| self.lines.write_all(text.as_bytes()));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (at, own) = (self.at, getpid().as_raw_nonzero().get());
        self.locked(|slot| {
            let mut owners = slot.owners();
            if let Some(owner) = owners.get_mut(at).filter(|owner| **owner == own) {
                *owner = 0;
            }
            if owners.iter().all(|owner| !is_alive(*owner)) {
                owners.clear();
            }
            slot.write(&owners);
        });
    }
}

fn read(lines: &mut &File) -> Vec<i32> {
    let mut text = String::new();
    let read = lines.rewind().and_then(|()| lines.take(65_536).read_to_string(&mut text));
    read.map_or(Vec::new(), |_| text.lines().map(|line| line.parse().unwrap_or(0)).collect())
}

/// A line whose process is gone has the number 0.
fn is_alive(owner: i32) -> bool {
    // EPERM is a living process, too: of another user.
    Pid::from_raw(owner).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The file of this terminal, which only this user can have made.
fn shared() -> io::Result<File> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.map_or_else(std::env::temp_dir, PathBuf::from);
    let (user, terminal) = (getuid().as_raw(), fstat(stderr_fd())?.st_rdev);
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // In a directory where everybody may write, the name can be somebody's link.
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(dir.join(format!("gush-pv-{user}-{terminal}")))?;
    // Another user's file could make this process write its lines anywhere.
    match file.metadata()?.uid() == user {
        true => Ok(file),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}
