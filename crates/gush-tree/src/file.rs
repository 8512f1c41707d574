//! One file's whole copy: the checks, the target's name made free, and the module that copies.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use gush::{Rate, Refusals};
use gush_text::quote;
use rustix::fs::{self, FileType, Stat};
use rustix::io::retry_on_intr;

use crate::already_copied::{AlreadyCopied, Turn};
use crate::copier::{Action, Done};
use crate::error::Error;
use crate::events::Events;
use crate::job::{Entry, Job, Target};
use crate::metadata::kept::Updated;
use crate::metadata::{Handle, Transfer};
use crate::options::{CopyOptions, Dereference, Make, Specials};
use crate::overwriting::{Decision, Prepared};
use crate::place::{FileId, Place, REPLACED, kind, same_file};
use crate::tree::Dir;
use crate::tree::journal::{self, Fingerprint, Journal, Promises};
use crate::tree::partition::{Others, Partition};
use crate::writers::{Claim, Writers};
use crate::{links, open, regular, special};

/// What all copies of one command have in common, on any thread.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub(crate) options: &'a CopyOptions,
    pub(crate) refusals: &'a Refusals,
    pub(crate) limit: Option<&'a Rate>,
    pub(crate) copied: &'a AlreadyCopied,
    pub(crate) writers: &'a Writers,
    /// Files that hold a copy are claimed.
    pub(crate) keeps_apart: bool,
    /// The directory that the operands are copied to.
    pub(crate) base: BorrowedFd<'a>,
    /// What an earlier copy of this tree has done.
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) partition: &'a dyn Partition,
}

impl Common<'_> {
    /// Copies one file that is no directory.
    pub(crate) fn copy_file(
        &self,
        entry: Entry<'_>,
        target: Target<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let options = self.options;
        let Target { place, dir, is_new, .. } = target;
        let mut job = Job::new(self, entry, target);
        if let (Some(journal), Some(above), false) = (self.journal, dir, is_new)
            && journal.is_resumed()
            && let Ok(there) = place.stat(false)
            && Promises::of(options)
                .kept_by()
                .any(|promises| journal.is_done(done_as(promises, above, &job, &there)))
            // Its change time is that of the last name, and shows no other change.
            && (entry.stat.st_nlink == 1 || !job.lacks_attributes(&there)?)
        {
            return self.keep_newer(&job, &there, None, events);
        }
        // A copy that goes on removes what is in its way, of which the earlier one may have
        // made a part; nothing good is removed for a source that cannot be read.
        if self.journal.is_some_and(Journal::is_resumed)
            && !is_new
            && kind(entry.stat) == FileType::RegularFile
        {
            drop(open::source(&job)?);
        }
        if options.specials == Specials::Refuse {
            special::refuse(&entry.place, kind(entry.stat))?;
        }
        let (decision, claim) = self.decide(&job, is_new, events)?;
        let prepared = match decision {
            Decision::Copy(prepared) => prepared,
            Decision::Skip => return Ok(skipped(&job)),
            Decision::Keep(existing) => return self.keep_newer(&job, &existing, claim, events),
            Decision::Update(existing) => match self.keep(&job, &existing, true, None, events)? {
                Some(done) => return Ok(done),
                None => job.make_room(&existing, events)?,
            },
        };
        if dir.is_none() || (!is_new && options.reads(kind(entry.stat))) {
            self.copied.check_link_just_made(options, &entry.place, &place)?;
        }
        job.existing = prepared.existing;
        job.displaces = prepared.displaces;
        self.refuse_shared(&job)?;
        // Before the copy, as `cp -v` does, so that a copy that hangs is named.
        events.starts(entry.place.shown, place.shown, prepared.backup.as_deref());
        if options.dry_run {
            return Ok(self.imagine(&job, events));
        }
        // Waits while another thread copies this file under its other name.
        let turn = self.copied.turn(options, entry.stat, target);
        let linked = match &turn {
            Turn::Again(earlier) => links::again(&job, earlier, events).inspect(|linked| {
                if !linked {
                    let text = format!(
                        "warning: {{}} is copied, not linked to {}: that name has another inode by now",
                        quote::always(&earlier.shown())
                    );
                    events.warns(&Error::refusal(place.shown, text));
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
            make(&job, events).map(|done| match done.report {
                Some(_) => done,
                None => Done { unmoved_bytes: unmoved_bytes(&job), ..done },
            })
        });
        // A copy of data syncs its directory itself, between its other steps.
        let result = result.and_then(|done| match options.sync && done.action != Action::Copied {
            true => open::sync_parent(&job.target.place).map(|()| done),
            false => Ok(done),
        });
        let result = self.ended(result, &prepared, &job, turn, events);
        result.map(|done| Done { backup: prepared.backup, ..done })
    }

    /// Decides about a source. A target that is kept is claimed; one that another name has written
    /// to meanwhile is judged once more.
    fn decide(
        &self,
        job: &Job<'_>,
        is_new: bool,
        events: &mut dyn Events,
    ) -> Result<(Decision, Option<Claim<'_>>), Error> {
        let decision = job.prepare(is_new, events)?;
        let (Decision::Keep(there), true) = (&decision, self.keeps_apart) else {
            return Ok((decision, None));
        };
        match self.writers.claim_kept(there) {
            // A file with several names is not written to.
            None if there.st_nlink == 1 => Ok((job.prepare(is_new, events)?, None)),
            claim => Ok((decision, claim)),
        }
    }

    /// Refuses to write to a file that holds the copy of another source, or may be given one by
    /// another process. A dry run claims the file.
    fn refuse_shared(&self, job: &Job<'_>) -> Result<(), Error> {
        let gets_data = job.options().reads(kind(job.source.stat)) && !job.displaces;
        let Some(there) = job.existing.filter(|_| gets_data && self.keeps_apart) else {
            return Ok(());
        };
        if self.partition.others() == Others::Working && open::is_link(&job.target.place) {
            let text =
                "not writing to {}: a symbolic link to a file that another rank may write to";
            return Err(open::hinting_removal(&job.target.place, text));
        }
        // Not kept by the copy, which waits for its turn first.
        if let Some(claim) = job.claim(&there)?.filter(|_| job.options().dry_run) {
            claim.keep();
        }
        Ok(())
    }

    /// The outcome of a copy that a dry run does not make.
    fn imagine(&self, job: &Job<'_>, events: &mut dyn Events) -> Done {
        let action = match job.options().make {
            Make::SymbolicLink => Action::SymbolicLinked,
            Make::HardLink => Action::HardLinked,
            Make::Copy if job.options().reads(kind(job.source.stat)) => Action::Copied,
            Make::Copy if kind(job.source.stat) == FileType::Symlink => Action::SymbolicLinked,
            Make::Copy => Action::Recreated,
        };
        match self.copied.turn(job.options(), job.source.stat, job.target) {
            Turn::Again(_) => {
                if let Some(there) = &job.existing {
                    self.writers.name_goes(there);
                    events.removed(job.target.place.shown);
                }
                return Done::new(Action::HardLinked);
            }
            Turn::First(claim) => claim.made(job.target, FileId::of(job.source.stat), false),
            Turn::Alone => {}
        }
        Done::new(action)
    }

    /// Remembers a copy that is whole, and puts the backup of any other back.
    fn ended(
        &self,
        result: Result<Done, Error>,
        prepared: &Prepared,
        job: &Job<'_>,
        turn: Turn<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let target = &job.target.place;
        match result {
            // As GNU: a copy that lacks required metadata has failed.
            Ok(done) if !done.complete && prepared.undo(target, events) => {
                let text =
                    "not replacing {}: the copy lacked required metadata, and the old file is back";
                Err(Error::refusal(target.shown, text))
            }
            Ok(done) => {
                if let Some(made_before) = job.made_before() {
                    made_before.remember_target(target);
                }
                let is_link = done.action == Action::SymbolicLinked;
                if let (Some(file), true) = (done.made, is_link) {
                    self.copied.remember_link(file);
                }
                if let (Some(journal), Some(above), true) =
                    (self.journal, job.target.dir, done.complete)
                    && let Some(there) =
                        done.last_state.as_deref().copied().or_else(|| target.stat(false).ok())
                    && let Err(error) =
                        journal.add_done(done_as(Promises::of(self.options), above, job, &there))
                {
                    events.warns(&error);
                }
                // An incomplete copy is no file to link to: the other names get copies of their
                // own.
                if let (Some(file), true, Turn::First(claim)) = (done.made, done.complete, turn) {
                    claim.made(job.target, file, is_link);
                }
                Ok(done)
            }
            // The backup gets its name back: a failed copy must not cost the old file.
            Err(error) if prepared.undo(target, events) => {
                Err(error.leaving("the old file is back"))
            }
            Err(error) => Err(error),
        }
    }

    /// Leaves a newer target as it is, and remembers it as the copy of a source with several names.
    /// As GNU: if another name was copied earlier, the newer target becomes a name of that copy.
    fn keep_newer(
        &self,
        job: &Job<'_>,
        existing: &Stat,
        claim: Option<Claim<'_>>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        Ok(self.keep(job, existing, false, claim, events)?.unwrap_or_else(|| skipped(job)))
    }

    /// As [`keep_newer`](Self::keep_newer), or brings the target's attributes up to date. `None` if
    /// the target is another source's copy, and so cannot have those of this one.
    fn keep(
        &self,
        job: &Job<'_>,
        existing: &Stat,
        is_updated: bool,
        claim: Option<Claim<'_>>,
        events: &mut dyn Events,
    ) -> Result<Option<Done>, Error> {
        let target = &job.target.place;
        let stays = |events: &mut dyn Events| match is_updated {
            true => self.update(job, existing, events),
            false => Ok(Some(skipped(job))),
        };
        let is_itself = |stat: Stat| same_file(&stat, existing);
        if kind(existing) == FileType::Directory || !target.stat(false).is_ok_and(is_itself) {
            claim.into_iter().for_each(Claim::keep);
            return stays(events);
        }
        let turn = self.copied.turn(job.options(), job.source.stat, job.target);
        let is_claimed = claim.is_some();
        match &turn {
            // This name leaves the file, which is free for a copy by its other names.
            Turn::Again(earlier) if earlier.file != FileId::of(existing) => drop(claim),
            _ => claim.into_iter().for_each(Claim::keep),
        }
        match turn {
            Turn::Alone => stays(events),
            Turn::First(claim) => {
                let done = stays(events)?;
                if done.as_ref().is_some_and(|done| done.complete) {
                    let is_link = kind(existing) == FileType::Symlink;
                    claim.made(job.target, FileId::of(existing), is_link);
                }
                Ok(done)
            }
            // The names are links to one file already.
            Turn::Again(earlier) if earlier.file == FileId::of(existing) => {
                Ok(Some(Done::new(Action::Skipped)))
            }
            Turn::Again(_) if job.options().dry_run => {
                self.writers.name_goes(existing);
                events.removed(target.shown);
                Ok(Some(Done::new(Action::HardLinked)))
            }
            Turn::Again(earlier) => match links::again(job, &earlier, events)? {
                true => Ok(Some(Done::new(Action::HardLinked))),
                false => {
                    if is_claimed {
                        let claim = self.writers.claim_kept(existing);
                        claim.ok_or_else(|| open::holds_a_copy(target))?.keep();
                    }
                    stays(events)
                }
            },
        }
    }

    /// Brings the attributes of an unchanged target up to date. `None` if another source may have
    /// it as its copy.
    fn update(
        &self,
        job: &Job<'_>,
        existing: &Stat,
        events: &mut dyn Events,
    ) -> Result<Option<Done>, Error> {
        // By such a link another rank may reach the file.
        if self.partition.others() == Others::Working
            && job.options().reads(kind(job.source.stat))
            && open::is_link(&job.target.place)
        {
            return Ok(None);
        }
        // Whoever finds the claim looks at the attributes after this turn.
        let _until_set = job.claims().and_then(|claims| claims.turn(existing));
        let claim = match job.claims() {
            Some(claims) => match claims.claim(FileId::of(existing)) {
                None => return Ok(None),
                claim => claim,
            },
            None => None,
        };
        let updated = match job.options().dry_run {
            true => Updated { is_complete: true, has_changed: true },
            false => job.bring_up_to_date(existing, events)?,
        };
        claim.into_iter().for_each(Claim::keep);
        let Updated { is_complete: complete, has_changed } = updated;
        let action = if has_changed || !complete { Action::Attributes } else { Action::Skipped };
        Ok(Some(Done { complete, unmoved_bytes: unmoved_bytes(job), ..Done::new(action) }))
    }
}

fn skipped(job: &Job<'_>) -> Done {
    Done { unmoved_bytes: unmoved_bytes(job), ..Done::new(Action::Skipped) }
}

fn unmoved_bytes(job: &Job<'_>) -> Option<u64> {
    let is_regular = kind(job.source.stat) == FileType::RegularFile;
    is_regular.then(|| u64::try_from(job.source.stat.st_size).unwrap_or(0))
}

/// The journal's fingerprint of a file of a tree that is done.
fn done_as(promises: Promises, above: &Dir, job: &Job<'_>, there: &Stat) -> Fingerprint {
    let [of_source, of_target] = above.devices();
    // A link may lead to another file system, and a file be mounted from one.
    let lasting = |mut stat: Stat, above: &Stat, device| {
        if stat.st_dev == above.st_dev {
            stat.st_dev = device;
        }
        stat
    };
    let name = job.target.place.name.as_os_str();
    let source = lasting(*job.source.stat, &above.source_stat, of_source);
    journal::done(promises, &above.stat, name, &source, &lasting(*there, &above.stat, of_target))
}

/// Makes the target, now that nothing is in its way.
fn make(job: &Job<'_>, events: &mut dyn Events) -> Result<Done, Error> {
    let options = job.options();
    let follow = options.dereference != Dereference::Never;
    let source_kind = kind(job.source.stat);
    match options.make {
        Make::SymbolicLink => {
            links::symbolic(job)?;
            let made = job.target.place.stat(false).ok().map(|stat| FileId::of(&stat));
            return Ok(Done { made, ..Done::new(Action::SymbolicLinked) });
        }
        Make::HardLink => {
            let replaces = options.force || options.ask || job.displaces;
            links::hard(job, job.source.place, follow, replaces)?;
            return Ok(Done::new(Action::HardLinked));
        }
        Make::Copy => {}
    }
    if options.reads(source_kind) {
        return regular::copy(job, events);
    }
    let Entry { place: from, stat, .. } = job.source;
    let is_link = source_kind == FileType::Symlink;
    if source_kind == FileType::Unknown {
        return Err(Error::refusal(from.shown, "{} has unknown file type"));
    }
    // With -L the name may be a link to the special file.
    let (source, _) = pin(from, follow, REPLACED, |found| same_file(found, stat))?;
    let text = match is_link {
        true => links::text(&Place::below(source.as_fd(), Path::new(""), from.shown))?,
        false => CString::default(),
    };
    let may_replace = job.displaces || is_link && options.force;
    let target = &job.target.place;
    let like = (stat.st_mode, stat.st_rdev);
    let made = special::make(target, like, text.as_c_str(), &options.preserve, may_replace)?;
    let [source, to] = [&source, &made.fd].map(|fd| Handle::Pinned { fd: fd.as_fd(), is_link });
    let complete = Transfer {
        may_inherit_acl: job.may_inherit_acl(),
        provisional_bits: made.withheld,
        ..Transfer::between(
            options,
            (&source.holder(), stat, from.shown),
            (to, &made.stat, target.shown),
            true,
        )
    }
    .apply(events);
    let action = if is_link { Action::SymbolicLinked } else { Action::Recreated };
    Ok(Done { complete, made: Some(FileId::of(&made.stat)), ..Done::new(action) })
}

/// Opens `place` with `O_PATH`, and fails with `replaced` unless `is_right` accepts the file found
/// there.
pub(crate) fn pin(
    place: Place<'_>,
    follow: bool,
    replaced: &'static str,
    is_right: impl Fn(&Stat) -> bool,
) -> Result<(OwnedFd, Stat), Error> {
    let pinned = place.pin(follow).and_then(|fd| Ok((retry_on_intr(|| fs::fstat(&fd))?, fd)));
    match pinned.map_err(|errno| Error::os(place.shown, "cannot stat {}", errno))? {
        (stat, fd) if is_right(&stat) => Ok((fd, stat)),
        _ => Err(Error::refusal(place.shown, replaced)),
    }
}
