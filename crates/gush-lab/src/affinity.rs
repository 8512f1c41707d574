//! Which processors this process may use, which of them share a core, and staying on one of them.

use std::path::Path;

use rustix::io;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::procfs;

/// The processors that this process may run on, in order (sched_getaffinity(2)).
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps this thread on one processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// The processors that share a core with `cpu`, which is one of them, from the `/sys` in `root`
/// (`Documentation/admin-guide/cputopology.rst`); empty if unknown.
pub fn siblings_in(root: &Path, cpu: usize) -> Vec<usize> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    procfs::line(root.join(path)).map_or_else(Vec::new, |list| cpus(&list))
}

/// The numbers in a list of processors: `0-3,6`.
pub(crate) fn cpus(list: &str) -> Vec<usize> {
    list.split(',').filter_map(range).flatten().collect()
}

/// `4` or `0-3` (`lib/bitmap-str.c`).
fn range(text: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_are_read_from_lists_and_ranges() {
        let root = tempfile::tempdir().expect("a directory");
        for (cpu, list, siblings) in
            [(0, "0,64\n", &[0, 64][..]), (3, "2-3\n", &[2, 3]), (5, "odd\n", &[])]
        {
            let place = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&place).expect("a directory");
            std::fs::write(place.join("thread_siblings_list"), list).expect("a file");
            assert_eq!(siblings_in(root.path(), cpu), siblings, "{list}");
        }
        assert_eq!(siblings_in(root.path(), 7), [0; 0]);
    }
}
