//! `-c`: several pv in one terminal, each with a separate line.
//!
//! They share a locked file with the PID of each line, from top to bottom. While the lock is free,
//! the cursor is at the beginning of the line below the last one. A line feed from there makes a
//! new line, so that the terminal scrolls by itself. All movement is relative: the terminal is
//! never queried.
//!
//! The last process removes the file while it holds the lock. So after a lock is acquired the file
//! may have been removed, which is checked: with two files, processes would disagree about the
//! lines.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::process::{getpid, getuid};
use rustix::stdio::stderr as stderr_fd;
use rustix::termios::tcgetwinsize;

use super::process::is_there;
use super::screen::put;

/// One line of the terminal.
#[derive(Debug)]
pub struct CursorLine {
    lines: File,
    path: PathBuf,
    at: usize,
}

impl CursorLine {
    /// A new line at the bottom; none if no file can be shared.
    pub fn take() -> Option<Self> {
        let path = shared_path().ok()?;
        let mut cursor = Self { lines: open_locked(&path).ok()?, path, at: 0 };
        let mut owners = cursor.owners();
        // Left over from processes that were killed: start over.
        if !owners.iter().any(|owner| is_there(*owner)) {
            owners.clear();
        }
        owners.push(getpid().as_raw_nonzero().get());
        cursor.at = owners.len() - 1;
        cursor.write(&owners);
        // While locked, so that the cursor is where the others expect it.
        put("\n");
        let _ = flock(&cursor.lines, FlockOperation::Unlock);
        Some(cursor)
    }

    pub fn show(&self, line: &str) {
        let mut lines = &self.lines;
        if flock(&self.lines, FlockOperation::LockExclusive).is_err() {
            return;
        }
        // Lines that were added since moved this one up.
        let up = read(&mut lines).len().saturating_sub(self.at);
        // A line that has scrolled off the terminal stays as it was.
        let rows = tcgetwinsize(stderr_fd()).map_or(25, |size| usize::from(size.ws_row));
        if (1..rows.max(2)).contains(&up) {
            put(format_args!("\x1b[{up}A\r{line}\x1b[K\r\x1b[{up}B"));
        }
        let _ = flock(&self.lines, FlockOperation::Unlock);
    }

    fn owners(&mut self) -> Vec<i32> {
        read(&mut &self.lines)
    }

    /// A failed write affects no other process's line.
    fn write(&mut self, owners: &[i32]) {
        let text: String = owners.iter().map(|owner| format!("{owner}\n")).collect();
        let written = self.lines.rewind().and_then(|()| self.lines.set_len(0));
        let _ = written.and_then(|()| self.lines.write_all(text.as_bytes()));
    }
}

impl Drop for CursorLine {
    fn drop(&mut self) {
        if flock(&self.lines, FlockOperation::LockExclusive).is_err() {
            return;
        }
        let (at, own) = (self.at, getpid().as_raw_nonzero().get());
        let mut owners = self.owners();
        if let Some(owner) = owners.get_mut(at).filter(|owner| **owner == own) {
            *owner = 0;
        }
        match owners.iter().any(|owner| is_there(*owner)) {
            true => self.write(&owners),
            // While locked: a process that waits for the lock finds the file removed, and creates a
            // new one.
            false if has_name(&self.lines, &self.path) => drop(std::fs::remove_file(&self.path)),
            false => {}
        }
        let _ = flock(&self.lines, FlockOperation::Unlock);
    }
}

fn read(lines: &mut &File) -> Vec<i32> {
    let mut text = String::new();
    let read = lines.rewind().and_then(|()| lines.take(65_536).read_to_string(&mut text));
    read.map_or(Vec::new(), |_| text.lines().map(|line| line.parse().unwrap_or(0)).collect())
}

/// The name of this terminal's file.
fn shared_path() -> io::Result<PathBuf> {
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.map_or_else(std::env::temp_dir, PathBuf::from);
    let (user, terminal) = (getuid().as_raw(), fstat(stderr_fd())?.st_rdev);
    Ok(dir.join(format!("gush-pv-{user}-{terminal}")))
}

/// Opens a file that only this user can have made, and locks it.
fn open_locked(path: &Path) -> io::Result<File> {
    // Each failed try is another process that came and went.
    const MOST_TRIES: usize = 1000;
    for _ in 0..MOST_TRIES {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // In a world-writable directory, the name could be another user's link.
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path)?;
        if file.metadata()?.uid() != getuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        flock(&file, FlockOperation::LockExclusive)?;
        if has_name(&file, path) {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether the file still has this name.
fn has_name(file: &File, path: &Path) -> bool {
    let (held, named) = (file.metadata(), std::fs::symlink_metadata(path));
    held.is_ok_and(|held| {
        named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_another_user_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        // Owned by root and world-writable.
        let mut others = Path::new("/dev/null");
        if getuid().is_root() {
            std::fs::write(&path, "1\n").unwrap();
            if let Err(error) = std::os::unix::fs::chown(&path, Some(1), None) {
                return gush_test::not_applicable(&format!("no file of another user: {error}"));
            }
            others = &path;
        }
        let refused = open_locked(others).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("lines"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let refused = open_locked(&link).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        assert!(!target.exists());
    }

    #[test]
    fn the_last_one_removes_no_file_but_that_of_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let cursor = CursorLine { lines: open_locked(&path).unwrap(), path: path.clone(), at: 0 };
        flock(&cursor.lines, FlockOperation::Unlock).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(cursor);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn at_most_one_has_the_lock_though_each_removes_the_file() {
        use std::sync::atomic::{AtomicU32, Ordering};

        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("lines"), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let file = open_locked(&path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        // The last thing while locked, as on drop.
                        std::fs::remove_file(&path).unwrap();
                        drop(file);
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
