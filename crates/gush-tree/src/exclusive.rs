//! Files of state next to a target, which one process at a time writes to.

use std::fs::File;

use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::place::{Place, kind, same_file};
use crate::remedy;

/// Opens such a file for reading and writing, or makes it where `flags` say so. It is locked until
/// it is closed.
///
/// # Errors
/// `is_written` if another process has it open, and `is_foreign` if it is another user's, who could
/// write there what never happened, or no regular file. A link is not followed.
pub(crate) fn open(
    place: &Place<'_>,
    flags: OFlags,
    is_written: impl FnOnce() -> Error,
    is_foreign: &'static str,
) -> Result<(File, Stat), Error> {
    let os = |what: &'static str| move |errno| (what, errno);
    let opened = (|| {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | flags;
        let fd =
            place.open_regular(flags, Mode::RUSR | Mode::WUSR).map_err(os("cannot open {}"))?;
        let stat = retry_on_intr(|| fs::fstat(&fd)).map_err(os("cannot stat {}"))?;
        // flock(2) ends with the process, also by SIGKILL: no stale lock is left.
        retry_on_intr(|| fs::flock(&fd, FlockOperation::NonBlockingLockExclusive))
            .map_err(os("cannot lock {}"))?;
        // The last holder of the lock may have ended its copy and removed the file.
        let named = place.stat(false).map_err(os("cannot stat {}"))?;
        if !same_file(&named, &stat) {
            return Err(os("cannot lock {}")(Errno::WOULDBLOCK));
        }
        Ok((File::from(fd), stat))
    })();
    let (file, stat) = match opened {
        Ok(opened) => opened,
        Err((_, Errno::WOULDBLOCK)) => return Err(is_written()),
        // Of a link in the place of the file, which is not followed.
        Err((what, errno @ Errno::LOOP)) => return Err(Error::os(place.shown, what, errno)),
        Err((what, errno)) => return Err(remedy::not_made(place, what, errno)),
    };
    let is_own = stat.st_uid == process::geteuid().as_raw();
    match is_own && kind(&stat) == FileType::RegularFile {
        true => Ok((file, stat)),
        false => Err(Error::refusal(place.shown, is_foreign)),
    }
}
