//! System calls of a copy, by name, counted by ptrace(2) in a run that is not measured.
//!
//! | room | holds |
//! |---|---|
//! | `gate` | the traced side: a process that asks to be traced and becomes the program |
//! | `trace` | the tracer: two stops a call |
//! | `calls` | which calls move data, and which of their arguments are descriptors |
//! | `fds` | the roles of the traced process's descriptors |
//!
//! Published tables count whole C programs: those have one call more than the copy makes, the
//! loader's `read` of the C library.

mod calls;
mod fds;
pub mod gate;
mod trace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;
use fds::{FdRole, OpenFiles};

/// How many calls of each name.
pub type Calls = BTreeMap<String, u64>;

/// The system calls of one run of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls that move or map data on the source, the target, or a private pipe or ring between
    /// them, and the loader's `read` of the C library: the calls of a C program for this copy, as
    /// published tables count them.
    pub as_c_program: Calls,
    /// Every call of the process from `execve` on, the start-up code's and the clock's included.
    pub in_all: Calls,
}

/// Counts the calls of `program lab once WORDS`, which copies `source` to `target`.
///
/// The traced process and its tracer share a processor: every call stops the one and wakes the
/// other, which is several times as fast on one as across two.
pub fn of(
    program: &Path,
    words: &[OsString],
    source: &Path,
    target: &Path,
    processor: Option<usize>,
) -> Result<Count, Error> {
    let mut command = Command::new(program);
    command.args(["lab", "once", "--traced"]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut files = OpenFiles::new(source, target);
    let mut count = Count::default();
    let output = trace::run(command, processor, |pid, call| match call {
        trace::Stop::Executed => {
            count = Count::default();
            *count.in_all.entry("execve".to_owned()).or_default() += 1;
        }
        trace::Stop::Calls(number, arguments) => {
            tally(&mut count, &mut files, pid, number, &arguments)
        }
    })?;
    if output.status.success() { Ok(count) } else { Err(crate::once::last_message(&output)) }
}

fn tally(count: &mut Count, files: &mut OpenFiles, pid: i32, number: u64, arguments: &[u64; 6]) {
    let call = calls::of(number, arguments);
    add(&mut count.in_all, &call.name);
    let roles = call.fds.iter().map(|&fd| files.role(pid, fd)).collect::<Vec<_>>();
    let moves = call.moves_data && roles.contains(&FdRole::Copied);
    if moves || call.name == "read" && roles.contains(&FdRole::CLibrary) {
        add(&mut count.as_c_program, &call.name);
    }
    if !call.keeps_descriptors {
        files.forget();
    }
}

fn add(calls: &mut Calls, name: &str) {
    match calls.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(calls.insert(name.to_owned(), 1)),
    }
}

/// Calls as one field of text, `read=131074;write=131072`.
pub fn line(calls: &Calls) -> String {
    let calls: Vec<String> = calls.iter().map(|(name, count)| format!("{name}={count}")).collect();
    calls.join(";")
}

/// The calls in a fact of a sample, without those that were not made.
pub(crate) fn of_fact(fact: &serde_json::Value) -> Option<Calls> {
    let calls = fact.as_object()?.iter();
    let made = |count: &serde_json::Value| count.as_u64().filter(|count| *count > 0);
    Some(calls.filter_map(|(name, count)| Some((name.clone(), made(count)?))).collect())
}

/// Whether `counted` equals the published count, apart from the loader's one read, which the table
/// leaves out for ways that do not read.
pub(crate) fn agrees(counted: &Calls, published: &Calls) -> bool {
    let loaders = |name: &str, count: u64| name == "read" && count <= 1;
    counted.iter().all(|(name, &count)| match published.get(name) {
        Some(&expected) => count == expected,
        None => loaders(name, count),
    }) && published.keys().all(|name| counted.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_read_is_no_difference_and_anything_else_is() {
        let calls = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|&(name, count)| (name.to_owned(), count)).collect::<Calls>()
        };
        let published = calls(&[("sendfile", 3)]);
        assert!(agrees(&calls(&[("read", 1), ("sendfile", 3)]), &published));
        assert!(!agrees(&calls(&[("read", 2), ("sendfile", 3)]), &published));
        assert!(!agrees(&calls(&[("read", 1), ("sendfile", 4)]), &published));
        assert!(!agrees(&calls(&[("read", 1)]), &published));
        assert!(!agrees(&calls(&[("pread64", 1), ("sendfile", 3)]), &published));
    }
}
