//! Removing from the target what the source lacks.
//!
//! Everything is done by descriptors, one name at a time, without following links: no swap of a
//! name leads a removal out of the target's tree. A name is removed only if the source's directory,
//! listed to its end, lacks it, or if a source that can be read takes its place.
//! Mounts are distinguished by their ids: a bind mount has the device of its origin.

mod aside;
mod entries;
mod limits;
mod mounted;

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gush_text::Doing;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::{self, Errno, retry_on_intr};

pub(crate) use aside::Aside;
pub(crate) use entries::can_list;
pub(crate) use entries::has;
use entries::{Entries, TargetEntry, entries};
pub(crate) use limits::Limits;
use limits::Reason;
pub use mounted::mounted_below;

use super::held;
use super::path::TreePath;
use crate::error::Error;
use crate::place::{FileId, Place};
use crate::rehearsal;

/// The first failure of a removal, which does not go to `report`.
fn first_failure(
    remove: impl FnOnce(&mut Report<'_>) -> Removed,
    report: &mut Report<'_>,
) -> Result<Removed, Error> {
    let mut failure = None;
    let removed = remove(&mut |path, result| match result {
        Err(error) if failure.is_none() => failure = Some(error),
        result => report(path, result),
    });
    failure.map_or(Ok(removed), Err)
}

/// Removes what one directory of the target has and the source lacks.
pub(crate) struct Mirror<'a> {
    pub(crate) target: BorrowedFd<'a>,
    /// Does the source have the name? A link to nothing is there all the same.
    pub(crate) source_has: &'a dyn Fn(&CStr) -> io::Result<bool>,
    pub(crate) limits: &'a Limits,
    /// The target's directory is the source, or below it.
    pub(crate) is_in_source: bool,
    pub(crate) is_dry: bool,
    /// Takes a dry run's warning about a directory that cannot be listed.
    pub(crate) doubts: &'a dyn Fn(&Error),
    /// Is the entry with this path below the root, perhaps a directory, left as it is?
    pub(crate) is_protected: &'a dyn Fn(&Path, bool) -> bool,
    /// Is nothing more to be removed?
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Wholly,
    /// Something protected is left.
    InPart,
}

/// Called for each entry that was removed, with all that was in it, or that could not be.
pub(crate) type Report<'t> = dyn FnMut(&Path, Result<(), Error>) + 't;

/// Reports why the entry stays whose path is set.
fn stays(reason: &Reason, path: &TreePath, report: &mut Report<'_>) -> Removed {
    report(path.path(), Err(reason.error(path.path(), path.path())));
    Removed::InPart
}

impl Mirror<'_> {
    /// Removes all that is to go.
    pub(crate) fn run(&self, target: &mut TreePath, report: &mut Report<'_>) {
        let mut entries = match entries(self.target) {
            Ok(entries) => entries,
            Err(errno) => {
                return report(
                    target.path(),
                    Err(Error::os(target.path(), "cannot access {}", errno)),
                );
            }
        };
        while let Some(entry) = entries.pop() {
            if (self.is_stopped)() {
                return;
            }
            let before = target.push(entry.name());
            match self.goes(&entry.name) {
                Ok(true) => {
                    self.remove_entry(entry, target, report);
                }
                Ok(false) => {}
                Err(errno) => {
                    let what = "not removing {}: cannot look for it in the source";
                    report(target.path(), Err(Error::os(target.path(), what, errno)));
                }
            }
            target.back_to(before);
        }
    }

    /// Is there anything for [`run`](Self::run) to remove or to report?
    pub(crate) fn has_work(&self) -> bool {
        let Ok(mut entries) = entries(self.target) else { return true };
        while let Some(entry) = entries.pop() {
            if !matches!(self.goes(&entry.name), Ok(false)) {
                return true;
            }
        }
        false
    }

    /// Removes the entry with this name, whose path is set, for a source of another kind, unless
    /// `sets_aside` keeps it under another name.
    ///
    /// # Errors
    /// The first reason why something would stay: then nothing was removed, unless the removal
    /// itself failed.
    pub(crate) fn make_way(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: &mut TreePath,
        sets_aside: &dyn Fn(&Self) -> bool,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let removed = match self.rehearse_replacing(name, is_directory, path)? {
            Removed::InPart => Removed::InPart,
            Removed::Wholly if sets_aside(self) => Removed::Wholly,
            Removed::Wholly if self.is_dry => {
                report(path.path(), Ok(()));
                Removed::Wholly
            }
            Removed::Wholly => self.replace(name, is_directory, path, report)?,
        };
        let path = path.path();
        match removed {
            Removed::Wholly => Ok(()),
            Removed::InPart if (self.is_stopped)() => {
                Err(Error::refusal(path, "not replacing {}: the copy ends at an error"))
            }
            Removed::InPart => {
                Err(Error::refusal(path, "not replacing {}: the filters keep something of it")
                    .hinting("remove it by hand, or copy without these filters"))
            }
        }
    }

    /// Can the entry with this name, whose path is set, be removed for a source of another kind?
    /// Nothing goes if something would stay.
    ///
    /// # Errors
    /// The first reason why something would stay.
    fn rehearse_replacing(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: &mut TreePath,
    ) -> Result<Removed, Error> {
        // A file is removed or stays, by one call.
        if !(self.is_dry || is_directory) {
            return Ok(Removed::Wholly);
        }
        let entry = entry(name, is_directory, path)?;
        let doubts = if self.is_dry { self.doubts } else { &|_: &Error| {} };
        let rehearsal = Mirror { is_dry: true, doubts, ..*self };
        first_failure(|report| rehearsal.remove_entry(entry, path, report), &mut |_, _| {})
    }

    /// Removes the entry with this name, whose path is set, for a source of another kind.
    ///
    /// # Errors
    /// The first reason why something stays.
    fn replace(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: &mut TreePath,
        report: &mut Report<'_>,
    ) -> Result<Removed, Error> {
        let entry = entry(name, is_directory, path)?;
        first_failure(|report| self.remove_entry(entry, path, report), report)
    }

    fn remove_entry(
        &self,
        entry: TargetEntry,
        path: &mut TreePath,
        report: &mut Report<'_>,
    ) -> Removed {
        // A name that the filters leave out of the source is left alone in the target as well.
        if (self.is_protected)(path.below_root(), entry.is_directory) {
            return Removed::InPart;
        }
        if let Err(reason) = self.check() {
            let above = path.path().parent().map_or_else(PathBuf::new, Path::to_path_buf);
            report(path.path(), Err(reason.error(path.path(), &above)));
            return Removed::InPart;
        }
        let removed = self.remove(entry, path, report);
        if removed == Removed::Wholly {
            report(path.path(), Ok(()));
        }
        removed
    }

    fn check(&self) -> Result<(), Reason> {
        if self.is_in_source {
            return Err(Reason::Source);
        }
        self.limits.check(self.target, &retry_on_intr(|| fs::fstat(self.target))?)
    }

    /// Removes an entry, a directory with all that is in it but for the protected and what cannot
    /// be removed. One directory is open at a time, at any depth; the way back is `..`, which must
    /// be the directory it was. `path` is the entry's. What goes from a directory that stays is
    /// reported.
    fn remove(&self, entry: TargetEntry, path: &mut TreePath, report: &mut Report<'_>) -> Removed {
        let dir = self.target;
        if !entry.is_directory {
            return self.unlink_or_report(dir, &entry.name, AtFlags::empty(), path, report);
        }
        let (mut at, level) = match self.go_down(dir, entry, path) {
            Ok(Some(below)) => below,
            Ok(None) => return Removed::Wholly,
            Err(reason) => return stays(&reason, path, report),
        };
        // A list in place of recursion, and one descriptor: a tree of any depth can be removed.
        let mut levels = vec![level];
        loop {
            let Some(level) = levels.last_mut() else { return Removed::Wholly };
            if (self.is_stopped)() {
                return leave(levels, path, report);
            }
            if let Some(next) = level.left.pop() {
                let before = path.push(next.name());
                let removed = if (self.is_protected)(path.below_root(), next.is_directory) {
                    Removed::InPart
                } else if next.is_directory {
                    match self.go_down(at.as_fd(), next, path) {
                        Ok(Some((below, level))) => {
                            levels.push(level);
                            at = below;
                            continue;
                        }
                        Ok(None) => Removed::Wholly,
                        Err(reason) => stays(&reason, path, report),
                    }
                } else {
                    self.unlink_or_report(at.as_fd(), &next.name, AtFlags::empty(), path, report)
                };
                path.back_to(before);
                level.ended(removed);
                continue;
            }
            let up = match &levels[..] {
                // A directory that was moved away leads elsewhere.
                [.., above, _] => match held::up(at.as_fd(), above.id) {
                    Ok(up) => Some(up),
                    Err(errno) => {
                        stays(&errno.into(), path, report);
                        return leave(levels, path, report);
                    }
                },
                _ => None,
            };
            let Some(level) = levels.pop() else { return Removed::Wholly };
            let above = up.as_ref().map_or(dir, AsFd::as_fd);
            let removed = match level.removed {
                Removed::Wholly => {
                    let (name, flags) = (&*level.entry.name, AtFlags::REMOVEDIR);
                    self.unlink_or_report(above, name, flags, path, report)
                }
                Removed::InPart => Removed::InPart,
            };
            if removed == Removed::InPart {
                level.report_gone(path, report);
            }
            let (Some(up), Some(above)) = (up, levels.last_mut()) else { return removed };
            above.ended(removed);
            // Only now: until then the path names the entry of an error.
            path.pop(level.entry.name());
            at = up;
        }
    }

    fn unlink_or_report(
        &self,
        at: BorrowedFd<'_>,
        name: &CStr,
        flags: AtFlags,
        path: &TreePath,
        report: &mut Report<'_>,
    ) -> Removed {
        match self.unlink(at, name, flags) {
            Ok(()) => Removed::Wholly,
            Err(reason) => stays(&reason, path, report),
        }
    }

    /// Opens and lists a directory. `None` if it was empty and is gone: rmdir(2), as of GNU rm,
    /// asks for no right to the directory itself.
    fn go_down(
        &self,
        above: BorrowedFd<'_>,
        entry: TargetEntry,
        path: &TreePath,
    ) -> Result<Option<(OwnedFd, Level)>, Reason> {
        let name = entry.name.clone();
        let opened = held::enter(above, &name).map_err(Reason::from);
        let listed = opened.and_then(|fd| self.level(fd.as_fd(), entry).map(|level| (fd, level)));
        match listed {
            Ok(level) => Ok(Some(level)),
            Err(Reason::Os(errno @ (Errno::ACCESS | Errno::PERM), _)) => {
                let here = Path::new(OsStr::from_bytes(name.to_bytes()));
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let held = Place::below(above, here, here).open(flags, Mode::empty())?;
                self.limits.check(held.as_fd(), &retry_on_intr(|| fs::fstat(&held))?)?;
                // That the directory cannot be emptied is the reason.
                let cannot_be_emptied = |_| Reason::from(errno);
                self.unlink(above, &name, AtFlags::REMOVEDIR).map_err(cannot_be_emptied)?;
                if self.is_dry {
                    let text = "cannot list {}, which would be removed only if it is empty";
                    (self.doubts)(&Error::refusal(path.path(), text));
                }
                Ok(None)
            }
            Err(reason) => Err(reason),
        }
    }

    fn unlink(&self, at: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Reason> {
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        let place = Place::below(at, path, path);
        match self.limits.check_file(&place) {
            Ok(()) | Err(Reason::Os(Errno::NOENT, _)) => {}
            Err(reason) => return Err(reason),
        }
        let removed = match self.is_dry {
            true => rehearsal::may_be_removed(&place),
            false => retry_on_intr(|| fs::unlinkat(at, name, flags)),
        };
        match removed {
            // Somebody else was faster.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                Err(Reason::Os(errno, gush_text::remedy_at(at, path, Doing::Removing, errno)))
            }
        }
    }

    fn level(&self, dir: BorrowedFd<'_>, entry: TargetEntry) -> Result<Level, Reason> {
        let stat = retry_on_intr(|| fs::fstat(dir))?;
        self.limits.check(dir, &stat)?;
        let (id, left) = (FileId::of(&stat), entries(dir)?);
        Ok(Level { entry, id, left, removed: Removed::Wholly })
    }

    /// Does the source lack the name? Somebody may have removed it here since the listing.
    fn goes(&self, name: &CStr) -> io::Result<bool> {
        Ok(!(self.source_has)(name)? && has(self.target, name)?)
    }
}

fn entry(name: &OsStr, is_directory: bool, path: &TreePath) -> Result<TargetEntry, Error> {
    match CString::new(name.as_bytes()) {
        Ok(name) => Ok(TargetEntry { name, is_directory }),
        Err(_) => Err(Error::os(path.path(), "cannot remove {}", Errno::INVAL)),
    }
}

/// A directory on the way down to what is removed.
struct Level {
    entry: TargetEntry,
    id: FileId,
    left: Entries,
    removed: Removed,
}

impl Level {
    /// The entry taken last was removed, or not.
    fn ended(&mut self, removed: Removed) {
        if removed == Removed::InPart {
            self.removed = Removed::InPart;
            self.left.last_stays();
        }
    }

    fn report_gone(&self, path: &mut TreePath, report: &mut Report<'_>) {
        for name in self.left.gone() {
            let before = path.push(name);
            report(path.path(), Ok(()));
            path.back_to(before);
        }
    }
}

/// Leaves the directories on the way down to `path` as they are, and reports what is gone from
/// them.
fn leave(mut levels: Vec<Level>, path: &mut TreePath, report: &mut Report<'_>) -> Removed {
    while let Some(level) = levels.pop() {
        level.report_gone(path, report);
        if let Some(above) = levels.last_mut() {
            above.ended(Removed::InPart);
            path.pop(level.entry.name());
        }
    }
    Removed::InPart
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;

    /// A stop is heeded between two names of one directory, however much is in there.
    #[test]
    fn a_stop_ends_the_removal_in_the_middle_of_a_directory() {
        const FILES: usize = 20;
        const QUESTIONS_BEFORE_THE_STOP: usize = 5;
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("target/old");
        std::fs::create_dir_all(&old).unwrap();
        (0..FILES).for_each(|file| std::fs::write(old.join(file.to_string()), "").unwrap());
        let target = dir.path().join("target");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = Place::here(&target).open(flags, Mode::empty()).unwrap();
        let stat = fs::fstat(&fd).unwrap();
        let questions = Cell::new(0);
        let mirror = Mirror {
            target: fd.as_fd(),
            source_has: &|_| Ok(false),
            limits: &Limits::new(fd.as_fd(), &stat, HashSet::new(), Some(&[])),
            is_in_source: false,
            is_dry: false,
            doubts: &|_| {},
            is_protected: &|_, _| false,
            is_stopped: &|| questions.replace(questions.get() + 1) >= QUESTIONS_BEFORE_THE_STOP,
        };
        let mut reported = HashSet::new();
        mirror.run(&mut TreePath::new(&target), &mut |path, result| {
            result.unwrap();
            assert!(path.parent() == Some(&old) && reported.insert(path.to_path_buf()));
        });
        assert!(reported.iter().all(|path| !path.exists()));
        // One question comes before the directory itself.
        let left = std::fs::read_dir(old).unwrap().count();
        assert_eq!(left, FILES - (QUESTIONS_BEFORE_THE_STOP - 1));
        assert_eq!(reported.len(), FILES - left);
    }
}
