//! Memory: huge pages, and how much may be locked.

use gush::Pages;
use nix::sys::resource::Resource;

use super::finding::{Finding, words};
use crate::probe::{HugePage, Probe};
use gush_text::rounded_bytes as size;

const MODE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Whether a huge page came when one was asked for.
pub(super) fn huge_pages(probe: &Probe) -> Finding {
    const TOPIC: &str = "huge-pages";
    let mode = probe.machine.facts.get("huge_pages").map_or("not in this kernel", String::as_str);
    let slower = "the fastest way into a pipe runs on pages of 4 KiB, several times slower";
    let enable = format!("as root: echo madvise > {MODE}");
    match probe.huge_page {
        HugePage::Refused(errno) => Finding::absent(
            TOPIC,
            format!("no huge page can be asked for: {} (mode: {mode})", words(errno)),
            slower,
        )
        .remedy(enable),
        HugePage::Unknown => Finding::unknown(
            TOPIC,
            format!("whether a huge page came is unknown (/proc/self/smaps_rollup; mode: {mode})"),
            "the fastest way into a pipe may run on pages of 4 KiB",
        ),
        HugePage::Came(bytes) => Finding::fine(
            TOPIC,
            format!("a huge page of {} came when asked for (mode: {mode})", size(bytes)),
            "pages are lent to pipes 512 at a time",
        ),
        HugePage::Small => Finding::limited(
            TOPIC,
            format!("no huge page came when asked for (mode: {mode})"),
            slower,
        )
        .remedy(match mode {
            "never" => &enable,
            _ => {
                "free memory may be in small pieces; as root: echo 1 > /proc/sys/vm/compact_memory"
            }
        }),
    }
}

/// Locks some memory, as far as that is allowed.
pub(super) fn locked() -> Finding {
    const TOPIC: &str = "locked-memory";
    const TRIED_BYTES: usize = 1 << 20;
    let limit = match super::limits::limit_of(Resource::RLIMIT_MEMLOCK) {
        Ok([Some(bytes), _]) => size(bytes),
        Ok([None, _]) => "any amount".to_owned(),
        Err(_) => "an unknown amount".to_owned(),
    };
    let tried = Pages::new(TRIED_BYTES).and_then(|pages| pages.lock());
    match tried {
        Ok(()) => Finding::fine(
            TOPIC,
            format!("{limit} of memory may be locked, and {} were", size(TRIED_BYTES as u64)),
            "the lab can measure with locked pages (--lock-memory)",
        ),
        Err(errno) => Finding::limited(
            TOPIC,
            format!(
                "{} could not be locked: {} (limit: {limit})",
                size(TRIED_BYTES as u64),
                words(errno)
            ),
            "the lab cannot measure with locked pages; moving bytes needs none",
        )
        .remedy("ulimit -l unlimited; systemd: LimitMEMLOCK="),
    }
}
