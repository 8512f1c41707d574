//! Limits of this user and process: pipes, descriptors.

use std::fs;
use std::os::fd::OwnedFd;

use gush::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::finding::{Finding, words};
use crate::sizes::rounded as size;

const MAX_SIZE: &str = "/proc/sys/fs/pipe-max-size";
const SOFT: &str = "/proc/sys/fs/pipe-user-pages-soft";

/// The pipe size that gush asks for; larger pipes are no faster.
const WANTED_BYTES: usize = 1 << 20;

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// How large a pipe may be, and the share of the user's pages for pipes that is in use.
pub(super) fn pipes() -> [Finding; 2] {
    [size_of_one(), share_in_use()]
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
const BORN_SLOTS: usize = 16;

/// No more pipes than these are made to find out how many there can be.
const MOST_PIPES: usize = 1100;

/// The share of the user's pages for pipes that is in use. Nothing tells the share, so pipes are made until the kernel
/// grants no more, and closed at once: for that moment the user's other programs get small ones.
fn share_in_use() -> Finding {
    const TOPIC: &str = "pipe-pages";
    let large = "as many connections as you like get large pipes";
    let limit_bytes = match number(SOFT) {
        Some(0) => {
            return Finding::fine(
                TOPIC,
                format!("a user's pipes may have any size together ({SOFT})"),
                large,
            );
        }
        Some(pages) => pages * rustix::param::page_size() as u64,
        None => {
            return Finding::unknown(
                TOPIC,
                format!("how much a user's pipes may have together is not told ({SOFT})"),
                "new pipes may have two slots, and splicing through them is slow; gush then asks for less",
            );
        }
    };
    let granted = with_descriptors(2 * limit_bytes / WANTED_BYTES as u64, granted_bytes);
    let (left_bytes, end) = match granted {
        Ok(granted) => granted,
        Err(error) => {
            return Finding::unknown(
                TOPIC,
                format!(
                    "how much of the user's {} for pipes is in use could not be tried: {error}",
                    size(limit_bytes)
                ),
                "new pipes may have two slots, and splicing through them is slow; gush then asks for less",
            );
        }
    };
    let used_bytes = limit_bytes.saturating_sub(left_bytes);
    let share = format!(
        "{} of the user's {} for pipes, {} %,",
        size(used_bytes),
        size(limit_bytes),
        used_bytes * 100 / limit_bytes
    );
    if end != NoMorePipes::Refused {
        let why = if end == NoMorePipes::Enough {
            "more were not tried"
        } else {
            "then descriptors ran out"
        };
        return Finding::limited(
            TOPIC,
            format!("at most {share} are in use: {} were granted, {why} ({SOFT})", size(left_bytes)),
            "past the limit new pipes have two slots, and splicing through them is slow; gush then asks for less",
        )
        .remedy("raise the limit on descriptors: ulimit -n 4096");
    }
    if may_exceed_limits() {
        return Finding::fine(
            TOPIC,
            format!("{share} are in use, and this process may exceed that ({SOFT})"),
            large,
        );
    }
    let fact = format!("{share} are in use: {} are left ({SOFT})", size(left_bytes));
    let consequence = "past that new pipes have two slots, and splicing through them is slow; gush then asks for less";
    let finding = if left_bytes >= 16 * WANTED_BYTES as u64 {
        Finding::fine(TOPIC, fact, consequence)
    } else {
        Finding::limited(TOPIC, fact, consequence)
    };
    finding.remedy(format!("for hundreds of connections, as root: echo 0 > {SOFT}"))
}

/// These exceed the user's limits for pipes (`pipe_is_unprivileged_user` of fs/pipe.c).
const EXCEEDING: CapabilitySet = CapabilitySet::SYS_RESOURCE.union(CapabilitySet::SYS_ADMIN);

fn may_exceed_limits() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.intersects(EXCEEDING))
}

/// Why no more pipes were made.
#[derive(PartialEq, Eq)]
enum NoMorePipes {
    Refused,
    NoDescriptor,
    Enough,
}

/// The bytes of pipes that the kernel grants to this user within the limit, to root too.
///
/// # Errors
/// Where no thread can be made.
fn granted_bytes() -> std::io::Result<(u64, NoMorePipes)> {
    // Capabilities are a thread's own (capabilities(7)): the process keeps them.
    let thread = std::thread::Builder::new().spawn(|| {
        if let Ok(mut sets) = capabilities(None) {
            sets.effective.remove(EXCEEDING);
            // A thread that cannot lose them is granted more than the limit, and says so.
            let _ = set_capabilities(None, sets);
        }
        let born_bytes = BORN_SLOTS * rustix::param::page_size();
        let (mut open, mut sum_bytes, mut asked_bytes) = (Vec::new(), 0, WANTED_BYTES);
        while open.len() < MOST_PIPES {
            let Ok((reader, writer)) = pipe() else {
                return (sum_bytes, NoMorePipes::NoDescriptor);
            };
            if fcntl_getpipe_size(&writer).is_ok_and(|bytes| bytes < born_bytes) {
                return (sum_bytes, NoMorePipes::Refused);
            }
            while asked_bytes > born_bytes && fcntl_setpipe_size(&writer, asked_bytes).is_err() {
                asked_bytes /= 2;
            }
            sum_bytes += fcntl_getpipe_size(&writer).unwrap_or(0) as u64;
            open.push((reader, writer));
        }
        (sum_bytes, NoMorePipes::Enough)
    })?;
    Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Runs `work` with so many descriptors more than there are by now, as far as the hard limit permits.
fn with_descriptors<T>(more: u64, work: impl FnOnce() -> T) -> T {
    /// What the process has open otherwise, and pipes smaller than wanted.
    const OTHERS: u64 = 64;
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let raised = limits.is_ok_and(|(soft, hard)| {
        let wanted = (more + OTHERS).min(hard);
        soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok()
    });
    let answer = work();
    if let (true, Ok((soft, hard))) = (raised, limits) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
    }
    answer
}

/// The soft and the hard limit, none where there is none; or why nobody tells.
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
    let told =
        |limit: Option<u64>| limit.map_or("any number".to_owned(), |limit| limit.to_string());
    let [soft, hard] = match limit_of(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(errno) => {
            return Finding::unknown(
                TOPIC,
                format!(
                    "{open} descriptors are open; how many are allowed is not told: {}",
                    errno.desc()
                ),
                "a relay that runs out of them says so, and waits",
            );
        }
    };
    let fact = format!(
        "{open} descriptors are open; {} are allowed, and up to {} on request",
        told(soft),
        told(hard)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_fact_and_a_consequence() {
        for finding in pipes().into_iter().chain([descriptors()]) {
            assert!(!finding.fact.is_empty() && !finding.consequence.is_empty(), "{finding:?}");
        }
    }
}
