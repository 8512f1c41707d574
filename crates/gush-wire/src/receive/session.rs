//! What the streams of a session share: directories, files under way, and the answers.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gush_tree::remote::{Folder, Names, Portrait, Standing};
use gush_tree::{CopyOptions, Events, Update};

use super::incoming::Incoming;
use super::join::Host;
use crate::error::Error;
use crate::frame::Output;
use crate::record::{BASE, Outcome, ToSender, WINDOW};

/// Directories above the last ones, and those left before the last ones, are closed, and opened
/// again where they are needed.
const MOST_HELD: usize = 256;

/// Each directory on the way holds its path.
const MOST_PATH_BYTES: usize = 32 << 10;

/// The attributes of all files that are announced and have not ended.
const MOST_ATTRIBUTE_BYTES: usize = 256 << 20;

pub(super) struct Session {
    pub options: CopyOptions,
    /// The name of the only operand's copy, if it is not the operand's.
    pub as_name: Option<OsString>,
    state: Mutex<State>,
    changed: Condvar,
    replies: Mutex<Replies>,
}

struct State {
    folders: HashMap<u64, Counted>,
    /// The directories entered and not left, from the base on.
    open: Vec<u64>,
    files: HashMap<u64, Arc<Incoming>>,
    attribute_bytes: usize,
    firsts: HashMap<u64, First>,
    /// Directories that have ended and may be needed for further names, while they are held.
    ended: VecDeque<Arc<Folder>>,
    /// Entries without an answer.
    unanswered: usize,
    /// The first stream says nothing more.
    is_first_read: bool,
    /// Further streams that have not ended.
    joined: usize,
    is_complete: bool,
    failure: Option<Error>,
    host: Option<Host>,
}

/// A directory until all its entries have ended. `None` in place of one that failed.
struct Counted {
    folder: Option<Arc<Folder>>,
    above: u64,
    ended: u64,
    entries: Option<u64>,
    /// In a mirror, what the source has here.
    names: Names,
    /// The source was listed to its end.
    is_listed: bool,
}

impl Counted {
    fn new(folder: Option<Arc<Folder>>, above: u64) -> Self {
        let names = Names::default();
        Self { folder, above, ended: 0, entries: None, names, is_listed: false }
    }
}

/// An entry that may get further names.
enum First {
    /// It is not made yet, and these links wait for it.
    Awaited(Vec<Link>),
    /// Its directory, its name, and its device and inode.
    Made(Arc<Folder>, OsString, (u64, u64)),
    /// It failed, or another file keeps its name.
    None,
}

/// How an entry has ended.
pub(super) enum Ending {
    Made {
        is_complete: bool,
    },
    /// What was there counts as its copy.
    Kept,
    /// What was there stays, and is no copy of it.
    Skipped,
}

/// Another name of an entry.
pub(super) struct Link {
    pub id: u64,
    pub folder: u64,
    pub name: OsString,
    pub portrait: Portrait,
}

/// The way back to the sender. A failure to write is kept, because events cannot return it.
pub(super) struct Replies {
    output: Output,
    failed: Result<(), Error>,
}

impl Replies {
    pub fn send(&mut self, reply: &ToSender) {
        if self.failed.is_ok() {
            self.failed = self.output.record(reply).map(drop);
        }
    }

    pub fn flush(&mut self) -> Result<(), Error> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        self.output.flush()
    }
}

/// Events of the copy, told to the sender.
pub(super) struct Told<'a>(pub &'a Session);

impl Events for Told<'_> {
    fn mirrored(&mut self, target: &Path, result: &Result<(), gush_tree::Error>) {
        self.0.replies().send(&ToSender::Removed {
            path: target.as_os_str().as_bytes().to_vec(),
            why: result.as_ref().err().map(ToString::to_string),
        });
    }

    fn warns(&mut self, warning: &gush_tree::Error) {
        self.0.replies().send(&ToSender::Warning(warning.to_string()));
    }
}

impl Session {
    pub fn new(
        base: Arc<Folder>,
        as_name: Option<OsString>,
        options: CopyOptions,
        output: Output,
    ) -> Self {
        let counted = Counted::new(Some(base), BASE);
        Self {
            options,
            as_name,
            state: Mutex::new(State {
                folders: HashMap::from([(BASE, counted)]),
                open: vec![BASE],
                files: HashMap::new(),
                attribute_bytes: 0,
                firsts: HashMap::new(),
                ended: VecDeque::new(),
                unanswered: 0,
                is_first_read: false,
                joined: 0,
                is_complete: false,
                failure: None,
                host: None,
            }),
            changed: Condvar::new(),
            replies: Mutex::new(Replies { output, failed: Ok(()) }),
        }
    }

    /// Is the only operand's copy named by the target?
    pub fn is_named(&self) -> bool {
        self.as_name.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the session for further streams, once.
    pub fn invite(self: &Arc<Self>) -> Result<(), Error> {
        let mut state = self.lock();
        if state.host.is_some() {
            return Err(out_of_place("Invite"));
        }
        // Without a socket the sender goes on with one stream.
        let token = Host::start(self).ok().map(|(host, token)| {
            state.host = Some(host);
            token
        });
        drop(state);
        self.replies().send(&ToSender::Invitation(token));
        Ok(())
    }

    /// A further stream begins. `false` if the session does not want it any more.
    pub fn begin_stream(&self) -> bool {
        let mut state = self.lock();
        let is_wanted = !state.is_complete && state.failure.is_none();
        state.joined += usize::from(is_wanted);
        is_wanted
    }

    /// A further stream has ended. A failure of it is the session's.
    pub fn end_stream(&self, result: Result<(), Error>) {
        let mut state = self.lock();
        state.joined -= 1;
        if let (Err(error), None) = (result, &state.failure) {
            let text = error.to_string();
            state.failure = Some(error);
            drop(state);
            // The first stream may wait for records: the sender closes it at this.
            let mut replies = self.replies();
            replies.send(&ToSender::Refused(text));
            let _ = replies.flush();
        }
        self.changed.notify_all();
    }

    /// The first stream has read its last record: waits until everything has ended.
    pub fn wait_until_complete(&self) -> Result<(), Error> {
        self.replies().flush()?;
        let mut state = self.lock();
        state.is_first_read = true;
        self.changed.notify_all();
        loop {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.is_complete {
                return Ok(());
            }
            if state.joined == 0 {
                return Err(Error::Protocol("less has come than was counted".into()));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does a stream go on? No after a failure of another one.
    pub fn goes_on(&self) -> bool {
        self.lock().failure.is_none()
    }

    /// No stream joins any more.
    pub fn end(&self) {
        let host = self.lock().host.take();
        drop(host);
    }

    /// Looks something up that the first stream brings: another stream waits for it.
    fn find<T>(
        &self,
        is_first: bool,
        what: &str,
        look: impl Fn(&State) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = self.lock();
        let mut is_flushed = false;
        loop {
            if let Some(found) = look(&state) {
                return Ok(found);
            }
            if is_first || state.is_first_read || state.failure.is_some() {
                return Err(out_of_place(what));
            }
            if !is_flushed {
                // The sender may wait for an answer before it sends what is awaited here.
                is_flushed = true;
                drop(state);
                self.replies().flush()?;
                state = self.lock();
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The directory with a number; the inner `None` is one that failed.
    pub fn folder(&self, id: u64, is_first: bool) -> Result<Option<Arc<Folder>>, Error> {
        self.find(is_first, "an unknown directory", |state| {
            state.folders.get(&id).map(|counted| counted.folder.clone())
        })
    }

    /// The file with a number.
    pub fn file(&self, id: u64, is_first: bool) -> Result<Arc<Incoming>, Error> {
        self.find(is_first, "data of an unknown file", |state| state.files.get(&id).cloned())
    }

    fn arrives(state: &mut State) -> Result<(), Error> {
        state.unanswered += 1;
        // The sender counts open directories that this side has not seen yet.
        match state.unanswered <= 2 * WINDOW + state.open.len() {
            true => Ok(()),
            false => Err(Error::Protocol("too many entries are without an answer".into())),
        }
    }

    /// An entry has come, and will be answered.
    pub fn arrived(&self, folder: u64, name: &OsStr) -> Result<(), Error> {
        let mut state = self.lock();
        self.names(&mut state, folder, name);
        Self::arrives(&mut state)
    }

    /// The source has this name, whatever becomes of it.
    pub fn named(&self, folder: u64, name: &OsStr) {
        self.names(&mut self.lock(), folder, name);
    }

    fn names(&self, state: &mut State, folder: u64, name: &OsStr) {
        if let Some(counted) = state.folders.get_mut(&folder).filter(|_| self.options.mirror) {
            counted.names.push(name);
        }
    }

    /// A question is answered by another one, or by a wish: the entry will come again.
    pub fn reply_without_end(&self, reply: &ToSender) {
        self.lock().unanswered -= 1;
        self.replies().send(reply);
    }

    /// Further names of an entry may come before it is made.
    pub fn expect_names(&self, id: u64) {
        self.lock().firsts.entry(id).or_insert_with(|| First::Awaited(Vec::new()));
    }

    /// Nothing comes of an entry: further names of it are files of their own.
    pub fn give_up_names(&self, id: u64) -> Result<(), Error> {
        let waiting = self.lock().firsts.insert(id, First::None);
        self.link_waiting(waiting, id)
    }

    fn link_waiting(&self, waiting: Option<First>, first: u64) -> Result<(), Error> {
        if let Some(First::Awaited(links)) = waiting {
            for link in links {
                self.make_link(link, first)?;
            }
        }
        Ok(())
    }

    /// Enters a directory.
    pub fn enter(
        &self,
        id: u64,
        above: u64,
        name: &OsStr,
        portrait: Portrait,
    ) -> Result<(), Error> {
        let entered = match self.folder(above, true)? {
            Some(folder) if folder.shown_entry(name).as_os_str().len() > MOST_PATH_BYTES => {
                return Err(Error::Protocol("a path is longer than 32 KiB".into()));
            }
            Some(folder) => {
                let entered = self
                    .make_way(&folder, name, &portrait)
                    .and_then(|()| folder.enter(name, portrait, &self.options));
                Some(entered.map_err(|error| error.to_string()))
            }
            None => None,
        };
        let (folder, failed) = match entered {
            Some(Ok(folder)) => (Some(folder), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, Some(String::new())),
        };
        let mut state = self.lock();
        if state.open.last() != Some(&above) || state.folders.contains_key(&id) {
            return Err(out_of_place("Enter"));
        }
        Self::arrives(&mut state)?;
        if let Some(high) = state.open.len().checked_sub(MOST_HELD)
            && let Some(Counted { folder: Some(folder), .. }) = state.folders.get(&state.open[high])
        {
            folder.let_go();
        }
        state.open.push(id);
        if let Some(counted) = state.folders.get_mut(&above).filter(|_| self.options.mirror) {
            counted.names.push(name);
        }
        state.folders.insert(id, Counted::new(folder, above));
        if failed.is_some() {
            state.unanswered -= 1;
        }
        drop(state);
        self.changed.notify_all();
        if let Some(why) = failed {
            self.replies().send(&ToSender::Failed { id, why });
        }
        Ok(())
    }

    /// What the `.gitignore` of the directory entered last names stays in a mirror.
    pub fn ignore(&self, lines: &[u8]) {
        let state = self.lock();
        let entered = state.open.last().and_then(|id| state.folders.get(id));
        if let Some(Counted { folder: Some(folder), .. }) = entered {
            folder.ignore(lines);
        }
    }

    /// The sender has counted the entries of the directory entered last, or of the base.
    pub fn leave(&self, id: u64, entries: u64, is_listed: bool) -> Result<(), Error> {
        let mut state = self.lock();
        if state.open.pop() != Some(id) {
            return Err(out_of_place("Leave"));
        }
        let Some(counted) = state.folders.get_mut(&id) else { return Err(out_of_place("Leave")) };
        (counted.entries, counted.is_listed) = (Some(entries), is_listed);
        self.end_folders(state, id)
    }

    /// An entry of this directory has ended.
    pub fn ended(&self, folder: u64) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(counted) = state.folders.get_mut(&folder) {
            counted.ended += 1;
        }
        self.end_folders(state, folder)
    }

    /// Ends a directory whose entries have all ended, and those above for which it was the last.
    fn end_folders<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mut id: u64,
    ) -> Result<(), Error> {
        loop {
            match state.folders.get(&id) {
                Some(Counted { entries: Some(entries), ended, .. }) if ended > entries => {
                    return Err(Error::Protocol("more has come than was counted".into()));
                }
                Some(Counted { entries: Some(entries), ended, .. }) if ended == entries => {}
                _ => return Ok(()),
            }
            let Some(counted) = state.folders.remove(&id) else { return Ok(()) };
            if id == BASE {
                state.is_complete = true;
                drop(state);
                let mut replies = self.replies();
                replies.send(&ToSender::Finished);
                replies.flush()?;
                drop(replies);
                self.changed.notify_all();
                return Ok(());
            }
            drop(state);
            if let Some(folder) = counted.folder {
                let (names, is_listed) = (counted.names, counted.is_listed);
                let ended = self.end_folder(&folder, names, is_listed);
                let is_new = folder.is_new();
                self.answer(
                    id,
                    ended.map(|is_complete| match (is_complete, is_new) {
                        (true, false) => Ending::Kept,
                        _ => Ending::Made { is_complete },
                    }),
                );
                self.keeps(folder);
            }
            id = counted.above;
            state = self.lock();
            if let Some(above) = state.folders.get_mut(&id) {
                above.ended += 1;
            }
        }
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
        folder: &Folder,
        name: &OsStr,
        portrait: &Portrait,
    ) -> Result<(), gush_tree::Error> {
        match self.options.mirror {
            true => {
                folder.make_way(name, portrait, &self.options, &|| !self.goes_on(), &mut Told(self))
            }
            false => Ok(()),
        }
    }

    /// Bounds the descriptors of directories that have ended.
    fn keeps(&self, folder: Arc<Folder>) {
        if Arc::strong_count(&folder) == 1 {
            return;
        }
        let mut state = self.lock();
        state.ended.push_back(folder);
        if state.ended.len() > MOST_HELD
            && let Some(first) = state.ended.pop_front()
        {
            first.let_go();
        }
    }

    /// Announces a file, whose data may come on any stream.
    pub fn announce(&self, id: u64, file: Incoming) -> Result<(), Error> {
        let mut state = self.lock();
        Self::arrives(&mut state)?;
        state.attribute_bytes += file.attribute_bytes;
        if state.attribute_bytes > MOST_ATTRIBUTE_BYTES {
            return Err(Error::Protocol("too many attributes are announced".into()));
        }
        self.names(&mut state, file.folder_id, &file.name);
        if file.has_names {
            state.firsts.entry(id).or_insert_with(|| First::Awaited(Vec::new()));
        }
        if state.files.insert(id, Arc::new(file)).is_some() {
            return Err(out_of_place("a file announced twice"));
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// A file has ended, and is to be forgotten.
    pub fn forget(&self, id: u64) {
        let mut state = self.lock();
        if let Some(file) = state.files.remove(&id) {
            state.attribute_bytes -= file.attribute_bytes;
        }
    }

    fn answer(&self, id: u64, ended: Result<Ending, gush_tree::Error>) {
        self.lock().unanswered -= 1;
        self.replies().send(&match ended {
            Ok(Ending::Made { is_complete: true }) => ToSender::Done { id, outcome: Outcome::Made },
            Ok(Ending::Made { is_complete: false }) => {
                ToSender::Done { id, outcome: Outcome::Incomplete }
            }
            Ok(Ending::Kept | Ending::Skipped) => ToSender::Done { id, outcome: Outcome::Kept },
            Err(error) => ToSender::Failed { id, why: error.to_string() },
        });
    }

    /// Answers an entry, and makes the links that wait for it.
    pub fn end_entry(
        &self,
        id: u64,
        (folder_id, folder): (u64, &Arc<Folder>),
        name: &OsStr,
        ended: Result<Ending, gush_tree::Error>,
        has_names: bool,
    ) -> Result<(), Error> {
        let first = match ended {
            Ok(Ending::Made { .. } | Ending::Kept) if has_names => folder
                .identity(name)
                .map(|identity| First::Made(Arc::clone(folder), name.to_owned(), identity)),
            _ => None,
        };
        self.answer(id, ended);
        if has_names {
            let waiting = self.lock().firsts.insert(id, first.unwrap_or(First::None));
            self.link_waiting(waiting, id)?;
        }
        self.ended(folder_id)
    }

    /// Answers an entry with a failure, of which the reason may be empty.
    pub fn fail_entry(
        &self,
        id: u64,
        folder: u64,
        why: String,
        has_names: bool,
    ) -> Result<(), Error> {
        self.lock().unanswered -= 1;
        self.replies().send(&ToSender::Failed { id, why });
        if has_names {
            self.give_up_names(id)?;
        }
        self.ended(folder)
    }

    /// Makes another name of an entry, now or when the entry is made.
    pub fn link(&self, link: Link, first: u64) -> Result<(), Error> {
        let mut state = self.lock();
        self.names(&mut state, link.folder, &link.name);
        Self::arrives(&mut state)?;
        if let Some(First::Awaited(links)) = state.firsts.get_mut(&first) {
            links.push(link);
            return Ok(());
        }
        drop(state);
        self.make_link(link, first)
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
        let folder = state.folders.get(&folder_id).and_then(|counted| counted.folder.clone());
        drop(state);
        let Some(folder) = folder else {
            return self.fail_entry(id, folder_id, String::new(), false);
        };
        let options = &self.options;
        let standing = match options.update {
            Update::All => Ok(Standing::Copy),
            _ => folder.compare(&name, &portrait, options),
        };
        let ended = match (standing, made) {
            (Err(error), _) => Err(error),
            (Ok(Standing::Skip), _) => Ok(Ending::Skipped),
            (Ok(Standing::Keep), None) => Ok(Ending::Kept),
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
                    .make_way(&folder, &name, &portrait)
                    .and_then(|()| folder.link(&name, (&above, &first_name, identity)));
                self.keeps(above);
                // As GNU, one that could have stayed becomes a name of the copy without a word.
                linked.map(|()| match standing {
                    Standing::Keep => Ending::Kept,
                    _ => Ending::Made { is_complete: true },
                })
            }
        };
        self.end_entry(id, (folder_id, &folder), &name, ended, false)
    }
}

pub(super) fn out_of_place(what: &str) -> Error {
    Error::Protocol(format!("{what} is out of place"))
}
