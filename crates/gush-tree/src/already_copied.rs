//! What a command has copied already: sources named twice, targets just made, and the first copy of
//! each file with several names.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use gush::Unpoisoned;
use gush_text::quote;
use rustix::fs::{FileType, Stat};
use rustix::io;

use crate::error::Error;
use crate::first_copies::{FirstCopies, Record, RecordAt};
use crate::job::Target;
use crate::options::{CopyOptions, Dereference, Make};
use crate::place::{FileId, Place, kind};
use crate::tree::dir::Pair;
use crate::tree::held::{Held, Step, descend};

/// The sources and targets so far, for several threads.
#[derive(Debug, Default)]
pub(crate) struct AlreadyCopied {
    several: Option<Mutex<Several>>,
    linked: Mutex<Linked>,
    /// Notified whenever a first copy has ended.
    ended: Condvar,
}

/// The sources that may have more names, for `--preserve=links`.
#[derive(Debug, Default)]
struct Linked {
    first_copies: FirstCopies,
    /// The sources whose first copy is being made, one a thread at most.
    under_way: HashSet<FileId>,
    /// Files with several names, of which other processes may make the first copy.
    by_others: HashSet<FileId>,
}

/// An earlier successful copy of a source, under another name.
pub(crate) struct Earlier<'c> {
    copied: &'c AlreadyCopied,
    at: RecordAt,
    /// The way to the copy's directory.
    from: Option<Arc<Pair>>,
    steps: Vec<Step>,
    pub(crate) name: PathBuf,
    pub(crate) file: FileId,
    /// The copy is itself a symbolic link, not to be followed.
    pub(crate) is_link: bool,
}

impl Earlier<'_> {
    /// Where the way to the copy's directory starts, and that directory; `None` if it is the same.
    ///
    /// # Errors
    /// ESTALE if another directory has a name by now.
    pub(crate) fn directory<'f>(
        &'f self,
        base: BorrowedFd<'f>,
    ) -> io::Result<(BorrowedFd<'f>, Option<Held>)> {
        let from = self.from.as_ref().map_or(base, |pair| pair.target());
        Ok((from, descend(from, &self.steps)?))
    }

    /// The name of the copy as the user wrote it.
    pub(crate) fn shown(&self) -> PathBuf {
        self.copied.linked.lock().unpoisoned().first_copies.shown(self.at)
    }
}

/// The files already named or made, so that several sources do not overwrite each other.
#[derive(Debug, Default)]
struct Several {
    /// The names of each source.
    sources: HashMap<FileId, Vec<PathBuf>>,
    targets: HashSet<(FileId, PathBuf)>,
    /// The symbolic links made, in trees too.
    links: HashSet<FileId>,
}

/// Who copies a source by this name?
pub(crate) enum Turn<'c> {
    /// This name is copied, and no later name waits for the copy.
    Alone,
    /// This name is the first: other threads that come to another name wait.
    First(FirstCopy<'c>),
    /// Another name was copied earlier.
    Again(Earlier<'c>),
}

/// The first copy of a source with several names, under way. Dropped without [`made`](Self::made),
/// the copy has failed, and the next name is the first.
pub(crate) struct FirstCopy<'c> {
    copied: &'c AlreadyCopied,
    source: FileId,
}

impl FirstCopy<'_> {
    /// The copy is whole: other names of the source become names of this copy.
    pub(crate) fn made(self, target: Target<'_>, file: FileId, is_link: bool) {
        self.copied.linked.lock().unpoisoned().first_copies.add(self.source, target, file, is_link);
    }
}

impl Drop for FirstCopy<'_> {
    fn drop(&mut self) {
        // If the copy failed, a waiting thread makes the next attempt.
        self.copied.linked.lock().unpoisoned().under_way.remove(&self.source);
        self.copied.ended.notify_all();
    }
}

/// May a file come again in one copy? A file with one name comes once, unless links lead to it.
pub(crate) fn may_return(options: &CopyOptions, source: &Stat) -> bool {
    source.st_nlink > 1 || options.dereference != Dereference::Never
}

impl AlreadyCopied {
    /// For a command with several sources. A single source needs no such memory.
    pub(crate) fn of_several() -> Self {
        Self { several: Some(Mutex::default()), ..Self::default() }
    }

    pub(crate) fn is_of_several(&self) -> bool {
        self.several.is_some()
    }

    /// Was this entry of a directory a source before, in any spelling (`a`, `./a`, `d/../a`)?
    /// Another link to the same file is another source.
    pub(crate) fn was_named_before(
        &self,
        options: &CopyOptions,
        source: &Place<'_>,
        stat: &Stat,
    ) -> bool {
        let Some(several) = &self.several else { return false };
        let mut several = several.lock().unpoisoned();
        let names = several.sources.entry(FileId::of(stat)).or_default();
        let is_known = names.iter().any(|name| Place { name, ..*source }.is_same_entry(source));
        if !is_known {
            names.push(source.name.to_path_buf());
        }
        // With backups the second copy is wanted: it makes the first one the backup.
        is_known && options.backup.is_none()
    }

    /// Did this command make the file now at the target?
    pub(crate) fn has_made(&self, target: &Place<'_>, stat: &Stat) -> bool {
        self.several.as_ref().is_some_and(|several| {
            several
                .lock()
                .unpoisoned()
                .targets
                .contains(&(FileId::of(stat), target.name.to_path_buf()))
        })
    }

    pub(crate) fn remember_link(&self, link: FileId) {
        if let Some(several) = &self.several {
            several.lock().unpoisoned().links.insert(link);
        }
    }

    /// Refuses a copy through a symbolic link made by this command.
    pub(crate) fn check_link_just_made(
        &self,
        options: &CopyOptions,
        source: &Place<'_>,
        target: &Place<'_>,
    ) -> Result<(), Error> {
        let Some(several) = self.several.as_ref().filter(|_| options.backup.is_none()) else {
            return Ok(());
        };
        let has_made_link = |link| several.lock().unpoisoned().links.contains(&FileId::of(link));
        match target.stat(false) {
            Ok(stat)
                if kind(&stat) == FileType::Symlink
                    && (self.has_made(target, &stat) || has_made_link(&stat)) =>
            {
                let (from, to) = (quote::always(source.shown), quote::always(target.shown));
                let text = format!("will not copy {from} through just-created symlink {to}");
                Err(Error::about_both(target.shown, text))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn remember_target(&self, target: &Place<'_>) {
        if let Some(several) = &self.several
            && let Ok(stat) = target.stat(false)
        {
            several
                .lock()
                .unpoisoned()
                .targets
                .insert((FileId::of(&stat), target.name.to_path_buf()));
        }
    }

    /// Remembers a file that this process copies later by one name, and that another process may
    /// copy by another name.
    pub(crate) fn expect_by_others(&self, source: &Stat) {
        self.linked.lock().unpoisoned().by_others.insert(FileId::of(source));
    }

    pub(crate) fn expects_any_by_others(&self) -> bool {
        !self.linked.lock().unpoisoned().by_others.is_empty()
    }

    /// Takes a file that another process has made for the first copy of its source, if this is
    /// [expected](Self::expect_by_others).
    pub(crate) fn learn_copy_by_others(
        &self,
        options: &CopyOptions,
        source: &Stat,
        target: Target<'_>,
    ) {
        if self.linked.lock().unpoisoned().by_others.contains(&FileId::of(source))
            && let Ok(there) = target.place.stat(false)
            && kind(&there) == kind(source)
            && let Turn::First(copy) = self.turn(options, source, target)
        {
            copy.made(target, FileId::of(&there), kind(&there) == FileType::Symlink);
        }
    }

    /// Whether the source is copied by this name, or linked to an earlier copy. Waits while another
    /// thread makes the first copy.
    pub(crate) fn turn(
        &self,
        options: &CopyOptions,
        source: &Stat,
        target: Target<'_>,
    ) -> Turn<'_> {
        let dir = target.dir;
        let may_return = may_return(options, source);
        let links = options.preserve.links && options.make != Make::HardLink;
        let several = self.several.is_some() || options.recursive;
        if !(several && links && may_return) {
            return Turn::Alone;
        }
        let id = FileId::of(source);
        let mut linked = self.linked.lock().unpoisoned();
        // A link can only be made to a copy that is there, so this thread waits for it.
        while linked.under_way.contains(&id) {
            linked = self.ended.wait(linked).unpoisoned();
        }
        let Linked { first_copies, under_way, .. } = &mut *linked;
        let Some(at) = first_copies.get(id) else {
            under_way.insert(id);
            return Turn::First(FirstCopy { copied: self, source: id });
        };
        let Record { file, is_link, above, name, .. } = first_copies.record(at);
        let is_same_dir = match dir {
            Some(dir) => above.is_some() && dir.recorded.get().copied() == above,
            None => above.is_none(),
        };
        if is_same_dir && name == target.place.name {
            return Turn::Alone;
        }
        let (from, steps) = first_copies.way(above, dir);
        Turn::Again(Earlier { copied: self, at, from, steps, name: name.into(), file, is_link })
    }
}
