//! The directories of `--parents`: made like the source's, given their attributes when the file is there.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, FileType, Mode, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::events::Events;
use crate::metadata::{Handle, Transfer, umask};
use crate::new_directory::{self, DIRECTORY};
use crate::options::{ModeRule, Options, Xattrs};
use crate::place::{Place, kind};

/// Directories between the target directory and a file. Their attributes wait for [`finish`](Self::finish).
///
/// ```
/// use std::{fs::File, os::fd::AsFd};
/// use gush_tree::{Options, Parents};
///
/// let root = tempfile::tempdir()?;
/// let source = root.path().join("src/deep/file");
/// std::fs::create_dir_all(source.parent().unwrap())?;
/// let target = root.path().join("dst");
/// std::fs::create_dir(&target)?;
///
/// let options = Options::default();
/// let dir = File::open(&target)?;
/// let name = source.strip_prefix("/")?;
/// let parents = Parents::make(&options, (dir.as_fd(), &target), &source, name, &mut ())?;
/// assert!(target.join(name).parent().unwrap().is_dir());
/// assert!(parents.finish(&options, &mut ()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Parents {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    source: PathBuf,
    source_stat: Stat,
    source_fd: OwnedFd,
    shown: PathBuf,
    /// The directory itself: another file may have the name when the attributes are set.
    fd: Arc<OwnedFd>,
    /// The final mode, if the directory was made with another one to be writable.
    restore_bits: Option<u32>,
}

impl Parents {
    /// Makes the missing directories above `name`, which is relative to `dir`, with the modes of `source`'s
    /// directories.
    ///
    /// # Errors
    /// When a source directory cannot be looked at, or a target directory cannot be made.
    pub fn make(
        options: &Options,
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
            Ok(_) => return Err(Error::refusal(&shown, "exists but is not a directory")),
            Err(_) => {}
        }
        let preserve = &options.preserve;
        let keeps_any = preserve.owner || preserve.times || preserve.mode == ModeRule::Keep;
        let (mut below, mut original) = (PathBuf::new(), root_of(source));
        let mut parent: Option<Arc<OwnedFd>> = None;
        for component in above.components() {
            below.push(component);
            original.push(component);
            let shown = dir_shown.join(&below);
            let above = parent.as_ref().map_or(dir, |fd| fd.as_fd());
            let place = Place::below(above, Path::new(&component), &shown);
            let found = match place.open(DIRECTORY, Mode::empty()) {
                Ok(fd) if !keeps_any => {
                    parent = Some(Arc::new(fd));
                    continue;
                }
                Ok(fd) => Some(fd),
                Err(Errno::NOTDIR) => {
                    return Err(Error::refusal(&shown, "exists but is not a directory"));
                }
                Err(_) => None,
            };
            let (source_stat, source_fd) = source_directory(&original)?;
            let (fd, restore_bits) = match found {
                Some(fd) => (fd, None),
                None => {
                    let made = make_directory(options, &place, &source_stat)?;
                    events.made_directory(&original, &shown);
                    made
                }
            };
            let fd = Arc::new(fd);
            parent = Some(Arc::clone(&fd));
            let source = original.clone();
            parents.waiting.push(Waiting {
                source,
                source_stat,
                source_fd,
                shown,
                fd,
                restore_bits,
            });
        }
        Ok(parents)
    }

    /// Gives the directories their attributes, deepest first; `false` when an attribute could not be set.
    pub fn finish(self, options: &Options, events: &mut dyn Events) -> bool {
        let mut attributes = options.clone();
        attributes.preserve.required = true;
        // As GNU: times, owner and mode alone.
        attributes.preserve.xattrs = Xattrs::Leave;
        let mut complete = true;
        // Deepest first: an attribute given below changes the time of the directory above.
        for waiting in self.waiting.iter().rev() {
            let target = Handle::Pinned { fd: waiting.fd.as_fd(), is_link: false };
            complete &= Transfer {
                options: &attributes,
                source: Handle::Pinned { fd: waiting.source_fd.as_fd(), is_link: false },
                source_stat: &waiting.source_stat,
                source_shown: &waiting.source,
                target,
                target_shown: &waiting.shown,
                target_owner: None,
                existing_mode: None,
                created: false,
                may_inherit_acl: true,
                provisional_bits: 0,
            }
            .apply(events);
            let restored =
                new_directory::restore(target, options.preserve.mode, waiting.restore_bits);
            if let Err(errno) = restored {
                events.warns(&Error::os(&waiting.shown, "cannot preserve permissions", errno));
                complete = false;
            }
        }
        complete
    }
}

/// `/` for an absolute source and an empty path for a relative one, to push the components to.
fn root_of(source: &Path) -> PathBuf {
    PathBuf::from(OsString::from(if source.is_absolute() { "/" } else { "" }))
}

fn source_directory(path: &Path) -> Result<(Stat, OwnedFd), Error> {
    let fd = Place::here(path).open(DIRECTORY, Mode::empty());
    fd.and_then(|fd| Ok((retry_on_intr(|| fs::fstat(&fd))?, fd)))
        .map_err(|errno| Error::os(path, "cannot get attributes", errno))
}

/// Makes one directory, writable for this process; returns the final mode if different.
fn make_directory(
    options: &Options,
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
    Ok((made.fd, made.restore_bits))
}
