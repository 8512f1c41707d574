//! Paths that lead to a standard descriptor which was closed when the process started.
//!
//! `/dev/stdout` and its like are links to `/proc/self/fd/N`. After Rust's start-up code has put
//! /dev/null in the place of a closed descriptor, opening such a path opens /dev/null, where bytes
//! are lost without an error.

use std::fs;
use std::path::{Component, Path};

use crate::start;

/// As many links as the kernel follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The standard descriptor (0 to 2) to which `path` leads, if the descriptor [was
/// closed](crate::was_closed) when the process started: opening the path would give /dev/null.
///
/// Such paths are /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N, and links to
/// them. Nothing is opened.
#[must_use]
pub fn closed_at(path: impl AsRef<Path>) -> Option<usize> {
    // The usual case costs no system call.
    if !(0..3).any(start::was_closed) {
        return None;
    }
    let own = fs::canonicalize("/proc/self").ok()?;
    let mut path = path.as_ref().to_path_buf();
    // Bounded like the kernel's own walk, because links may form a circle.
    for _ in 0..MOST_LINKS {
        let name = path.file_name()?.to_owned();
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => fs::canonicalize("."),
            Some(parent) => fs::canonicalize(parent),
            None => return None,
        };
        let parent = parent.ok()?;
        if parent.strip_prefix(&own).is_ok_and(lists_descriptors) {
            let number: usize = name.to_str()?.parse().ok()?;
            return (number < 3 && start::was_closed(number)).then_some(number);
        }
        path = parent.join(fs::read_link(parent.join(name)).ok()?);
    }
    None
}

/// Is this, below a process's directory of proc(5), the list of its descriptors: `fd`, or
/// `task/TID/fd` of a thread?
fn lists_descriptors(below: &Path) -> bool {
    let names: Vec<_> = below.components().map(Component::as_os_str).collect();
    match names[..] {
        [list] => list == "fd",
        [task, _, list] => task == "task" && list == "fd",
        _ => false,
    }
}
