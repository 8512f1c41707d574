//! Trees: a directory and all that is in it.
//!
//! A [`Walk`](walk::Walk) takes tasks from a queue, on as many threads as asked for: list a
//! directory, copy a batch of files, enter a subdirectory. Each file is copied as an operand would
//! be, by the descriptors of its directory. A directory gets its attributes when all below are
//! complete.
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
pub(crate) mod dir;
mod entering;
pub(crate) mod held;
pub(crate) mod journal;
mod listener;
pub(crate) mod mirror;
pub(crate) mod partition;
pub(crate) mod path;
mod queue;
pub(crate) mod shard;
pub(crate) mod survey;
pub(crate) mod target_dir;
mod walk;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use gush_text::quote;
use rustix::fs::Mode;

pub(crate) use dir::Dir;
use entering::{Entrance, Existing};
use held::Held;
use journal::Journal;
use mirror::{Limits, mounted_below};
use partition::Others;

use crate::copier::{Action, Done};
use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Entry, Target};
use crate::metadata::umask;
use crate::new_directory::DIRECTORY;
use crate::open;
use crate::options::{CopyOptions, Dereference};
use crate::place::{FileId, Place};
use crate::remote::{climb, identity};
use crate::writers::Writers;

/// The directories among the operands so far.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    /// The first target of each source: its name, and the name as the user wrote it.
    sources: HashMap<FileId, (PathBuf, PathBuf)>,
    /// The targets: one of them in a source would be copied into itself.
    targets: HashSet<FileId>,
}

impl Operands {
    /// Remembers an operand. `false` if the same directory was copied to the same target before.
    fn remember(
        &mut self,
        options: &CopyOptions,
        source: Entry<'_>,
        target: &Place<'_>,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        let Some((name, shown)) = self.sources.get(&FileId::of(source.stat)) else {
            let names = (target.name.to_path_buf(), target.shown.to_path_buf());
            self.sources.insert(FileId::of(source.stat), names);
            return Ok(true);
        };
        if (Place { name, ..*target }).is_same_entry(target) {
            let text = "warning: source directory {} specified more than once";
            events.warns(&Error::refusal(source.place.shown, text));
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

/// The roots of a copy as the user wrote them.
#[derive(Clone, Copy)]
pub(crate) struct Roots<'a> {
    pub(crate) source: &'a Path,
    pub(crate) target: &'a Path,
}

/// Copies a directory that the user named.
pub(crate) fn copy(
    common: &Common<'_>,
    operands: &mut Operands,
    source: Entry<'_>,
    target: Target<'_>,
    events: &mut dyn Events,
) -> Result<Done, Error> {
    let options = common.options;
    // As with GNU, a tree may replace the files of one that was copied before.
    let writers = Writers::default();
    let common = &Common { writers: &writers, ..*common };
    if let Some(shard) = options.shard {
        return shard::copy(common, operands, source, target.place, shard, events);
    }
    if options.resume {
        shard::refuse_state_of_ranks(&target.place)?;
    }
    let begin = || {
        let mut lasting = *source.stat;
        if let Ok(held) = Held::open(&source.place, true) {
            lasting.st_dev = journal::lasting_device(held.as_fd(), lasting.st_dev);
        }
        Journal::open(options, &lasting, &target.place)
    };
    let journal = options.resume.then(begin).transpose()?;
    let with_journal = Common { journal: journal.as_ref(), ..*common };
    let complete = walk_tree(&with_journal, operands, source, target, events)?;
    let Some(complete) = complete else { return Ok(Done::new(Action::Skipped)) };
    match journal {
        Some(journal) if complete => journal.remove(&target.place)?,
        Some(journal) => journal.flush()?,
        None => {}
    }
    Ok(Done { complete, ..Done::new(Action::Directory) })
}

/// Copies the entries of a tree that the partition gives to this process. Returns whether nothing
/// failed; `None` if the user named the directory before, or it is its own target.
fn walk_tree(
    common: &Common<'_>,
    operands: &mut Operands,
    source: Entry<'_>,
    target: Target<'_>,
    events: &mut dyn Events,
) -> Result<Option<bool>, Error> {
    let (options, journal, others) = (common.options, common.journal, common.partition.others());
    let (from, to) = (source.place, target.place);
    // The root has no directory above that is known.
    let made = journal.map(|journal| (journal, journal::entry(source.stat, OsStr::new(""))));
    let entrance = Entrance {
        options,
        source: from,
        source_stat: source.stat,
        target: to,
        is_new: target.is_new,
        is_shared: others == Others::Working,
        made,
        replace: None,
    };
    let existing = entrance.existing()?;
    if let Existing::Itself = existing {
        return Ok(None);
    }
    let is_first_walk = !matches!(others, Others::Finished { .. });
    if is_first_walk && !operands.remember(options, source, &to, events)? {
        return Ok(None);
    }
    let above = match options.mirror {
        true => Some(refuse_mirror_around_source(source, &existing, &to)?),
        false => None,
    };
    let (held, entered) = entrance.enter(&existing, &umask, events)?;
    let limits = above.map(|above| {
        let mounted = mounted_below(held.as_fd());
        Limits::new(entered.held.as_fd(), &entered.stat, above, mounted.as_deref())
    });
    if is_first_walk {
        events.enters_tree(from.shown, to.shown);
    }
    operands.targets.insert(FileId::of(&entered.stat));
    let name = strip_trailing_slashes(to.name);
    let root = Dir::enter(None, name.into(), *source.stat, (held, entered), options);
    if let (Some(journal), true) = (journal, is_first_walk)
        && !journal.is_on_same(root.devices())?
    {
        let text = "warning: all files of {} are copied again: the source or the target is on another \
                    file system than before, or its device number has changed";
        events.warns(&Error::refusal(to.shown, text));
    }
    let mut below = below_operand(options);
    below.remove_first |= journal.is_some_and(Journal::is_resumed);
    // In a tree that the copy makes, no name leads to the file of another one.
    let keeps_apart = options.promises_equality() && !root.is_new;
    let common = Common { options: &below, keeps_apart, ..*common };
    let roots = Roots { source: from.shown, target: to.shown };
    let complete = walk::Walk::new(&common, operands, limits, root, roots, events).run();
    if options.sync && !options.dry_run {
        open::sync_parent(&to)?;
    }
    Ok(Some(complete))
}

/// The options for what is below a directory that the user named: there, only -L follows links.
fn below_operand(options: &CopyOptions) -> CopyOptions {
    let mut below = options.clone();
    if below.dereference == Dereference::Named {
        below.dereference = Dereference::Never;
    }
    below
}

/// Refuses to remove what a source lacks from a target that the source is in. Returns the source
/// and the directories above.
fn refuse_mirror_around_source(
    source: Entry<'_>,
    existing: &Existing,
    target: &Place<'_>,
) -> Result<HashSet<u64>, Error> {
    let Existing::Directory { stat: target_stat, .. } = existing else {
        return Ok(HashSet::new());
    };
    let shown = source.place.shown;
    let mut found = Vec::new();
    let opened = source.place.open(DIRECTORY, Mode::empty());
    opened
        .and_then(|dir| climb(dir.as_fd(), &mut found))
        .map_err(|errno| Error::os(shown, "cannot look at the directories above {}", errno))?;
    if found.contains(&identity(target_stat)) {
        let (from, to) = (quote::always(shown), quote::always(target.shown));
        let text = format!("cannot mirror {from} to {to}, which it is in: it would be removed");
        return Err(Error::about_both(shown, text));
    }
    Ok(found.into_iter().collect())
}
