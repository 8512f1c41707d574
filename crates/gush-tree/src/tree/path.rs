//! A path for messages that grows and shrinks with the walk. No system call takes this path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The root as the user wrote it, and the names below.
#[derive(Clone)]
pub(crate) struct TreePath {
    bytes: Vec<u8>,
    root_bytes: usize,
}

impl TreePath {
    pub(crate) fn new(root: &Path) -> Self {
        let bytes = root.as_os_str().as_bytes().to_vec();
        Self { root_bytes: bytes.len(), bytes }
    }

    pub(crate) fn set(&mut self, names: &[&OsStr]) {
        self.bytes.truncate(self.root_bytes);
        for name in names {
            self.push(name);
        }
    }

    /// Adds a name; the length before, for [`back_to`](Self::back_to).
    pub(crate) fn push(&mut self, name: &OsStr) -> usize {
        let before = self.bytes.len();
        if self.bytes.last() != Some(&b'/') {
            self.bytes.push(b'/');
        }
        self.bytes.extend(name.as_bytes());
        before
    }

    /// Takes the last name away, which [`push`](Self::push) added.
    pub(crate) fn pop(&mut self, name: &OsStr) {
        let above = self.bytes.len() - name.len();
        self.bytes.truncate(above);
        if above > self.root_bytes {
            self.bytes.pop();
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn back_to(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }

    /// The path from the root.
    pub(crate) fn below_root(&self) -> &Path {
        let below = &self.bytes[self.root_bytes..];
        Path::new(OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_as_gnu_adds_them() {
        for (root, shown) in [("d", "d/a/b"), ("d/", "d/a/b"), ("d/.", "d/./a/b"), ("/", "/a/b")] {
            let mut path = TreePath::new(Path::new(root));
            path.set(&[OsStr::new("a")]);
            let above = path.push(OsStr::new("b"));
            assert_eq!(path.path().as_os_str(), shown);
            assert_eq!(path.below_root().as_os_str(), "a/b");
            path.back_to(above);
            assert_eq!(path.below_root().as_os_str(), "a");
            path.pop(OsStr::new("a"));
            assert_eq!(path.path().as_os_str(), root);
        }
    }
}
