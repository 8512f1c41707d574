//! Limits of this user and process: pipes, descriptors.

use std::fs;
use std::os::fd::OwnedFd;

use gush::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size};

use super::finding::{Finding, words};
use crate::procfs::number;
use gush_text::rounded_bytes as size;

const MAX_SIZE: &str = "/proc/sys/fs/pipe-max-size";
const SOFT: &str = "/proc/sys/fs/pipe-user-pages-soft";

/// The pipe size that gush asks for; larger pipes are no faster.
const WANTED_BYTES: usize = 1 << 20;

/// How large a pipe may be, and how large new ones are.
pub(super) fn pipes() -> [Finding; 2] {
    [size_of_one(), new_pipes()]
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
}

fn size_of_one() -> Finding {
    const TOPIC: &str = "pipe-size";
    let (reader, writer) = match pipe() {
        Ok(ends) => ends,
        Err(errno) => {
            return Finding::absent(
                TOPIC,
                format!("no pipe can be made: {}", words(errno)),
                "splice and vmsplice cannot be used between files and sockets",
            )
            .remedy(
                gush_text::remedy(gush_text::Doing::Other, errno)
                    .unwrap_or("close pipes of other programs"),
            );
        }
    };
    let given = fcntl_getpipe_size(&reader).unwrap_or(0);
    let granted = fcntl_setpipe_size(&writer, WANTED_BYTES);
    let most = number(MAX_SIZE).unwrap_or(WANTED_BYTES as u64);
    match granted {
        Ok(bytes) => {
            let beyond = usize::try_from(most * 2).unwrap_or(usize::MAX);
            let exceeds = fcntl_setpipe_size(&writer, beyond).is_ok();
            let who = if exceeds { ", and this process may exceed that" } else { "" };
            Finding::fine(
                TOPIC,
                format!(
                    "a pipe began with {}, and was granted {}; the limit is {}{who} ({MAX_SIZE})",
                    size(given as u64),
                    size(bytes as u64),
                    size(most)
                ),
                format!("gush's own pipes have {}: up to as much moves in one splice", size(bytes as u64)),
            )
        }
        Err(errno) => Finding::limited(
            TOPIC,
            format!("a pipe may not have {}: {}", size(WANTED_BYTES as u64), words(errno)),
            format!("gush's own pipes are smaller, {} at first, and splicing takes more calls", size(given as u64)),
        )
        .remedy(format!("as root: echo {WANTED_BYTES} > {MAX_SIZE}; or let the user's other programs close pipes")),
    }
}

/// The slots that a pipe is born with; past the user's limit a pipe is born with two (pipe(7)).
const BORN_SLOTS: u64 = 16;

/// Whether new pipes of this user are born whole.
fn new_pipes() -> Finding {
    const TOPIC: &str = "pipe-pages";
    let page_bytes = rustix::param::page_size() as u64;
    let limit = match number(SOFT) {
        Some(0) => "any size together".to_owned(),
        Some(pages) => format!("{} together", size(pages * page_bytes)),
        None => "an unknown size together".to_owned(),
    };
    let born = pipe().and_then(|(reader, _writer)| fcntl_getpipe_size(&reader));
    let slow = "splicing through new pipes is slow; gush then asks for less";
    match born {
        Ok(bytes) if bytes as u64 >= BORN_SLOTS * page_bytes => Finding::fine(
            TOPIC,
            format!("a user's pipes may have {limit}, and new ones are born whole ({SOFT})"),
            "past the limit new pipes have two slots, and splicing through them is slow",
        ),
        Ok(bytes) => Finding::limited(
            TOPIC,
            format!("new pipes have {}: a user's may have {limit} ({SOFT})", size(bytes as u64)),
            slow,
        )
        .remedy(format!("close pipes of other programs; or, as root: echo 0 > {SOFT}")),
        Err(errno) => Finding::unknown(TOPIC, format!("no pipe: {}", words(errno)), slow),
    }
}

/// The soft and the hard limit, none where there is none.
pub(super) fn limit_of(resource: Resource) -> nix::Result<[Option<u64>; 2]> {
    let (soft, hard) = getrlimit(resource)?;
    Ok([soft, hard].map(|limit| (limit != RLIM_INFINITY).then_some(limit)))
}

/// How many descriptors there may be.
pub(super) fn descriptors() -> Finding {
    const TOPIC: &str = "descriptors";
    /// A thousand relayed connections: two sockets and two ends of a pipe each way.
    const ENOUGH: u64 = 6 * 1024;
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let shown =
        |limit: Option<u64>| limit.map_or("any number".to_owned(), |limit| limit.to_string());
    let [soft, hard] = match limit_of(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(errno) => {
            return Finding::unknown(
                TOPIC,
                format!(
                    "{open} descriptors are open; how many are allowed is unknown: {}",
                    errno.desc()
                ),
                "a relay that runs out of them says so, and waits",
            );
        }
    };
    let fact = format!(
        "{open} descriptors are open; {} are allowed, and up to {} on request",
        shown(soft),
        shown(hard)
    );
    match soft {
        Some(current) if current < ENOUGH => Finding::limited(
            TOPIC,
            fact,
            format!(
                "a relay serves about {} connections at once (six descriptors each)",
                current.saturating_sub(16) / 6
            ),
        )
        .remedy(match hard {
            Some(most) => format!("ulimit -n {most}; systemd: LimitNOFILE="),
            None => "ulimit -n 65536; systemd: LimitNOFILE=".to_owned(),
        }),
        _ => Finding::fine(TOPIC, fact, "enough for a thousand relayed connections"),
    }
}
