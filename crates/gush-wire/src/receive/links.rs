//! Further names of entries, which are made when the first one is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use gush_tree::remote::{EntryMetadata, Folder, OverwriteDecision};
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
    pub metadata: EntryMetadata,
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
                self.lock().bounds.release(weight(&link.metadata));
                self.make_link(link, id)?;
            }
        }
        Ok(())
    }

    /// Makes another name of an entry, now or when the entry is made.
    pub fn link(&self, link: Link, first: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.arrives()?;
        let bytes = weight(&link.metadata);
        if let Some(First::Awaited(links)) = state.firsts.get_mut(&first) {
            links.push(link);
            return state.bounds.take(bytes);
        }
        drop(state);
        self.make_link(link, first)
    }

    fn make_link(&self, link: Link, first: u64) -> Result<(), Error> {
        let Link { id, folder: folder_id, name, metadata } = link;
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
        let arrival = Arrival::without_data(id, folder_id, &name, Action::HardLinked);
        let Some(folder) = folder else { return self.fail_entry(&arrival) };
        let options = &self.options;
        let standing = match options.update {
            Update::All => Ok(OverwriteDecision::Copy),
            _ => folder.compare(&name, &metadata, options),
        };
        let is_linked =
            made.as_ref().is_some_and(|(.., file)| folder.identity(&name) == Some(*file));
        let ended = match (standing, made) {
            (Err(error), _) => Err(error),
            (Ok(OverwriteDecision::Skip), _) => Ok(Ending::Skipped),
            // What was compared, and got its attributes, is this file, too.
            (Ok(OverwriteDecision::Keep | OverwriteDecision::Compare), Some(_)) if is_linked => {
                Ok(Ending::Kept)
            }
            // Its attributes come with the file, if they are wanted.
            (Ok(OverwriteDecision::Keep), None)
                if options.dry_run || !options.updates_attributes() =>
            {
                Ok(Ending::Kept)
            }
            (Ok(OverwriteDecision::Keep), Some(_)) if options.dry_run => Ok(Ending::Kept),
            (Ok(_), _) if options.dry_run => self
                .make_way((folder_id, &folder), &name, &metadata)
                .and_then(|()| folder.rehearse(&name, &metadata, options))
                .map(|()| Ending::Made { is_complete: true }),
            // There is no copy of which it could be a name.
            (Ok(_), None) => {
                self.reply_without_end(&ToSender::Wanted { id });
                return Ok(());
            }
            (Ok(standing), Some((above, first_name, identity))) => {
                let linked = self
                    .make_way((folder_id, &folder), &name, &metadata)
                    .and_then(|()| folder.link(&name, (&above, &first_name, identity)));
                match linked {
                    // A later operand has replaced the copy.
                    Ok(false) => {
                        self.reply_without_end(&ToSender::Wanted { id });
                        return Ok(());
                    }
                    // As GNU, one that could have stayed becomes a name of the copy without a word.
                    Ok(true) if standing == OverwriteDecision::Keep => Ok(Ending::Kept),
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
