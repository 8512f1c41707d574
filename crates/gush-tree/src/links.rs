//! Links made instead of copies.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gush_text::quote;
use rustix::fs::{self, AtFlags, CWD};
use rustix::io::{self, Errno, retry_on_intr};

use crate::already_copied::Earlier;
use crate::atomic;
use crate::error::Error;
use crate::events::Events;
use crate::job::Job;
use crate::place::{FileId, Place, proc_path, same_file};
use crate::remedy;

/// Makes `target` another name of the earlier copy. `false` if the copy is not found by its name:
/// another file has it by now, or the file system numbers inodes by path, as some of FUSE do.
pub(crate) fn again(
    job: &Job<'_>,
    earlier: &Earlier<'_>,
    events: &mut dyn Events,
) -> Result<bool, Error> {
    let what = || format!("cannot create hard link {{}} to {}", quote::always(&earlier.shown()));
    let failed = |errno| Error::os(job.target.place.shown, what(), errno);
    let (from, held) = match earlier.directory(job.common.base) {
        Err(Errno::STALE | Errno::NOENT) => return Ok(false),
        reached => reached.map_err(failed)?,
    };
    let dir = held.as_ref().map_or(from, AsFd::as_fd);
    let first = Place::below(dir, &earlier.name, &earlier.name);
    let replaced = name_if_still((&first, !earlier.is_link), earlier.file, &job.target.place)
        .map_err(failed)?;
    // As GNU, which reports it for this link alone, and not for those that -l makes.
    if replaced == Some(true) {
        events.removed(job.target.place.shown);
    }
    Ok(replaced.is_some())
}

/// Makes `target` another name of a file that has the name `first`; `true` where it replaces
/// another one. `None` if the file no longer has that name: a link to whatever has it by now would
/// join files that have nothing to do with each other.
pub(crate) fn name_if_still(
    (first, follow): (&Place<'_>, bool),
    file: FileId,
    target: &Place<'_>,
) -> io::Result<Option<bool>> {
    let fd = match first.pin(follow) {
        Err(Errno::NOENT) => return Ok(None),
        fd => fd?,
    };
    match FileId::of(&retry_on_intr(|| fs::fstat(&fd))?) == file {
        true => make(target, true, |place| name(fd.as_fd(), place)).map(Some),
        false => Ok(None),
    }
}

/// Gives the file that a descriptor holds another name.
///
/// By the descriptor, a seventh of the time of a small file less than by its path in /proc; it
/// needs a capability or Linux 6.10 and answers ENOENT otherwise (linkat(2), fs/namei.c
/// `do_linkat`).
pub(crate) fn name(fd: BorrowedFd<'_>, place: &Place<'_>) -> io::Result<()> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if !IS_REFUSED.load(Ordering::Relaxed) {
        let by_fd = || fs::linkat(fd, c"", place.dir, place.name, AtFlags::EMPTY_PATH);
        match retry_on_intr(by_fd) {
            Err(Errno::NOENT | Errno::INVAL) => {}
            done => return done,
        }
    }
    let path = proc_path(fd);
    let by_path = || fs::linkat(CWD, &path, place.dir, place.name, AtFlags::SYMLINK_FOLLOW);
    let named = retry_on_intr(by_path);
    // Only what the path achieves was refused to the descriptor.
    IS_REFUSED.fetch_or(named.is_ok(), Ordering::Relaxed);
    named
}

/// Makes `target` another name of `source`.
pub(crate) fn hard(
    job: &Job<'_>,
    source: Place<'_>,
    follow: bool,
    may_replace: bool,
) -> Result<(), Error> {
    let flags = if follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
    let link = |place: &Place<'_>| {
        retry_on_intr(|| fs::linkat(source.dir, source.name, place.dir, place.name, flags))
    };
    let made = make(&job.target.place, may_replace, link).map(drop);
    made.map_err(|errno| no_hard_link(&source, &job.target.place, errno))
}

pub(crate) fn no_hard_link(source: &Place<'_>, target: &Place<'_>, errno: Errno) -> Error {
    let what = format!("cannot create hard link {{}} to {}", quote::always(source.shown));
    let error = remedy::not_made(target, what, errno);
    match errno {
        Errno::EXIST => error.hinting("-f replaces it"),
        Errno::XDEV => error.hinting("a hard link cannot lead to another file system"),
        _ => error,
    }
}

/// Makes `target` a symbolic link to the source's name (`-s`).
pub(crate) fn symbolic(job: &Job<'_>) -> Result<(), Error> {
    refuse_misleading(&job.source.place, &job.target.place)?;
    // In a tree the name alone is the last component.
    let text = job.source.place.shown;
    let link = |place: &Place<'_>| retry_on_intr(|| fs::symlinkat(text, place.dir, place.name));
    let made = make(&job.target.place, job.may_replace_link(), link).map(drop);
    made.map_err(|errno| no_symbolic_link(&job.source.place, &job.target.place, errno))
}

/// Refuses a link to `source` that would lead to another place than this name.
pub(crate) fn refuse_misleading(source: &Place<'_>, target: &Place<'_>) -> Result<(), Error> {
    match source.shown.is_absolute() || is_in_current_directory(target) {
        true => Ok(()),
        false => Err(misleading(target)),
    }
}

pub(crate) fn misleading(target: &Place<'_>) -> Error {
    let text = "can make relative symbolic links only in current directory";
    Error::refusal(target.shown, text).hinting("name the source by its absolute path")
}

pub(crate) fn no_symbolic_link(source: &Place<'_>, target: &Place<'_>, errno: Errno) -> Error {
    let what = format!("cannot create symbolic link {{}} to {}", quote::always(source.shown));
    hinting_force(remedy::not_made(target, what, errno), errno)
}

pub(crate) fn hinting_force(error: Error, errno: Errno) -> Error {
    if errno == Errno::EXIST { error.hinting("-f replaces it") } else { error }
}

/// The text of a symbolic link; without a name, of the one that the descriptor holds.
pub(crate) fn text(link: &Place<'_>) -> Result<CString, Error> {
    retry_on_intr(|| fs::readlinkat(link.dir, link.name, Vec::new()))
        .map_err(|errno| Error::os(link.shown, "cannot read symbolic link {}", errno))
}

/// Makes a link. An existing name is replaced by one rename, never removed first; `true` where that
/// happened.
pub(crate) fn make(
    target: &Place<'_>,
    may_replace: bool,
    mut link: impl FnMut(&Place<'_>) -> io::Result<()>,
) -> io::Result<bool> {
    match link(target) {
        // By a rename, so that at every moment the old or the new is there.
        Err(Errno::EXIST) if may_replace => {
            atomic::replace(target, target.name, link).map(|()| true)
        }
        other => other.map(|()| false),
    }
}

/// A relative link text starts from the link's directory, and the user's name from the current
/// directory.
fn is_in_current_directory(target: &Place<'_>) -> bool {
    let parent = Place { name: target.parent(), ..*target };
    match (Place::here(Path::new(".")).stat(true), parent.stat(true)) {
        (Ok(here), Ok(there)) => same_file(&here, &there),
        // An error here keeps the link from being made, too, and is reported then.
        _ => true,
    }
}
