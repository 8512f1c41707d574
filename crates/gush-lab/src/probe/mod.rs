//! This machine and this process, looked at once, before anything is measured or said about them.
//!
//! | room | holds |
//! |---|---|
//! | `fingerprint`, `processor` | the facts known to change the speed of moving bytes: kept with a run, printed by `gush doctor --json` |
//! | `trials` | facts that need a trial: pinning, a huge page, vmsplice |
//! | `cgroup` | the limits of the control group |
//! | `counters` | the kernel's counters: the difference of two looks is the work in between |
//! | [`doctor`] | facts with consequences and remedies |

mod cgroup;
mod counters;
pub mod doctor;
mod fingerprint;
mod processor;
mod trials;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::model::{Machine, Warning};
use crate::procfs;

pub(crate) use cgroup::Cgroup;
pub use counters::Counters;
pub(crate) use trials::HugePage;

/// Memory that can be had without pushing anything out (`MemAvailable` of proc_meminfo(5)).
pub(crate) fn available_memory_bytes() -> u64 {
    // Without procfs 1 GiB is assumed: most machines have as much to spare.
    procfs::bytes("/proc/meminfo", "MemAvailable").unwrap_or(1 << 30)
}

/// The facts about this machine, and the rights of this process.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// The machine's fingerprint, which is kept with a run.
    pub machine: Machine,
    /// Two processors, one for each end of a case, on different cores if possible.
    pub processors: Option<[usize; 2]>,
    /// Whether a huge page came can be checked: every writer checks the pages of its own buffer.
    pub huge_pages_checked: bool,
    /// The lacking features, and remedies.
    pub notes: Vec<Warning>,
    pub(crate) cgroup: Cgroup,
    pub(crate) huge_page: HugePage,
}

impl Probe {
    /// Looks at this machine, and makes the trials.
    pub fn take() -> Self {
        let mut probe = Self::unpinned();
        let (processors, lacking) = trials::two_processors();
        let (huge_page, checked) = trials::huge_page();
        probe.notes.extend(lacking);
        probe.notes.extend(trials::of_huge_page(huge_page, &checked));
        probe.notes.extend(trials::of_vmsplice());
        let pinned = processors.map(|[first, second]| format!("{first} and {second}"));
        probe.machine.facts.extend(pinned.map(|pinned| ("pinned".to_owned(), pinned)));
        Self {
            processors,
            huge_page,
            huge_pages_checked: checked.is_ok() && matches!(huge_page, HugePage::Came(_)),
            ..probe
        }
    }

    /// Looks at this machine and tries nothing: for cases that run where the kernel puts them.
    pub fn unpinned() -> Self {
        let mut probe = Self::look_in(Path::new("/"));
        let libc = fingerprint::libc_version().map(|version| ("libc".to_owned(), version));
        probe.machine.facts.extend(libc);
        probe
    }

    /// Reads `/proc`, `/sys` and `/etc` below `root`, and tries nothing.
    pub fn look_in(root: &Path) -> Self {
        let cgroup = Cgroup::look_in(root);
        Self { machine: fingerprint::of(root, &cgroup), cgroup, ..Self::default() }
    }
}

/// Names the build of this program: the start of its build ID, or of its hash where the linker gave
/// none, or none if the file is unreadable.
pub fn build() -> Option<String> {
    build_of(&File::open("/proc/self/exe").ok()?)
}

fn build_of(program: &File) -> Option<String> {
    let mut start = [0; 4096];
    let read_bytes = program.read_at(&mut start, 0).ok()?;
    let id =
        build_id(&start[..read_bytes]).map(|id| id.iter().map(|b| format!("{b:02x}")).collect());
    let name: String = match id {
        Some(id) => id,
        // Megabytes are read for it, in the time of several runs of a short command.
        None => gush::digest_of(program).ok()?.to_string(),
    };
    Some(name[..12].to_owned())
}

/// The build ID among the notes at the start of a program (elf(5)): the lengths of name and ID, the
/// kind, the name.
fn build_id(start: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    const ID_BYTES: u32 = 20;
    let head =
        [[4, ID_BYTES, NT_GNU_BUILD_ID].map(u32::to_ne_bytes).as_flattened(), b"GNU\0"].concat();
    let at = start.windows(head.len()).position(|bytes| bytes == head)? + head.len();
    start.get(at..at + ID_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_the_value_of_its_own_note() {
        let note = |kind: u32, id: &[u8]| {
            let head = [4, id.len() as u32, kind].map(u32::to_ne_bytes);
            [head.as_flattened(), b"GNU\0", id].concat()
        };
        let [abi, id] = [note(1, &[0; 16]), note(3, &[7; 20])];
        assert_eq!(build_id(&[&abi[..], &id].concat()), Some(&[7; 20][..]));
        assert_eq!(build_id(&abi), None);
        assert_eq!(build_id(&id[..id.len() - 1]), None, "cut off");
        assert_eq!(build().map(|name| name.len()), Some(12));
    }

    #[test]
    fn a_program_without_a_build_id_is_named_by_its_digest() {
        let note = [[4, 20, 3].map(u32::to_ne_bytes).as_flattened(), b"GNU\0", &[7; 20]].concat();
        let program = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, content).unwrap();
            file
        };
        assert_eq!(build_of(&program(&note)).unwrap(), "07".repeat(6));
        let [one, other] = [&b"one"[..], b"other"].map(program);
        let digest = gush::digest_of(&one).unwrap().to_string();
        assert_eq!(build_of(&one).unwrap(), digest[..12]);
        assert_ne!(build_of(&one), build_of(&other));
    }
}
