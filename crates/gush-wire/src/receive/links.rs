//! Further names of entries, which are made when the first one is.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use gush_tree::remote::{Folder, Linked, Portrait, Standing};
use gush_tree::{Action, Update};

use super::answers::{Arrival, Ending};
use super::bounds::weight;
use super::session::{Session, out_of_place};
use crate::error::{Error, ensure};
use crate::record::ToSender;

/// The most entries with several names in one copy, each of which is remembered until its end.
const MOST_FIRSTS: usize = if cfg!(test) { 1000 } else { 8 << 20 };

/// The entries that may get further names, by their numbers.
pub(super) type Firsts = HashMap<u64, First>;

pub(super) enum First {
    /// It is not made yet, and these links wait for it.
    Awaited(Vec<Link>),
    /// Its directory, its name, and its device and inode.
    Made(Arc<Folder>, OsString, (u64, u64)),
    /// It failed, or another file keeps its name.
    None,
}

/// Another name of an entry.
pub(super) struct Link {
    pub id: u64,
    pub folder: u64,
    pub name: OsString,
    pub portrait: Portrait,
}

/// Files that are kept and lack attributes, by their numbers, until it is known whether all names
/// of the target are those of the copy.
#[derive(Default)]
pub(super) struct Groups {
    waiting: HashMap<u64, Group>,
    /// The sender waits for answers.
    is_settling: bool,
}

impl Groups {
    /// The walk of the sender goes on.
    pub fn goes_on(&mut self) {
        self.is_settling = false;
    }
}

struct Group {
    file: Linked,
    names: HashSet<(u64, OsString)>,
    folder_id: u64,
    folder: Arc<Folder>,
    name: OsString,
    portrait: Portrait,
}

impl Group {
    /// Adds a name, if it leads to the file. `true` if it was the last one.
    fn adds(&mut self, folder: Option<Arc<Folder>>, name: &OsStr) -> bool {
        if let Some(folder) = folder.filter(|folder| folder.linked(name) == Some(self.file)) {
            self.names.insert(folder.entry(name));
        }
        self.is_whole()
    }

    fn is_whole(&self) -> bool {
        self.names.len() as u64 == self.file.names
    }
}

fn bounded(firsts: &Firsts) -> Result<(), Error> {
    ensure(firsts.len() <= MOST_FIRSTS, "too many entries have several names")
}

impl Session {
    /// Further names of an entry may come before it is made.
    pub fn expect_names(&self, id: u64) -> Result<(), Error> {
        let firsts = &mut self.lock().firsts;
        firsts.entry(id).or_insert_with(|| First::Awaited(Vec::new()));
        bounded(firsts)
    }

    /// An entry has ended: makes the links that wait for it. Without a copy of it they are files of
    /// their own.
    pub fn settle_names(&self, id: u64, first: First) -> Result<(), Error> {
        let mut state = self.lock();
        let waiting = state.firsts.insert(id, first);
        bounded(&state.firsts)?;
        drop(state);
        if let Some(First::Awaited(links)) = waiting {
            for link in links {
                self.lock().bounds.release(weight(&link.portrait));
                self.make_link(link, id)?;
            }
        }
        Ok(())
    }

    /// Makes another name of an entry, now or when the entry is made.
    pub fn link(&self, link: Link, first: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.arrives()?;
        state.groups.goes_on();
        let bytes = weight(&link.portrait);
        if matches!(state.firsts.get(&first), Some(First::Awaited(_))) {
            let above = state.folders.get(link.folder);
            let group = state.groups.waiting.get_mut(&first);
            let is_whole = group.is_some_and(|group| group.adds(above, &link.name));
            if let Some(First::Awaited(links)) = state.firsts.get_mut(&first) {
                links.push(link);
            }
            state.bounds.take(bytes)?;
            drop(state);
            return if is_whole { self.settle_group(first) } else { Ok(()) };
        }
        drop(state);
        self.make_link(link, first)
    }

    /// Keeps a file waiting whose attributes other names would show, until these are known.
    pub fn wait_for_names(
        &self,
        arrival: &Arrival<'_>,
        folder: &Arc<Folder>,
        portrait: &Portrait,
        file: Linked,
    ) -> Result<(), Error> {
        let Arrival { id, folder: folder_id, name, .. } = *arrival;
        let mut group = Group {
            file,
            names: HashSet::from([folder.entry(name)]),
            folder_id,
            folder: Arc::clone(folder),
            name: name.to_owned(),
            portrait: portrait.clone(),
        };
        let mut state = self.lock();
        if let Some(First::Awaited(links)) = state.firsts.get(&id) {
            for link in links {
                group.adds(state.folders.get(link.folder), &link.name);
            }
        }
        let is_due = group.is_whole() || state.groups.is_settling;
        state.bounds.take(weight(portrait))?;
        state.groups.waiting.insert(id, group);
        drop(state);
        if is_due { self.settle_group(id) } else { Ok(()) }
    }

    /// The sender waits for answers: no file waits for names.
    pub fn settle_groups(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.groups.is_settling = true;
        let waiting: Vec<_> = state.groups.waiting.keys().copied().collect();
        drop(state);
        waiting.into_iter().try_for_each(|id| self.settle_group(id))
    }

    fn settle_group(&self, id: u64) -> Result<(), Error> {
        let mut state = self.lock();
        let Some(group) = state.groups.waiting.remove(&id) else { return Ok(()) };
        state.bounds.release(weight(&group.portrait));
        drop(state);
        let Group { file, ref folder, folder_id, ref name, ref portrait, .. } = group;
        let known = group.is_whole().then_some(file);
        let arrival = Arrival::new(id, folder_id, name, portrait, true);
        let ended = match self.keep(folder, name, portrait, known) {
            Ok(None) => return self.answer_wanted(&arrival, folder, portrait),
            Ok(Some(kept)) => Ok(kept),
            Err(error) => Err(error),
        };
        self.end_entry(&arrival, Some(folder), ended)
    }

    fn make_link(&self, link: Link, first: u64) -> Result<(), Error> {
        let Link { id, folder: folder_id, name, portrait } = link;
        let state = self.lock();
        let made = match state.firsts.get(&first) {
            Some(First::Made(above, name, identity)) => {
                Some((Arc::clone(above), name.clone(), *identity))
            }
            Some(First::None) => None,
            _ => return Err(out_of_place("a further name")),
        };
        let folder = state.folders.get(folder_id);
        drop(state);
        let arrival = Arrival {
            action: Action::HardLinked,
            bytes: None,
            ..Arrival::new(id, folder_id, &name, &portrait, false)
        };
        let Some(folder) = folder else { return self.fail_entry(&arrival) };
        let options = &self.options;
        let standing = match options.update {
            Update::All => Ok(Standing::Copy),
            _ => folder.compare(&name, &portrait, options),
        };
        let is_linked =
            made.as_ref().is_some_and(|(.., file)| folder.identity(&name) == Some(*file));
        let ended = match (standing, made) {
            (Err(error), _) => Err(error),
            (Ok(Standing::Skip), _) => Ok(Ending::Skipped),
            // What was compared, and got its attributes, is this file, too.
            (Ok(Standing::Keep | Standing::Compare), Some(_)) if is_linked => Ok(Ending::Kept),
            // Its attributes come with the file, if they are wanted.
            (Ok(Standing::Keep), None) if options.dry_run || !options.updates_attributes() => {
                Ok(Ending::Kept)
            }
            (Ok(Standing::Keep), Some(_)) if options.dry_run => Ok(Ending::Kept),
            (Ok(_), _) if options.dry_run => folder
                .rehearse(&name, &portrait, options)
                .map(|()| Ending::Made { is_complete: true }),
            // There is no copy of which it could be a name.
            (Ok(_), None) => {
                self.reply_without_end(&ToSender::Wanted { id });
                return Ok(());
            }
            (Ok(standing), Some((above, first_name, identity))) => {
                let linked = self
                    .make_way((folder_id, &folder), &name, &portrait)
                    .and_then(|()| folder.link(&name, (&above, &first_name, identity)));
                self.lock().folders.hold(above);
                match linked {
                    // A later operand has replaced the copy.
                    Ok(false) => {
                        self.reply_without_end(&ToSender::Wanted { id });
                        return Ok(());
                    }
                    // As GNU, one that could have stayed becomes a name of the copy without a word.
                    Ok(true) if standing == Standing::Keep => Ok(Ending::Kept),
                    linked => linked.map(|_| Ending::Made { is_complete: true }),
                }
            }
        };
        self.end_entry(&arrival, Some(&folder), ended)
    }
}

#[cfg(test)]
mod tests {
    use gush_tree::CopyOptions;

    use super::*;
    use crate::frame::Output;

    #[test]
    fn what_is_kept_of_entries_with_several_names_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        for is_made in [false, true] {
            let base = Folder::base(dir.path()).unwrap();
            let output = Output::new(tempfile::tempfile().unwrap());
            let session = Session::new(base, None, CopyOptions::default(), output, None);
            let remember = |&id: &u64| match is_made {
                true => session.settle_names(id, First::None).is_ok(),
                false => session.expect_names(id).is_ok(),
            };
            assert_eq!((0..).take_while(remember).count(), MOST_FIRSTS);
        }
    }
}
