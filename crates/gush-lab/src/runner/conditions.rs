//! What this machine grants, looked at before anything is measured.

use std::io;
use std::path::Path;

use gush::{Kernel, Pages, Vmsplice};

use crate::affinity;
use crate::model::Warning;

/// What this machine grants.
///
/// ```
/// let conditions = gush_lab::runner::Conditions::look();
/// assert!(conditions.processors.is_some() || !conditions.notes.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Two processors, one for each end of a case, of two cores where there are; none when there are not two to be
    /// pinned to.
    pub processors: Option<[usize; 2]>,
    /// Huge pages came when asked for, and that can be checked: every writer checks its own.
    pub huge_pages_checked: bool,
    /// What is lacking, and what to do about it.
    pub notes: Vec<Warning>,
}

const MORE_PROCESSORS: &str =
    "give gush two processors: taskset, the container's --cpuset-cpus, or a larger machine";

impl Conditions {
    /// Asks the machine.
    #[must_use]
    pub fn look() -> Self {
        let mut notes = Vec::new();
        let processors = match two_processors() {
            Ok([first, second]) => {
                if affinity::siblings_in(Path::new("/"), first).contains(&second) {
                    notes.push(Warning::new(
                        "both programs of a case share a core: the processors allowed are its two threads",
                        "allow processors of two cores: taskset, or the container's --cpuset-cpus",
                    ));
                }
                Some([first, second])
            }
            Err(note) => {
                notes.push(note);
                None
            }
        };
        let huge_pages_checked = match huge_page() {
            Ok(true) => true,
            Ok(false) => {
                notes.push(Warning::new(
                    "no huge page came: the huge and fresh cases run on pages of 4 KiB",
                    "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; or free some memory",
                ));
                false
            }
            Err(error) => {
                notes.push(Warning::new(
                    format!("could not check for huge pages, which needs root: {error}"),
                    "run as root to be sure that the huge cases stand on huge pages",
                ));
                false
            }
        };
        match Kernel::get().vmsplice() {
            Vmsplice::ZeroCopy => {}
            Vmsplice::Copies => notes.push(Warning::new(
                "this kernel copies on vmsplice: those cases are sound here, and slow",
                "nothing is wrong: compare them with kernels of the same kind only",
            )),
            Vmsplice::Absent(errno) => notes.push(Warning::new(
                format!("vmsplice is denied or missing here ({errno}): its cases cannot run"),
                "a container may allow it: --security-opt seccomp=unconfined",
            )),
        }
        Self { processors, huge_pages_checked, notes }
    }
}

fn two_processors() -> Result<[usize; 2], Warning> {
    match affinity::allowed().as_deref() {
        Ok([first, others @ ..]) if !others.is_empty() && affinity_can_be_set(*first) => {
            let siblings = affinity::siblings_in(Path::new("/"), *first);
            match others.iter().find(|cpu| !siblings.contains(cpu)) {
                Some(second) => Ok([*first, *second]),
                None => Ok([*first, others[0]]),
            }
        }
        Ok([_, _, ..]) => Err(Warning::new(
            "not pinned: this process may not choose its processor",
            "allow sched_setaffinity(2), which a seccomp filter denies here",
        )),
        Ok(_) => Err(Warning::new(
            "not pinned: one processor for both programs, which wait for each other on it",
            MORE_PROCESSORS,
        )),
        Err(errno) => Err(Warning::new(format!("not pinned: {errno}"), MORE_PROCESSORS)),
    }
}

/// Tried in a thread of its own, which takes its processor with it when it ends.
fn affinity_can_be_set(cpu: usize) -> bool {
    std::thread::spawn(move || affinity::pin(cpu).is_ok()).join().unwrap_or(false)
}

fn huge_page() -> io::Result<bool> {
    let Ok(mut pages) = Pages::huge(1) else { return Ok(false) };
    pages.as_mut_slice().fill(1);
    gush::hugepage::count(&pages).map(|(huge, all)| huge == all)
}
