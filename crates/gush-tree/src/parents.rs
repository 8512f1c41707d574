//! The directories of `--parents`: made like those of the source, put right when the file is there.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::events::Events;
use crate::metadata::{Handle, Transfer, umask};
use crate::options::{ModeRule, Options, Xattrs};
use crate::place::{Place, kind};

/// Directories between the target directory and a file, whose attributes wait for
/// [`finish`](Self::finish).
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
/// assert!(parents.finish(&options, dir.as_fd(), &mut ()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Parents {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    source: PathBuf,
    /// Below the target directory.
    name: PathBuf,
    shown: PathBuf,
    source_stat: Stat,
    /// What the mode must become, when making it writable changed it.
    restore_bits: Option<u32>,
}

impl Parents {
    /// Makes the missing directories above `name`, which is below `dir`, after those of `source`.
    ///
    /// # Errors
    /// When a source directory cannot be looked at, or a target directory not be made.
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
        match (Place { dir, name: above, shown: &shown }).stat(true) {
            Ok(stat) if kind(&stat) == FileType::Directory => return Ok(parents),
            Ok(_) => return Err(Error::refusal(&shown, "exists but is not a directory")),
            Err(_) => {}
        }
        let preserve = &options.preserve;
        let keeps_any = preserve.owner || preserve.times || preserve.mode == ModeRule::Keep;
        let (mut below, mut original) = (PathBuf::new(), root_of(source));
        for component in above.components() {
            below.push(component);
            original.push(component);
            let shown = dir_shown.join(&below);
            let place = Place { dir, name: &below, shown: &shown };
            let there = place.stat(true).ok();
            if there.is_some_and(|stat| kind(&stat) != FileType::Directory) {
                return Err(Error::refusal(&shown, "exists but is not a directory"));
            }
            if there.is_some() && !keeps_any {
                continue;
            }
            let source_stat = directory_stat(&original)?;
            let restore_bits = match there {
                Some(_) => None,
                None => make_directory(options, &place, &source_stat)?,
            };
            if there.is_none() {
                events.made_directory(&original, &shown);
            }
            parents.waiting.push(Waiting {
                source: original.clone(),
                name: below.clone(),
                shown,
                source_stat,
                restore_bits,
            });
        }
        Ok(parents)
    }

    /// Gives the directories their attributes, deepest first; `false` when something failed.
    pub fn finish(self, options: &Options, dir: BorrowedFd<'_>, events: &mut dyn Events) -> bool {
        let mut attributes = options.clone();
        attributes.preserve.required = true;
        // As GNU: times, owner and mode only.
        attributes.preserve.xattrs = Xattrs::Leave;
        let mut complete = true;
        for waiting in self.waiting.iter().rev() {
            let place = Place { dir, name: &waiting.name, shown: &waiting.shown };
            complete &= Transfer {
                options: &attributes,
                source: Handle::Name { place: Place::here(&waiting.source), is_link: false },
                source_stat: &waiting.source_stat,
                source_shown: &waiting.source,
                target: Handle::Name { place, is_link: false },
                target_shown: &waiting.shown,
                target_stat: None,
                created: false,
                provisional_bits: 0,
            }
            .apply(events);
            if let (Some(bits), true) =
                (waiting.restore_bits, options.preserve.mode != ModeRule::Keep)
                && let Err(errno) = chmod(&place, bits)
            {
                events.warns(&Error::os(&waiting.shown, "cannot preserve permissions", errno));
                complete = false;
            }
        }
        complete
    }
}

/// `/` for a source from the root, so that its components can be pushed after it.
fn root_of(source: &Path) -> PathBuf {
    PathBuf::from(OsString::from(if source.is_absolute() { "/" } else { "" }))
}

fn directory_stat(path: &Path) -> Result<Stat, Error> {
    let stat = Place::here(path).stat(true).and_then(|stat| match kind(&stat) {
        FileType::Directory => Ok(stat),
        _ => Err(Errno::NOTDIR),
    });
    stat.map_err(|errno| Error::os(path, "cannot get attributes", errno))
}

/// Makes one directory that this process can write to; tells which mode it must get in the end.
fn make_directory(
    options: &Options,
    place: &Place<'_>,
    source: &Stat,
) -> Result<Option<u32>, Error> {
    let preserve = &options.preserve;
    let bits = source.st_mode & 0o7777;
    let withheld = match (preserve.owner, preserve.mode) {
        (true, _) => bits & 0o077,
        (false, ModeRule::Keep) => bits & 0o022,
        _ => 0,
    };
    let asked = if preserve.mode == ModeRule::Fresh { 0o777 } else { bits } & !withheld;
    retry_on_intr(|| fs::mkdirat(place.dir, place.name, Mode::from_bits_retain(asked)))
        .map_err(|errno| Error::os(place.shown, "cannot make directory", errno))?;
    let made = place.stat(false).map_err(|errno| Error::os(place.shown, "cannot stat", errno))?;
    let made_bits = made.st_mode & 0o7777;
    if made_bits & 0o700 != 0o700 {
        chmod(place, made_bits | 0o700)
            .map_err(|errno| Error::os(place.shown, "cannot set permissions", errno))?;
    }
    let wanted = made_bits | (withheld & !umask());
    Ok((wanted != made_bits || made_bits & 0o700 != 0o700).then_some(wanted))
}

fn chmod(place: &Place<'_>, bits: u32) -> Result<(), Errno> {
    let mode = Mode::from_bits_retain(bits);
    retry_on_intr(|| fs::chmodat(place.dir, place.name, mode, fs::AtFlags::empty()))
}
