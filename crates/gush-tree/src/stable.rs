//! Whether a source stayed as it was while it was copied.
//!
//! One rule for all ways of copying: the bytes that were there are copied, a warning says that the source
//! changed, and the copy counts as done, as GNU cp has it, which says nothing. With
//! [`Options::stable`](crate::Options::stable) it is an error, and so is a change of the change time alone: who
//! puts the modification time back leaves that trace.
//!
//! A write sets the times when it begins (`file_update_time` of `fs/inode.c`) and may go on for long after that, where
//! its process gets no processor. One that began before the first look is waited for ([`let_writes_end`]).
//!
//! What this cannot see: stores through a shared mapping into pages that are dirty already, which change no
//! time, and past the page cache (O_DIRECT) a single write that began more than [`QUIET`] before the first look.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self, FileType, SeekFrom, Stat};
use rustix::io::retry_on_intr;

use crate::error::Error;
use crate::file::Job;
use crate::place::kind;

/// For how long a source must not have changed before it is copied. Writes within one tick of the kernel's
/// clock (10 ms at most) get the same time, so that one under way at the first look would leave no trace.
pub(crate) const QUIET: Duration = Duration::from_millis(100);
/// How often a source may be found changed once more before that is an error.
const LOOKS: usize = 5;

/// The state of a source that nobody has changed for a while; waits for that if need be.
pub(crate) fn when_quiet(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    mut stat: Stat,
) -> Result<Stat, Error> {
    if kind(&stat) != FileType::RegularFile {
        return Ok(stat);
    }
    for _ in 0..LOOKS {
        if !is_young(&stat) {
            let_writes_end(source);
            return Ok(stat);
        }
        thread::sleep(QUIET);
        let now = look(job, source)?;
        // Another machine's clock may be ahead of ours: two looks that agree count, too.
        if changed(&now) == changed(&stat) && now.st_size == stat.st_size {
            let_writes_end(source);
            return Ok(now);
        }
        stat = now;
    }
    Err(Error::unstable(job.source.shown, "it keeps changing".to_owned()))
}

/// Waits until no write that has begun already is under way; one that begins now leaves its trace in the times.
///
/// Looking for a hole takes the lock that a write holds from before it sets the times until it ends (`ext4_llseek`,
/// `shmem_file_llseek`, `btrfs_file_llseek`); on XFS every read takes it. Where a file system knows no holes, nothing
/// is waited for.
fn let_writes_end(source: BorrowedFd<'_>) {
    if let Ok(position) = fs::seek(source, SeekFrom::Current(0)) {
        let _ = fs::seek(source, SeekFrom::Hole(0));
        let _ = fs::seek(source, SeekFrom::Start(position));
    }
}

fn is_young(stat: &Stat) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, nanoseconds) = changed(stat);
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
    else {
        return false;
    };
    now.saturating_sub(Duration::new(seconds, nanoseconds)) < QUIET
}

fn changed(stat: &Stat) -> (i64, u64) {
    (stat.st_ctime, stat.st_ctime_nsec)
}

fn look(job: &Job<'_>, source: BorrowedFd<'_>) -> Result<Stat, Error> {
    retry_on_intr(|| fs::fstat(source))
        .map_err(|errno| Error::os(job.source.shown, "cannot stat", errno))
}

/// How a source differs from what was opened, in words; `None` if it is the same, or is no regular file.
pub(crate) fn change(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    before: &Stat,
) -> Result<Option<String>, Error> {
    if kind(before) != FileType::RegularFile {
        return Ok(None);
    }
    let now = look(job, source)?;
    let modified = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    let how = match (before.st_size, now.st_size) {
        (old, new) if old != new => format!("{old} bytes became {new}"),
        _ if modified(before) != modified(&now) => "it was written to".to_owned(),
        _ if job.options.stable && changed(before) != changed(&now) => {
            "it was written to and its time put back, or its metadata changed".to_owned()
        }
        _ => return Ok(None),
    };
    Ok(Some(format!("changed while it was being copied: {how}")))
}
