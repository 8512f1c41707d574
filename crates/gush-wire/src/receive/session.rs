//! What the streams of a session share: directories, files under way, and the answers.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gush_text::{in_brackets, mkdir_remedy, quote};
use gush_tree::remote::{Folder, Names, Portrait, Standing};
use gush_tree::{Action, CopyOptions, Events, Update};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::incoming::Incoming;
use super::join::Host;
use super::shown::Shown;
use crate::entry::Entry;
use crate::error::Error;
use crate::frame::Output;
use crate::record::{BASE, Outcome, ToSender, WINDOW};

/// So many of the directories entered, of those left, and of those ended are held; the others are
/// opened again where they are needed.
const MOST_HELD: usize = 96;

/// Each directory on the way holds its path.
const MOST_PATH_BYTES: usize = 32 << 10;

/// What is kept of all entries that have come and not ended, and the names of open directories of a
/// mirror.
const MOST_WAITING_BYTES: usize = 512 << 20;

pub(super) struct Session {
    pub options: CopyOptions,
    /// The name of the only operand's copy, if it is not the operand's.
    pub as_name: Option<OsString>,
    /// The target ends in a slash: nothing but a directory can have the name.
    pub names_directory: bool,
    /// The user is at this side, and not at the sender's.
    pub shown: Option<Shown>,
    state: Mutex<State>,
    changed: Condvar,
    replies: Mutex<Replies>,
}

struct State {
    folders: HashMap<u64, Counted>,
    /// The directories entered and not left, from the base on.
    open: Vec<u64>,
    /// The sources that were announced, by their names.
    operands: HashMap<OsString, u32>,
    last_operand: Option<u32>,
    announced: usize,
    files: HashMap<u64, Arc<Incoming>>,
    /// About the memory of folders, files and links that wait, and of a mirror's names.
    waiting_bytes: usize,
    firsts: HashMap<u64, First>,
    /// Directories that were left and have not ended, while they are held.
    left: VecDeque<u64>,
    /// Directories that have ended and may be needed for further names, while they are held.
    ended: VecDeque<Arc<Folder>>,
    /// Entries without an answer.
    unanswered: usize,
    /// The first stream says nothing more.
    is_first_read: bool,
    /// Further streams that have not ended.
    joined: usize,
    is_complete: bool,
    /// No entry has failed so far.
    is_whole: bool,
    failure: Option<Error>,
    host: Option<Host>,
}

/// A directory until all its entries have ended. `None` in place of one that failed.
struct Counted {
    folder: Option<Arc<Folder>>,
    above: u64,
    name: OsString,
    /// The path at the sender, if it is shown.
    source: PathBuf,
    ended: u64,
    entries: Option<u64>,
    /// In a mirror, what the source has here.
    names: Names,
    waiting_bytes: usize,
    is_among_left: bool,
    /// The source was listed to its end.
    is_listed: bool,
}

impl Counted {
    fn new(folder: Option<Arc<Folder>>, above: u64, name: &OsStr, source: PathBuf) -> Self {
        Self {
            folder,
            above,
            name: name.to_owned(),
            source,
            ended: 0,
            entries: None,
            names: Names::default(),
            waiting_bytes: 0,
            is_among_left: false,
            is_listed: false,
        }
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

/// An entry that has come, as it is answered.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'n> {
    pub id: u64,
    /// The number of its directory.
    pub folder: u64,
    pub name: &'n OsStr,
    pub action: Action,
    /// The size of a regular file.
    pub bytes: Option<u64>,
    pub has_names: bool,
    /// The hash that was found on both sides.
    pub digest: Option<gush::Digest>,
}

impl<'n> Arrival<'n> {
    pub fn new(
        id: u64,
        folder: u64,
        name: &'n OsStr,
        portrait: &Portrait,
        has_names: bool,
    ) -> Self {
        let action = match portrait.kind() {
            FileType::RegularFile => Action::Copied,
            FileType::Symlink => Action::SymbolicLinked,
            _ => Action::Recreated,
        };
        let bytes = (action == Action::Copied).then_some(portrait.size_bytes);
        Self { id, folder, name, action, bytes, has_names, digest: None }
    }
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

/// Events of the copy, for the user: at this side, or told to the sender.
pub(super) struct Told<'a>(pub &'a Session);

impl Events for Told<'_> {
    fn mirrored(&mut self, target: &Path, result: &Result<(), gush_tree::Error>) {
        let why = result.as_ref().err().map(ToString::to_string);
        let Some(shown) = &self.0.shown else {
            let path = target.as_os_str().as_bytes().to_vec();
            return self.0.replies().send(&ToSender::Removed { path, why });
        };
        let target = target.to_path_buf();
        let result = why.map_or(Ok(()), |why| Err(gush_tree::Error::reported(&target, why)));
        if result.is_err() {
            shown.fails();
        }
        shown.show(move |events| events.mirrored(&target, &result));
    }

    fn warns(&mut self, warning: &gush_tree::Error) {
        let text = warning.to_string();
        let Some(shown) = &self.0.shown else {
            return self.0.replies().send(&ToSender::Warning(text));
        };
        let warning = gush_tree::Error::reported(warning.path(), text);
        shown.show(move |events| events.warns(&warning));
    }
}

impl Session {
    pub fn new(
        base: Arc<Folder>,
        as_name: Option<OsString>,
        options: CopyOptions,
        output: Output,
        shown: Option<Shown>,
    ) -> Self {
        let counted = Counted::new(Some(base), BASE, OsStr::new(""), PathBuf::new());
        Self {
            options,
            as_name,
            names_directory: false,
            shown,
            state: Mutex::new(State {
                folders: HashMap::from([(BASE, counted)]),
                open: vec![BASE],
                operands: HashMap::new(),
                last_operand: None,
                announced: 0,
                files: HashMap::new(),
                waiting_bytes: 0,
                firsts: HashMap::new(),
                left: VecDeque::new(),
                ended: VecDeque::new(),
                unanswered: 0,
                is_first_read: false,
                joined: 0,
                is_complete: false,
                is_whole: true,
                failure: None,
                host: None,
            }),
            changed: Condvar::new(),
            replies: Mutex::new(Replies { output, failed: Ok(()) }),
        }
    }

    /// Has no entry failed, on either side?
    pub fn is_whole(&self) -> bool {
        self.lock().is_whole && self.shown.as_ref().is_none_or(Shown::is_whole)
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
        if state.host.is_some() || self.shown.is_some() {
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
            if state.joined == 0 && state.folders.contains_key(&BASE) {
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
        look: impl Fn(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = self.lock();
        let mut is_flushed = false;
        loop {
            if let Some(found) = look(&mut state) {
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
            Self::bounds_left(state, id);
            state.folders.get(&id).map(|counted| counted.folder.clone())
        })
    }

    /// The file with a number.
    pub fn file(&self, id: u64, is_first: bool) -> Result<Arc<Incoming>, Error> {
        self.find(is_first, "data of an unknown file", |state| state.files.get(&id).cloned())
    }

    /// Bounds the descriptors of directories that were left and whose last entries are under way: each
    /// one used is held, and another one let go.
    fn bounds_left(state: &mut State, id: u64) {
        match state.folders.get_mut(&id) {
            Some(counted) if counted.entries.is_some() && !counted.is_among_left => {
                counted.is_among_left = true;
            }
            _ => return,
        }
        state.left.push_back(id);
        if state.left.len() > MOST_HELD
            && let Some(first) = state.left.pop_front()
            && let Some(counted) = state.folders.get_mut(&first)
        {
            counted.is_among_left = false;
            if let Some(folder) = &counted.folder {
                folder.let_go();
            }
        }
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
        self.names(&mut state, folder, name)?;
        Self::arrives(&mut state)
    }

    /// The source has this name, and nothing comes of it.
    pub fn unreadable(&self, folder: u64, name: &OsStr) -> Result<(), Error> {
        let mut state = self.lock();
        state.is_whole = false;
        self.names(&mut state, folder, name)
    }

    fn names(&self, state: &mut State, folder: u64, name: &OsStr) -> Result<(), Error> {
        if let Some(counted) = state.folders.get_mut(&folder).filter(|_| self.options.mirror) {
            counted.names.push(name);
            let bytes = name.len() + size_of::<usize>() + 1;
            counted.waiting_bytes += bytes;
            Self::keeps_bytes(state, bytes)?;
        }
        Ok(())
    }

    fn keeps_bytes(state: &mut State, bytes: usize) -> Result<(), Error> {
        state.waiting_bytes += bytes;
        match state.waiting_bytes <= MOST_WAITING_BYTES {
            true => Ok(()),
            false => Err(Error::Protocol("too much is under way at once".into())),
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
                self.lock().waiting_bytes -= weight(&link.portrait);
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
        if self.shown.as_ref().is_some_and(|shown| !shown.is_recursive) {
            return Err(out_of_place("a directory"));
        }
        let waiting_bytes = weight(&portrait) + MOST_PATH_BYTES / 16;
        let entered = match self.folder(above, true)? {
            Some(folder) if folder.shown_entry(name).as_os_str().len() > MOST_PATH_BYTES => {
                return Err(Error::Protocol("a path is longer than 32 KiB".into()));
            }
            Some(folder) => {
                let entered = self
                    .make_way((above, &folder), name, &portrait)
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
        self.names(&mut state, above, name)?;
        Self::keeps_bytes(&mut state, waiting_bytes)?;
        let source = self.shown.as_ref().map(|shown| self.source(&state, shown, above, name));
        if let (Some(shown), Some(folder), Some(source), BASE) =
            (&self.shown, &folder, &source, above)
        {
            let (source, target) = (source.clone(), folder.shown_entry(OsStr::new("")));
            shown.show(move |events| events.enters_tree(&source, &target));
        }
        let mut counted = Counted::new(folder, above, name, source.unwrap_or_default());
        counted.waiting_bytes = waiting_bytes;
        state.folders.insert(id, counted);
        drop(state);
        self.changed.notify_all();
        if let Some(why) = failed {
            self.answer(&directory(id, above, name), Err(why));
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
        Self::bounds_left(&mut state, id);
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
            state.waiting_bytes -= counted.waiting_bytes;
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
                let (names, is_listed) = (counted.names, counted.is_listed);
                let ended = self.end_folder(&folder, names, is_listed);
                let is_new = folder.is_new();
                let ended = ended.map(|is_complete| match (is_complete, is_new) {
                    (true, false) => Ending::Kept,
                    _ => Ending::Made { is_complete },
                });
                let arrival = directory(id, counted.above, &counted.name);
                self.answer(&arrival, ended.map_err(|error| error.to_string()));
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
        (folder_id, folder): (u64, &Folder),
        name: &OsStr,
        portrait: &Portrait,
    ) -> Result<(), gush_tree::Error> {
        let is_directory = portrait.kind() == FileType::Directory;
        if folder_id == BASE && self.names_directory && self.as_name.is_some() && !is_directory {
            let shown = folder.shown_entry(name).join("");
            let why = gush_text::errno_text(Errno::NOTDIR);
            let text = format!(
                "cannot create regular file {}: {why}{}",
                quote::always(&shown),
                in_brackets(Some(&mkdir_remedy(&shown)))
            );
            return Err(gush_tree::Error::reported(&shown, text));
        }
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
        Self::keeps_bytes(&mut state, file.waiting_bytes)?;
        self.names(&mut state, file.folder_id, &file.name)?;
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
            state.waiting_bytes -= file.waiting_bytes;
        }
    }

    /// The path of an entry at the sender.
    fn source(&self, state: &State, shown: &Shown, folder: u64, name: &OsStr) -> PathBuf {
        match (folder, &self.as_name) {
            (BASE, Some(_)) => shown.source(0),
            (BASE, None) => shown.source(state.operands.get(name).copied().unwrap_or_default()),
            _ => state.folders.get(&folder).map_or_else(PathBuf::new, |it| it.source.join(name)),
        }
    }

    fn answer(&self, arrival: &Arrival<'_>, ended: Result<Ending, String>) {
        let mut state = self.lock();
        state.unanswered -= 1;
        state.is_whole &= ended.is_ok();
        let mut ended = ended.map(|ending| match ending {
            Ending::Made { is_complete: true } => Outcome::Made,
            Ending::Made { is_complete: false } => Outcome::Incomplete,
            Ending::Kept | Ending::Skipped => Outcome::Kept,
        });
        if let Some(shown) = &self.shown {
            let Arrival { folder, name, action, bytes, digest, .. } = *arrival;
            let source = self.source(&state, shown, folder, name);
            let above = state.folders.get(&folder).and_then(|counted| counted.folder.as_ref());
            let target = above.map_or_else(PathBuf::new, |above| above.shown_entry(name));
            drop(state);
            shown.ends(Entry { source, target, action, bytes, digest }, ended.clone());
            // The sender does not show it.
            ended = ended.map_err(|_| String::new());
        }
        let id = arrival.id;
        self.replies().send(&match ended {
            Ok(outcome) => ToSender::Done { id, outcome },
            Err(why) => ToSender::Failed { id, why },
        });
    }

    /// Answers an entry, and makes the links that wait for it.
    pub fn end_entry(
        &self,
        arrival: &Arrival<'_>,
        folder: &Arc<Folder>,
        ended: Result<Ending, gush_tree::Error>,
    ) -> Result<(), Error> {
        let Arrival { id, name, has_names, .. } = *arrival;
        let first = match ended {
            Ok(Ending::Made { .. } | Ending::Kept) if has_names => folder
                .identity(name)
                .map(|identity| First::Made(Arc::clone(folder), name.to_owned(), identity)),
            _ => None,
        };
        self.answer(arrival, ended.map_err(|error| error.to_string()));
        if has_names {
            let waiting = self.lock().firsts.insert(id, first.unwrap_or(First::None));
            self.link_waiting(waiting, id)?;
        }
        self.ended(arrival.folder)
    }

    /// Answers an entry with a failure, of which the reason may be empty.
    pub fn fail_entry(&self, arrival: &Arrival<'_>, why: String) -> Result<(), Error> {
        self.answer(arrival, Err(why));
        if arrival.has_names {
            self.give_up_names(arrival.id)?;
        }
        self.ended(arrival.folder)
    }

    /// A source that was asked for comes next.
    pub fn operand(&self, number: u32, name: OsString) -> Result<(), Error> {
        let shown = self.shown.as_ref().ok_or_else(|| out_of_place("Operand"))?;
        shown.check(number, &name)?;
        let mut state = self.lock();
        if state.last_operand >= Some(number) {
            return Err(out_of_place("Operand"));
        }
        state.last_operand = Some(number);
        state.announced += 1;
        // The latest one of a name: of others with the name nothing more comes.
        state.operands.insert(name, number);
        Ok(())
    }

    /// Nothing more is announced: each source was, or a problem with it is known.
    pub fn end_operands(&self) -> Result<(), Error> {
        let Some(shown) = &self.shown else { return Ok(()) };
        match shown.is_whole() && self.lock().announced < shown.operands() {
            true => Err(Error::Protocol("a source was not sent".into())),
            false => Ok(()),
        }
    }

    /// Can an entry that is no directory be what was asked for?
    pub fn may_be_other(&self, folder: u64, name: &OsStr, kind: FileType) -> bool {
        let Some(shown) = &self.shown else { return true };
        let number = match &self.as_name {
            _ if folder != BASE => return true,
            Some(_) => 0,
            None => self.lock().operands.get(name).copied().unwrap_or_default(),
        };
        shown.may_be_other(number, kind)
    }

    /// Does each file come with a hash?
    pub fn wants_hashes(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.verifies)
    }

    /// Was an entry of the base announced as one that was asked for?
    pub fn is_asked_for(&self, name: &OsStr) -> bool {
        self.shown.is_none() || self.lock().operands.contains_key(name)
    }

    /// The sender tells of its side.
    pub fn problem(
        &self,
        path: &Path,
        below: &Path,
        text: &str,
        is_warning: bool,
    ) -> Result<(), Error> {
        let shown = self.shown.as_ref().ok_or_else(|| out_of_place("Problem"))?;
        let state = self.lock();
        let base = state.folders.get(&BASE).and_then(|counted| counted.folder.clone());
        drop(state);
        let mut names = below.iter();
        let first = self.as_name.as_deref().or(names.next());
        if self.as_name.is_some() {
            names.next();
        }
        // An operand that fails has no path below it.
        let rest = (!names.as_path().as_os_str().is_empty()).then_some(names.as_path());
        let target = base.zip(first).map(|(base, name)| {
            let target = base.shown_entry(name);
            rest.map_or(target.clone(), |rest| target.join(rest))
        });
        shown.problem(path, target.unwrap_or_default(), text, is_warning);
        Ok(())
    }

    /// Makes another name of an entry, now or when the entry is made.
    pub fn link(&self, link: Link, first: u64) -> Result<(), Error> {
        let mut state = self.lock();
        self.names(&mut state, link.folder, &link.name)?;
        Self::arrives(&mut state)?;
        let bytes = weight(&link.portrait);
        if let Some(First::Awaited(links)) = state.firsts.get_mut(&first) {
            links.push(link);
            return Self::keeps_bytes(&mut state, bytes);
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
        let arrival = Arrival {
            action: Action::HardLinked,
            bytes: None,
            ..Arrival::new(id, folder_id, &name, &portrait, false)
        };
        let Some(folder) = folder else { return self.fail_entry(&arrival, String::new()) };
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
                    .make_way((folder_id, &folder), &name, &portrait)
                    .and_then(|()| folder.link(&name, (&above, &first_name, identity)));
                self.keeps(above);
                // As GNU, one that could have stayed becomes a name of the copy without a word.
                linked.map(|()| match standing {
                    Standing::Keep => Ending::Kept,
                    _ => Ending::Made { is_complete: true },
                })
            }
        };
        self.end_entry(&arrival, &folder, ended)
    }
}

fn directory(id: u64, folder: u64, name: &OsStr) -> Arrival<'_> {
    let (action, digest) = (Action::Directory, None);
    Arrival { id, folder, name, action, bytes: None, has_names: false, digest }
}

pub(super) fn out_of_place(what: &str) -> Error {
    Error::Protocol(format!("{what} is out of place"))
}

/// About the memory that a portrait takes.
pub(super) fn weight(portrait: &Portrait) -> usize {
    let Portrait { attributes, link_text, user_name, group_name, .. } = portrait;
    let attributes: usize =
        attributes.iter().map(|(name, value)| name.len() + value.len() + 2 * HEAP_BYTES).sum();
    attributes + link_text.len() + user_name.len() + group_name.len() + size_of::<Portrait>() + 256
}

/// What a vector takes besides its bytes, on the heap and as a value.
const HEAP_BYTES: usize = 48;
