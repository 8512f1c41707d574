//! Directories from the record that enters one to the end of the last entry in it.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use gush_text::{mkdir_remedy, quote};
use gush_tree::Action;
use gush_tree::remote::{EntryMetadata, Failure, Folder, Names, Spared};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::answers::{Arrival, Ending, Told};
use super::bounds::weight;
use super::session::{Session, State, out_of_place};
use super::shown::Shown;
use crate::error::Error;
use crate::record::{BASE, ToSender};

/// Each directory on the way holds its path.
const MOST_PATH_BYTES: usize = 32 << 10;

/// An estimate of the memory of an identity, in a record and in a set.
const IDENTITY_BYTES: usize = 24;

/// An estimate of the memory for a byte of a `.gitignore` once it is parsed.
const IGNORED_BYTES: usize = 8;

#[derive(Default)]
pub(super) struct Folders {
    counted: HashMap<u64, Counted>,
    /// The directories entered and not left, from the base on.
    open: Vec<u64>,
    /// What names the directories that are copied to, and those above: no source is one of them.
    targets: HashSet<u64>,
}

/// A directory until all its entries have ended. `None` in place of one that failed.
#[derive(Default)]
struct Counted {
    folder: Option<Arc<Folder>>,
    above: u64,
    name: OsString,
    /// The path at the sender, if it is shown.
    source: PathBuf,
    ended: u64,
    entries: Option<u64>,
    /// In a mirror, what has ended here: the source has it.
    names: Names,
    waiting_bytes: usize,
    /// It or a directory below has an entry that may get further names.
    has_first: bool,
    /// The source was listed to its end.
    is_listed: bool,
}

impl Folders {
    pub fn new(base: Arc<Folder>) -> Self {
        let targets = base.lineage().into_iter().collect();
        let base = Counted { folder: Some(base), ..Counted::default() };
        let counted = HashMap::from([(BASE, base)]);
        Self { counted, open: vec![BASE], targets }
    }

    /// Has all ended?
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// How many were entered and not left.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A directory that has not failed.
    pub fn get(&self, id: u64) -> Option<Arc<Folder>> {
        self.find(id)?
    }

    /// A directory that has not ended; the inner `None` is one that failed.
    pub fn find(&self, id: u64) -> Option<Option<Arc<Folder>>> {
        self.counted.get(&id).map(|counted| counted.folder.clone())
    }

    /// The path of an entry at the sender.
    pub fn source(&self, shown: &Shown, folder: u64, name: &OsStr) -> PathBuf {
        match folder {
            BASE => shown.source(name),
            _ => self.counted.get(&folder).map_or_else(PathBuf::new, |it| it.source.join(name)),
        }
    }

    /// An entry of a directory may get further names: the directory is kept.
    pub fn has_first(&mut self, id: u64) {
        if let Some(counted) = self.counted.get_mut(&id) {
            counted.has_first = true;
        }
    }

    /// Takes out a directory whose entries have all ended.
    fn take_ended(&mut self, id: u64) -> Result<Option<Counted>, Error> {
        match self.counted.get(&id) {
            Some(Counted { entries: Some(entries), ended, .. }) if ended > entries => {
                Err(Error::Protocol("more has come than was counted".into()))
            }
            Some(Counted { entries: Some(entries), ended, .. }) if ended == entries => {
                Ok(self.counted.remove(&id))
            }
            _ => Ok(None),
        }
    }
}

impl Session {
    /// Enters a directory.
    pub fn enter(
        &self,
        id: u64,
        above: u64,
        name: &OsStr,
        (metadata, spared): (EntryMetadata, Spared<'_>),
    ) -> Result<(), Error> {
        if self.shown.as_ref().is_some_and(|shown| !shown.is_recursive) {
            return Err(out_of_place("a directory"));
        }
        let waiting_bytes = weight(&metadata) + MOST_PATH_BYTES / 16;
        let identity = metadata.identity;
        let entered = match self.folder(above, true)? {
            Some(folder) if folder.shown_entry(name).as_os_str().len() > MOST_PATH_BYTES => {
                return Err(Error::Protocol("a path is longer than 32 KiB".into()));
            }
            Some(folder) => self
                .make_way((above, &folder), name, &metadata)
                .and_then(|()| self.refuse_target(&folder, name, (identity, spared.above)))
                .and_then(|()| folder.enter(name, (metadata, spared), &self.options))
                .map_err(Failure::from),
            None => Err(Failure::default()),
        };
        let mut state = self.lock();
        let folders = &mut state.folders;
        if folders.open.last() != Some(&above) || folders.counted.contains_key(&id) {
            return Err(out_of_place("Enter"));
        }
        state.arrives()?;
        state.folders.open.push(id);
        if let (BASE, Ok(folder)) = (above, &entered) {
            state.folders.targets.extend(folder.lineage().first());
        }
        state.bounds.take(waiting_bytes)?;
        if self.options.mirror && above == BASE {
            // To the end of the copy: links may keep the directory so long.
            let identities = spared.above.len() + spared.mounted.map_or(0, <[u64]>::len);
            state.bounds.take(identities * IDENTITY_BYTES)?;
        }
        let source = self.shown.as_ref().map(|shown| state.folders.source(shown, above, name));
        if let (Some(shown), Ok(folder), Some(source), BASE) =
            (&self.shown, &entered, &source, above)
        {
            let (source, target) = (source.clone(), folder.shown_entry(OsStr::new("")));
            shown.show(move |events| events.enters_tree(&source, &target));
        }
        let (folder, failed) = match entered {
            Ok(folder) => (Some(folder), None),
            Err(why) => (None, Some(why)),
        };
        let counted = Counted {
            folder,
            above,
            name: name.to_owned(),
            source: source.unwrap_or_default(),
            waiting_bytes,
            ..Counted::default()
        };
        state.folders.counted.insert(id, counted);
        if state.is_awaited(id) {
            self.changed.notify_all();
        }
        drop(state);
        if let Some(why) = failed {
            self.answer(&Arrival::without_data(id, above, name, Action::Directory), Err(why));
        }
        Ok(())
    }

    /// Refuses a directory that is copied to, since its copy would be in it, again and again, and
    /// one that a mirror would remove from its target.
    fn refuse_target(
        &self,
        folder: &Folder,
        name: &OsStr,
        (identity, within): (u64, &[u64]),
    ) -> Result<(), gush_tree::Error> {
        let is_target = identity != 0 && self.lock().folders.targets.contains(&identity);
        let is_within = || folder.identity_there(name).is_some_and(|there| within.contains(&there));
        let shown = folder.shown_entry(name);
        let quoted = quote::always(&shown);
        let text = match is_target {
            true => format!("cannot copy a directory into itself, {quoted}"),
            false if is_within() => {
                format!("cannot mirror to {quoted}, which the source is in: it would be removed")
            }
            false => return Ok(()),
        };
        Err(gush_tree::Error::reported(&shown, text))
    }

    /// What the `.gitignore` of the directory entered last names stays in a mirror.
    pub fn ignore(&self, lines: &[u8]) -> Result<(), Error> {
        if !self.options.mirror {
            return Err(out_of_place("Ignore"));
        }
        let mut state = self.lock();
        // To the end of the copy: links may keep the directory so long.
        state.bounds.take(lines.len() * IGNORED_BYTES)?;
        let Folders { counted, open, .. } = &state.folders;
        let entered = open.last().and_then(|id| counted.get(id));
        if let Some(Counted { folder: Some(folder), .. }) = entered {
            folder.ignore(lines);
        }
        Ok(())
    }

    /// The sender has counted the entries of the directory entered last, or of the base.
    pub fn leave(&self, id: u64, entries: u64, is_listed: bool) -> Result<(), Error> {
        let mut state = self.lock();
        let folders = &mut state.folders;
        if folders.open.pop() != Some(id) {
            return Err(out_of_place("Leave"));
        }
        let Some(counted) = folders.counted.get_mut(&id) else { return Err(out_of_place("Leave")) };
        (counted.entries, counted.is_listed) = (Some(entries), is_listed);
        self.end_folders(state, id)
    }

    /// An entry has ended, of whatever kind, once.
    pub fn ended(&self, folder: u64, name: &OsStr) -> Result<(), Error> {
        let mut state = self.lock();
        self.count(&mut state, folder, name)?;
        self.end_folders(state, folder)
    }

    fn count(&self, state: &mut State, folder: u64, name: &OsStr) -> Result<(), Error> {
        let Some(counted) = state.folders.counted.get_mut(&folder) else { return Ok(()) };
        counted.ended += 1;
        if self.options.mirror {
            counted.names.push(name);
            let bytes = name.len() + size_of::<usize>() + 1;
            counted.waiting_bytes += bytes;
            state.bounds.take(bytes)?;
        }
        Ok(())
    }

    /// Ends a directory whose entries have all ended, and those above for which it was the last.
    fn end_folders<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mut id: u64,
    ) -> Result<(), Error> {
        while let Some(counted) = state.folders.take_ended(id)? {
            state.bounds.release(counted.waiting_bytes);
            drop(state);
            if id == BASE {
                let mut replies = self.replies();
                replies.send(&ToSender::Finished);
                replies.flush()?;
                drop(replies);
                // The process ends when it sees this.
                self.lock().is_complete = true;
                self.changed.notify_all();
                return Ok(());
            }
            if let Some(folder) = counted.folder {
                let ended = self.end_folder(&folder, counted.names, counted.is_listed);
                let ended = ended.map(|is_complete| match (is_complete, folder.is_new()) {
                    (true, false) => Ending::Kept,
                    _ => Ending::Made { is_complete },
                });
                let arrival =
                    Arrival::without_data(id, counted.above, &counted.name, Action::Directory);
                self.answer(&arrival, ended.map_err(Into::into));
                state = self.lock();
                if counted.has_first {
                    // And those above it, each once.
                    let path_bytes = folder.shown_entry(OsStr::new("")).as_os_str().len();
                    state.bounds.keep_path(path_bytes)?;
                    state.folders.has_first(counted.above);
                }
            } else {
                state = self.lock();
            }
            id = counted.above;
            self.count(&mut state, id, &counted.name)?;
        }
        Ok(())
    }

    /// Removes from a mirror's directory what the source lacks, and gives it its attributes.
    fn end_folder(
        &self,
        folder: &Folder,
        names: Names,
        is_listed: bool,
    ) -> Result<bool, gush_tree::Error> {
        let mut events = Told(self);
        if self.options.mirror && is_listed {
            // What could not be removed is told there.
            folder.remove_others(names, &self.options, &|| !self.goes_on(), &mut events)?;
        }
        folder.finish(&self.options, &mut events)
    }

    /// Removes what a mirror has in the place of an entry and is of another kind.
    pub fn make_way(
        &self,
        (folder_id, folder): (u64, &Folder),
        name: &OsStr,
        metadata: &EntryMetadata,
    ) -> Result<(), gush_tree::Error> {
        let is_directory = metadata.kind() == FileType::Directory;
        let names_directory = self.names_directory && self.as_name.is_some();
        if folder_id == BASE && names_directory && !is_directory && folder.identity(name).is_none()
        {
            let shown = folder.shown_entry(name).join("");
            let why = gush_text::errno_text(Errno::NOTDIR);
            let text = format!(
                "cannot create regular file {}: {why} (it does not exist: {})",
                quote::always(&shown),
                mkdir_remedy(&shown)
            );
            return Err(gush_tree::Error::reported(&shown, text));
        }
        folder.refuse_itself(name, metadata)?;
        match self.options.mirror {
            true => {
                folder.make_way(name, metadata, &self.options, &|| !self.goes_on(), &mut Told(self))
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gush_tree::CopyOptions;

    use super::*;
    use crate::frame::Output;
    use crate::record::Item;

    /// Only a directory with an entry that may get further names is kept, once.
    #[test]
    fn paths_of_directories_that_are_kept_are_bounded() {
        for has_names in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let base = Folder::base(dir.path()).unwrap();
            let output = Output::new(tempfile::tempfile().unwrap());
            let session = Session::new(base, None, CopyOptions::default(), output, None);
            let copy = |number: u64| -> Result<(), Error> {
                let (id, name) = (10 * number, format!("{number:0200}"));
                let directory = EntryMetadata { mode: 0o040_755, ..EntryMetadata::default() };
                session.enter(id, BASE, OsStr::new(&name), (directory, Spared::default()))?;
                let folder = session.folder(id, true)?.unwrap();
                for (id, file) in [(id + 1, "a"), (id + 2, "b")] {
                    fs::write(dir.path().join(&name).join(file), "").unwrap();
                    let metadata = EntryMetadata { mode: 0o100_644, ..EntryMetadata::default() };
                    let (folder_id, name) = (10 * number, OsStr::new(file));
                    let item =
                        Item { id, folder: folder_id, name: file.into(), metadata, has_names };
                    let arrival = Arrival::of(&item, name);
                    session.lock().arrives()?;
                    session.end_entry(&arrival, Some(&folder), Ok::<_, Failure>(Ending::Kept))?;
                }
                // As a stream that still uses it.
                let _used = folder;
                session.leave(id, 2, true)
            };
            let path_bytes = dir.path().as_os_str().len() + 202;
            let (most, copied) =
                ((1 << 16) / path_bytes, (1..=1000).take_while(|&it| copy(it).is_ok()));
            assert_eq!(copied.count(), if has_names { most } else { 1000 });
        }
    }
}
