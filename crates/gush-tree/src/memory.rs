//! A command's memory of earlier copies.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rustix::fs::{FileType, Stat};

use crate::error::Error;
use crate::options::{Dereference, Make, Options};
use crate::place::{FileId, Place, kind};
use crate::quote;

/// The sources and targets so far.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    several: Option<Several>,
    /// The first copy of each source that may have more names, for `--preserve=links`.
    linked: HashMap<FileId, Earlier>,
}

/// An earlier successful copy: name and file.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) name: PathBuf,
    /// The name as the user wrote it.
    pub(crate) shown: PathBuf,
    pub(crate) file: FileId,
    /// The copy is itself a symbolic link, not to be followed.
    pub(crate) is_link: bool,
}

/// The files already named or made, so that several sources do not overwrite each other.
#[derive(Debug, Default)]
struct Several {
    /// The names of each source.
    sources: HashMap<FileId, Vec<PathBuf>>,
    targets: HashSet<(FileId, PathBuf)>,
}

impl Memory {
    /// For a command with several sources. A single source needs no such memory.
    pub(crate) fn of_several() -> Self {
        Self { several: Some(Several::default()), ..Self::default() }
    }

    /// Was this entry of a directory a source before, in any spelling (`a`, `./a`, `d/../a`)? Another link to the same
    /// file is another source.
    pub(crate) fn was_named_before(
        &mut self,
        options: &Options,
        source: &Place<'_>,
        stat: &Stat,
    ) -> bool {
        let Some(several) = &mut self.several else { return false };
        let names = several.sources.entry(FileId::of(stat)).or_default();
        let is_known = names.iter().any(|name| Place { name, ..*source }.is_same_entry(source));
        if !is_known {
            names.push(source.name.to_path_buf());
        }
        is_known && options.backup.is_none()
    }

    /// Did this command make the file now at the target?
    pub(crate) fn has_made(&self, target: &Place<'_>, stat: &Stat) -> bool {
        self.several.as_ref().is_some_and(|several| {
            several.targets.contains(&(FileId::of(stat), target.name.to_path_buf()))
        })
    }

    /// Refuses a copy through a symbolic link made by this command.
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

    /// The earlier copy of this source by another name, if there is one.
    pub(crate) fn earlier(&self, source: &Stat, target: &Place<'_>) -> Option<Earlier> {
        let first = self.linked.get(&FileId::of(source))?;
        (first.name != target.name).then(|| first.clone())
    }

    /// Remembers the copy `made`, so that other names of the source become names of this copy.
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
