//! Entries that give their names to another kind, under temporary names until the copy is whole.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use gush_text::quote;
use rustix::fs::FileType;
use rustix::io;

use super::{Mirror, Report};
use crate::atomic;
use crate::error::Error;
use crate::place::{Place, kind};
use crate::tree::dir::Dir;
use crate::tree::path::TreePath;

/// An entry set aside, and the directory that it is in.
pub(crate) struct Aside {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: OsString,
    temporary: OsString,
}

impl Aside {
    /// Why an entry of the directory `at` keeps its temporary name.
    pub(crate) fn kept(&self, at: &Path) -> Error {
        let temporary = quote::always(&at.join(&self.temporary)).to_string();
        Error::refusal(&at.join(&self.name), "the older {} is kept: not everything was copied")
            .hinting(format!(
                "it is {temporary}; the next --delete removes it, unless the filters keep it"
            ))
    }
}

impl Mirror<'_> {
    /// Gives an entry a temporary name; a dry run notes it only.
    pub(crate) fn set_aside(
        &self,
        dir: &Arc<Dir>,
        name: &OsStr,
        is_directory: bool,
    ) -> io::Result<Aside> {
        let aside = |temporary| Aside { dir: Arc::clone(dir), name: name.to_owned(), temporary };
        if self.is_dry {
            return Ok(aside(name.to_owned()));
        }
        // Without a mark: a copy that goes on removes marked names before its commit.
        let temporary = atomic::random_name(name);
        let (from, to) = (self.place(name), Path::new(&temporary));
        // NFS cannot rename a directory without replacing.
        if is_directory {
            from.rename_to(to)?
        } else {
            from.rename_to_new(to)?
        }
        Ok(aside(temporary))
    }

    /// Removes an entry that was set aside, or gives it its name back in the place of the copy.
    /// `path` is that of the directory.
    pub(crate) fn end_aside(
        &self,
        Aside { name, temporary, .. }: &Aside,
        is_committed: bool,
        path: &mut TreePath,
        report: &mut Report<'_>,
    ) {
        let shown = quote::always(&path.path().join(temporary)).to_string();
        let hinting = |error: Error| error.hinting(format!("the older entry is {shown}"));
        let goes = if is_committed { temporary } else { name };
        let before = path.push(name);
        if self.is_dry {
            report(path.path(), if is_committed { Ok(()) } else { Err(put_back(path)) });
            path.back_to(before);
            return;
        }
        if let Ok(stat) = self.place(goes).stat(false) {
            let is_directory = kind(&stat) == FileType::Directory;
            let is_stopped = if is_committed { self.is_stopped } else { &|| false };
            let removed = Mirror { is_stopped, ..*self }.replace(goes, is_directory, path, report);
            if let Err(error) = removed {
                report(path.path(), Err(hinting(error)));
            }
        }
        if !is_committed {
            let error = match self.place(temporary).rename_to(Path::new(name)) {
                Ok(()) => put_back(path),
                Err(errno) => {
                    hinting(Error::os(path.path(), "cannot put the older {} back", errno))
                }
            };
            report(path.path(), Err(error));
        }
        path.back_to(before);
    }

    fn place<'p>(&'p self, name: &'p OsStr) -> Place<'p> {
        Place::below(self.target, Path::new(name), Path::new(name))
    }
}

/// The copy of the entry with this path is gone again.
fn put_back(path: &TreePath) -> Error {
    Error::refusal(path.path(), "not replacing {}: not everything was copied")
}
