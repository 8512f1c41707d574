//! Links made instead of copies, and symbolic links copied as links.

use std::path::Path;

use rustix::fs::{self, AtFlags};
use rustix::io::{self, Errno, retry_on_intr};

use crate::atomic;
use crate::error::Error;
use crate::file::Job;
use crate::place::{Place, same_file};
use crate::quote;

/// `target` becomes another name of `source`, a file that the message calls `shown`.
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
    make(&job.target, may_replace, link).map_err(|errno| {
        let what = format!("cannot create hard link to {}", quote::always(source.shown));
        let error = Error::os(job.target.shown, what, errno);
        match errno {
            Errno::EXIST => error.hinting("-f replaces it"),
            Errno::XDEV => error.hinting("a hard link cannot lead to another file system"),
            _ => error,
        }
    })
}

/// `target` becomes a symbolic link to the source's name (`-s`).
pub(crate) fn symbolic(job: &Job<'_>) -> Result<(), Error> {
    let text = job.source.name;
    if !text.is_absolute() && !is_in_current_directory(&job.target) {
        return Err(Error::refusal(
            job.target.shown,
            "can make relative symbolic links only in current directory",
        )
        .hinting("name the source by its absolute path"));
    }
    let link = |place: &Place<'_>| retry_on_intr(|| fs::symlinkat(text, place.dir, place.name));
    make(&job.target, job.may_replace_link(), link).map_err(|errno| {
        let what = format!("cannot create symbolic link to {}", quote::always(text));
        let error = Error::os(job.target.shown, what, errno);
        match errno {
            Errno::EXIST => error.hinting("-f replaces it"),
            _ => error,
        }
    })
}

/// `target` becomes a symbolic link with the same text as `source`.
pub(crate) fn copy(job: &Job<'_>) -> Result<(), Error> {
    let source = job.source;
    let text = retry_on_intr(|| fs::readlinkat(source.dir, source.name, Vec::new()))
        .map_err(|errno| Error::os(source.shown, "cannot read symbolic link", errno))?;
    let link =
        |place: &Place<'_>| retry_on_intr(|| fs::symlinkat(text.as_c_str(), place.dir, place.name));
    make(&job.target, job.may_replace_link(), link)
        .map_err(|errno| Error::os(job.target.shown, "cannot create symbolic link", errno))
}

/// Makes a link; an existing name is replaced in one step, never removed first.
fn make(
    target: &Place<'_>,
    may_replace: bool,
    mut link: impl FnMut(&Place<'_>) -> io::Result<()>,
) -> io::Result<()> {
    match link(target) {
        Err(Errno::EXIST) if may_replace => atomic::replace(target, target.name, link),
        other => other,
    }
}

/// A relative link text starts from the link's directory, the user's name from the current one.
fn is_in_current_directory(target: &Place<'_>) -> bool {
    let parent = Place { name: target.parent(), ..*target };
    match (Place::here(Path::new(".")).stat(true), parent.stat(true)) {
        (Ok(here), Ok(there)) => same_file(&here, &there),
        // What keeps it from being looked at will keep the link from being made.
        _ => true,
    }
}
