//! The copy of one file's data: open, move, verify, metadata, sync, and only then the final name.
//!
//! An existing target is opened unchanged, and the engine cuts it once a method has shown that it
//! serves (`Mover::replace`): a refusal leaves the old file. With `-f` and `--remove-destination` a
//! target to be removed first stays until the new file is whole, if a refusal is possible.
//!
//! `--verify` compares blake3 hashes; the source's is made in passing. A file with 64 MiB of holes
//! or more is compared with its copy instead (`gush::first_difference`), because a hash cannot
//! leave holes out.
//!
//! Space is reserved for new files only: when a file is replaced, ext4 flushes the delayed blocks
//! at once, and reserved blocks would evade this safeguard.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use gush::{Endpoint, Kind};
use gush_text::errno_text;
use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::{Errno, retry_on_intr};

use crate::atomic::Staged;
use crate::copier::{Action, Done};
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::job::{Job, Target};
use crate::metadata::{self, Handle, Ownership, Transfer};
use crate::open::{self, Opened};
use crate::options::CopyOptions;
use crate::place::{FileId, Place, kind, proc_path, same_file, stat_of};
use crate::stable;
use crate::writers::Claim;

pub(crate) fn copy(job: &Job<'_>, events: &mut dyn Events) -> Result<Done, Error> {
    if let Some(existing) = job.existing.filter(|_| !job.displaces) {
        refuse_unkept_promises(job.options(), &job.target.place, &existing)?;
    }
    if job.options().stable {
        stable::refuse_unwatchable(job)?;
    }
    let opened;
    let (source, source_stat) = match job.source.opened {
        Some(source) => (source, job.source.stat),
        None => {
            opened = open::source(job)?;
            (opened.0.as_fd(), &opened.1)
        }
    };
    let quiet;
    let source_stat = if job.options().stable {
        quiet = stable::when_quiet(job, source, *source_stat)?;
        &quiet
    } else {
        source_stat
    };
    // The pieces are those of the file that the walk saw.
    let state = |stat: &Stat| {
        (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
    };
    let is_same = state(job.source.stat) == state(source_stat);
    let job = match is_same || job.target.assembled.is_none() {
        true => job,
        false => &Job { target: Target { assembled: None, ..job.target }, ..*job },
    };
    let (bits, provisional) = metadata::creation_bits(&job.options().preserve, source_stat.st_mode);
    let mode = Mode::from_bits_retain(bits);
    // The ranks that copied the pieces had to write to the file.
    let lent = if job.target.assembled.is_some() { 0o200 & !bits } else { 0 };
    let provisional = provisional | lent;
    let job = match !job.displaces && open::gives_way(job) {
        true => &Job { displaces: true, ..*job },
        false => job,
    };
    // A new file would have no data.
    let keeps_data = !job.options().data && job.existing.is_some();
    // As GNU cp: the file keeps its inode, its names and its owner.
    if (!job.options().atomic || keeps_data) && !job.displaces && job.target.assembled.is_none() {
        let opened = open::target(job, source_stat, mode, events)?;
        let file = File { job, source, source_stat, provisional };
        return file.write_in_place(opened, events);
    }
    let end = match job.existing.filter(|_| !job.displaces) {
        Some(existing) => end_of_links(&job.target.place, &existing)?,
        None => None,
    };
    let place = match &end {
        Some(path) => Place { name: path, ..job.target.place },
        None => job.target.place,
    };
    let job = &Job { target: Target { place, ..job.target }, ..*job };
    let file = File { job, source, source_stat, provisional };
    file.write_atomically(mode, events)
}

struct File<'a> {
    job: &'a Job<'a>,
    source: BorrowedFd<'a>,
    source_stat: &'a Stat,
    provisional: u32,
}

impl File<'_> {
    fn write_in_place(&self, opened: Opened, events: &mut dyn Events) -> Result<Done, Error> {
        // Before `opened` is taken apart: a failure is reported by what was there.
        let existing = opened.existing();
        let Opened { fd, stat, is_new } = opened;
        let claim = match stat {
            Some(stat) if is_new => self.job.claim_new(&stat),
            Some(stat) => self.job.claim(&stat)?,
            None => None,
        };
        let target = Opened { fd: fd.as_fd(), stat, is_new };
        let filled = self.fill(&target, false, events).map_err(|error| match &existing {
            Some(_) if error.is_unstable() => error.adding(
                "the target holds the bytes read so far",
                "with --atomic the old file stays",
            ),
            None if error.is_unstable() => {
                const LEFT: &str = "the new file was not removed";
                let outcome = match self.remove_new(fd.as_fd()) {
                    Ok(true) => "the new file was removed".to_owned(),
                    Ok(false) => format!("{LEFT}: its name is now another file's or a link's"),
                    Err(errno) => format!("{LEFT}: {}", errno_text(errno)),
                };
                error.adding(&outcome, "copy it again")
            }
            _ if error.is_untouched() => {
                self.leave_as_it_was(fd.as_fd(), existing.as_ref());
                error
            }
            Some(device) if kind(device) != FileType::RegularFile => error,
            _ => error.leaving("an incomplete copy remains"),
        });
        let mut done = filled?;
        done.complete = self.finish(&target, is_new, events)?;
        // After the attributes: each of them changes the change time, by which a later run knows
        // the file.
        done.last_state = self.last_state(fd.as_fd());
        open::close(self.job, fd)?;
        if self.job.options().sync {
            open::sync_parent(&self.job.target.place)?;
        }
        claim.into_iter().for_each(Claim::keep);
        Ok(done)
    }

    /// After a refusal, removes a new file and gives an existing one its modification time again:
    /// reserving space changes the time even where it fails (`ext4_fallocate` of
    /// `fs/ext4/extents.c`). Errors here are dropped, since the refusal is reported in any case.
    fn leave_as_it_was(&self, target: BorrowedFd<'_>, existing: Option<&Stat>) {
        let Some(old) = existing else {
            let _ = self.remove_new(target);
            return;
        };
        let Ok(now) = retry_on_intr(|| fs::fstat(target)) else { return };
        // fallocate(2) and ftruncate(2) change the time of a file whose bytes are the same.
        if (now.st_mtime, now.st_mtime_nsec) != (old.st_mtime, old.st_mtime_nsec) {
            let omitted = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
            let modified = Timespec { tv_sec: old.st_mtime, tv_nsec: old.st_mtime_nsec as _ };
            let times = Timestamps { last_access: omitted, last_modification: modified };
            let _ = fs::futimens(target, &times);
        }
    }

    /// Removes a new file. `false` if its name belongs to another file by now, or to the symbolic
    /// link through which the file was created.
    fn remove_new(&self, target: BorrowedFd<'_>) -> Result<bool, Errno> {
        let now = retry_on_intr(|| fs::fstat(target))?;
        match self.job.target.place.stat(false) {
            // Only our own file: somebody may have given the name to another meanwhile.
            Ok(named) if same_file(&named, &now) => self.job.target.place.unlink().map(|()| true),
            Ok(_) | Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn write_atomically(&self, mode: Mode, events: &mut dyn Events) -> Result<Done, Error> {
        let job = self.job;
        let inherited = job.existing.filter(|_| !job.displaces);
        match &inherited {
            // A rename would replace the file by its own copy, and cut other names off.
            Some(stat) if same_file(stat, self.source_stat) => return Err(open::are_same(job)),
            Some(stat) => check_replaceable(job.options(), &job.target.place, stat)?,
            // A rename would replace the link, where cp writes through it.
            None if !job.displaces && open::is_link(&job.target.place) => {
                return Err(open::dangling(&job.target.place));
            }
            None => {}
        }
        let old = inherited.map(|old| job.claim(&old)).transpose()?.flatten();
        // Closed to others until the old file's permissions are on it.
        let mode = if inherited.is_some() { Mode::from_bits_retain(0o600) } else { mode };
        let is_there = job.existing.is_some();
        let cannot =
            |errno| open::cannot_replace(job.options(), &job.target.place, is_there, errno);
        let assembled = match &job.target.assembled {
            Some(file) => Staged::elsewhere(job.target.place, *file).map_err(cannot)?,
            None => None,
        };
        let is_filled = assembled.is_some();
        let staged = match assembled {
            Some(staged) => staged,
            None => Staged::create(job.target.place, mode).map_err(cannot)?,
        };
        let look = || {
            let stat = stat_of(staged.fd(), job.target.place.shown)?;
            Ok(Opened { fd: staged.fd(), stat: Some(stat), is_new: false })
        };
        let mut done =
            self.fill(&look()?, is_filled, events).map_err(|error| match error.is_unstable() {
                true => error.adding("no copy was made", "copy it again"),
                false if is_there => error.leaving("the old file is unchanged"),
                false => error.leaving("no copy was made"),
            })?;
        if let Some(stat) = &inherited {
            metadata::inherit(staged.fd(), &job.target.place, stat)?;
        }
        done.complete = self.finish(&look()?, inherited.is_none(), events)?;
        // NFS reports failed writes at a close, which must not come after the rename. Without a
        // descriptor to spare, fsync reports them too.
        match rustix::io::fcntl_dupfd_cloexec(staged.fd(), 0) {
            Ok(again) => open::close(job, again)?,
            Err(_) => sync(job, staged.fd())?,
        }
        let replaces = inherited.is_some() || job.displaces;
        if let (Some(backup), true) = (&job.options().backup, job.displaces) {
            let kept = match backup.link_aside(&job.target.place) {
                // A file system without hard links: a rename keeps the old file too, with a moment
                // without the name.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                    backup.set_aside(&job.target.place)
                }
                other => other,
            };
            kept.map_err(|errno| Error::os(job.target.place.shown, "cannot backup {}", errno))?;
        }
        // The inode numbers of files that are replaced are given to new ones.
        drop(old);
        // Before the name leads there.
        let claim = look()?.stat.and_then(|new| job.claim_new(&new));
        let fd = staged.commit(replaces).map_err(cannot)?;
        // A rename changes the file's ctime, too.
        done.last_state = self.last_state(fd.as_fd());
        open::close(job, fd)?;
        if job.options().sync {
            open::sync_parent(&job.target.place)?;
        }
        claim.into_iter().for_each(Claim::keep);
        Ok(done)
    }

    /// Moves the data, verifies the target if asked to, and checks whether the source changed
    /// meanwhile. Where all pieces are there, only the size is missing, if the file ends with a
    /// hole.
    fn fill(
        &self,
        target: &Opened<BorrowedFd<'_>>,
        is_filled: bool,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        let job = self.job;
        let made = target.stat.as_ref().map(FileId::of);
        let verified = job.options().data && job.options().verify;
        let mut done = Done { made, verified, ..Done::new(Action::Copied) };
        if !job.options().data {
            return Ok(done);
        }
        let report = if is_filled {
            let size_bytes = u64::try_from(self.source_stat.st_size).unwrap_or(0);
            // The last piece may end in a hole, which writes no byte: the size is set apart.
            retry_on_intr(|| fs::ftruncate(target.fd, size_bytes))
                .map_err(|errno| Error::os(job.target.place.shown, "failed to extend {}", errno))?;
            None
        } else {
            Some(data::move_all(job, self.source, target.fd, self.ends(target), events)?)
        };
        let sent = report.as_ref().and_then(|report| report.digest);
        let verified = job
            .options()
            .verify
            .then(|| data::verify(job, self.source, target.fd, sent))
            .transpose();
        // After verifying, which reads the source once more: the whole time is looked at.
        let change = stable::change(job, self.source, self.source_stat)?;
        match (verified, change) {
            (Err(error), Some(_)) => {
                // Different bytes are explained by the change, and not by the storage.
                return Err(error.hinting("the source changed meanwhile: copy it again"));
            }
            (verified, None) => done.digest = verified?.flatten(),
            (Ok(_), Some(change)) if job.options().stable => {
                return Err(Error::unstable(job.source.place.shown, change));
            }
            (Ok(verified), Some(change)) => {
                let text = format!("warning: {change}; the copy holds the bytes read");
                let warning = Error::refusal(job.source.place.shown, text);
                events.warns(&warning.hinting("--stable makes this a failure"));
                done.digest = verified.flatten();
            }
        }
        done.report = report;
        Ok(done)
    }

    /// Both ends, where all that the engine would ask is known: two files, one opened and the other
    /// made a moment ago.
    fn ends<'t>(
        &'t self,
        target: &'t Opened<BorrowedFd<'_>>,
    ) -> Option<(Endpoint<'t>, Endpoint<'t>)> {
        // Only a file that nobody else can have opened is known without a look.
        if !(self.job.is_in_tree() && target.is_new) {
            return None;
        }
        let from = Endpoint::of_opened_file(&self.source, self.source_stat, OFlags::RDONLY)
            // A file that the kernel makes up while it is read takes no offsets.
            .filter(|from| from.kind() == Kind::File)?;
        let device = self.job.target.dir.map(|dir| dir.stat.st_dev);
        let to = match (&target.stat, device) {
            (Some(stat), _) => Endpoint::of_opened_file(&target.fd, stat, open::NEW)?,
            (None, device) => Endpoint::of_new_file(&target.fd, device?, open::NEW),
        };
        Some((from, to))
    }

    fn last_state(&self, target: BorrowedFd<'_>) -> Option<Box<Stat>> {
        self.job
            .is_noted()
            .then(|| retry_on_intr(|| fs::fstat(target)).ok().map(Box::new))
            .flatten()
    }

    fn finish(
        &self,
        target: &Opened<BorrowedFd<'_>>,
        created: bool,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        let job = self.job;
        let transfer = Transfer {
            options: job.options(),
            source: &Handle::Open(self.source).holder(),
            source_stat: self.source_stat,
            source_shown: job.source.place.shown,
            target: Handle::Open(target.fd),
            target_shown: job.target.place.shown,
            target_owner: match &target.stat {
                Some(stat) => Some(Ownership::of(stat)),
                None => job.owner_of_new_files(),
            },
            existing_mode: target.stat.filter(|_| !created).map(|stat| stat.st_mode),
            created,
            may_inherit_acl: job.may_inherit_acl(),
            directory_mode: None,
            provisional_bits: if created { self.provisional } else { 0 },
        };
        let complete = transfer.apply(events);
        if job.options().sync {
            sync(job, target.fd)?;
        }
        Ok(complete)
    }
}

fn sync(job: &Job<'_>, target: BorrowedFd<'_>) -> Result<(), Error> {
    retry_on_intr(|| fs::fsync(target))
        .map_err(|errno| Error::os(job.target.place.shown, "cannot sync {}", errno))
}

/// Refuses, before the first byte, a target that cannot be verified or synced as the options
/// demand.
pub(crate) fn refuse_unkept_promises(
    options: &CopyOptions,
    target: &Place<'_>,
    existing: &Stat,
) -> Result<(), Error> {
    let refuse = |what| Err(Error::refusal(target.shown, what));
    match kind(existing) {
        FileType::RegularFile => Ok(()),
        _ if options.verify => refuse("cannot verify {}: not a regular file"),
        // fsync(2): EINVAL for files without storage.
        FileType::CharacterDevice | FileType::Fifo | FileType::Socket if options.sync => {
            refuse("cannot sync {}: neither a file nor a block device")
        }
        _ => Ok(()),
    }
}

fn refuse_to_replace_other_kinds(target: &Place<'_>, stat: &Stat) -> Result<(), Error> {
    if kind(stat) == FileType::RegularFile {
        return Ok(());
    }
    Err(Error::refusal(target.shown, "cannot replace {}: not a regular file")
        .hinting("without --atomic, the data goes into the existing target"))
}

/// Refuses to replace, atomically, a target that a plain copy could not write to.
pub(crate) fn check_replaceable(
    options: &CopyOptions,
    target: &Place<'_>,
    stat: &Stat,
) -> Result<(), Error> {
    refuse_to_replace_other_kinds(target, stat)?;
    let writable = retry_on_intr(|| {
        // A rename asks for the directory's permission alone: a file that is write-protected would
        // be replaced.
        fs::accessat(target.dir, target.name, Access::WRITE_OK, AtFlags::EACCESS)
    });
    match writable {
        Err(errno) if !options.force || errno == Errno::ROFS => {
            Err(open::cannot_write(target, errno))
        }
        _ => Ok(()),
    }
}

/// The file at the end of the target's symbolic links. An atomic copy replaces this file, not the
/// link.
pub(crate) fn end_of_links(target: &Place<'_>, existing: &Stat) -> Result<Option<PathBuf>, Error> {
    if !open::is_link(target) {
        return Ok(None);
    }
    if target.bounds.is_some() {
        let text = "not replacing {}: a symbolic link in the target's tree";
        return Err(Error::refusal(target.shown, text)
            .hinting("without --atomic the target of the link is written in place"));
    }
    // A link of /proc to a pipe has a text that is no path.
    refuse_to_replace_other_kinds(target, existing)?;
    let failed = |errno| Error::os(target.shown, "cannot follow {}", errno);
    let end: OwnedFd = target.open(OFlags::PATH, Mode::empty()).map_err(failed)?;
    let path =
        retry_on_intr(|| fs::readlink(proc_path(end.as_fd()), Vec::new())).map_err(failed)?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    match Place::here(&path).stat(false) {
        // /proc shows a path that may have changed hands: only one that leads to the same file is
        // used.
        Ok(stat) if same_file(&stat, existing) => Ok(Some(path)),
        _ => Err(failed(Errno::NOENT)),
    }
}
