//! A directory of the target: where entries are made, by one name below a descriptor.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use gush::Unpoisoned;
use gush_text::{mkdir_remedy, quote};
use rustix::fs::{FileType, Stat};
use rustix::io;

use super::comparing::refuse_irreplaceable;
use super::metadata::{EntryMetadata, identity, lineage};
use super::partial;
use crate::error::Error;
use crate::events::Events;
use crate::filter::GitIgnored;
use crate::metadata::{Handle, Transfer, umask};
use crate::new_directory::{self, Entered, lacks_owner_bits};
use crate::options::{CopyOptions, ModeRule};
use crate::place::{FileId, Place, kind};
use crate::tree::held;
use crate::tree::mirror::Limits;
use crate::tree::path::TreePath;
use crate::tree::target_dir::{Pair, Slot, Source, TargetDir};
use crate::xattr::Attributes;
use crate::{links, remedy, special};

/// What a mirror does not remove from its target, by [identities](EntryMetadata::identity).
#[derive(Clone, Copy, Debug)]
pub struct Spared<'a> {
    /// The source and the directories [above](lineage).
    pub above: &'a [u64],
    /// What is [mounted](super::mounted_below) in it, if that is known.
    pub mounted: Option<&'a [u64]>,
}

impl Default for Spared<'_> {
    fn default() -> Self {
        Self { above: &[], mounted: Some(&[]) }
    }
}

/// The most directories of a copy that are held by a descriptor, its base aside.
const MOST_HELD: usize = 128;

/// The directories that are held, in the order in which they were opened. The oldest one is let go
/// for another, and opened again where it is needed.
#[derive(Debug, Default)]
struct Holding(Mutex<VecDeque<Weak<Slot<()>>>>);

impl Holding {
    fn adds(&self, opened: &Arc<Slot<()>>) {
        let mut held = self.0.lock().unpoisoned();
        held.push_back(Arc::downgrade(opened));
        if held.len() > MOST_HELD
            && let Some(oldest) = held.pop_front()
            && let Some(slot) = oldest.upgrade()
        {
            slot.lock().unpoisoned().take();
        }
    }
}

/// A directory of the target, made or found there.
pub type Folder = TargetDir<Received>;

/// What is known of a directory whose source is on another machine.
#[derive(Debug, Default)]
pub struct Received {
    shown: PathBuf,
    /// Until it is finished.
    metadata: Mutex<EntryMetadata>,
    /// The copy is a base itself, by the name `.`.
    is_copy: bool,
    holding: Arc<Holding>,
    /// Of a mirror, in its root and below.
    pub(super) limits: Option<Arc<Limits>>,
    /// Names of entries that could be those of partial files.
    pub(super) taken: Mutex<HashSet<OsString>>,
}

impl Source for Received {
    type Held = ();

    fn reopen(&self, (): &(), _: &OsStr) -> io::Result<()> {
        Ok(())
    }
}

impl Folder {
    /// A directory that is there, in which a copy makes its first entries. An empty path is the
    /// working directory, whose entries are shown by their names.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn base(path: &Path) -> Result<Arc<Self>, Error> {
        Self::open_base(path, false)
    }

    /// A base whose entry `.` is the copy, and has its path.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn copy_itself(path: &Path) -> Result<Arc<Self>, Error> {
        Self::open_base(path, true)
    }

    fn open_base(path: &Path, is_copy: bool) -> Result<Arc<Self>, Error> {
        let opened = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = Entered::find(&Place { shown: path, ..Place::here(opened) }, true);
        let found = found.map_err(|error| match error.io_error() {
            Some(os) if os.kind() == ErrorKind::NotFound => error.hinting(mkdir_remedy(path)),
            _ => error,
        })?;
        let base = Received { shown: path.to_path_buf(), is_copy, ..Received::default() };
        Ok(Self::start(None, OsString::new(), (base, ()), found))
    }

    /// The path of an entry, as the user wrote the target.
    #[must_use]
    pub fn shown_entry(&self, name: &OsStr) -> PathBuf {
        match self.is_copy && name == "." && !self.shown.as_os_str().is_empty() {
            true => self.shown.clone(),
            false => self.shown.join(name),
        }
    }

    /// Was the directory made by this copy, or would it be, so that its names are free?
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The source has an entry with this name, which is from now on that of no partial file. `true`
    /// if the name is remembered for that.
    pub fn takes(&self, name: &OsStr) -> bool {
        partial::looks_like_one(name) && self.taken.lock().unpoisoned().insert(name.to_owned())
    }

    /// The descriptor, opened again if it was let go.
    pub(super) fn fd(&self) -> io::Result<Arc<Pair<()>>> {
        let held = self.pair()?;
        self.hold(&held);
        Ok(held)
    }

    fn hold(&self, pair: &Arc<Pair<()>>) {
        if self.take_back(pair) {
            self.holding.adds(&self.held);
        }
    }

    /// The path of the tree's root, which is below the base, and the names from there.
    pub(super) fn path(&self) -> TreePath {
        let root = self.ancestors().take_while(|folder| folder.above.is_some()).last();
        let mut path = TreePath::new(&root.unwrap_or(self).shown);
        path.set(self.names().get(1..).unwrap_or_default());
        path
    }

    /// The rules of the nearest directory that has some.
    pub(super) fn ignored(&self) -> Option<&Arc<GitIgnored>> {
        self.ancestors().find_map(|folder| folder.ignored.get()?.as_ref())
    }

    pub(super) fn with<T>(
        &self,
        name: &OsStr,
        act: impl FnOnce(&Place<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let shown = self.shown_entry(name);
        let held = self.fd().map_err(|errno| held::lost(&shown, errno))?;
        act(&Place::below(held.as_fd(), Path::new(name), &shown))
    }

    /// Does a copy first give this directory, which was there, the bits that are lacking?
    pub(super) fn lends(&self, options: &CopyOptions) -> bool {
        options.preserve.mode == ModeRule::Keep && lacks_owner_bits(&self.stat)
    }

    /// Enters the directory with a name, which is made where nothing is. The root of a mirror
    /// spares what is [`Spared`]. A symbolic link is not followed. A dry run makes nothing: below a
    /// directory that is not there it finds nothing.
    ///
    /// # Errors
    /// When it cannot be made or opened, or something else has the name.
    pub fn enter(
        self: &Arc<Self>,
        name: &OsStr,
        (metadata, spared): (EntryMetadata, Spared<'_>),
        options: &CopyOptions,
    ) -> Result<Arc<Self>, Error> {
        self.with(name, |place| {
            let is_dry = options.dry_run;
            let there = if self.is_new { None } else { place.find(false)? };
            // What a mirror has removed is still there in a dry run.
            let there =
                there.filter(|there| !(is_dry && self.makes_way(there, &metadata, options)));
            let entered = match there {
                Some(there) if kind(&there) == FileType::Directory => {
                    let found = Entered::find(place, false)?;
                    // Without -a only one that looks like the work of an earlier copy: nothing
                    // would give another one its own mode after a kill.
                    let bits = found.stat.st_mode & 0o7777;
                    let is_complete = options.resume
                        && options.preserve.mode == ModeRule::Umask
                        && lacks_owner_bits(&found.stat)
                        && bits & 0o777 == metadata.mode & 0o777 & !umask();
                    if !is_dry && (is_complete || options.preserve.mode == ModeRule::Keep) {
                        found.lend_bits();
                    }
                    Entered { restore_bits: is_complete.then_some(bits), ..found }
                }
                Some(_) => {
                    let text = "cannot overwrite non-directory {} with directory";
                    return Err(Error::refusal(place.shown, text));
                }
                None if is_dry => {
                    let asks = !self.is_new && !self.lends(options);
                    Entered::imagine(place, self.stat, asks)?
                }
                None => {
                    let bits = metadata.mode & 0o7777;
                    let withheld = new_directory::withheld_bits(&options.preserve, bits);
                    new_directory::make(place, bits, withheld, umask)?
                }
            };
            let begun = || {
                let above = spared.above.iter().copied().collect();
                let (held, stat) = (entered.held.as_fd(), &entered.stat);
                let mounted = spared.mounted.filter(|_| partial::shares_identities());
                Arc::new(Limits::new(held, stat, above, mounted))
            };
            let received = Received {
                shown: place.shown.to_path_buf(),
                limits: options.mirror.then(|| self.limits.clone().unwrap_or_else(begun)),
                metadata: Mutex::new(metadata),
                holding: Arc::clone(&self.holding),
                ..Received::default()
            };
            let above = Some(Arc::clone(self));
            let folder = Self::start(above, name.to_owned(), (received, ()), entered);
            folder.holding.adds(&folder.held);
            Ok(folder)
        })
    }

    /// Gives a directory its attributes, after all below is made. `false` if something required
    /// could not be set.
    ///
    /// # Errors
    /// When the directory was moved or replaced.
    pub fn finish(&self, options: &CopyOptions, events: &mut dyn Events) -> Result<bool, Error> {
        // Links to what is in the directory may keep it long after.
        let metadata = std::mem::take(&mut *self.metadata.lock().unpoisoned());
        let Some(above) = self.above.as_ref().filter(|_| !self.is_imagined) else {
            return Ok(true);
        };
        let held = self.fd().map_err(|errno| held::lost(&self.shown, errno))?;
        // The one above is needed next, and the final mode may forbid the way there.
        if let Some(held) = above.pair_from(&held) {
            above.hold(&held);
        }
        if options.dry_run {
            return Ok(true);
        }
        let stat = metadata.stat(&options.preserve, &self.stat);
        let source: (&dyn Attributes, _, _) = (&metadata, &stat, &*self.shown);
        Ok(self.give_attributes(options, &held.target, source, &self.shown, events))
    }

    /// Makes a symbolic link or a special file; what has the name and is no directory is replaced
    /// by a rename. `false` if something required could not be set. A dry run
    /// [rehearses](Self::rehearse).
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        if options.dry_run {
            return self.rehearse(name, metadata, options).map(|()| true);
        }
        self.with(name, |place| {
            let (preserve, like) = (&options.preserve, (metadata.mode, metadata.device));
            let made = special::make(place, like, &metadata.link_text[..], preserve, true);
            let made = made.map_err(|error| irreplaceable(place, metadata.kind(), error))?;
            let is_link = metadata.kind() == FileType::Symlink;
            Ok(Transfer {
                provisional_bits: made.withheld,
                ..Transfer::between(
                    options,
                    (metadata, &metadata.stat(preserve, &made.stat), place.shown),
                    (Handle::Pinned { fd: made.fd.as_fd(), is_link }, &made.stat, place.shown),
                    true,
                )
            }
            .apply(events))
        })
    }

    /// The [identities](EntryMetadata::identity) of this directory and of those above it, up to the
    /// root.
    #[must_use]
    pub fn lineage(&self) -> Vec<u64> {
        self.fd().map_or_else(|_| vec![identity(&self.stat)], |held| lineage(held.as_fd()))
    }

    /// The [identity](EntryMetadata::identity) of what has a name now.
    #[must_use]
    pub fn identity_there(&self, name: &OsStr) -> Option<u64> {
        if self.is_new { None } else { self.there(name).map(|stat| identity(&stat)) }
    }

    /// Refuses an entry that is itself what has the name, on the same machine.
    ///
    /// # Errors
    /// When it is.
    pub fn refuse_itself(&self, name: &OsStr, metadata: &EntryMetadata) -> Result<(), Error> {
        if metadata.identity == 0 || self.identity_there(name) != Some(metadata.identity) {
            return Ok(());
        }
        Err(Error::refusal(&self.shown_entry(name), "{} and its source are the same file"))
    }

    /// Device and inode of what has a name now.
    #[must_use]
    pub fn identity(&self, name: &OsStr) -> Option<(u64, u64)> {
        self.there(name).map(|stat| (stat.st_dev, stat.st_ino))
    }

    fn there(&self, name: &OsStr) -> Option<Stat> {
        let name = Path::new(name);
        Place::below(self.fd().ok()?.as_fd(), name, name).stat(false).ok()
    }

    /// Makes a name another name of an entry made earlier. `false` if the first name is no longer
    /// that file's.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn link(&self, name: &OsStr, first: (&Self, &OsStr, (u64, u64))) -> Result<bool, Error> {
        let (above, first_name, file) = first;
        let shown = above.shown_entry(first_name);
        let what = || format!("cannot create hard link {{}} to {}", quote::always(&shown));
        self.with(name, |place| {
            let failed = |errno| remedy::not_made(place, what(), errno);
            let held = above.fd().map_err(failed)?;
            let source = Place::below(held.as_fd(), Path::new(first_name), &shown);
            let file = FileId { device: file.0, inode: file.1 };
            if place.stat(false).is_ok_and(|there| FileId::of(&there) == file) {
                return Ok(true);
            }
            // No directory has two names: any other kind stands for the file's.
            links::name_if_still((&source, false), file, place)
                .map(|named| named.is_some())
                .map_err(|errno| irreplaceable(place, FileType::RegularFile, failed(errno)))
        })
    }
}

/// What is there may be why an entry of this kind could not be made.
fn irreplaceable(place: &Place<'_>, kind: FileType, error: Error) -> Error {
    let there = place.stat(false).ok();
    there.and_then(|there| refuse_irreplaceable(place, &there, kind).err()).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> EntryMetadata {
        EntryMetadata { mode: 0o040_700, ..EntryMetadata::default() }
    }

    /// Opened again from the root, level by level, a deep tree would take a time that grows with
    /// the square of its depth.
    #[test]
    fn a_directory_that_ends_leads_to_the_one_above_that_was_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let options = CopyOptions::default();
        let mut chain = vec![Folder::base(dir.path()).unwrap()];
        for level in 0..5 {
            let entered = chain[level]
                .enter(OsStr::new("d"), (directory(), Spared::default()), &options)
                .unwrap();
            chain[level].release();
            chain.push(entered);
        }
        while chain.len() > 1 {
            let ended = chain.pop().unwrap();
            assert!(ended.finish(&options, &mut ()).unwrap());
            assert!(chain.last().unwrap().is_held());
        }
    }

    /// A directory may be needed long after it was entered: for a file that comes late, or a link.
    #[test]
    fn the_directories_held_are_bounded_however_they_are_used() {
        let dir = tempfile::tempdir().unwrap();
        let options = CopyOptions::default();
        let mut chain = vec![Folder::base(dir.path()).unwrap()];
        let check = |chain: &[Arc<Folder>]| {
            let held = chain.iter().filter(|folder| folder.is_held()).count();
            assert!(held <= MOST_HELD + 1, "{held}");
        };
        for level in 0..2 * MOST_HELD {
            let entered = chain[level]
                .enter(OsStr::new("d"), (directory(), Spared::default()), &options)
                .unwrap();
            chain.push(entered);
        }
        check(&chain);
        assert!(
            chain[..2 * MOST_HELD].iter().all(|folder| folder.identity(OsStr::new("d")).is_some())
        );
        check(&chain);
        for folder in chain.iter().rev() {
            assert!(folder.finish(&options, &mut ()).unwrap());
        }
        check(&chain);
        assert!(chain[1..=MOST_HELD].iter().all(|folder| folder.is_held()));
    }

    #[test]
    fn a_directory_that_was_moved_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let options = CopyOptions::default();
        let base = Folder::base(dir.path()).unwrap();
        let above =
            base.enter(OsStr::new("a"), (directory(), Spared::default()), &options).unwrap();
        let below =
            above.enter(OsStr::new("b"), (directory(), Spared::default()), &options).unwrap();
        above.release();
        std::fs::rename(dir.path().join("a/b"), dir.path().join("b")).unwrap();
        assert!(below.finish(&options, &mut ()).unwrap());
        assert!(!above.is_held());
        // By its name it is found.
        assert!(above.finish(&options, &mut ()).unwrap());
    }

    #[test]
    fn a_dry_run_enters_directories_below_one_that_it_does_not_make() {
        let dir = tempfile::tempdir().unwrap();
        let options = CopyOptions { dry_run: true, ..CopyOptions::default() };
        let mut folder = Folder::base(dir.path()).unwrap();
        for name in ["new", "below", "deeper"] {
            let entered = (directory(), Spared::default());
            folder = folder.enter(OsStr::new(name), entered, &options).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// It can have a MiB of attributes, and the folder is kept for links.
    #[test]
    fn a_finished_folder_keeps_no_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let options = CopyOptions::default();
        let base = Folder::base(dir.path()).unwrap();
        let folder =
            base.enter(OsStr::new("d"), (directory(), Spared::default()), &options).unwrap();
        assert_eq!(*folder.metadata.lock().unwrap(), directory());
        assert!(folder.finish(&options, &mut ()).unwrap());
        assert_eq!(*folder.metadata.lock().unwrap(), EntryMetadata::default());
    }
}
