//! One file's whole story: the checks, the room for the target, and the module that copies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gush::{Refusals, Report, SharedRate};
use rustix::fs::{self, FileType, Stat};
use rustix::io::retry_on_intr;

use crate::already_copied::{self, AlreadyCopied, Turn};
use crate::error::Error;
use crate::events::Events;
use crate::metadata::{Handle, Ownership, Transfer};
use crate::options::{Dereference, Make, Options, Specials};
use crate::overwriting::{Fate, Look, Room};
use crate::parents::Parents;
use crate::place::{FileId, Place, kind, same_file};
use crate::quote;
use crate::tree::journal::{self, Fingerprint, Journal, Promises};
use crate::tree::{self, Dir, Extent, Operands};
use crate::writers::{Claim, Writers};
use crate::{links, open, regular, special};

/// Copies one file after the other, and remembers earlier copies as far as later ones depend on them.
///
/// ```
/// use gush_tree::{Copier, Options, Place};
///
/// let dir = tempfile::tempdir()?;
/// let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
/// std::fs::write(&source, "hello")?;
///
/// let options = Options::default();
/// let done = Copier::new(&options).copy(Place::here(&source), Place::here(&target), &mut ())?;
/// assert_eq!(done.report.unwrap().bytes, 5);
/// assert_eq!(std::fs::read(&target)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Copier<'o> {
    options: &'o Options,
    refusals: Refusals,
    /// One limit for all files, on all threads.
    limit: Option<SharedRate>,
    copied: AlreadyCopied,
    writers: Writers,
    operands: Operands,
}

/// The outcome of a successful copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done {
    /// How the target was made.
    pub action: Action,
    /// The engine's report, if data moved.
    pub report: Option<Report>,
    /// The target was re-read, and the content equals the source's.
    pub verified: bool,
    /// The blake3 digest of source and target, if they were verified by hash. Files with large holes are
    /// compared range by range instead.
    pub digest: Option<gush::Digest>,
    /// The new name of the old target, if there is a backup.
    pub backup: Option<PathBuf>,
    /// Everything required was preserved. If not, [`Events::warns`] told what is missing.
    pub complete: bool,
    /// The size of a regular source of which no byte had to be moved: the target is not to be replaced, or is made a link.
    /// A further name of a file copied before adds nothing.
    pub unmoved_bytes: Option<u64>,
    /// The file made or written, for later names of the same source.
    pub(crate) made: Option<FileId>,
    /// The copy's last state, seen by its descriptor, where a journal has a line about it.
    pub(crate) last_state: Option<Box<Stat>>,
}

/// How the target was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A copy of the source's data or attributes.
    Copied,
    /// Another name of the source file, or of an earlier copy of it.
    HardLinked,
    /// A symbolic link to the source, or with the same text as the source.
    SymbolicLinked,
    /// A special file of the same kind and device number.
    Recreated,
    /// A directory was made, or filled if it was there.
    Directory,
    /// Nothing was made: the target is the source already, or is not to be replaced.
    Skipped,
}

impl Done {
    pub(crate) fn new(action: Action) -> Self {
        Self {
            action,
            report: None,
            verified: false,
            digest: None,
            backup: None,
            complete: true,
            unmoved_bytes: None,
            made: None,
            last_state: None,
        }
    }
}

/// One source on its way to one target.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) options: &'a Options,
    pub(crate) source: Place<'a>,
    pub(crate) source_stat: &'a Stat,
    pub(crate) target: Place<'a>,
    /// The directory that the operands are copied to.
    pub(crate) base: BorrowedFd<'a>,
    /// The source is an entry of a tree, not an operand.
    pub(crate) in_tree: bool,
    /// The file at the target, if the copy writes into or replaces this file.
    pub(crate) existing: Option<Stat>,
    /// The target's name is taken, and the file there gives way when the new file is whole.
    pub(crate) displaces: bool,
    pub(crate) refusals: &'a Refusals,
    pub(crate) limit: Option<&'a SharedRate>,
    /// The target's directory may give a new file an access control list.
    pub(crate) may_inherit_acl: bool,
    /// The file system that the directory of the target is on; `None` for an operand.
    pub(crate) device: Option<u64>,
    /// The owner of new files in a directory made by this command, or by another rank: one process makes all of them, so the first one tells.
    pub(crate) new_owner: Option<&'a OnceLock<Ownership>>,
    /// A journal has a line about the copy.
    pub(crate) is_noted: bool,
    /// Where files that hold a copy are claimed.
    pub(crate) claims: Option<&'a Writers>,
    /// The data is there: it has been copied in pieces, and the file needs its attributes and its place.
    pub(crate) assembled: Option<Place<'a>>,
    /// The source, open for reading: the stat is of this file.
    pub(crate) opened: Option<BorrowedFd<'a>>,
}

impl<'a> Job<'a> {
    /// Claims the file that is to hold the copy, before a byte of it is written.
    pub(crate) fn claim(&self, file: &Stat) -> Result<Option<Claim<'a>>, Error> {
        match self.claims {
            Some(claims) if kind(file) == FileType::RegularFile => {
                let claim = claims.claim(FileId::of(file));
                claim.map(Some).ok_or_else(|| open::holds_a_copy(&self.target))
            }
            _ => Ok(None),
        }
    }

    /// As [`claim`](Self::claim), of a file that was just made, and so holds no copy.
    pub(crate) fn claim_new(&self, file: &Stat) -> Option<Claim<'a>> {
        self.claims.map(|claims| claims.claim_new(FileId::of(file)))
    }

    /// Is all known of a new file that the options ask for? Its owner matters where it is kept, and which file it is where other
    /// names may lead to it.
    pub(crate) fn knows_new_files(&self) -> bool {
        let Options { preserve, through_dangling, .. } = self.options;
        let is_linked_again =
            preserve.links && already_copied::may_return(self.options, self.source_stat);
        // What is made behind a dangling link may be elsewhere.
        self.device.is_some()
            && (!preserve.owner || self.owner_of_new_files().is_some())
            && !is_linked_again
            && self.claims.is_none()
            && !through_dangling
    }

    /// The owner of a file made by this process in the target's directory, where one was looked at before.
    pub(crate) fn owner_of_new_files(&self) -> Option<Ownership> {
        self.new_owner?.get().copied()
    }

    /// Takes the owner of a file just made as that of all later ones in this directory, whose group and mode nobody else can change.
    pub(crate) fn learn_owner(&self, made: &Stat) {
        if let Some(owner) = self.new_owner {
            let _ = owner.set(Ownership::of(made));
        }
    }

    pub(crate) fn may_replace_link(&self) -> bool {
        self.options.force || self.displaces
    }
}

impl<'o> Copier<'o> {
    /// A copier for one source.
    #[must_use]
    pub fn new(options: &'o Options) -> Self {
        Self {
            options,
            refusals: Refusals::default(),
            limit: options.moving.limit.map(SharedRate::new),
            copied: AlreadyCopied::default(),
            writers: Writers::default(),
            operands: Operands::default(),
        }
    }

    /// A copier for several sources in one directory, which refuses to overwrite its own earlier copies.
    ///
    /// ```
    /// use gush_tree::{Copier, Options, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let [a, b, target] = ["a", "b", "target"].map(|name| dir.path().join(name));
    /// std::fs::write(&a, "first")?;
    /// std::fs::write(&b, "second")?;
    ///
    /// let options = Options::default();
    /// let mut copier = Copier::for_several(&options);
    /// copier.copy(Place::here(&a), Place::here(&target), &mut ())?;
    /// let error = copier.copy(Place::here(&b), Place::here(&target), &mut ()).unwrap_err();
    /// assert!(error.to_string().starts_with("will not overwrite just-created"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn for_several(options: &'o Options) -> Self {
        Self { copied: AlreadyCopied::of_several(), ..Self::new(options) }
    }

    /// Copies one file; with [`Options::recursive`] also a directory and all that is in it.
    ///
    /// Entries of a directory that fail are told to [`Events::entry_ended`], the others are copied, and [`Done::complete`]
    /// is `false`.
    ///
    /// # Errors
    /// When the target could not be made, or not completed. A new target may then hold the bytes
    /// delivered so far, unless [`Options::atomic`] is set.
    pub fn copy(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        self.copy_to(source, target, Name::Unknown, events)
    }

    /// As [`copy`](Self::copy), to a name below directories that were made, or, in a dry run, would be made.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    ///
    /// ```
    /// use std::{fs::File, os::fd::AsFd};
    /// use gush_tree::{Action, Copier, Options, Parents, Place};
    ///
    /// let root = tempfile::tempdir()?;
    /// let [source, target] = ["a/file", "d"].map(|name| root.path().join(name));
    /// std::fs::create_dir(root.path().join("a"))?;
    /// std::fs::write(&source, "hello")?;
    /// std::fs::create_dir(&target)?;
    ///
    /// let mut options = Options::default();
    /// options.dry_run = true;
    /// let (dir, name) = (File::open(&target)?, source.strip_prefix("/")?);
    /// let parents = Parents::make(&options, (dir.as_fd(), &target), &source, name, &mut ())?;
    /// let (shown, mut copier) = (target.join(name), Copier::new(&options));
    /// let place = Place::below(dir.as_fd(), name, &shown);
    /// let done = copier.copy_below(&parents, Place::here(&source), place, &mut ())?;
    /// assert_eq!(done.action, Action::Copied);
    /// assert_eq!(std::fs::read_dir(&target)?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_below(
        &mut self,
        parents: &Parents,
        source: Place<'_>,
        target: Place<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let name = if parents.are_imagined { Name::Imagined } else { Name::Unknown };
        self.copy_to(source, target, name, events)
    }

    /// As [`copy`](Self::copy), to a free name, or a dangling symbolic link.
    ///
    /// Saves a look at the target. A target found there after all is an error, and is not overwritten.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    ///
    /// ```
    /// use gush_tree::{Copier, Options, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    /// std::fs::write(&source, "hello")?;
    /// std::fs::write(&target, "already here")?;
    ///
    /// let options = Options::default();
    /// let mut copier = Copier::new(&options);
    /// let error = copier.copy_to_new(Place::here(&source), Place::here(&target), &mut ());
    /// assert!(error.unwrap_err().to_string().ends_with("cannot create: File exists"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_to_new(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        self.copy_to(source, target, Name::Free, events)
    }

    fn copy_to(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        name: Name,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let options = self.options;
        let follow = options.dereference != Dereference::Never;
        let source_stat =
            // One look decides about the kind; opening checks that it is still this file.
            source.stat(follow).map_err(|errno| Error::os(source.shown, "cannot stat", errno))?;
        let common = Common {
            options,
            refusals: &self.refusals,
            limit: self.limit.as_ref(),
            copied: &self.copied,
            writers: &self.writers,
            keeps_apart: self.copied.is_of_several() && options.promises_equality(),
            base: target.dir,
            journal: None,
            extent: Extent::Whole,
            assembled: None,
            opened: None,
        };
        if kind(&source_stat) == FileType::Directory {
            if !options.recursive {
                let text = "omitting directory: -r copies directories";
                return Err(Error::refusal(source.shown, text));
            }
            let is_imagined = name == Name::Imagined;
            let source = (source, &source_stat);
            return tree::copy(&common, &mut self.operands, source, (target, is_imagined), events);
        }
        if options.shard.is_some() {
            let text = "not copied: ranks divide a tree, and this is no directory";
            return Err(Error::refusal(source.shown, text));
        }
        if self.copied.was_named_before(options, &source, &source_stat) {
            events.warns(&Error::refusal(
                source.shown,
                "warning: source file specified more than once",
            ));
            return Ok(Done::new(Action::Skipped));
        }
        let is_new = match name {
            Name::Unknown => false,
            // A dry run looks for itself: the directory may be missing, too.
            Name::Free => !options.dry_run,
            Name::Imagined => true,
        };
        common.copy_file((source, &source_stat), (target, is_new), None, events)
    }
}

/// What is known of the name of an operand's target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Unknown,
    /// Nothing has the name, but perhaps a dangling symbolic link.
    Free,
    /// The name is in a directory that a dry run did not make.
    Imagined,
}

/// What all copies of one command have in common, on any thread.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub(crate) options: &'a Options,
    pub(crate) refusals: &'a Refusals,
    pub(crate) limit: Option<&'a SharedRate>,
    pub(crate) copied: &'a AlreadyCopied,
    pub(crate) writers: &'a Writers,
    /// Files that hold a copy are claimed.
    pub(crate) keeps_apart: bool,
    /// The directory that the operands are copied to.
    pub(crate) base: BorrowedFd<'a>,
    /// What an earlier copy of this tree has done.
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) extent: Extent<'a>,
    /// The file of all pieces, if the data of the next file has been copied in pieces.
    pub(crate) assembled: Option<Place<'a>>,
    /// The next file, if it was opened before anything else was known of it.
    pub(crate) opened: Option<BorrowedFd<'a>>,
}

impl<'a> Common<'a> {
    /// One file on its way, before anything is known of the target.
    pub(crate) fn job<'j>(
        &self,
        (source, source_stat): (Place<'j>, &'j Stat),
        target: Place<'j>,
        dir: Option<&'j Arc<Dir>>,
    ) -> Job<'j>
    where
        'a: 'j,
    {
        Job {
            options: self.options,
            source,
            source_stat,
            target,
            base: self.base,
            in_tree: dir.is_some(),
            existing: None,
            displaces: false,
            refusals: self.refusals,
            limit: self.limit,
            may_inherit_acl: dir.is_none_or(|dir| dir.may_give_acl()),
            device: dir.map(|dir| dir.target_stat.st_dev),
            new_owner: dir.filter(|dir| self.knows_owner_in(dir)).map(|dir| &dir.new_owner),
            is_noted: self.journal.is_some() && dir.is_some(),
            claims: (self.keeps_apart && self.options.data).then_some(self.writers),
            assembled: self.assembled,
            opened: self.opened,
        }
    }

    /// Do all files that this process makes in a directory have one owner? Other ranks make directories for this one, too.
    fn knows_owner_in(&self, dir: &Dir) -> bool {
        dir.is_new || dir.is_of_user && matches!(self.extent, Extent::Share(_))
    }

    /// Copies one file that is no directory. `dir` is the directory in a tree, and `None` for an operand.
    pub(crate) fn copy_file(
        &self,
        (source, source_stat): (Place<'_>, &Stat),
        (target, is_new): (Place<'_>, bool),
        dir: Option<&Arc<Dir>>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let options = self.options;
        let follow = options.dereference != Dereference::Never;
        let made_before = match dir {
            Some(_) => None,
            None => Some(self.copied),
        };
        let claims = self.keeps_apart.then_some(self.writers);
        let look = Look { options, made_before, source, source_stat, target, claims };
        let mut job = self.job((source, source_stat), target, dir);
        if let (Some(journal), Some(above), false) = (self.journal, dir, is_new)
            && journal.goes_on()
            && let Ok(there) = target.stat(false)
            && Promises::of(options)
                .kept_by()
                .any(|promises| journal.is_done(done_as(promises, above, &job, &there)))
        {
            return self.keep_newer((&job, &there), dir, events);
        }
        // A copy that goes on removes what stands in its way, of which the earlier one may have made a part; nothing good
        // is removed for a source that cannot be read.
        if self.journal.is_some_and(Journal::goes_on)
            && !is_new
            && kind(source_stat) == FileType::RegularFile
        {
            drop(open::source(&job)?);
        }
        if options.specials == Specials::Refuse {
            special::refuse(&source, kind(source_stat))?;
        }
        let room = match self.fate(&look, is_new, events)? {
            Fate::Copied(room) => room,
            Fate::Skipped => return Ok(skipped(&job)),
            Fate::Newer(existing) => return self.keep_newer((&job, &existing), dir, events),
        };
        if dir.is_none() || (!is_new && options.reads(kind(source_stat))) {
            self.copied.check_link_just_made(options, &source, &target)?;
        }
        job.existing = room.existing;
        job.displaces = room.displaces;
        self.refuse_shared(&job)?;
        // Told before the copy, as `cp -v` does, so that a copy that hangs is named.
        events.starts(source.shown, target.shown, room.backup.as_deref());
        if options.dry_run {
            return Ok(self.imagine(&job, dir));
        }
        // Waits while another thread copies this file under its other name.
        let turn = self.copied.turn(options, source_stat, (dir, &target));
        let linked = match &turn {
            Turn::Again(earlier) => links::again(&job, earlier, events).inspect(|linked| {
                if !linked {
                    let text = format!(
                        "warning: copied, not linked to {}: that name has another inode by now",
                        quote::always(&earlier.shown())
                    );
                    events.warns(&Error::refusal(target.shown, text));
                }
            }),
            Turn::First(_) | Turn::Alone => Ok(false),
        };
        let result = linked.and_then(|linked| {
            if linked {
                return Ok(Done::new(Action::HardLinked));
            }
            // The threads of a tree; operands come one after the other.
            let written = job.existing.filter(|_| dir.is_some() && !job.displaces);
            let _until_written = written.and_then(|there| self.writers.turn(&there));
            make(&job, follow, events).map(|done| match done.report {
                Some(_) => done,
                None => Done { unmoved_bytes: unmoved_bytes(&job), ..done },
            })
        });
        // A copy of data syncs its directory itself, between its other steps.
        let result = result.and_then(|done| match options.sync && done.action != Action::Copied {
            true => open::sync_directory(&job).map(|()| done),
            false => Ok(done),
        });
        let result = self.ended(result, (&room, made_before), (&job, dir), turn, events);
        result.map(|done| Done { backup: room.backup, ..done })
    }

    /// The fate of a source. A target that is kept is claimed; one that another name has written to
    /// meanwhile is judged once more.
    fn fate(&self, look: &Look<'_>, is_new: bool, events: &mut dyn Events) -> Result<Fate, Error> {
        let fate = look.make_room(is_new, events)?;
        if let (Fate::Newer(there), true) = (&fate, self.keeps_apart) {
            // A file with several names is not written to.
            if !self.writers.claim_kept(there) && there.st_nlink == 1 {
                return look.make_room(is_new, events);
            }
        }
        Ok(fate)
    }

    /// Refuses to write to a file that holds the copy of another source, or may be given one by
    /// another rank. A dry run claims the file.
    fn refuse_shared(&self, job: &Job<'_>) -> Result<(), Error> {
        let gets_data = job.options.reads(kind(job.source_stat)) && !job.displaces;
        let Some(there) = job.existing.filter(|_| gets_data && self.keeps_apart) else {
            return Ok(());
        };
        if matches!(self.extent, Extent::Share(_)) && open::is_link(&job.target) {
            let text = "not written: a symbolic link to a file that another rank may write to";
            return Err(open::hinting_removal(&job.target, text));
        }
        // Not kept by the copy, which waits for its turn first.
        if let Some(claim) = job.claim(&there)?.filter(|_| job.options.dry_run) {
            claim.keep();
        }
        Ok(())
    }

    /// The outcome of a copy that a dry run does not make.
    fn imagine(&self, job: &Job<'_>, dir: Option<&Arc<Dir>>) -> Done {
        let target = &job.target;
        let action = match job.options.make {
            Make::SymbolicLink => Action::SymbolicLinked,
            Make::HardLink => Action::HardLinked,
            Make::Copy if job.options.reads(kind(job.source_stat)) => Action::Copied,
            Make::Copy if kind(job.source_stat) == FileType::Symlink => Action::SymbolicLinked,
            Make::Copy => Action::Recreated,
        };
        match self.copied.turn(job.options, job.source_stat, (dir, target)) {
            Turn::Again(_) => return Done::new(Action::HardLinked),
            Turn::First(claim) => {
                claim.made((dir, target), (FileId::of(job.source_stat), false));
            }
            Turn::Alone => {}
        }
        Done::new(action)
    }

    /// Remembers a copy that is whole, and puts the backup of any other back.
    fn ended(
        &self,
        result: Result<Done, Error>,
        (room, made_before): (&Room, Option<&AlreadyCopied>),
        (job, dir): (&Job<'_>, Option<&Arc<Dir>>),
        turn: Turn<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let target = &job.target;
        match result {
            // As GNU: a copy that lacks required metadata has failed.
            Ok(done) if !done.complete && room.undo(target, events) => {
                let text =
                    "not replaced: the copy lacked required metadata, and the old file is back";
                Err(Error::refusal(target.shown, text))
            }
            Ok(done) => {
                if let Some(made_before) = made_before {
                    made_before.remember_target(target);
                }
                let is_link = done.action == Action::SymbolicLinked;
                if let (Some(file), true) = (done.made, is_link) {
                    self.copied.remember_link(file);
                }
                if let (Some(journal), Some(above), true) = (self.journal, dir, done.complete)
                    && let Some(there) =
                        done.last_state.as_deref().copied().or_else(|| target.stat(false).ok())
                    && let Err(error) =
                        journal.add_done(done_as(Promises::of(self.options), above, job, &there))
                {
                    events.warns(&error);
                }
                // An incomplete copy is no file to link to: the other names get copies of their own.
                if let (Some(file), true, Turn::First(claim)) = (done.made, done.complete, turn) {
                    claim.made((dir, target), (file, is_link));
                }
                Ok(done)
            }
            Err(error) => {
                // The backup gets its name back: a failed copy must not cost the old file.
                room.undo(target, events);
                Err(error)
            }
        }
    }

    /// Leaves a newer target as it is, and remembers it as the copy of a source with several names. As GNU: if another
    /// name was copied earlier, the newer target becomes a name of that copy.
    fn keep_newer(
        &self,
        (job, existing): (&Job<'_>, &Stat),
        dir: Option<&Arc<Dir>>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let target = &job.target;
        let skipped = Ok(skipped(job));
        let is_itself = |stat: Stat| same_file(&stat, existing);
        if kind(existing) == FileType::Directory || !target.stat(false).is_ok_and(is_itself) {
            return skipped;
        }
        match self.copied.turn(job.options, job.source_stat, (dir, target)) {
            Turn::Alone => skipped,
            Turn::First(claim) => {
                let is_link = kind(existing) == FileType::Symlink;
                claim.made((dir, target), (FileId::of(existing), is_link));
                skipped
            }
            // The names are links to one file already.
            Turn::Again(earlier) if earlier.file == FileId::of(existing) => {
                Ok(Done::new(Action::Skipped))
            }
            Turn::Again(_) if job.options.dry_run => Ok(Done::new(Action::HardLinked)),
            Turn::Again(earlier) => match links::again(job, &earlier, events)? {
                true => Ok(Done::new(Action::HardLinked)),
                false => skipped,
            },
        }
    }
}

fn skipped(job: &Job<'_>) -> Done {
    Done { unmoved_bytes: unmoved_bytes(job), ..Done::new(Action::Skipped) }
}

fn unmoved_bytes(job: &Job<'_>) -> Option<u64> {
    let is_regular = kind(job.source_stat) == FileType::RegularFile;
    is_regular.then(|| u64::try_from(job.source_stat.st_size).unwrap_or(0))
}

/// A file of a tree that is done, in the words of the journal.
fn done_as(promises: Promises, above: &Dir, job: &Job<'_>, there: &Stat) -> Fingerprint {
    let [of_source, of_target] = above.devices();
    // A link may lead to another file system, and a file be mounted from one.
    let lasting = |mut stat: Stat, above: &Stat, device| {
        if stat.st_dev == above.st_dev {
            stat.st_dev = device;
        }
        stat
    };
    let entry = (&above.target_stat, job.target.name.as_os_str());
    let source = lasting(*job.source_stat, &above.source_stat, of_source);
    journal::done(promises, entry, &source, &lasting(*there, &above.target_stat, of_target))
}

/// Makes the target, now that nothing stands in its way.
fn make(job: &Job<'_>, follow: bool, events: &mut dyn Events) -> Result<Done, Error> {
    let options = job.options;
    let source_kind = kind(job.source_stat);
    match options.make {
        Make::SymbolicLink => {
            links::symbolic(job)?;
            let made = job.target.stat(false).ok().map(|stat| FileId::of(&stat));
            return Ok(Done { made, ..Done::new(Action::SymbolicLinked) });
        }
        Make::HardLink => {
            let replaces = options.force || options.ask || job.displaces;
            links::hard(job, job.source, follow, replaces)?;
            return Ok(Done::new(Action::HardLinked));
        }
        Make::Copy => {}
    }
    if options.reads(source_kind) {
        let copied = regular::copy(job, events)?;
        return Ok(Done {
            verified: options.data && options.verify,
            report: copied.report,
            digest: copied.digest,
            complete: copied.complete,
            made: copied.made,
            last_state: copied.last_state,
            ..Done::new(Action::Copied)
        });
    }
    let is_link = source_kind == FileType::Symlink;
    let replaced = "skipped: it was replaced while being copied";
    // With -L the name may be a link's, and the special file is behind it.
    let (source, _) = pin(job.source, follow, replaced, |found| same_file(found, job.source_stat))?;
    let provisional_bits = match is_link {
        true => links::copy(job, source.as_fd()).map(|()| 0)?,
        false => special::recreate(job)?,
    };
    // The new entry has one name. A file that took this name meanwhile keeps its own metadata.
    let replaced = "got no attributes: another file took the name after the copy";
    let (target, target_stat) = pin(job.target, false, replaced, |found| {
        let alike = (kind(found), found.st_rdev) == (source_kind, job.source_stat.st_rdev);
        alike && found.st_nlink == 1
    })?;
    let complete = Transfer {
        options,
        source: Handle::Pinned { fd: source.as_fd(), is_link },
        source_stat: job.source_stat,
        source_shown: job.source.shown,
        target: Handle::Pinned { fd: target.as_fd(), is_link },
        target_shown: job.target.shown,
        target_owner: None,
        existing_mode: None,
        created: true,
        may_inherit_acl: job.may_inherit_acl,
        directory_mode: None,
        provisional_bits,
    }
    .apply(events);
    let action = if is_link { Action::SymbolicLinked } else { Action::Recreated };
    Ok(Done { complete, made: Some(FileId::of(&target_stat)), ..Done::new(action) })
}

/// Opens `place` with `O_PATH`, and fails with `replaced` unless `is_right` accepts the file found there.
fn pin(
    place: Place<'_>,
    follow: bool,
    replaced: &'static str,
    is_right: impl Fn(&Stat) -> bool,
) -> Result<(OwnedFd, Stat), Error> {
    let pinned = place.pin(follow).and_then(|fd| Ok((retry_on_intr(|| fs::fstat(&fd))?, fd)));
    match pinned.map_err(|errno| Error::os(place.shown, "cannot stat", errno))? {
        (stat, fd) if is_right(&stat) => Ok((fd, stat)),
        _ => Err(Error::refusal(place.shown, replaced)),
    }
}
