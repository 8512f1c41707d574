//! The directories of `--parents`: made like the source's, given their attributes when the file is
//! there.

use std::ffi::OsString;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gush::Unpoisoned;
use rustix::fs::{self, FileType, Mode, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::events::Events;
use crate::metadata::{Handle, Transfer, umask};
use crate::new_directory::{self, DIRECTORY};
use crate::options::{CopyOptions, ModeRule, Xattrs};
use crate::place::{Place, kind};
use crate::{rehearsal, remedy};

/// The directories that [`finish_all`] must give their attributes. A directory is made only while
/// this list is locked, so none is missing.
static UNFINISHED: Mutex<Vec<Arc<Waiting>>> = Mutex::new(Vec::new());

/// Gives all directories their attributes, and keeps other threads from making more, for a program
/// about to die of a signal.
pub(crate) fn finish_all() {
    let unfinished = UNFINISHED.lock().unpoisoned();
    for waiting in unfinished.iter() {
        // The process is about to die: a failure cannot be reported.
        waiting.finish(&mut ());
    }
    // The lock stays held: no thread makes another directory before the process has ended.
    mem::forget(unfinished);
}

/// Directories between the target directory and a file. Their attributes wait for
/// [`finish`](Self::finish), or for [`remove_temporaries`](crate::remove_temporaries). In a dry run
/// ([`CopyOptions::dry_run`]) no directory is made.
///
/// ```
/// use std::{fs::File, os::fd::AsFd};
/// use gush_tree::{CopyOptions, Parents};
///
/// let root = tempfile::tempdir()?;
/// let source = root.path().join("src/deep/file");
/// std::fs::create_dir_all(source.parent().unwrap())?;
/// let target = root.path().join("dst");
/// std::fs::create_dir(&target)?;
///
/// let options = CopyOptions::default();
/// let dir = File::open(&target)?;
/// let name = source.strip_prefix("/")?;
/// let parents = Parents::make(&options, (dir.as_fd(), &target), &source, name, &mut ())?;
/// assert!(target.join(name).parent().unwrap().is_dir());
/// assert!(parents.finish(&mut ()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Parents {
    waiting: Vec<Arc<Waiting>>,
    /// A dry run found a directory missing, below which nothing can be looked at.
    pub(crate) are_imagined: bool,
}

#[derive(Debug)]
struct Waiting {
    /// As for the file, but for the extended attributes.
    attributes: Arc<CopyOptions>,
    source: PathBuf,
    source_stat: Stat,
    source_fd: OwnedFd,
    shown: PathBuf,
    /// The directory itself: another file may have the name when the attributes are set.
    fd: OwnedFd,
    /// The final mode, if the directory was made with another one to be writable.
    restore_bits: Option<u32>,
}

impl Parents {
    /// Makes the missing directories above `name`, which is relative to `dir`, with the modes of
    /// `source`'s directories.
    ///
    /// # Errors
    /// When a source directory cannot be looked at, or a target directory cannot be made.
    pub fn make(
        options: &CopyOptions,
        (dir, dir_shown): (BorrowedFd<'_>, &Path),
        source: &Path,
        name: &Path,
        events: &mut dyn Events,
    ) -> Result<Self, Error> {
        let mut parents = Self::default();
        let Some(above) = name.parent().filter(|above| !above.as_os_str().is_empty()) else {
            return Ok(parents);
        };
        let shown = dir_shown.join(above);
        match Place::below(dir, above, &shown).stat(true) {
            Ok(stat) if kind(&stat) == FileType::Directory => return Ok(parents),
            Ok(_) => return Err(Error::refusal(&shown, "{} exists but is not a directory")),
            Err(_) => {}
        }
        let made = parents.make_each(options, (dir, dir_shown), source, above, events);
        match made {
            Ok(()) => Ok(parents),
            Err(error) => {
                // Those made so far get their attributes all the same.
                parents.finish(events);
                Err(error)
            }
        }
    }

    fn make_each(
        &mut self,
        options: &CopyOptions,
        (dir, dir_shown): (BorrowedFd<'_>, &Path),
        source: &Path,
        above: &Path,
        events: &mut dyn Events,
    ) -> Result<(), Error> {
        let preserve = &options.preserve;
        let keeps_any = preserve.owner || preserve.times || preserve.mode == ModeRule::Keep;
        let attributes = Arc::new(attributes(options));
        let (mut below, mut original) = (PathBuf::new(), root_of(source));
        // The directory above: one that waits for its attributes, or one that needs none.
        let (mut parent, mut found_above): (Option<Arc<Waiting>>, Option<OwnedFd>) = (None, None);
        for component in above.components() {
            below.push(component);
            original.push(component);
            let shown = dir_shown.join(&below);
            if self.are_imagined {
                source_directory(&original)?;
                continue;
            }
            let above = match (&found_above, &parent) {
                (Some(fd), _) => fd.as_fd(),
                (None, Some(parent)) => parent.fd.as_fd(),
                (None, None) => dir,
            };
            let place = Place::below(above, Path::new(&component), &shown);
            let found = match place.open(DIRECTORY, Mode::empty()) {
                Ok(fd) if !keeps_any || options.dry_run => {
                    found_above = Some(fd);
                    continue;
                }
                Ok(fd) => Some(fd),
                Err(Errno::NOTDIR) => {
                    return Err(Error::refusal(&shown, "{} exists but is not a directory"));
                }
                Err(_) => None,
            };
            let (source_stat, source_fd) = source_directory(&original)?;
            if options.dry_run {
                rehearsal::may_be_made(&place)
                    .map_err(|errno| remedy::directory_not_made(&place, errno))?;
                self.are_imagined = true;
                continue;
            }
            let is_new = found.is_none();
            let waiting = {
                // Locked around making and noting: a signal between the two would leave the mode
                // that was lent.
                let mut unfinished = UNFINISHED.lock().unpoisoned();
                let (fd, restore_bits) = match found {
                    Some(fd) => (fd, None),
                    None => make_directory(options, &place, &source_stat)?,
                };
                let waiting = Arc::new(Waiting {
                    attributes: Arc::clone(&attributes),
                    source: original.clone(),
                    source_stat,
                    source_fd,
                    shown,
                    fd,
                    restore_bits,
                });
                unfinished.push(Arc::clone(&waiting));
                waiting
            };
            if is_new {
                events.made_directory(&original, &waiting.shown);
            }
            self.waiting.push(Arc::clone(&waiting));
            (parent, found_above) = (Some(waiting), None);
        }
        Ok(())
    }

    /// Gives the directories their attributes; `false` when an attribute could not be set.
    pub fn finish(self, events: &mut dyn Events) -> bool {
        // In any order: each is reached by its descriptor, and no attribute given below changes a
        // time above.
        self.waiting.iter().fold(true, |complete, waiting| waiting.finish(events) & complete)
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        if !self.waiting.is_empty() {
            let is_ours =
                |other: &Arc<Waiting>| self.waiting.iter().any(|own| Arc::ptr_eq(own, other));
            UNFINISHED.lock().unpoisoned().retain(|other| !is_ours(other));
        }
    }
}

/// The attributes of the directories: times, owner and mode alone, as GNU cp's.
fn attributes(options: &CopyOptions) -> CopyOptions {
    let mut attributes = options.clone();
    attributes.preserve.required = true;
    attributes.preserve.xattrs = Xattrs::Leave;
    attributes
}

impl Waiting {
    /// Gives one directory its attributes; `false` when one could not be set. To do so twice does
    /// no harm.
    fn finish(&self, events: &mut dyn Events) -> bool {
        let target = Handle::Pinned { fd: self.fd.as_fd(), is_link: false };
        let complete = Transfer {
            options: &self.attributes,
            source: &Handle::Pinned { fd: self.source_fd.as_fd(), is_link: false }.holder(),
            source_stat: &self.source_stat,
            source_shown: &self.source,
            target,
            target_shown: &self.shown,
            target_owner: None,
            existing_mode: None,
            created: false,
            may_inherit_acl: true,
            directory_mode: retry_on_intr(|| fs::fstat(&self.fd)).ok().map(|stat| stat.st_mode),
            provisional_bits: 0,
        }
        .apply(events);
        let mode = self.attributes.preserve.mode;
        match new_directory::restore(target, mode, self.restore_bits) {
            Ok(()) => complete,
            Err(errno) => {
                events.warns(&Error::os(&self.shown, "preserving permissions for {}", errno));
                false
            }
        }
    }
}

/// `/` for an absolute source and an empty path for a relative one, to push the components to.
fn root_of(source: &Path) -> PathBuf {
    PathBuf::from(OsString::from(if source.is_absolute() { "/" } else { "" }))
}

fn source_directory(path: &Path) -> Result<(Stat, OwnedFd), Error> {
    let fd = Place::here(path).open(DIRECTORY, Mode::empty());
    fd.and_then(|fd| Ok((retry_on_intr(|| fs::fstat(&fd))?, fd)))
        .map_err(|errno| Error::os(path, "failed to get attributes of {}", errno))
}

/// Makes one directory, writable for this process; returns the final mode if different.
fn make_directory(
    options: &CopyOptions,
    place: &Place<'_>,
    source: &Stat,
) -> Result<(OwnedFd, Option<u32>), Error> {
    let preserve = &options.preserve;
    let bits = source.st_mode & 0o7777;
    let withheld = match (preserve.owner, preserve.mode) {
        (false, ModeRule::Umask | ModeRule::Fresh) => 0,
        _ => new_directory::withheld_bits(preserve, bits),
    };
    let asked = if preserve.mode == ModeRule::Fresh { 0o777 } else { bits };
    let made = new_directory::make(place, asked, withheld, umask)?;
    Ok((made.held.fd, made.restore_bits))
}
