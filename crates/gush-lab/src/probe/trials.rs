//! The trials before the first measurement: pinning, huge pages, vmsplice.

use std::io;
use std::path::Path;
use std::thread;

use gush::{Errno, HUGE_PAGE_BYTES, Kernel, Pages, Vmsplice};
use gush_text::{errno_text, os_text};

use crate::model::Warning;
use crate::{affinity, procfs};

const MORE_PROCESSORS: &str =
    "give gush two processors: taskset, the container's --cpuset-cpus, or a larger machine";

/// Two processors to pin to, on different cores if possible, or a warning.
pub(super) fn two_processors() -> (Option<[usize; 2]>, Option<Warning>) {
    let lacking = match affinity::allowed().as_deref() {
        Ok([first, others @ ..]) if !others.is_empty() && affinity_can_be_set(*first) => {
            let siblings = affinity::siblings_in(Path::new("/"), *first);
            let second = second_of(others, &siblings);
            let note = siblings.contains(&second).then(|| {
                Warning::new(
                    "both programs of a case share a core: the processors allowed are its two threads",
                    "allow processors of two cores: taskset, or the container's --cpuset-cpus",
                )
            });
            return (Some([*first, second]), note);
        }
        Ok([_, _, ..]) => Warning::new(
            "not pinned: this process may not choose its processor",
            "allow sched_setaffinity(2), which a seccomp filter denies here",
        ),
        Ok(_) => Warning::new(
            "not pinned: one processor for both programs, which wait for each other on it",
            MORE_PROCESSORS,
        ),
        Err(errno) => Warning::new(format!("not pinned: {}", errno_text(*errno)), MORE_PROCESSORS),
    };
    (None, Some(lacking))
}

/// Two threads of a core share its units and caches, and slow each other down.
fn second_of(others: &[usize], siblings: &[usize]) -> usize {
    others.iter().copied().find(|cpu| !siblings.contains(cpu)).unwrap_or(others[0])
}

/// Tried in a separate thread, whose affinity ends with the thread.
fn affinity_can_be_set(cpu: usize) -> bool {
    // Builder: where a filter denies new threads, thread::spawn panics.
    let tried = thread::Builder::new().spawn(move || affinity::pin(cpu).is_ok());
    tried.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// The outcome of asking for a huge page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HugePage {
    /// So many bytes in huge pages.
    Came(u64),
    /// Pages of 4 KiB.
    Small,
    /// No memory can be asked for.
    Refused(Errno),
    /// The kernel does not say.
    #[default]
    Unknown,
}

/// Asks for a huge page: did it come, and could a writer check that (as root)?
pub(super) fn huge_page() -> (HugePage, io::Result<()>) {
    // In all mappings together (proc_pid_smaps_rollup of proc_pid_smaps(5)).
    let huge_bytes = || procfs::bytes("/proc/self/smaps_rollup", "AnonHugePages");
    let before = huge_bytes();
    let mut pages = match Pages::huge(1) {
        Ok(pages) => pages,
        Err(errno) => return (HugePage::Refused(errno), Err(errno.into())),
    };
    // A page comes at the first write; before it there is nothing to look at.
    pages.as_mut_slice().fill(1);
    let page = match huge_bytes().zip(before).map(|(now, before)| now.saturating_sub(before)) {
        None => HugePage::Unknown,
        Some(bytes) if bytes >= HUGE_PAGE_BYTES as u64 => HugePage::Came(bytes),
        Some(_) => HugePage::Small,
    };
    (page, gush::hugepage::count(&pages).map(drop))
}

/// The warning about huge pages before a run.
pub(super) fn of_huge_page(page: HugePage, checked: &io::Result<()>) -> Option<Warning> {
    match (page, checked) {
        (HugePage::Small | HugePage::Refused(_), _) => Some(Warning::new(
            "no huge page came: the huge and fresh cases run on pages of 4 KiB",
            "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; or free some memory",
        )),
        (_, Err(error)) => Some(Warning::new(
            format!("could not check for huge pages, which needs root: {}", os_text(error)),
            "run as root to verify that the huge cases use huge pages",
        )),
        (_, Ok(())) => None,
    }
}

/// The warning about vmsplice before a run.
pub(super) fn of_vmsplice() -> Option<Warning> {
    match Kernel::get().vmsplice() {
        Vmsplice::ZeroCopy => None,
        Vmsplice::Copies => Some(Warning::new(
            "this kernel copies on vmsplice: those cases are sound here, and slow",
            "nothing is wrong: compare them with kernels of the same kind only",
        )),
        Vmsplice::Absent(errno) => Some(Warning::new(
            format!(
                "vmsplice is denied or missing here ({}): its cases cannot run",
                errno_text(errno)
            ),
            "a container may allow it: --security-opt seccomp=unconfined",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_processor_is_of_another_core_where_there_is_one() {
        assert_eq!(second_of(&[1, 2, 3], &[0, 1]), 2);
        assert_eq!(second_of(&[1], &[0, 1]), 1);
    }
}
