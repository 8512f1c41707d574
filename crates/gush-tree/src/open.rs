//! How source and target are opened: nobody can slip another file in between.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use gush_text::quote;
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::events::Events;
use crate::job::Job;
use crate::options::{CopyOptions, Dereference};
use crate::place::{Place, kind, same_file, stat_of, still};
use crate::remedy;

/// Opens the source for reading. The stat is of the opened file.
pub(crate) fn source(job: &Job<'_>) -> Result<(OwnedFd, Stat), Error> {
    let place = job.source.place;
    let no_follow = match job.options().dereference {
        // The name may have become a link since the first look.
        Dereference::Never => OFlags::NOFOLLOW,
        _ => OFlags::empty(),
    };
    // With `<&-`, /dev/stdin would open the file that has got the number since.
    refuse_closed(&place, "cannot open {} for reading")?;
    let flags = OFlags::RDONLY | no_follow;
    let opened = match kind(job.source.stat) {
        // A FIFO that took a file's name would be waited for.
        FileType::RegularFile => place.open_regular(flags, Mode::empty()),
        _ => place.open(flags, Mode::empty()),
    };
    let fd = opened.map_err(|errno| not_opened(&place, "cannot open {} for reading", errno))?;
    // The descriptor is pinned to the file that was judged; everything else goes by it.
    let stat = still(&fd, job.source.stat, place.shown)?;
    Ok((fd, stat))
}

/// Opens an entry that was listed as a regular file, and stats it by the descriptor alone. `None`
/// if that fails, or something else has the name by now.
pub(crate) fn listed(place: &Place<'_>) -> Option<(OwnedFd, Stat)> {
    refuse_closed(place, "cannot open {} for reading").ok()?;
    // Neither waits for a FIFO that took the name, nor follows a link.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fd = place.open(flags, Mode::empty()).ok()?;
    let stat = retry_on_intr(|| fs::fstat(&fd)).ok()?;
    (kind(&stat) == FileType::RegularFile).then_some((fd, stat))
}

/// The error of a file opened by [`Place::open_regular`].
pub(crate) fn not_opened(place: &Place<'_>, what: &'static str, errno: Errno) -> Error {
    let error = Error::os(place.shown, what, errno);
    match errno {
        Errno::AGAIN => error.hinting(
            "another process has a lease on the file, which can be waited for where /proc is mounted",
        ),
        _ => error,
    }
}

/// Refuses a name of a standard descriptor that was closed when the process started: /dev/null lies
/// there.
fn refuse_closed(place: &Place<'_>, operation: &'static str) -> Result<(), Error> {
    match gush_process::closed_at(place.shown) {
        Some(_) => Err(Error::os(place.shown, operation, Errno::BADF)),
        None => Ok(()),
    }
}

/// A target, open.
pub(crate) struct Opened<Fd = OwnedFd> {
    pub(crate) fd: Fd,
    /// `None` of a new file of which nothing more is asked.
    pub(crate) stat: Option<Stat>,
    /// The file was made under its name, and is empty.
    pub(crate) is_new: bool,
}

impl Opened {
    /// The stat of the old file; `None` for a new file.
    pub(crate) fn existing(&self) -> Option<Stat> {
        self.stat.filter(|_| !self.is_new)
    }
}

/// The flags of a target that [`target`] makes, unless a dangling link is followed.
pub(crate) const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL);

/// Opens the existing target, or creates it, as plain `cp` does. An existing target keeps its
/// content until the engine begins to replace the content.
pub(crate) fn target(
    job: &Job<'_>,
    source: &Stat,
    creation_mode: Mode,
    events: &mut dyn Events,
) -> Result<Opened, Error> {
    refuse_closed(&job.target.place, "cannot create regular file {}")?;
    if let Some(expected) = &job.existing {
        match open_existing(job, expected) {
            Ok(fd) => return not_the_source(job, source, expected, fd),
            // Removed since the look: made anew below.
            Err(Errno::NOENT) => {}
            // As GNU: -f removes only a file that cannot be opened.
            Err(_) if job.options().force => match job.target.place.unlink() {
                Ok(()) => events.removed(job.target.place.shown),
                Err(Errno::NOENT) => {}
                Err(errno) => {
                    return Err(remedy::not_changed(&job.target.place, "cannot remove {}", errno));
                }
            },
            Err(errno) => return Err(cannot_write(&job.target.place, errno)),
        }
    }
    let fd = create(job, creation_mode)?;
    if job.knows_new_files() {
        return Ok(Opened { fd, stat: None, is_new: true });
    }
    let stat = stat_of(&fd, job.target.place.shown)?;
    job.learn_owner(&stat);
    Ok(Opened { fd, stat: Some(stat), is_new: true })
}

/// Is the target to be replaced by name, once the new file is whole? Yes where `--force` would
/// remove a target that cannot be opened and the named method may still be refused.
pub(crate) fn gives_way(job: &Job<'_>) -> bool {
    let options = job.options();
    job.existing.as_ref().is_some_and(|expected| {
        options.force
            && !options.atomic
            && options.may_be_refused()
            && kind(expected) == FileType::RegularFile
            && open_existing(job, expected).is_err()
    })
}

fn open_existing(job: &Job<'_>, expected: &Stat) -> Result<OwnedFd, Errno> {
    let write_only = || job.target.place.open(OFlags::WRONLY, Mode::empty());
    // Mapping and re-reading the target need read access. A FIFO opened for both would never wait
    // for its reader.
    if kind(expected) != FileType::RegularFile || !job.options().data {
        return write_only();
    }
    match job.target.place.open(OFlags::RDWR, Mode::empty()) {
        // A target that may be written and not read, such as a mailbox, is served by the methods
        // that only write.
        Err(Errno::ACCESS) => write_only(),
        opened => opened,
    }
}

/// Accepts the opened target if the file is the expected one and not the source.
fn not_the_source(
    job: &Job<'_>,
    source: &Stat,
    expected: &Stat,
    fd: OwnedFd,
) -> Result<Opened, Error> {
    let shown = job.target.place.shown;
    let stat = stat_of(&fd, shown)?;
    // Before anything is cut: the source would be emptied.
    if same_file(&stat, source) {
        return Err(are_same(job));
    }
    if !same_file(&stat, expected) {
        return Err(Error::refusal(
            shown,
            "skipping file {}, as it was replaced while being copied to",
        ));
    }
    Ok(Opened { fd, stat: Some(stat), is_new: false })
}

fn create(job: &Job<'_>, mode: Mode) -> Result<OwnedFd, Error> {
    match job.target.place.open(NEW, mode) {
        Ok(fd) => Ok(fd),
        Err(Errno::EXIST) if is_link(&job.target.place) => {
            if job.options().through_dangling {
                // O_EXCL refuses every link, and POSIXLY_CORRECT asks for its target.
                let opened = job.target.place.open(NEW - OFlags::EXCL, mode);
                opened.map_err(|errno| cannot_create(&job.target.place, errno))
            } else {
                Err(dangling(&job.target.place))
            }
        }
        Err(errno) => Err(cannot_create(&job.target.place, errno)),
    }
}

pub(crate) fn is_link(target: &Place<'_>) -> bool {
    target.stat(false).is_ok_and(|stat| kind(&stat) == FileType::Symlink)
}

pub(crate) fn dangling(target: &Place<'_>) -> Error {
    Error::refusal(target.shown, "not writing through dangling symlink {}")
        .hinting("--remove-destination replaces the link")
}

/// The error of a name that leads to a file which holds the copy of another source.
pub(crate) fn holds_a_copy(target: &Place<'_>) -> Error {
    let text =
        "not writing to {}: this name leads to a file that holds the copy of another one already";
    hinting_removal(target, text)
}

/// Refuses a target, with a remedy if it is a symbolic link.
pub(crate) fn hinting_removal(target: &Place<'_>, text: &'static str) -> Error {
    let error = Error::refusal(target.shown, text);
    match is_link(target) {
        true => error.hinting("--remove-destination replaces the link"),
        false => error,
    }
}

pub(crate) fn cannot_create(target: &Place<'_>, errno: Errno) -> Error {
    let errno = match errno {
        // GNU's word for `cp a nothing/`, where the kernel says EISDIR.
        Errno::ISDIR if target.must_be_directory() => Errno::NOTDIR,
        errno => errno,
    };
    let error = remedy::not_made(target, "cannot create regular file {}", errno);
    match errno {
        // The look at the target has found none.
        Errno::EXIST => error.hinting("another program has made it meanwhile; nothing was changed"),
        _ => error,
    }
}

/// The error of an atomic target that could not be created or named.
pub(crate) fn cannot_replace(
    options: &CopyOptions,
    target: &Place<'_>,
    is_there: bool,
    errno: Errno,
) -> Error {
    let error = cannot_create(target, errno);
    let parent = Place { name: target.parent(), ..*target };
    let shown = match target.shown.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let is_sticky = || {
        parent.stat(true).is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX))
    };
    let directory = quote::always(shown);
    let why = match errno {
        Errno::ACCESS => format!("the directory {directory} must be writable"),
        Errno::PERM if is_sticky() => {
            format!(
                "the directory {directory} is sticky: who does not own the file cannot replace it"
            )
        }
        _ => return error,
    };
    match is_there && options.atomic {
        true => error.hinting(why + "; without --atomic the file is written in place"),
        false => error.hinting(why),
    }
}

pub(crate) fn cannot_write(target: &Place<'_>, errno: Errno) -> Error {
    if errno == Errno::XDEV && target.bounds.is_some() {
        return remedy::out_of_bounds(target);
    }
    let error = Error::os(target.shown, "cannot create regular file {}", errno);
    match errno {
        Errno::ACCESS | Errno::PERM | Errno::TXTBSY => match remedy::for_writing(target, errno) {
            Some(remedy) => error.hinting(remedy),
            None => error,
        },
        _ => error,
    }
}

pub(crate) fn are_same(job: &Job<'_>) -> Error {
    let [source, target] =
        [job.source.place, job.target.place].map(|place| quote::always(place.shown));
    Error::about_both(job.target.place.shown, format!("{source} and {target} are the same file"))
}

/// Closes a target and returns errors that only close(2) reports, such as a full quota on NFS.
pub(crate) fn close(job: &Job<'_>, fd: OwnedFd) -> Result<(), Error> {
    match nix::unistd::close(fd) {
        // Linux closes the descriptor before EINTR (close(2)).
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => {
            let errno = Errno::from_raw_os_error(errno as i32);
            Err(Error::os(job.target.place.shown, "failed to close {}", errno))
        }
    }
}

/// Puts the entry of a directory on stable storage.
pub(crate) fn sync_parent(place: &Place<'_>) -> Result<(), Error> {
    let synced = place.open_parent().and_then(|dir| retry_on_intr(|| fs::fsync(dir.as_fd())));
    synced.map_err(|errno| Error::os(place.shown, "cannot sync the directory of {}", errno))
}
