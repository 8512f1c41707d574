//! What the copies of one command need to know of each other.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rustix::fs::{FileType, Stat};

use crate::error::Error;
use crate::options::{Dereference, Make, Options};
use crate::place::{FileId, Place, kind};
use crate::quote;

/// Sources and targets so far.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    several: Option<Several>,
    /// The first copy of each source that may have more names, for `--preserve=links`.
    linked: HashMap<FileId, Earlier>,
}

/// A copy that succeeded: its name, and which file it is.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) name: PathBuf,
    /// What the user calls it.
    pub(crate) shown: PathBuf,
    pub(crate) file: FileId,
    /// It is a symbolic link itself, not what its name leads to.
    pub(crate) is_link: bool,
}

/// What is remembered so that several sources do not overwrite each other.
#[derive(Debug, Default)]
struct Several {
    sources: HashSet<(FileId, PathBuf)>,
    targets: HashSet<(FileId, PathBuf)>,
}

impl Memory {
    /// For a command with several sources: one alone has nothing to remember.
    pub(crate) fn of_several() -> Self {
        Self { several: Some(Several::default()), ..Self::default() }
    }

    pub(crate) fn was_named_before(
        &mut self,
        options: &Options,
        source: &Place<'_>,
        stat: &Stat,
    ) -> bool {
        let backs_up = options.backup.is_some();
        self.several.as_mut().is_some_and(|several| {
            !several.sources.insert((FileId::of(stat), source.name.to_path_buf())) && !backs_up
        })
    }

    /// Did this command make what is now at the target?
    pub(crate) fn has_made(&self, target: &Place<'_>, stat: &Stat) -> bool {
        self.several.as_ref().is_some_and(|several| {
            several.targets.contains(&(FileId::of(stat), target.name.to_path_buf()))
        })
    }

    /// Never copy through a link that this very command made.
    pub(crate) fn check_link_just_made(
        &self,
        options: &Options,
        source: &Place<'_>,
        target: &Place<'_>,
    ) -> Result<(), Error> {
        if self.several.is_none() || options.backup.is_some() {
            return Ok(());
        }
        match target.stat(false) {
            Ok(stat) if kind(&stat) == FileType::Symlink && self.has_made(target, &stat) => {
                let (from, to) = (quote::always(source.shown), quote::always(target.shown));
                let text = format!("will not copy {from} through just-created symlink {to}");
                Err(Error::about_both(target.shown, text))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn remember_target(&mut self, target: &Place<'_>) {
        if let Some(several) = &mut self.several
            && let Ok(stat) = target.stat(false)
        {
            several.targets.insert((FileId::of(&stat), target.name.to_path_buf()));
        }
    }

    /// The target that this same source became before, by another name.
    pub(crate) fn earlier(&self, source: &Stat, target: &Place<'_>) -> Option<Earlier> {
        let first = self.linked.get(&FileId::of(source))?;
        (first.name != target.name).then(|| first.clone())
    }

    /// A copy succeeded, as the file `made`; more names of its source shall become names of that.
    pub(crate) fn remember_copy(
        &mut self,
        options: &Options,
        source: &Stat,
        target: &Place<'_>,
        (made, is_link): (FileId, bool),
    ) {
        let may_return = source.st_nlink > 1 || options.dereference != Dereference::Never;
        let links = options.preserve.links && options.make != Make::HardLink;
        if self.several.is_some() && links && may_return {
            self.linked.entry(FileId::of(source)).or_insert_with(|| Earlier {
                name: target.name.into(),
                shown: target.shown.into(),
                file: made,
                is_link,
            });
        }
    }
}
