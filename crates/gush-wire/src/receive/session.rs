//! What the streams of a session share: directories, files under way, and the answers.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gush_tree::remote::{Folder, Portrait};
use gush_tree::{CopyOptions, Events};

use super::incoming::Incoming;
use super::join::Host;
use crate::error::Error;
use crate::frame::Output;
use crate::record::{BASE, ToSender, WINDOW};

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
}

/// An entry that may get further names.
enum First {
    /// It is not made yet, and these links wait for it.
    Awaited(Vec<Link>),
    /// Its directory, its name, and its device and inode.
    Made(Arc<Folder>, OsString, (u64, u64)),
    Failed,
}

/// Another name of an entry.
pub(super) struct Link {
    pub id: u64,
    pub folder: u64,
    pub name: OsString,
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

/// Events of the copy become warnings of the session.
pub(super) struct Warnings<'a>(pub &'a Session);

impl Events for Warnings<'_> {
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
        let counted = Counted { folder: Some(base), above: BASE, ended: 0, entries: None };
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
        let reply = match Host::start(self) {
            Ok((host, token)) => {
                state.host = Some(host);
                ToSender::Invitation(token)
            }
            // The sender goes on with one stream.
            Err(error) => ToSender::Warning(format!(
                "warning: no further stream can join: {}",
                gush_text::os_text(&error)
            )),
        };
        drop(state);
        self.replies().send(&reply);
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
    pub fn arrived(&self) -> Result<(), Error> {
        Self::arrives(&mut self.lock())
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
                let entered = folder.enter(name, portrait, &self.options);
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
        state.folders.insert(id, Counted { folder, above, ended: 0, entries: None });
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

    /// The sender has counted the entries of the directory entered last, or of the base.
    pub fn leave(&self, id: u64, entries: u64) -> Result<(), Error> {
        let mut state = self.lock();
        if state.open.pop() != Some(id) {
            return Err(out_of_place("Leave"));
        }
        let Some(counted) = state.folders.get_mut(&id) else { return Err(out_of_place("Leave")) };
        counted.entries = Some(entries);
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
                let result = folder.finish(&self.options, &mut Warnings(self));
                self.answer(id, result);
                self.keeps(folder);
            }
            id = counted.above;
            state = self.lock();
            if let Some(above) = state.folders.get_mut(&id) {
                above.ended += 1;
            }
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
        if file.has_names {
            state.firsts.insert(id, First::Awaited(Vec::new()));
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

    fn answer(&self, id: u64, result: Result<bool, gush_tree::Error>) {
        self.lock().unanswered -= 1;
        self.replies().send(&match result {
            Ok(is_complete) => ToSender::Done { id, is_complete },
            Err(error) => ToSender::Failed { id, why: error.to_string() },
        });
    }

    /// Answers an entry, and makes the links that wait for it.
    pub fn end_entry(
        &self,
        id: u64,
        folder_id: u64,
        name: &OsStr,
        folder: Option<&Arc<Folder>>,
        result: Result<bool, gush_tree::Error>,
        has_names: bool,
    ) -> Result<(), Error> {
        let made = match (folder, &result, has_names) {
            (Some(folder), Ok(_), true) => folder
                .identity(name)
                .map(|identity| First::Made(Arc::clone(folder), name.to_owned(), identity)),
            _ => None,
        };
        self.answer(id, result);
        let mut waiting = Vec::new();
        if has_names
            && let Some(First::Awaited(links)) =
                self.lock().firsts.insert(id, made.unwrap_or(First::Failed))
        {
            waiting = links;
        }
        for link in waiting {
            self.make_link(link, id)?;
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
        self.replies().send(&ToSender::Failed { id, why });
        let mut state = self.lock();
        state.unanswered -= 1;
        let waiting = match has_names {
            true => state.firsts.insert(id, First::Failed),
            false => None,
        };
        drop(state);
        if let Some(First::Awaited(links)) = waiting {
            for link in links {
                self.make_link(link, id)?;
            }
        }
        self.ended(folder)
    }

    /// Makes another name of an entry, now or when the entry is made.
    pub fn link(&self, link: Link, first: u64) -> Result<(), Error> {
        let mut state = self.lock();
        Self::arrives(&mut state)?;
        if let Some(First::Awaited(links)) = state.firsts.get_mut(&first) {
            links.push(link);
            return Ok(());
        }
        drop(state);
        self.make_link(link, first)
    }

    fn make_link(&self, link: Link, first: u64) -> Result<(), Error> {
        let Link { id, folder, name } = link;
        let state = self.lock();
        let made = match state.firsts.get(&first) {
            Some(First::Made(above, name, identity)) => {
                Some((Arc::clone(above), name.clone(), *identity))
            }
            _ => None,
        };
        let into = state.folders.get(&folder).and_then(|counted| counted.folder.clone());
        drop(state);
        match (made, into) {
            (_, None) => self.fail_entry(id, folder, String::new(), false),
            (Some((above, first_name, identity)), Some(into)) => {
                let result = into.link(&name, (&above, &first_name, identity)).map(|()| true);
                self.answer(id, result);
                self.keeps(above);
                self.ended(folder)
            }
            (None, Some(_)) => {
                let name = name.to_string_lossy();
                let why = format!("cannot create hard link '{name}': the first name failed");
                self.fail_entry(id, folder, why, false)
            }
        }
    }
}

pub(super) fn out_of_place(what: &str) -> Error {
    Error::Protocol(format!("{what} is out of place"))
}
