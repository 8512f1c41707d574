//! Detects changes of a source during the copy.
//!
//! One rule for all methods: the bytes read are copied, a warning says that the source changed, and
//! the copy counts as done. (GNU cp does the same without a warning.) With
//! [`CopyOptions::stable`](crate::CopyOptions::stable) a change is an error. A new change time
//! alone is an error then, too: a process that puts the modification time back cannot put back the
//! change time.
//!
//! A write sets the times when it begins (`file_update_time` of `fs/inode.c`) and may last long
//! after that if its process gets no processor. [`let_writes_end`] waits for writes that began
//! before the first look.
//!
//! Two changes stay unseen: stores through a shared mapping into pages that are dirty already,
//! which change no time, and past the page cache (O_DIRECT) a single write that began more than
//! [`QUIET`] before the first look.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self, FileType, SeekFrom, Stat};

use crate::error::Error;
use crate::job::Job;
use crate::place::{kind, stat_of};

/// How long a source must have stayed unchanged before the copy. Writes within one tick of the
/// kernel's clock (10 ms at most) get the same time, so a write under way at the first look would
/// leave no trace.
pub(crate) const QUIET: Duration = Duration::from_millis(100);
/// How often a source may be found changed before the copy fails.
const LOOKS: usize = 5;

/// Refuses, before it is opened, a source whose size and times do not show a change.
pub(crate) fn refuse_unwatchable(job: &Job<'_>) -> Result<(), Error> {
    match kind(job.source.stat) {
        FileType::RegularFile => Ok(()),
        _ => Err(unwatchable(job)),
    }
}

fn unwatchable(job: &Job<'_>) -> Error {
    let text =
        "cannot detect changes of {}, as --stable requires: its size and times do not show them";
    Error::refusal(job.source.place.shown, text).hinting("copy it without --stable")
}

/// Waits until nobody has changed the source for [`QUIET`], and returns the stat of the source.
pub(crate) fn when_quiet(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    mut stat: Stat,
) -> Result<Stat, Error> {
    // What a file of /proc holds changes, and its times do not.
    let made_up = gush::Endpoint::of(&source).is_ok_and(|end| end.kind() == gush::Kind::Pseudo);
    if made_up {
        return Err(unwatchable(job));
    }
    for _ in 0..LOOKS {
        // Nothing has happened for the whole time of quiet, so nobody has to wait.
        if !is_young(&stat) {
            // Old times may be those of a write that began then and is still under way.
            let_writes_end(source);
            return Ok(stat);
        }
        thread::sleep(QUIET);
        let now = stat_of(source, job.source.place.shown)?;
        // Another machine's clock may be ahead of ours: two equal stats count, too.
        if changed(&now) == changed(&stat) && now.st_size == stat.st_size {
            let_writes_end(source);
            return Ok(now);
        }
        stat = now;
    }
    let text = format!(
        "not copying {{}}: still changing after {LOOKS} waits of {}",
        gush_text::with_unit(QUIET)
    );
    Err(Error::unstable(job.source.place.shown, text).hinting("copy it while nothing writes to it"))
}

/// Waits until the writes already under way have ended. Writes that begin now change the times.
///
/// A search for a hole takes the lock that a write holds from before it sets the times until it
/// ends (`ext4_llseek`, `shmem_file_llseek`, `btrfs_file_llseek`). On XFS every read takes this
/// lock. On a file system without holes this function waits for nothing.
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
    // A time ahead of our clock gives 0, and so counts as young.
    now.saturating_sub(Duration::new(seconds, nanoseconds)) < QUIET
}

fn changed(stat: &Stat) -> (i64, u64) {
    (stat.st_ctime, stat.st_ctime_nsec)
}

/// The difference between the source now and at the time of opening, in words. `None` if there is
/// none, or if the source is not a regular file.
pub(crate) fn change(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    before: &Stat,
) -> Result<Option<String>, Error> {
    if kind(before) != FileType::RegularFile {
        return Ok(None);
    }
    let now = stat_of(source, job.source.place.shown)?;
    let modified = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    let how = match (before.st_size, now.st_size) {
        (old, new) if old != new => format!("{old} bytes became {new}"),
        _ if modified(before) != modified(&now) => "the content was written to".to_owned(),
        _ if job.options().stable && changed(before) != changed(&now) => {
            "the content was written and the modification time put back, or the metadata changed"
                .to_owned()
        }
        _ => return Ok(None),
    };
    Ok(Some(format!("{{}} changed while it was being copied: {how}")))
}
