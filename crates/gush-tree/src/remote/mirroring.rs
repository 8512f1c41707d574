//! A mirror's side of the target: what the source lacks, or has as another kind, is removed.

use std::cell::RefCell;
use std::ffi::{CStr, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Stat};

use super::folder::Folder;
use super::metadata::EntryMetadata;
use super::partial;
use crate::atomic;
use crate::error::Error;
use crate::events::Events;
use crate::filter::GitIgnored;
use crate::options::CopyOptions;
use crate::overwriting;
use crate::place::kind;
use crate::tree::held;
use crate::tree::mirror::{Mirror, Report};

/// The names of one directory, close together: a directory may have a million.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Each ends with a NUL.
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Names {
    /// Adds a name, which has no NUL.
    pub fn push(&mut self, name: &OsStr) {
        self.starts.push(self.bytes.len());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
    }

    fn at(bytes: &[u8], start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&bytes[start..]).unwrap_or_default()
    }

    fn sort(&mut self) {
        let Self { bytes, starts } = self;
        starts.sort_unstable_by_key(|&start| Self::at(bytes, start));
    }

    /// Is the name one of these, which are sorted?
    fn has(&self, name: &[u8]) -> bool {
        let at = |&start: &usize| Self::at(&self.bytes, start).to_bytes();
        self.starts.binary_search_by_key(&name, at).is_ok()
    }

    fn all(&self) -> impl Iterator<Item = &OsStr> {
        self.starts.iter().map(|&start| OsStr::from_bytes(Self::at(&self.bytes, start).to_bytes()))
    }
}

impl Folder {
    /// What the `.gitignore` of the source's directory names stays in a mirror, here and below.
    pub fn ignore(&self, lines: &[u8]) {
        let _ = self.ignored.set(GitIgnored::new(self.ignored(), Some(lines), &self.path()));
    }

    /// Removes, in a mirror ([`CopyOptions::mirror`]), all but these names, what the filter keeps
    /// and what was [ignored](Self::ignore). `names` has all that the source has, listed to its
    /// end, whether it is copied or not. Each removal is reported ([`Events::mirrored`]). `false`
    /// if something could not be removed. A base is no part of the mirror.
    ///
    /// # Errors
    /// When the directory was moved or replaced.
    pub fn remove_others(
        &self,
        mut names: Names,
        options: &CopyOptions,
        is_stopped: &dyn Fn() -> bool,
        events: &mut dyn Events,
    ) -> Result<bool, Error> {
        // In a directory just made there is nothing to remove.
        if self.is_new() {
            return Ok(true);
        }
        names.sort();
        let mut is_complete = true;
        self.with_mirror(Some(&names), options, is_stopped, events, |mirror, report| {
            mirror.run(&mut self.path(), &mut |path, result| {
                is_complete &= result.is_ok();
                report(path, result);
            });
            Ok(())
        })?;
        Ok(is_complete)
    }

    /// Removes, in a mirror, what has the name of an entry to be made and is of another kind,
    /// before the entry is begun. A refusal has removed nothing.
    ///
    /// # Errors
    /// The first reason why something stays.
    pub fn make_way(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
        is_stopped: &dyn Fn() -> bool,
        events: &mut dyn Events,
    ) -> Result<(), Error> {
        if self.is_new() || self.limits.is_none() {
            return Ok(());
        }
        let there = self.with(name, |place| Ok(place.stat(false)))?;
        let Some(there) = there.ok().filter(|there| self.makes_way(there, metadata, options))
        else {
            return Ok(());
        };
        self.with_mirror(None, options, is_stopped, events, |mirror, report| {
            let mut path = self.path();
            path.push(name);
            let is_directory = kind(&there) == FileType::Directory;
            mirror.make_way(name, is_directory, &mut path, &|_| false, report)
        })
    }

    /// Does a mirror remove what is there, since it is of another kind than the entry?
    pub(super) fn makes_way(
        &self,
        there: &Stat,
        metadata: &EntryMetadata,
        options: &CopyOptions,
    ) -> bool {
        self.limits.is_some() && overwriting::is_of_other_kind(options, metadata.kind(), there)
    }

    fn with_mirror(
        &self,
        names: Option<&Names>,
        options: &CopyOptions,
        is_stopped: &dyn Fn() -> bool,
        events: &mut dyn Events,
        act: impl FnOnce(&Mirror<'_>, &mut Report<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(limits) = &self.limits else { return Ok(()) };
        let path = self.path();
        let held = self.fd().map_err(|errno| held::lost(path.path(), errno))?;
        let target = held.as_fd();
        let events = RefCell::new(events);
        let ignored = self.ignored();
        let mut of_mirror = self.ancestors().take_while(|folder| folder.limits.is_some());
        let mirror = Mirror {
            target,
            // A name that another thread is about to replace is none of the target's.
            source_has: &|name| {
                let name = OsStr::from_bytes(name.to_bytes());
                let is_wanted = |names: &Names| {
                    let has = |name: &[u8]| names.has(name);
                    has(name.as_bytes()) || options.resume && partial::is_of(name, has, names.all())
                };
                Ok(names.is_none_or(is_wanted) || atomic::is_pending(target, Path::new(name)))
            },
            limits,
            is_in_source: of_mirror.any(|folder| limits.holds_source(&folder.stat)),
            is_dry: options.dry_run,
            doubts: &|warning| events.borrow_mut().warns(warning),
            is_protected: &|path, is_directory| options.leaves_out(ignored, path, is_directory),
            is_stopped,
        };
        act(&mirror, &mut |path, result| events.borrow_mut().mirrored(path, &result))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::filter::Filter;
    use crate::remote::Spared;

    #[derive(Default)]
    struct Said(Vec<(PathBuf, bool)>);

    impl Events for Said {
        fn mirrored(&mut self, target: &Path, result: &Result<(), Error>) {
            self.0.push((target.to_path_buf(), result.is_ok()));
        }
    }

    impl Said {
        fn sorted(mut self) -> Vec<(PathBuf, bool)> {
            self.0.sort();
            self.0
        }
    }

    fn mirror() -> CopyOptions {
        CopyOptions { mirror: true, ..CopyOptions::default() }
    }

    fn directory() -> EntryMetadata {
        EntryMetadata { mode: 0o040_755, ..EntryMetadata::default() }
    }

    fn root(at: &Path, options: &CopyOptions) -> Arc<Folder> {
        Folder::base(at)
            .unwrap()
            .enter(OsStr::new("t"), (directory(), Spared::default()), options)
            .unwrap()
    }

    fn names(names: &[&str]) -> Names {
        let mut all = Names::default();
        names.iter().for_each(|name| all.push(OsStr::new(name)));
        all
    }

    fn tree(at: &Path) {
        std::fs::create_dir_all(at.join("t/old/kept")).unwrap();
        for file in ["a", "b", "old/x", "old/kept/o", "note.o"] {
            std::fs::write(at.join("t").join(file), file).unwrap();
        }
    }

    #[test]
    fn what_is_not_named_goes_unless_the_filter_keeps_it_and_a_dry_run_says_the_same() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let at = |name: &str| dir.path().join("t").join(name);
        let mut options = mirror();
        options.filter = Some(Filter::new(&[(false, "*.o"), (false, "kept/")]).unwrap());
        let remove = |options: &CopyOptions| {
            let mut said = Said::default();
            let of_source = names(&["c", "b"]);
            let folder = root(dir.path(), options);
            assert!(folder.remove_others(of_source, options, &|| false, &mut said).unwrap());
            said.sorted()
        };
        let dry = remove(&CopyOptions { dry_run: true, ..options.clone() });
        assert!(at("a").exists() && at("old/x").exists());
        assert_eq!(remove(&options), dry);
        assert_eq!(dry, [(at("a"), true), (at("old/x"), true)]);
        assert!(!at("a").exists() && !at("old/x").exists());
        for kept in ["b", "note.o", "old/kept/o"] {
            assert!(at(kept).exists(), "{kept}");
        }
        // Neither a base nor a copy that is no mirror has anything removed.
        let base = Folder::base(&at("")).unwrap();
        let plain = root(dir.path(), &CopyOptions::default());
        for folder in [base, plain] {
            folder.remove_others(names(&[]), &options, &|| false, &mut ()).unwrap();
        }
        assert!(at("b").exists());
    }

    #[test]
    fn what_the_source_ignores_stays_in_the_directory_and_below() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let options = mirror();
        let root = root(dir.path(), &options);
        root.ignore(b"/a\n/old/x\n");
        let old =
            root.enter(OsStr::new("old"), (directory(), Spared::default()), &options).unwrap();
        let kept =
            old.enter(OsStr::new("kept"), (directory(), Spared::default()), &options).unwrap();
        old.ignore(b"o\n");
        for (folder, of_source) in [(&kept, &[][..]), (&old, &["kept"]), (&root, &["old"])] {
            let of_source = names(of_source);
            assert!(folder.remove_others(of_source, &options, &|| false, &mut ()).unwrap());
        }
        let is_there = ["a", "b", "note.o", "old/x", "old/kept/o"]
            .map(|file| dir.path().join("t").join(file).exists());
        assert_eq!(is_there, [true, false, false, true, true]);
    }

    #[test]
    fn another_kind_makes_way_wholly_or_stays_wholly() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        let at = |name: &str| dir.path().join("t").join(name);
        let file = EntryMetadata { mode: 0o100_644, ..EntryMetadata::default() };
        let mut options = mirror();
        options.filter = Some(Filter::new(&[(false, "o")]).unwrap());
        let folder = root(dir.path(), &options);
        let mut said = Said::default();
        let mut make_way = |name: &str, metadata: &EntryMetadata| {
            folder.make_way(OsStr::new(name), metadata, &options, &|| false, &mut said)
        };
        let refused = make_way("old", &file).unwrap_err();
        assert!(refused.to_string().contains("the filters keep something of it"), "{refused}");
        assert!(at("old/x").exists());
        std::fs::remove_file(at("old/kept/o")).unwrap();
        make_way("old", &file).unwrap();
        make_way("a", &directory()).unwrap();
        // Of the right kind, or not there.
        make_way("b", &file).unwrap();
        make_way("absent", &file).unwrap();
        assert_eq!(said.sorted(), [(at("a"), true), (at("old"), true)]);
        assert!(!at("a").exists() && !at("old").exists() && at("b").exists());
    }

    #[test]
    fn names_are_found_whatever_their_order_and_bytes() {
        let all = ["b", "a", "aa", "\u{e9}", "ab", "B"];
        let mut sorted = names(&all);
        sorted.sort();
        let has = |name: &str| sorted.has(name.as_bytes());
        assert!(all.into_iter().all(has));
        assert!(!["", "c", "aaa", "\u{e8}"].into_iter().any(has));
    }
}
