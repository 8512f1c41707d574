//! Temporary names, and files that appear under their final name whole or not at all.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gush::Unpoisoned;
use rustix::fs::{self, Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::{self, Errno, retry_on_intr};

use crate::links;
use crate::parents;
use crate::place::{Place, proc_path, same_file};
use crate::remedy;
use crate::state_path::{NAME_MAX_BYTES, start_of};
use crate::tree::journal::{self, Fingerprint, Journal};

/// The temporary names that [`remove_temporaries`] must remove. Names are made, renamed and removed
/// only while this list is locked, so each name in the list belongs to a file of ours.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

struct Pending {
    id: u64,
    /// `None` is the current directory.
    dir: Option<OwnedFd>,
    name: PathBuf,
}

impl Pending {
    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// Is this the name in that directory? A directory is another one's bind mount, or at the end
    /// of a link.
    fn is_at(&self, dir: BorrowedFd<'_>, name: &Path) -> bool {
        let stat = |dir, name| Place::below(dir, name, name).stat(false);
        self.name.file_name() == name.file_name()
            && stat(self.dir(), &self.name)
                .and_then(|ours| Ok(same_file(&ours, &stat(dir, name)?)))
                .unwrap_or(true)
    }
}

/// Is this name in the directory a temporary one of this process?
pub(crate) fn is_pending(dir: BorrowedFd<'_>, name: &Path) -> bool {
    PENDING.lock().unpoisoned().iter().any(|ours| ours.is_at(dir, name))
}

/// Removes every temporary name, gives the directories of [`Parents`](crate::Parents) their
/// attributes, and keeps other threads from making more of either, for a program about to die of a
/// signal.
///
/// A program that copies with [`atomic`](crate::CopyOptions::atomic) or makes
/// [`Parents`](crate::Parents) calls this function from the thread that waits for SIGINT, SIGQUIT,
/// SIGTERM and SIGHUP. Without this call a signal may leave a file named `.NAME.gush-XXXXXX`, or a
/// directory with a mode that was lent for the copy. An atomic copy started after this call waits
/// for ever. What a mirror with [`last`](crate::CopyOptions::last) has set aside keeps its
/// temporary name: the next mirror removes it.
///
/// ```no_run
/// gush_tree::remove_temporaries();
/// std::process::abort();
/// ```
pub fn remove_temporaries() {
    let pending = PENDING.lock().unpoisoned();
    for entry in pending.iter() {
        // The process is about to die of a signal: a failure cannot be reported.
        let _ = fs::unlinkat(entry.dir(), &entry.name, AtFlags::empty());
    }
    // The lock stays held: no thread makes another name before the process has ended.
    mem::forget(pending);
    parents::finish_all();
}

/// A temporary name in the directory of a target, removed on drop.
struct Temporary<'a> {
    target: Place<'a>,
    name: PathBuf,
    id: u64,
}

impl<'a> Temporary<'a> {
    /// Calls `make` with a random name, and with another while the name is taken, 100 times at
    /// most.
    fn make<T>(
        target: Place<'a>,
        mut make: impl FnMut(&Place<'_>) -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let base = target.name.file_name().ok_or(Errno::INVAL)?;
        // The temporary name could be neither renamed nor removed.
        if remedy::keeps_names(&target) {
            return Err(Errno::PERM);
        }
        let dir = match target.dir.as_raw_fd() == CWD.as_raw_fd() {
            true => None,
            false => Some(io::fcntl_dupfd_cloexec(target.dir, 0)?),
        };
        let mark = target.journal.and_then(Journal::mark);
        // Another program may have the name by chance, or on purpose; it cannot have a hundred.
        for number in 0..100 {
            // In the target's directory, so that the rename stays within one file system.
            let name = target.sibling(&match mark.filter(|_| number < MARKED) {
                Some(mark) => marked_name(base, mark, number),
                None => random_name(base),
            });
            let mut pending = PENDING.lock().unpoisoned();
            match make(&Place { name: &name, ..target }) {
                Ok(made) => {
                    let id = IDS.fetch_add(1, Ordering::Relaxed);
                    pending.push(Pending { id, dir, name: name.clone() });
                    return Ok((Self { target, name, id }, made));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    fn place(&self) -> Place<'_> {
        Place { name: &self.name, ..self.target }
    }

    fn rename_to(self, name: &Path, may_replace: bool) -> io::Result<()> {
        // Locked around making and noting: a signal between the two would leave the name.
        let mut pending = PENDING.lock().unpoisoned();
        match may_replace {
            true => {
                self.place().rename_to(name)?;
                // Where both names are one file's already, rename(2) does nothing, and the
                // temporary one would stay.
                let _ = self.place().unlink();
            }
            false => self.place().rename_to_new(name)?,
        }
        pending.retain(|entry| entry.id != self.id);
        // The name is gone by the rename; dropping would remove somebody else's file of that name.
        mem::forget(self);
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let mut pending = PENDING.lock().unpoisoned();
        // A signal may have removed it already.
        if pending.iter().any(|entry| entry.id == self.id) {
            let _ = self.place().unlink();
            pending.retain(|entry| entry.id != self.id);
        }
    }
}

/// How many of the first names that are tried for a temporary file are marked.
const MARKED: u8 = 4;

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BEFORE_LETTERS: &[u8] = b".gush-";
const LETTERS_BYTES: usize = 6;

/// The part of a name that a temporary name has.
fn kept(base: &OsStr) -> &OsStr {
    const ADDED_BYTES: usize = ".".len() + BEFORE_LETTERS.len() + LETTERS_BYTES;
    // A long name is cut, because the temporary one must not be refused for its length.
    start_of(base.as_bytes(), NAME_MAX_BYTES - ADDED_BYTES)
}

/// `.NAME.gush-XXXXXX`, with NAME cut to keep the whole name within the 255 bytes of a directory
/// entry.
fn temporary_name(base: &OsStr, random: u64) -> OsString {
    let mut name = [b".", kept(base).as_bytes(), BEFORE_LETTERS].concat();
    let letter = |at| LETTERS[(random >> (5 * at) & 31) as usize];
    name.extend((0..LETTERS_BYTES).map(letter));
    OsString::from_vec(name)
}

/// A temporary name that nobody can guess and take before us.
pub(crate) fn random_name(base: &OsStr) -> OsString {
    temporary_name(base, RandomState::new().hash_one(std::process::id()))
}

/// A temporary name that a copy with the same journal recognizes.
fn marked_name(base: &OsStr, mark: Fingerprint, number: u8) -> OsString {
    temporary_name(base, mark_of(kept(base), mark, number))
}

fn mark_of(kept: &OsStr, mark: Fingerprint, number: u8) -> u64 {
    journal::marked(mark, kept, number) as u64
}

/// Is this a temporary name with this mark?
fn is_marked(name: &OsStr, mark: Fingerprint) -> bool {
    let end_bytes = BEFORE_LETTERS.len() + LETTERS_BYTES;
    let Some((begin, _)) = name.len().checked_sub(end_bytes).map(|at| name.as_bytes().split_at(at))
    else {
        return false;
    };
    let Some(kept) = begin.strip_prefix(b".").map(OsStr::from_bytes) else { return false };
    (0..MARKED).any(|number| temporary_name(kept, mark_of(kept, mark, number)) == name)
}

/// Removes the temporary names that a killed copy with this mark has left in a directory. A
/// directory that cannot be listed keeps them.
pub(crate) fn remove_leftovers(dir: BorrowedFd<'_>, mark: Fingerprint) {
    let Ok(entries) = fs::Dir::read_from(dir) else { return };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_marked(name, mark) {
            let pending = PENDING.lock().unpoisoned();
            if !pending.iter().any(|ours| ours.is_at(dir, Path::new(name))) {
                let _ = fs::unlinkat(dir, name, AtFlags::empty());
            }
        }
    }
}

/// Lets `make` create an entry under a temporary name in the directory of `target`, then renames
/// the entry onto `onto`.
pub(crate) fn replace(
    target: &Place<'_>,
    onto: &Path,
    make: impl FnMut(&Place<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, ()) = Temporary::make(*target, make)?;
    temporary.rename_to(onto, true)?;
    Ok(())
}

/// A new file without a final name.
pub(crate) struct Staged<'a> {
    target: Place<'a>,
    fd: OwnedFd,
    named: Named<'a>,
}

/// The name of a new file until it has the final one.
enum Named<'a> {
    /// None (O_TMPFILE): nothing needs cleaning up.
    Not,
    Temporary(Temporary<'a>),
    /// A name in another directory of the same file system, which stays if the file is given up.
    Elsewhere(Place<'a>),
}

/// A staged file that waits for its data, without its directory.
#[derive(Debug)]
pub(crate) struct Resting {
    fd: OwnedFd,
    /// The name and number of its temporary name, if it has one.
    temporary: Option<(PathBuf, u64)>,
}

impl AsFd for Resting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Resting {
    /// The staged file again, with the target that it was created for.
    pub(crate) fn wake(self, target: Place<'_>) -> Staged<'_> {
        let named = match self.temporary {
            None => Named::Not,
            Some((name, id)) => Named::Temporary(Temporary { target, name, id }),
        };
        Staged { target, fd: self.fd, named }
    }
}

impl<'a> Staged<'a> {
    /// Creates an empty file in the directory of `target`.
    pub(crate) fn create(target: Place<'a>, mode: Mode) -> io::Result<Self> {
        // `cp --atomic a b/`: O_TMPFILE would succeed in the directory above, and the file be named
        // `b`.
        if target.must_be_directory() {
            return Err(Errno::NOTDIR);
        }
        if let Some(fd) = nameless(&target, mode)? {
            return Ok(Self { target, fd, named: Named::Not });
        }
        let (named, fd) = Temporary::make(target, |place| {
            // O_EXCL: a file or link of that name is not ours.
            place.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)
        })?;
        Ok(Self { target, fd, named: Named::Temporary(named) })
    }

    /// The file without its directory, until its data has arrived.
    pub(crate) fn rest(self) -> Resting {
        let Self { fd, named, .. } = self;
        let temporary = match named {
            Named::Temporary(mut temporary) => {
                let name = mem::take(&mut temporary.name);
                let id = temporary.id;
                mem::forget(temporary);
                Some((name, id))
            }
            Named::Not | Named::Elsewhere(_) => None,
        };
        Resting { fd, temporary }
    }

    /// A file that has a name in the directory of `target`, which it loses now.
    pub(crate) fn of_named(target: Place<'a>, fd: OwnedFd, name: &Path) -> io::Result<Self> {
        let old = Place { name, ..target };
        let (named, ()) = Temporary::make(target, |place| old.rename_to_new(place.name))?;
        // Somebody may have given the old name to another file.
        let is_ours = same_file(&named.place().stat(false)?, &retry_on_intr(|| fs::fstat(&fd))?);
        if !is_ours {
            let _ = named.rename_to(name, false);
            return Err(Errno::STALE);
        }
        Ok(Self { target, fd, named: Named::Temporary(named) })
    }

    /// A file that is there already, in another directory; `None` if that is on another file
    /// system, from which a rename is refused.
    pub(crate) fn elsewhere(target: Place<'a>, file: Place<'a>) -> io::Result<Option<Self>> {
        let fd = file.open(OFlags::RDWR | OFlags::NOFOLLOW, Mode::empty())?;
        let here = retry_on_intr(|| fs::fstat(&fd))?;
        let there = Place { name: target.parent(), ..target }.stat(true)?;
        let is_near = here.st_dev == there.st_dev;
        Ok(is_near.then_some(Self { target, fd, named: Named::Elsewhere(file) }))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Gives the file its final name and returns the descriptor.
    pub(crate) fn commit(self, may_replace: bool) -> io::Result<OwnedFd> {
        let Self { target, fd, named } = self;
        match named {
            Named::Temporary(temporary) => temporary.rename_to(target.name, may_replace)?,
            // Never over a file: a divided file is only made where nothing was.
            Named::Elsewhere(place) => place.move_to_new(&target)?,
            Named::Not => {
                let link = |name: &Path| links::name(fd.as_fd(), &Place { name, ..target });
                match link(target.name) {
                    // linkat(2) replaces nothing, so the file gets a temporary name, and that is
                    // renamed.
                    Err(Errno::EXIST) if may_replace => {
                        replace(&target, target.name, |temporary| link(temporary.name))?;
                    }
                    other => other?,
                }
            }
        }
        Ok(fd)
    }
}

/// A file without a name (O_TMPFILE), or `None` if the file system cannot make one or /proc is
/// missing.
fn nameless(target: &Place<'_>, mode: Mode) -> io::Result<Option<OwnedFd>> {
    let parent = Place { name: target.parent(), ..*target };
    let fd = match parent.open(OFlags::TMPFILE | OFlags::RDWR, mode) {
        Ok(fd) => fd,
        // EISDIR comes from kernels and file systems that do not know O_TMPFILE (open(2)).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    // linkat(2) may have to name the file through /proc, which a container may lack.
    static HAS_PROC: AtomicBool = AtomicBool::new(false);
    if !HAS_PROC.load(Ordering::Relaxed) {
        let can_be_named = fs::access(proc_path(fd.as_fd()), Access::EXISTS).is_ok();
        HAS_PROC.store(can_be_named, Ordering::Relaxed);
        return Ok(can_be_named.then_some(fd));
    }
    Ok(Some(fd))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_staged_file_appears_only_when_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let staged = Staged::create(Place::here(&path), Mode::from(0o600)).unwrap();
        File::from(staged.fd().try_clone_to_owned().unwrap()).write_all(b"new").unwrap();
        assert!(!path.exists());
        staged.commit(false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_commit_replaces_only_when_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let stage = || Staged::create(Place::here(&path), Mode::from(0o600)).unwrap();
        assert_eq!(stage().commit(false).unwrap_err(), Errno::EXIST);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        stage().commit(true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_link_to_the_file_that_has_the_name_already_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        std::fs::write(&one, "x").unwrap();
        std::fs::hard_link(&one, &other).unwrap();
        let place = Place::here(&other);
        let link = |to: &Place<'_>| fs::linkat(CWD, &one, CWD, to.name, AtFlags::empty());
        replace(&place, place.name, link).unwrap();
        assert_eq!(names(dir.path()), ["one", "other"]);
    }

    #[test]
    fn a_file_whose_name_another_has_by_now_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let [path, old] = ["file", "old"].map(|name| dir.path().join(name));
        std::fs::write(&old, "ours").unwrap();
        let fd = File::open(&old).unwrap().into();
        std::fs::remove_file(&old).unwrap();
        std::fs::write(&old, "another").unwrap();
        let staged = Staged::of_named(Place::here(&path), fd, &old);
        assert_eq!(staged.err(), Some(Errno::STALE));
        assert_eq!(std::fs::read(&old).unwrap(), b"another");
        assert_eq!(names(dir.path()), ["old"]);
    }

    #[test]
    fn leftovers_of_the_killed_copy_go_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, others) = (7, 8);
        let long = "n".repeat(255);
        let marked = |mark| {
            let bases = ["f", "\u{e9}", &long];
            bases.map(|base| [0, MARKED - 1].map(|number| marked_name(base.as_ref(), mark, number)))
        };
        let mut kept: Vec<OsString> =
            ["f", ".f", ".f.gush-aaaaaa", ".gush-aaaaaa", ".f.gush-journal"].map(Into::into).into();
        kept.extend(marked(others).concat());
        kept.sort();
        for name in marked(ours).concat().iter().chain(&kept) {
            assert!(name.len() <= NAME_MAX_BYTES);
            File::create(dir.path().join(name)).unwrap();
        }
        assert_eq!(names(dir.path()).len(), 6 + kept.len());
        remove_leftovers(File::open(dir.path()).unwrap().as_fd(), ours);
        assert_eq!(names(dir.path()), kept);
    }

    /// Two directories of a target are one by a bind mount, or by links that are followed.
    #[test]
    fn a_temporary_name_in_use_is_no_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let [journal, path, other] = ["journal", "f", "g"].map(|name| dir.path().join(name));
        let journal = Journal::open_at(&Place::here(&journal), 7, String::new).unwrap();
        let mark = journal.mark().unwrap();
        let target = Place { journal: Some(&journal), ..Place::here(&path) };
        let (temporary, ()) = Temporary::make(target, |place| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            place.open(flags, Mode::from(0o600)).map(drop)
        })
        .unwrap();
        let ours = temporary.name.file_name().unwrap().to_owned();
        assert!(is_marked(&ours, mark));
        // The same name in another directory is one, and so is another name in ours.
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let leftovers = [below.join(&ours), dir.path().join(marked_name("g".as_ref(), mark, 0))];
        leftovers.iter().for_each(|leftover| std::fs::write(leftover, "").unwrap());
        for dir in [dir.path(), &below] {
            remove_leftovers(File::open(dir).unwrap().as_fd(), mark);
        }
        assert_eq!(names(&below), [""; 0]);
        assert_eq!(names(dir.path()), [ours.to_str().unwrap(), "below", "journal"]);
        temporary.rename_to(&other, true).unwrap();
        assert_eq!(names(dir.path()), ["below", "g", "journal"]);
    }

    #[test]
    fn a_named_temporary_is_removed_unless_it_is_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        let make = || {
            Temporary::make(Place::here(&path), |place| {
                place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::from(0o600))
            })
            .unwrap()
            .0
        };
        let temporary = make();
        let name = temporary.name.file_name().unwrap().to_owned();
        assert_eq!(names(dir.path()), [&*name]);
        let is_ours = || {
            let opened = File::open(dir.path()).unwrap();
            is_pending(opened.as_fd(), Path::new(&name))
        };
        assert!(is_ours());
        drop(temporary);
        assert!(!is_ours());
        assert!(names(dir.path()).is_empty());
        make().rename_to(&path, false).unwrap();
        assert_eq!(names(dir.path()), [path.file_name().unwrap()]);
        assert_eq!(make().rename_to(&path, false).unwrap_err(), Errno::EXIST);
        assert_eq!(names(dir.path()), [path.file_name().unwrap()]);
    }
}
