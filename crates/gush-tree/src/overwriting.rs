//! Overwriting: the treatment of a file already at the target.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use gush_text::quote::{self, Quoted};
use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process;

use crate::backup::BackupControl;
use crate::error::Error;
use crate::events::{Events, Question};
use crate::job::{Entry, Job};
use crate::options::{CopyOptions, Dereference, Make, Update};
use crate::place::{FileId, Place, kind, mount_of};
use crate::same::{self, Conflict};
use crate::{links, open, regular, rehearsal, remedy, special, uncached};

/// What becomes of a source, as far as the target decides.
pub(crate) enum Decision {
    /// The source is copied.
    Copy(Prepared),
    /// The source is skipped.
    Skip,
    /// The source is skipped because this target is newer or the same (`--update`): it counts as
    /// the source's copy.
    Keep(Stat),
    /// As [`Keep`](Self::Keep), where this target lacks attributes of the source.
    Update(Stat),
}

/// What was done about an existing target, and what is left to do.
#[derive(Default)]
pub(crate) struct Prepared {
    /// The file to write into or to replace.
    pub(crate) existing: Option<Stat>,
    /// The existing file is replaced only when the new file is whole.
    pub(crate) displaces: bool,
    /// The existing file's backup name.
    pub(crate) backup: Option<PathBuf>,
    /// The existing file already has the backup name.
    can_undo: bool,
}

impl Prepared {
    /// Gives the backup its old name again; `false` if there is no backup or the rename failed.
    pub(crate) fn undo(&self, target: &Place<'_>, events: &mut dyn Events) -> bool {
        let Some(shown) = self.backup.as_deref().filter(|_| self.can_undo) else { return false };
        let name = target.sibling(shown.file_name().unwrap_or_default());
        let backup = Place { name: &name, shown, ..*target };
        match backup.rename_to(target.name) {
            Ok(()) => {
                events.backup_undone(shown, target.shown);
                true
            }
            Err(errno) => {
                events.warns(&Error::os(target.shown, "cannot un-backup {}", errno));
                false
            }
        }
    }
}

impl Job<'_> {
    /// Makes way for the copy, unless the source is to be skipped.
    ///
    /// With `is_new` the target's name is free, except perhaps for a dangling symbolic link.
    pub(crate) fn prepare(&self, is_new: bool, events: &mut dyn Events) -> Result<Decision, Error> {
        if self.would_have_gone(is_new) {
            return Ok(Decision::Copy(Prepared::default()));
        }
        let looks_at_link = self.looks_at_link();
        // A directory just made has nothing at this name, and a look saved counts for every file of
        // a tree.
        let mut existing = match is_new && (!looks_at_link || self.options().dry_run) {
            true => None,
            false => self.existing(looks_at_link)?,
        };
        if self.options().dry_run {
            existing = existing.map(|there| self.common.writers.imagined(there));
        }
        match existing {
            Some(existing) => self.prepare_existing(&existing, events),
            None => {
                if self.options().dry_run {
                    self.rehearse(is_new, None)?;
                }
                Ok(Decision::Copy(Prepared::default()))
            }
        }
    }

    /// Would a mirror, of which this is the dry run, have removed the target by now?
    fn would_have_gone(&self, is_new: bool) -> bool {
        let options = self.options();
        let is_imagined = options.mirror && options.dry_run && self.is_in_tree() && !is_new;
        let is_of_other_kind = |there| is_of_other_kind(options, kind(self.source.stat), &there);
        is_imagined && self.target.place.stat(false).is_ok_and(is_of_other_kind)
    }

    /// Data is written through a link, but a link or special file replaces the link itself.
    pub(crate) fn looks_at_link(&self) -> bool {
        let options = self.options();
        !options.reads(kind(self.source.stat)) || options.backup.is_some() || options.remove_first
    }

    fn existing(&self, looks_at_link: bool) -> Result<Option<Stat>, Error> {
        let target = self.target.place;
        match target.stat(!looks_at_link) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            // A loop of links cannot be opened either, so -f removes the link.
            Err(Errno::LOOP) if self.options().force && !looks_at_link => {
                target.look(false).map(Some)
            }
            Err(Errno::XDEV) if target.bounds.is_some() => Err(remedy::out_of_bounds(&target)),
            Err(errno) => Err(Error::os(target.shown, "cannot stat {}", errno)),
        }
    }

    /// Decides about an existing target.
    fn prepare_existing(
        &self,
        existing: &Stat,
        events: &mut dyn Events,
    ) -> Result<Decision, Error> {
        let (options, Entry { place: source, stat: source_stat, .. }) =
            (self.options(), self.source);
        let target = self.target.place;
        if !matches!(options.update, Update::None | Update::NoneFail) {
            match same::judge(
                options,
                Entry::new(source, source_stat),
                Entry::new(target, existing),
            ) {
                Conflict::None => {}
                // As GNU cp: a link to the same file is there already, without a word.
                Conflict::AlreadyDone => return Ok(Decision::Skip),
                Conflict::SameFile => {
                    return self.refuse(|from, to| format!("{from} and {to} are the same file"));
                }
            }
        }
        let stays = match overwrite_decision(options, target.shown, existing, source_stat)? {
            OverwriteDecision::Skip => return Ok(Decision::Skip),
            OverwriteDecision::Keep => true,
            OverwriteDecision::Compare => self.has_same_bytes(existing)?,
            OverwriteDecision::Copy => false,
        };
        match stays {
            true if !self.lacks_attributes(existing)? => Ok(Decision::Keep(*existing)),
            // The other names of a file show its attributes, too.
            true if existing.st_nlink == 1 || !(options.atomic || self.goes_first(existing)) => {
                Ok(Decision::Update(*existing))
            }
            _ => self.make_room(existing, events).map(Decision::Copy),
        }
    }

    /// Refuses the copy by a text that names source and target.
    fn refuse<T>(&self, text: impl FnOnce(Quoted<'_>, Quoted<'_>) -> String) -> Result<T, Error> {
        let [from, to] = [self.source.place, self.target.place].map(|it| quote::always(it.shown));
        Err(Error::about_both(self.target.place.shown, text(from, to)))
    }

    /// Makes way for the copy, whatever the target is.
    pub(crate) fn make_room(
        &self,
        existing: &Stat,
        events: &mut dyn Events,
    ) -> Result<Prepared, Error> {
        let (options, Entry { place: source, stat: source_stat, .. }) =
            (self.options(), self.source);
        let target = self.target.place;
        if options.ask && !self.may_replace(existing, events) {
            return Err(Error::declined(target.shown));
        }
        if kind(existing) == FileType::Directory {
            return self.refuse(|from, to| {
                format!("cannot overwrite directory {to} with non-directory {from}")
            });
        }
        if self.was_just_made(existing) {
            return self
                .refuse(|from, to| format!("will not overwrite just-created {to} with {from}"));
        }
        // The name would be given to this source, and the copy that it leads to would be lost.
        let is_only_name = existing.st_nlink == 1 && options.backup.is_none();
        if is_only_name
            && self.claims().is_some_and(|claims| claims.is_claimed(FileId::of(existing)))
        {
            return Err(open::holds_a_copy(&target));
        }
        let mut prepared = Prepared { existing: Some(*existing), ..Prepared::default() };
        if let Some(backup) = &options.backup
            && backup.would_destroy(&target, &source, source_stat)
        {
            return self.refuse(|from, to| {
                format!("backing up {to} might destroy source; {from} not copied")
            });
        }
        if options.dry_run {
            self.rehearse(false, Some(existing))?;
            if options.backup.is_some() {
                prepared.existing = None;
            } else if self.goes_first(existing) {
                self.common.writers.name_goes(existing);
                prepared.displaces = self.is_displaced();
                if !prepared.displaces {
                    events.removed(target.shown);
                    prepared.existing = None;
                }
            }
            return Ok(prepared);
        }
        if let Some(backup) = &options.backup {
            let failed = |errno| remedy::not_changed(&target, "cannot backup {}", errno);
            if options.atomic && options.reads(kind(source_stat)) {
                // The old file keeps its name until the new one is whole.
                prepared.displaces = true;
                prepared.backup = Some(backup.name_for(&target).map_err(failed)?);
            } else {
                prepared.backup = backup.set_aside(&target).map_err(failed)?;
                // Its name is free now, so the copy makes a new file.
                prepared.existing = None;
                prepared.can_undo = true;
            }
            prepared.backup = prepared.backup.take().map(|name| shown_sibling(&target, &name));
        } else if self.goes_first(existing) {
            if self.is_displaced() {
                prepared.displaces = true;
            } else {
                match target.unlink() {
                    Ok(()) => events.removed(target.shown),
                    Err(Errno::NOENT) => {}
                    Err(errno) => {
                        return Err(remedy::not_changed(&target, "cannot remove {}", errno));
                    }
                }
                prepared.existing = None;
            }
        }
        Ok(prepared)
    }

    /// Refuses, in a dry run, a source that could not be read or a target that could not be made or
    /// replaced.
    fn rehearse(&self, is_new: bool, existing: Option<&Stat>) -> Result<(), Error> {
        let (options, target) = (self.options(), &self.target.place);
        let is_read = options.reads(kind(self.source.stat));
        if is_read {
            rehearsal::refuse_unreadable(&self.source.place, kind(self.source.stat))?;
        }
        match existing {
            // In a directory that a dry run did not make is nothing to look at.
            None if is_new => {
                let above = Place { name: target.parent(), ..*target };
                let misleads = options.make == Make::SymbolicLink
                    && !self.source.place.shown.is_absolute()
                    // That directory will not be the current one.
                    && above.stat(true).is_err();
                if misleads { Err(links::misleading(target)) } else { Ok(()) }
            }
            None => {
                self.refuse_link()?;
                rehearsal::refuse_new(options, target, |errno| self.cannot_make(errno), is_read)
            }
            Some(existing) => self.rehearse_replacing(existing, is_read),
        }
    }

    /// Asks what the copy would need, in the same order.
    fn rehearse_replacing(&self, existing: &Stat, is_read: bool) -> Result<(), Error> {
        let options = self.options();
        // Only a link takes a name by -f; an answer lets a hard link take one, too.
        let is_link = options.make != Make::Copy || kind(self.source.stat) == FileType::Symlink;
        let takes_name = is_link && options.force || options.make == Make::HardLink && options.ask;
        let goes_first = self.goes_first(existing);
        let end;
        let mut target: Place<'_> = self.target.place;
        if options.backup.is_some() || goes_first {
            // The name itself is given to the copy.
        } else if is_read {
            regular::refuse_unkept_promises(options, &target, existing)?;
            if options.atomic {
                end = regular::end_of_links(&target, existing)?;
                target.name = end.as_deref().unwrap_or(target.name);
                regular::check_replaceable(options, &target, existing)?;
            } else {
                match rehearsal::refuse_unwritable(&target) {
                    Err(_) if options.force => {}
                    decided => return decided,
                }
            }
        } else if !takes_name {
            if options.make == Make::SymbolicLink {
                self.refuse_link()?;
            }
            return Err(self.cannot_make(Errno::EXIST));
        } else {
            self.refuse_link()?;
        }
        let backs_up = options.backup.is_some();
        let is_staged = is_read && (options.atomic || !backs_up && options.may_be_refused());
        rehearsal::may_be_removed(&target).map_err(|errno| match is_staged {
            true => open::cannot_replace(options, &target, true, errno),
            false if backs_up => remedy::not_changed(&target, "cannot backup {}", errno),
            false if is_read || goes_first && !options.atomic => {
                remedy::not_changed(&target, "cannot remove {}", errno)
            }
            false => self.cannot_make(errno),
        })?;
        self.refuse_link()
    }

    /// Refuses, in a dry run, a link that could not be made wherever its directory lets names be
    /// made.
    fn refuse_link(&self) -> Result<(), Error> {
        match self.options().make {
            Make::Copy => Ok(()),
            Make::SymbolicLink => links::refuse_misleading(&self.source.place, &self.target.place),
            Make::HardLink => {
                let flags = match self.options().dereference {
                    Dereference::Never => AtFlags::SYMLINK_NOFOLLOW,
                    _ => AtFlags::empty(),
                };
                let from = mount_of(self.source.place.dir, self.source.place.name, flags);
                let to =
                    mount_of(self.target.place.dir, self.target.place.parent(), AtFlags::empty());
                match from.zip(to) {
                    Some((from, to)) if from != to => Err(self.cannot_make(Errno::XDEV)),
                    // What cannot be looked at is reported by the next question.
                    _ => Ok(()),
                }
            }
        }
    }

    /// The error of a copy or link that cannot be made under the target's name, as the copy would
    /// report it.
    fn cannot_make(&self, errno: Errno) -> Error {
        let (source, target) = (&self.source.place, &self.target.place);
        let options = self.options();
        match (options.make, kind(self.source.stat)) {
            (Make::HardLink, _) => links::no_hard_link(source, target, errno),
            (Make::SymbolicLink, _) => links::no_symbolic_link(source, target, errno),
            (Make::Copy, source_kind) if options.reads(source_kind) => {
                open::cannot_create(target, errno)
            }
            (Make::Copy, special) => special::not_made(target, special, errno),
        }
    }

    /// Compares two regular files, or two symbolic links.
    fn has_same_bytes(&self, existing: &Stat) -> Result<bool, Error> {
        let (source, target) = (self.source.place, self.target.place);
        let open = |place: &Place<'_>| {
            place
                .open_regular(OFlags::RDONLY, Mode::empty())
                .map_err(|errno| open::not_opened(place, "cannot open {} for comparison", errno))
        };
        match kind(existing) {
            FileType::RegularFile => {
                let (from, to) = (open(&source)?, open(&target)?);
                let _as_they_were = self
                    .options()
                    .moving
                    .no_cache
                    .then(|| [&from, &to].map(|file| uncached::AsItWas::look(file.as_fd())));
                gush::first_difference(&from, &to)
                    .map(|difference| difference.is_none())
                    .map_err(|error| Error::engine(source.shown, &error))
            }
            FileType::Symlink => Ok(links::text(&source)? == links::text(&target)?),
            _ => Ok(false),
        }
    }

    /// Is the target removed first, so that the copy reaches no other name of the old file and does
    /// not pass through a link?
    fn goes_first(&self, existing: &Stat) -> bool {
        let options = self.options();
        // Written in place, all its other names would show the new bytes.
        // Threads take turns at a file with two names, ranks cannot.
        let is_promised = (self.claims().is_some() || options.shard.is_some())
            && options.reads(kind(self.source.stat))
            && kind(existing) == FileType::RegularFile;
        let other_names = existing.st_nlink > 1 && (options.preserve.links || is_promised);
        let other_kind = options.dereference == Dereference::Never
            && kind(self.source.stat) != FileType::RegularFile;
        options.remove_first || (options.data && (other_names || other_kind))
    }

    /// Does a target that goes first keep its name until the new file is whole?
    fn is_displaced(&self) -> bool {
        let options = self.options();
        options.atomic || options.may_be_refused() && options.reads(kind(self.source.stat))
    }

    fn may_replace(&self, stat: &Stat, events: &mut dyn Events) -> bool {
        let target = self.target.place;
        let writable = kind(stat) == FileType::Symlink
            // Root may write to everything, so access(2) is not worth the call.
            || process::geteuid().is_root()
            || retry_on_intr(|| {
                fs::accessat(target.dir, target.name, Access::WRITE_OK, AtFlags::EACCESS)
            })
            .is_ok();
        let replaces = self.options().force || self.options().remove_first;
        events.may_replace(&Question::new(target.shown, stat, writable, replaces))
    }

    fn was_just_made(&self, stat: &Stat) -> bool {
        let keeps_all = self
            .options()
            .backup
            .as_ref()
            .is_some_and(|backup| backup.control == BackupControl::Numbered);
        !keeps_all && self.made_before().is_some_and(|made| made.has_made(&self.target.place, stat))
    }
}

fn shown_sibling(target: &Place<'_>, name: &Path) -> PathBuf {
    let name = name.file_name().unwrap_or_default();
    let base = target.name.file_name().unwrap_or_default();
    // By bytes: a path taken apart and put together again loses a `./` that the user wrote.
    match target.shown.as_os_str().as_bytes().strip_suffix(base.as_bytes()) {
        Some(above) => OsString::from_vec([above, name.as_bytes()].concat()).into(),
        None => target.shown.with_file_name(name),
    }
}

/// What becomes of an entry whose name another file has in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum OverwriteDecision {
    /// It is copied.
    Copy,
    /// The target stays. It does not count as a copy: another name of the source is copied.
    Skip,
    /// The target stays and counts as the copy: other names of the source become names of it.
    Keep,
    /// [`Keep`](Self::Keep) if source and target have the same bytes, [`Copy`](Self::Copy) if not.
    Compare,
}

/// Decides by `--update` and by what both sides look like.
pub(crate) fn overwrite_decision(
    options: &CopyOptions,
    target: &Path,
    existing: &Stat,
    source: &Stat,
) -> Result<OverwriteDecision, Error> {
    let keep_if = |is_kept| if is_kept { OverwriteDecision::Keep } else { OverwriteDecision::Copy };
    Ok(match options.update {
        Update::All => OverwriteDecision::Copy,
        Update::None => OverwriteDecision::Skip,
        Update::NoneFail => return Err(Error::refusal(target, "not replacing {}")),
        Update::Older => keep_if(!is_older(options, existing, source)),
        // A pipe or device that is read says nothing by its inode about the bytes that come.
        Update::Changed | Update::Different
            if !matches!(kind(source), FileType::RegularFile | FileType::Directory)
                && options.reads(kind(source)) =>
        {
            OverwriteDecision::Copy
        }
        Update::Changed
            if !is_alike(existing, source) || !has_same_time(options, existing, source) =>
        {
            OverwriteDecision::Copy
        }
        // Its text is compared: links that were made at once have one time.
        Update::Changed if kind(source) == FileType::Symlink => OverwriteDecision::Compare,
        Update::Changed => OverwriteDecision::Keep,
        Update::Different => match kind(source) {
            _ if !is_alike(existing, source) => OverwriteDecision::Copy,
            FileType::RegularFile | FileType::Symlink => OverwriteDecision::Compare,
            // It has no bytes.
            _ => OverwriteDecision::Keep,
        },
    })
}

/// Is a target no file of the kind that a mirror makes of the source? A link is what the user wants
/// to have written through by `--no-confine`. Links and special files replace other kinds
/// without a mirror, too.
pub(crate) fn is_of_other_kind(options: &CopyOptions, source: FileType, there: &Stat) -> bool {
    match kind(there) {
        found if source == FileType::Directory => found != FileType::Directory,
        FileType::Directory => true,
        FileType::RegularFile => false,
        FileType::Symlink if !options.confine => false,
        _ => options.reads(source),
    }
}

/// Has the target the kind, and the size or device number, of the source?
fn is_alike(target: &Stat, source: &Stat) -> bool {
    kind(target) == kind(source)
        && match kind(source) {
            FileType::RegularFile => target.st_size == source.st_size,
            FileType::CharacterDevice | FileType::BlockDevice => target.st_rdev == source.st_rdev,
            _ => true,
        }
}

/// Has the target the modification time of the source, as far as its file system can keep it?
pub(crate) fn has_same_time(options: &CopyOptions, target: &Stat, source: &Stat) -> bool {
    !is_older(options, target, source)
        && target.st_mtime == source.st_mtime
        && (target.st_mtime_nsec <= source.st_mtime_nsec)
}

/// Is the target's content older? If a coarser file system cut the target's time, the source's time
/// is cut alike.
fn is_older(options: &CopyOptions, target: &Stat, source: &Stat) -> bool {
    let (mut from, to) = (source.st_mtime_nsec, target.st_mtime_nsec);
    if options.preserve.times {
        // A file system with coarse times cuts the source's: the copy would look older for ever.
        // Nobody sets the change time, so one that is finer shows that the user or a program chose
        // the modification time (as `utimecmpat` of gnulib's utimecmp.c).
        for unit in [1_000_000_000, 1_000_000, 1_000, 100] {
            if to.is_multiple_of(unit) && target.st_ctime_nsec.is_multiple_of(unit) {
                from -= from % unit;
                break;
            }
        }
    }
    (target.st_mtime, to) < (source.st_mtime, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_second_count_where_the_file_system_has_them() {
        let any = Place::here(Path::new("/")).stat(false).unwrap();
        let mut options = CopyOptions::default();
        options.preserve.times = true;
        // The parts of the target's modification time and change time, and of the source's
        // modification time.
        for (to, changed, from, is_older_there) in [
            (0, 0, 250_000_000, false),
            (0, 123_456_789, 250_000_000, true),
            (0, 0, 0, false),
            // NTFS and SMB have steps of 100 ns.
            (123_456_700, 98_765_400, 123_456_789, false),
            (123_456_700, 98_765_432, 123_456_789, true),
            (123_456_700, 98_765_400, 123_456_800, true),
            (123_456_789, 98_765_432, 123_456_788, false),
        ] {
            let mut target = any;
            (target.st_mtime, target.st_mtime_nsec, target.st_ctime_nsec) = (1, to, changed);
            let mut source = any;
            (source.st_mtime, source.st_mtime_nsec) = (1, from);
            let found = is_older(&options, &target, &source);
            assert_eq!(found, is_older_there, "{to} {changed} {from}");
            source.st_mtime = 2;
            assert!(is_older(&options, &target, &source));
        }
    }
}
