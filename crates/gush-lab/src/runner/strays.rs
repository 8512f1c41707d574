//! Descendants whose parent has ended: children of a killed command, in any session, and daemons.
//!
//! This process is their subreaper (PR_SET_CHILD_SUBREAPER(2const)). Without CONFIG_PROC_CHILDREN
//! they are not known.

use std::collections::BTreeSet;
use std::fs::{File, read_link};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{LazyLock, Mutex, Once};

use super::Usage;
use crate::foreign;
use gush::Unpoisoned;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper,
    waitid, waitpid,
};

/// Those that commands left on purpose, as a setup leaves a server; never killed.
static LEFT: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Makes this process the parent of descendants whose own parent has ended.
pub(super) fn adopt() {
    static ONCE: Once = Once::new();
    // Without it they are init's, as usual.
    ONCE.call_once(|| {
        let _ = set_child_subreaper(Some(getpid()));
    });
}

/// The children of the main thread, to which the kernel gives orphans (`find_new_reaper` in
/// `kernel/exit.c`).
static CHILDREN: LazyLock<Option<File>> = LazyLock::new(|| {
    let own = read_link("/proc/self").ok()?;
    File::open(Path::new("/proc/self/task").join(own).join("children")).ok()
});

/// Does the kernel list children?
pub fn are_known() -> bool {
    CHILDREN.is_some()
}

/// The children of the main thread that are not `known`.
fn all(known: &[Pid]) -> Vec<Pid> {
    let Some(list) = &*CHILDREN else { return Vec::new() };
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read_bytes @ 1..) = list.read_at(&mut piece, text.len() as u64) {
        text.extend_from_slice(&piece[..read_bytes]);
    }
    let numbers = str::from_utf8(&text).unwrap_or_default().split_whitespace();
    let pids = numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?));
    pids.filter(|pid| !known.contains(pid)).collect()
}

/// Keeps those that run now and reaps those that ended. Returns the resources used by those that
/// are new since the last call, and how many of them still run.
pub(super) fn keep(known: &[Pid]) -> Usage {
    keep_listed(&mut LEFT.lock().unpoisoned(), || all(known))
}

fn keep_listed(left: &mut BTreeSet<i32>, mut list: impl FnMut() -> Vec<Pid>) -> Usage {
    let before = std::mem::take(left);
    let mut used = Usage::default();
    let mut ended_here = true;
    // Asked again: one that ended after the list was read has left its own children to us.
    while std::mem::take(&mut ended_here) {
        (used.left_running, *left) = (0, BTreeSet::new());
        for pid in list() {
            let number = pid.as_raw_pid();
            let is_new = !before.contains(&number);
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error says that it is no child any more.
            let Ok(ended) = waitid(WaitId::Pid(pid), ended) else { continue };
            if ended.is_none() {
                left.insert(number);
                used.left_running += u64::from(is_new);
            } else if let Ok((_, own)) = foreign::wait4(number.unsigned_abs()) {
                ended_here = true;
                used = if is_new { used.and(own) } else { used };
            }
        }
    }
    used
}

/// Kills those that nobody left before, and their children, which then come here.
pub(super) fn end(known: &[Pid]) {
    let left = LEFT.lock().unpoisoned();
    let mut immune = BTreeSet::new();
    loop {
        // Asked again and again: a stray that is killed leaves its own children to us.
        let mut strays = all(known);
        strays
            .retain(|pid| !left.contains(&pid.as_raw_pid()) && !immune.contains(&pid.as_raw_pid()));
        if strays.is_empty() {
            return;
        }
        for pid in strays {
            // Another user's may not be killed, and is not waited for.
            if kill_process(pid, Signal::KILL).is_err() {
                // Noted, or the loop would try the same one for ever.
                immune.insert(pid.as_raw_pid());
                continue;
            }
            // An error says that it is no child any more.
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_of_a_stray_that_ends_meanwhile_is_seen() {
        let [mut ended, mut orphan] =
            ["0", "60"].map(|seconds| Command::new("sleep").arg(seconds).spawn().unwrap());
        let (stray, child) = (Pid::from_child(&ended), Pid::from_child(&orphan));
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(stray), end).unwrap();
        let mut lists = [vec![stray], vec![child]].into_iter();
        let mut left = BTreeSet::new();
        let used = keep_listed(&mut left, || lists.next().unwrap());
        orphan.kill().unwrap();
        orphan.wait().unwrap();
        assert_eq!((used.left_running, left), (1, BTreeSet::from([child.as_raw_pid()])));
        assert!(ended.try_wait().is_err(), "reaped");
    }
}
