//! Memory: huge pages, and how much may be locked.

use std::fs;

use gush::{HUGE_PAGE_BYTES, Pages};
use nix::sys::resource::Resource;

use super::finding::{Finding, size, words};

const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Asks for a huge page, and looks whether it came.
pub(super) fn huge_pages() -> [Finding; 1] {
    const TOPIC: &str = "huge-pages";
    let mode = fs::read_to_string(MODE).unwrap_or_default();
    let mode = mode.split(['[', ']']).nth(1).unwrap_or("not in this kernel").to_owned();
    let slower = "the fastest way into a pipe runs on pages of 4 KiB, several times slower";
    let remedy = || format!("as root: echo madvise > {MODE}");
    let finding = match Pages::huge(1) {
        Err(errno) => Finding::absent(
            TOPIC,
            format!("no huge page can be asked for: {} (mode: {mode})", words(errno)),
            slower,
        ),
        Ok(mut pages) => {
            pages.as_mut_slice().fill(1);
            match huge_bytes_at(pages.address()) {
                None => Finding::unknown(
                    TOPIC,
                    format!(
                        "whether a huge page came is not told (/proc/self/smaps; mode: {mode})"
                    ),
                    "the fastest way into a pipe may run on pages of 4 KiB",
                ),
                Some(bytes) if bytes >= HUGE_PAGE_BYTES as u64 => Finding::fine(
                    TOPIC,
                    format!("a huge page of {} came when asked for (mode: {mode})", size(bytes)),
                    "pages are lent to pipes 512 at a time",
                ),
                Some(_) => Finding::limited(
                    TOPIC,
                    format!("no huge page came when asked for (mode: {mode})"),
                    slower,
                ),
            }
        }
    };
    use super::State::{Absent, Limited};
    let cure = match finding.state {
        Limited if mode != "never" => Some(
            "free memory may be in small pieces; as root: echo 1 > /proc/sys/vm/compact_memory"
                .to_owned(),
        ),
        Limited | Absent => Some(remedy()),
        _ => None,
    };
    [Finding { remedy: cure, ..finding }]
}

/// `AnonHugePages` of the mapping that begins at `address` (proc_pid_smaps(5)).
fn huge_bytes_at(address: usize) -> Option<u64> {
    let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
    huge_bytes_in(&smaps, address)
}

fn huge_bytes_in(smaps: &str, address: usize) -> Option<u64> {
    let mut inside = false;
    for line in smaps.lines() {
        if let Some(range) = range_of(line) {
            inside = range.contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kibibytes: u64 = rest.trim().trim_end_matches("kB").trim().parse().ok()?;
            return Some(kibibytes << 10);
        }
    }
    None
}

/// The addresses of a line that begins a mapping: `7f00-7fff rw-p …`.
fn range_of(line: &str) -> Option<std::ops::Range<usize>> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some(hex(from)?..hex(to)?)
}

/// Locks some memory, as far as that is allowed.
pub(super) fn locked() -> Finding {
    const TOPIC: &str = "locked-memory";
    const TRIED_BYTES: usize = 1 << 20;
    let told = match super::limits::limit_of(Resource::RLIMIT_MEMLOCK) {
        Ok([Some(limit), _]) => size(limit),
        Ok([None, _]) => "any amount".to_owned(),
        Err(_) => "an unknown amount".to_owned(),
    };
    let tried = Pages::new(TRIED_BYTES).and_then(|pages| pages.lock());
    match tried {
        Ok(()) => Finding::fine(
            TOPIC,
            format!("{told} of memory may be locked, and {} were", size(TRIED_BYTES as u64)),
            "the lab can measure with locked pages (--lock-memory)",
        ),
        Err(errno) => Finding::limited(
            TOPIC,
            format!(
                "{} could not be locked: {} (limit: {told})",
                size(TRIED_BYTES as u64),
                words(errno)
            ),
            "the lab cannot measure with locked pages; moving bytes needs none",
        )
        .remedy("ulimit -l unlimited; systemd: LimitMEMLOCK="),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0\n\
                         Size:               2048 kB\n\
                         AnonHugePages:      2048 kB\n\
                         7f0000200000-7f0000300000 rw-p 00000000 00:00 0\n\
                         AnonHugePages:         0 kB\n";

    #[test]
    fn the_right_mapping_is_looked_at() {
        assert_eq!(huge_bytes_in(SMAPS, 0x7f00_0000_1000), Some(2 << 20));
        assert_eq!(huge_bytes_in(SMAPS, 0x7f00_0020_0000), Some(0));
        assert_eq!(huge_bytes_in(SMAPS, 0x1000), None);
    }

    #[test]
    fn memory_has_facts_and_consequences() {
        for finding in huge_pages().into_iter().chain([locked()]) {
            assert!(!finding.fact.is_empty() && !finding.consequence.is_empty(), "{finding:?}");
        }
    }
}
