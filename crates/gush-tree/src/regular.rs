//! The copy of one file's data: open, move, verify, metadata, sync, and only then the final name.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use gush::Report;
use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::atomic::Staged;
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::file::Job;
use crate::metadata::{self, Handle, Transfer};
use crate::open::{self, Opened};
use crate::options::Reflink;
use crate::place::{Place, kind, proc_path, same_file};

/// What a copy of data came to.
pub(crate) struct Copied {
    pub(crate) report: Option<Report>,
    pub(crate) digest: Option<gush::Digest>,
    /// Nothing that was required is missing.
    pub(crate) complete: bool,
}

/// Copies the source's data, and the metadata that is asked for.
pub(crate) fn copy(job: &Job<'_>, events: &mut dyn Events) -> Result<Copied, Error> {
    let (source, source_stat) = open::source(job)?;
    let (bits, provisional) = metadata::creation_bits(&job.options.preserve, source_stat.st_mode);
    let mode = Mode::from_bits_retain(bits);
    if !job.options.atomic {
        let opened = open::target(job, &source_stat, mode, events)?;
        let file = File { job, source: source.as_fd(), source_stat, provisional };
        return file.write_in_place(opened, events);
    }
    let behind = end_of_links(job)?;
    let target = match &behind {
        Some(path) => Place { name: path, ..job.target },
        None => job.target,
    };
    let job = &Job { target, ..*job };
    let file = File { job, source: source.as_fd(), source_stat, provisional };
    file.write_atomically(mode, events)
}

struct File<'a> {
    job: &'a Job<'a>,
    source: BorrowedFd<'a>,
    source_stat: Stat,
    provisional: u32,
}

impl File<'_> {
    fn write_in_place(&self, opened: Opened, events: &mut dyn Events) -> Result<Copied, Error> {
        let Opened { fd, existing } = opened;
        let created = existing.is_none();
        let filled = self.fill(fd.as_fd(), events);
        if filled.is_err() && created && self.job.options.moving.reflink == Reflink::Always {
            // Nothing was cloned into it; GNU leaves no empty file behind either.
            let _ = self.job.target.unlink();
        }
        let mut copied = filled?;
        copied.complete = self.finish(fd.as_fd(), existing, events)?;
        open::close(self.job, fd)?;
        if self.job.options.sync {
            open::sync_directory(self.job)?;
        }
        Ok(copied)
    }

    fn write_atomically(&self, mode: Mode, events: &mut dyn Events) -> Result<Copied, Error> {
        let job = self.job;
        let inherited = job.existing.filter(|_| !job.displaces);
        match &inherited {
            Some(stat) => check_replaceable(job, stat, &self.source_stat)?,
            None if !job.displaces && open::is_link(job) => return Err(open::dangling(job)),
            None => {}
        }
        let mode = if inherited.is_some() { Mode::from_bits_retain(0o600) } else { mode };
        let staged =
            Staged::create(job.target, mode).map_err(|errno| open::cannot_create(job, errno))?;
        let mut copied = self.fill(staged.fd(), events)?;
        if let Some(stat) = &inherited {
            self.inherit(staged.fd(), stat)?;
        }
        copied.complete = self.finish(staged.fd(), inherited, events)?;
        // A close is what makes NFS tell of writes that failed; it must not come after the rename.
        let again = retry_on_intr(|| rustix::io::fcntl_dupfd_cloexec(staged.fd(), 0))
            .map_err(|errno| Error::os(job.target.shown, "cannot close", errno))?;
        open::close(job, again)?;
        let replaces = inherited.is_some() || job.displaces;
        if let (Some(backup), true) = (&job.options.backup, job.displaces) {
            let kept = match backup.link_aside(&job.target) {
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => backup.set_aside(&job.target),
                other => other,
            };
            kept.map_err(|errno| Error::os(job.target.shown, "cannot back up", errno))?;
        }
        let fd = staged.commit(replaces).map_err(|errno| open::cannot_create(job, errno))?;
        open::close(job, fd)?;
        if job.options.sync {
            open::sync_directory(job)?;
        }
        Ok(copied)
    }

    /// Moves the data, and reads it back if asked to.
    fn fill(&self, target: BorrowedFd<'_>, events: &mut dyn Events) -> Result<Copied, Error> {
        let mut copied = Copied { report: None, digest: None, complete: true };
        if self.job.options.data {
            let report = data::move_all(self.job, self.source, target, events)?;
            if self.job.options.verify {
                copied.digest = Some(data::verify(self.job, self.source, target, &report)?);
            }
            copied.report = Some(report);
        }
        Ok(copied)
    }

    fn inherit(&self, target: BorrowedFd<'_>, old: &Stat) -> Result<(), Error> {
        retry_on_intr(|| fs::fstat(target))
            .and_then(|new| metadata::inherit(target, &self.job.target, old, &new))
            .map_err(|errno| {
                Error::os(self.job.target.shown, "cannot keep the old file's permissions", errno)
            })
    }

    fn finish(
        &self,
        target: BorrowedFd<'_>,
        existing: Option<Stat>,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        let job = self.job;
        let preserve = &job.options.preserve;
        let created = existing.is_none();
        let target_stat = match preserve.owner {
            true => retry_on_intr(|| fs::fstat(target)).map(Some),
            false => Ok(None),
        };
        let target_stat =
            target_stat.map_err(|errno| Error::os(job.target.shown, "cannot stat", errno))?;
        let transfer = Transfer {
            options: job.options,
            source: Handle::Open(self.source),
            source_stat: &self.source_stat,
            source_shown: job.source.shown,
            target: Handle::Open(target),
            target_shown: job.target.shown,
            target_stat,
            created,
            provisional_bits: if created { self.provisional } else { 0 },
        };
        let complete = transfer.apply(events);
        if job.options.sync {
            retry_on_intr(|| fs::fsync(target))
                .map_err(|errno| Error::os(job.target.shown, "cannot sync", errno))?;
        }
        Ok(complete)
    }
}

/// Only what a plain copy could write to may be replaced by an atomic one.
fn check_replaceable(job: &Job<'_>, stat: &Stat, source: &Stat) -> Result<(), Error> {
    if same_file(stat, source) {
        return Err(open::are_same(job));
    }
    if kind(stat) != FileType::RegularFile {
        return Err(Error::refusal(job.target.shown, "cannot be replaced: not a regular file")
            .hinting("without --atomic it is written to"));
    }
    let writable = retry_on_intr(|| {
        fs::accessat(job.target.dir, job.target.name, Access::WRITE_OK, AtFlags::EACCESS)
    });
    match writable {
        Err(errno) if !job.options.force || errno == Errno::ROFS => {
            Err(open::cannot_write(job, errno))
        }
        _ => Ok(()),
    }
}

/// The file that a symbolic link as target leads to: that is what gets replaced, not the link.
fn end_of_links(job: &Job<'_>) -> Result<Option<PathBuf>, Error> {
    let Some(existing) = job.existing.filter(|_| !job.displaces) else { return Ok(None) };
    if !open::is_link(job) {
        return Ok(None);
    }
    let failed = |errno| Error::os(job.target.shown, "cannot follow", errno);
    let end: OwnedFd = job.target.open(OFlags::PATH, Mode::empty()).map_err(failed)?;
    let path =
        retry_on_intr(|| fs::readlink(proc_path(end.as_fd()), Vec::new())).map_err(failed)?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    match Place::here(&path).stat(false) {
        Ok(stat) if same_file(&stat, &existing) => Ok(Some(path)),
        _ => Err(failed(Errno::NOENT)),
    }
}
