//! What this machine grants, looked at before anything is measured.

use std::io;

use gush::{Kernel, Pages, Vmsplice};

use crate::affinity;

/// What this machine grants.
///
/// ```
/// let conditions = gush_lab::runner::Conditions::look();
/// assert!(conditions.processors.is_some() || !conditions.notes.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Two processors, one for each end of a case; none when there are not two to be pinned to.
    pub processors: Option<[usize; 2]>,
    /// Huge pages came when asked for, and that can be checked: every writer checks its own.
    pub huge_pages_checked: bool,
    /// What is lacking, a sentence each.
    pub notes: Vec<String>,
}

impl Conditions {
    /// Asks the machine.
    #[must_use]
    pub fn look() -> Self {
        let mut notes = Vec::new();
        let processors = match affinity::allowed().as_deref() {
            Ok([first, second, ..]) if affinity_can_be_set(*first) => Some([*first, *second]),
            Ok([_, _, ..]) => {
                notes.push("not pinned: this process may not choose its processor".to_owned());
                None
            }
            Ok(_) => {
                notes.push(
                    "not pinned: one processor for both programs, which wait for each other on it"
                        .to_owned(),
                );
                None
            }
            Err(errno) => {
                notes.push(format!("not pinned: {errno}"));
                None
            }
        };
        let huge_pages_checked = match huge_page() {
            Ok(true) => true,
            Ok(false) => {
                notes.push(
                    "no huge page came: the huge and fresh cases run on pages of 4 KiB".to_owned(),
                );
                false
            }
            Err(error) => {
                notes.push(format!("could not check for huge pages, which needs root: {error}"));
                false
            }
        };
        match Kernel::get().vmsplice() {
            Vmsplice::ZeroCopy => {}
            Vmsplice::Copies => notes.push(
                "this kernel copies on vmsplice: those cases are sound here, and slow".to_owned(),
            ),
            Vmsplice::Absent(errno) => notes.push(format!(
                "vmsplice is denied or missing here ({errno}): its cases cannot run"
            )),
        }
        Self { processors, huge_pages_checked, notes }
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
