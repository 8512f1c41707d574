//! Trees: a directory and all that is in it.
//!
//! A [`Walk`](walk::Walk) takes tasks from a queue, on as many threads as asked for: list a directory, copy a batch of
//! files, enter a subdirectory. Each file is copied as an operand would be, by the descriptors of its directory. A
//! directory gets its attributes when all below are complete.
//!
//! Each entry is reached by one name from the descriptors of its directory, on both sides: opened
//! without following links, checked against the first look (device, inode), created by mkdirat(2)
//! or O_EXCL. A process that swaps a component for a symbolic link cannot lead the copy elsewhere
//! (`tests/races.rs`), and no path is too long. A link that is already in the target is followed by
//! openat2(2) with RESOLVE_BENEATH from the target's root (`beneath.rs`), unless `--no-confine` is
//! given.
//!
//! A directory is created closed to others, and gets its attributes from the thread that completes
//! the last of the things it waits for. Tasks are taken last in, first out, so that few directories
//! are open at once (`budget.rs`).

mod batch;
mod budget;
pub(crate) mod census;
mod claims;
pub(crate) mod dir;
mod division;
mod entering;
pub(crate) mod journal;
mod listener;
mod mirror;
pub(crate) mod parts;
mod queue;
pub(crate) mod shard;
mod shown;
mod taking;
mod walk;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Mode, Stat};
use rustix::io::retry_on_intr;

pub(crate) use dir::Dir;
use dir::Start;
use division::Rule;
use entering::{Entrance, Existing};
use journal::Journal;
use mirror::Limits;
use parts::Parts;
use shard::Share;

use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::events::Events;
use crate::file::{Action, Common, Done};
use crate::metadata::umask;
use crate::new_directory::DIRECTORY;
use crate::open;
use crate::options::{Dereference, Options};
use crate::place::{FileId, Place};
use crate::quote;
use crate::writers::Writers;

/// The directories among the operands so far.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// The first target of each source: its name, and the name as the user wrote it.
    sources: HashMap<FileId, (PathBuf, PathBuf)>,
    /// The targets: whoever finds one of them in a source would copy a directory into itself.
    targets: HashSet<FileId>,
}

impl Operands {
    /// Remembers an operand. `false` if the same directory was copied to the same target before.
    fn remember(
        &mut self,
        options: &Options,
        (source, stat): (&Place<'_>, &Stat),
        target: &Place<'_>,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        let Some((name, shown)) = self.sources.get(&FileId::of(stat)) else {
            let names = (target.name.to_path_buf(), target.shown.to_path_buf());
            self.sources.insert(FileId::of(stat), names);
            return Ok(true);
        };
        if (Place { name, ..*target }).is_same_entry(target) {
            let text = "warning: source directory specified more than once";
            events.warns(&Error::refusal(source.shown, text));
            return Ok(false);
        }
        match options.dereference {
            Dereference::Never => Err(twice(target, shown)),
            Dereference::Named | Dereference::Always => Ok(true),
        }
    }
}

fn twice(target: &Place<'_>, earlier: &Path) -> Error {
    let (new, old) = (quote::always(target.shown), quote::always(earlier));
    let text = format!("will not create hard link {new} to directory {old}");
    Error::about_both(target.shown, text)
}

/// The part of a tree that a walk copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    Whole,
    /// The files that are one rank's, and each directory, without its attributes.
    Share(&'a Parts<'a>),
    /// All that comes after the shares: the files that come last, large files whose pieces are there, and the attributes of directories.
    Rest {
        others_failed: bool,
        parts: &'a Parts<'a>,
    },
}

impl<'a> Extent<'a> {
    /// Of a part.
    fn parts(self) -> Option<&'a Parts<'a>> {
        match self {
            Self::Whole => None,
            Self::Share(parts) | Self::Rest { parts, .. } => Some(parts),
        }
    }
}

/// What a walk came to.
pub(crate) struct Walked {
    pub(crate) complete: bool,
    /// Counted of a share. After the shares, the files are those that were announced and whose directory is still there.
    pub(crate) share: Share,
}

/// Copies a directory that the user named.
pub(crate) fn copy(
    common: &Common<'_>,
    operands: &mut Operands,
    (source, source_stat): (Place<'_>, &Stat),
    (target, is_imagined): (Place<'_>, bool),
    events: &mut dyn Events,
) -> Result<Done, Error> {
    let options = common.options;
    // As with GNU, a tree may replace the files of one that was copied before.
    let writers = Writers::default();
    let common = &Common { writers: &writers, ..*common };
    if let Some(shard) = options.shard {
        return shard::copy(common, operands, (source, source_stat), target, shard, events);
    }
    if options.resume {
        shard::refuse_state_of_ranks(&target)?;
    }
    let begin = || {
        let mut lasting = *source_stat;
        if let Ok((fd, _)) = dir::open(&source, true) {
            lasting.st_dev = journal::lasting_device(fd.as_fd(), source_stat.st_dev);
        }
        Journal::open(options, &lasting, &target)
    };
    let journal = options.resume.then(begin).transpose()?;
    let with_journal = Common { journal: journal.as_ref(), ..*common };
    let to = (target, is_imagined);
    let walked = walk_tree(&with_journal, operands, (source, source_stat), to, events)?;
    let Some(Walked { complete, .. }) = walked else { return Ok(Done::new(Action::Skipped)) };
    match journal {
        Some(journal) if complete => journal.remove(&target)?,
        Some(journal) => journal.flush()?,
        None => {}
    }
    Ok(Done { complete, ..Done::new(Action::Directory) })
}

/// Walks through a tree, to a target that a dry run may only imagine; `None` if the user named the directory before, or it is its own target.
fn walk_tree(
    common: &Common<'_>,
    operands: &mut Operands,
    (source, source_stat): (Place<'_>, &Stat),
    (target, is_imagined): (Place<'_>, bool),
    events: &mut dyn Events,
) -> Result<Option<Walked>, Error> {
    let (options, journal) = (common.options, common.journal);
    // The root has no directory above that is known.
    let made = journal.map(|journal| (journal, journal::entry(source_stat, OsStr::new(""))));
    let is_shared = matches!(common.extent, Extent::Share(_));
    let entrance = Entrance {
        options,
        source,
        source_stat,
        target,
        is_new: is_imagined,
        is_shared,
        made,
        replace: None,
    };
    let existing = entrance.existing()?;
    if let Existing::Itself = existing {
        return Ok(None);
    }
    let is_again = matches!(common.extent, Extent::Rest { .. });
    if !is_again && !operands.remember(options, (&source, source_stat), &target, events)? {
        return Ok(None);
    }
    let above = match options.mirror {
        true => Some(refuse_mirror_around_source(source, source_stat, &existing, &target)?),
        false => None,
    };
    let entered = entrance.enter(&existing, &umask, events)?;
    let limits = above.map(|above| Limits::new(entered.pair.target(), &entered.target_stat, above));
    if !is_again {
        events.enters_tree(source.shown, target.shown);
    }
    operands.targets.insert(FileId::of(&entered.target_stat));
    let name = strip_trailing_slashes(target.name);
    let start = Start::of(None, name.into(), *source_stat, entered, options.dry_run);
    let rule = common.extent.parts().map(|parts| parts.division.rule);
    let root = Dir::start(Start { rule: rule.unwrap_or(Rule::Paths), ..start });
    if let (Some(journal), false) = (journal, is_again)
        && !journal.is_on_same(root.devices())?
    {
        let text = "warning: all files are copied again: the source or the target is on another \
                    file system than before, or its device number has changed";
        events.warns(&Error::refusal(target.shown, text));
    }
    let mut below = below_operand(options);
    below.remove_first |= journal.is_some_and(Journal::goes_on);
    // In a tree that the copy makes, no name leads to the file of another one.
    let keeps_apart = options.promises_equality() && !root.is_new;
    let common = Common { options: &below, keeps_apart, ..*common };
    let walked =
        walk::Walk::new(&common, (operands, limits), root, (source.shown, target.shown), events)
            .run();
    if options.sync && !options.dry_run {
        open::sync_parent(&target)?;
    }
    Ok(Some(walked))
}

/// The options for what is below a directory that the user named: there, only -L follows links.
fn below_operand(options: &Options) -> Options {
    let mut below = options.clone();
    if below.dereference == Dereference::Named {
        below.dereference = Dereference::Never;
    }
    below
}

/// Refuses to remove what a source lacks from a target that the source is in. Returns the source and the directories
/// above.
fn refuse_mirror_around_source(
    source: Place<'_>,
    source_stat: &Stat,
    existing: &Existing,
    target: &Place<'_>,
) -> Result<HashSet<FileId>, Error> {
    let mut seen = HashSet::new();
    let Existing::Directory { stat: target_stat, .. } = existing else { return Ok(seen) };
    let failed = |errno| Error::os(source.shown, "cannot look at the directories above", errno);
    let mut at = source.open(DIRECTORY, Mode::empty()).map_err(failed)?;
    let mut here = FileId::of(source_stat);
    loop {
        if here == FileId::of(target_stat) {
            let (from, to) = (quote::always(source.shown), quote::always(target.shown));
            let text = format!("cannot mirror {from} to {to}, which it is in: it would be removed");
            return Err(Error::about_both(source.shown, text));
        }
        seen.insert(here);
        let up = Place::below(at.as_fd(), Path::new(".."), source.shown);
        let up = up.open(DIRECTORY, Mode::empty()).map_err(failed)?;
        let above = FileId::of(&retry_on_intr(|| fs::fstat(&up)).map_err(failed)?);
        if above == here {
            return Ok(seen);
        }
        (at, here) = (up, above);
    }
}
