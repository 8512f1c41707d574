//! The role of a traced process's descriptor, looked up in `/proc/PID/fd` at the first use.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FdRole {
    /// The source, the target, or a private pipe or ring that the copy goes through.
    Copied,
    /// `libc.so.6`, which the loader reads.
    CLibrary,
    Other,
}

#[derive(Debug)]
pub(super) struct OpenFiles {
    source: PathBuf,
    target: PathBuf,
    known: HashMap<i32, FdRole>,
}

impl OpenFiles {
    /// Both paths without symbolic links in them, as `/proc` shows them.
    pub(super) fn new(source: &Path, target: &Path) -> Self {
        Self { source: source.to_owned(), target: target.to_owned(), known: HashMap::new() }
    }

    pub(super) fn role(&mut self, pid: i32, fd: i32) -> FdRole {
        if fd < 0 {
            return FdRole::Other;
        }
        let (source, target) = (&self.source, &self.target);
        // Cached until a call may change the table: reading /proc for every call would take
        // minutes.
        *self.known.entry(fd).or_insert_with(|| {
            match fs::read_link(format!("/proc/{pid}/fd/{fd}")) {
                Ok(path) if [source, target].contains(&&path) => FdRole::Copied,
                Ok(path) => role_of(fd, &path),
                Err(_) => FdRole::Other,
            }
        })
    }

    /// Descriptors may have changed.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

fn role_of(fd: i32, path: &Path) -> FdRole {
    let text = path.to_string_lossy();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The standard descriptors are pipes to the parent.
    let private = fd > 2 && text.starts_with("pipe:") || text == "anon_inode:[io_uring]";
    if private {
        FdRole::Copied
    } else if name.starts_with("libc.so") || name.starts_with("libc-2") {
        FdRole::CLibrary
    } else {
        FdRole::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_pipes_lie_between() {
        assert_eq!(role_of(5, Path::new("pipe:[123]")), FdRole::Copied);
        assert_eq!(role_of(1, Path::new("pipe:[123]")), FdRole::Other);
        assert_eq!(role_of(5, Path::new("anon_inode:[io_uring]")), FdRole::Copied);
        assert_eq!(role_of(3, Path::new("/lib/x86_64-linux-gnu/libc.so.6")), FdRole::CLibrary);
        assert_eq!(role_of(3, Path::new("/lib/x86_64-linux-gnu/libm.so.6")), FdRole::Other);
    }
}
