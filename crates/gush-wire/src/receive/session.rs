//! What the streams of a session share, and how they begin, wait for each other, and end.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{io, thread};

use gush::Unpoisoned;
use gush_tree::CopyOptions;
use gush_tree::remote::Folder;

use super::answers::Replies;
use super::bounds::Bounds;
use super::folders::Folders;
use super::incoming::Incoming;
use super::links::Firsts;
use super::shown::Shown;
use crate::error::{Error, ensure};
use crate::frame::{Input, Output};
use crate::join::{self, Host};
use crate::record::{ToSender, Token, WINDOW};
use crate::send::{Transport, stream_less};

pub(super) struct Session {
    pub options: CopyOptions,
    /// The name of the only operand's copy, if it is not the operand's.
    pub as_name: Option<OsString>,
    /// The target ends in a slash: nothing but a directory can have the name.
    pub names_directory: bool,
    /// The user is at this side, and not at the sender's.
    pub shown: Option<Shown>,
    pub changed: Condvar,
    state: Mutex<State>,
    replies: Mutex<Replies>,
}

#[derive(Default)]
pub(super) struct State {
    pub folders: Folders,
    pub firsts: Firsts,
    pub bounds: Bounds,
    files: HashMap<u64, Arc<Incoming>>,
    /// The files whose hashes the sender has, by their numbers: directory and name.
    pub compared: HashMap<u64, (u64, OsString)>,
    /// The directories and files that streams wait for.
    awaited: HashSet<u64>,
    /// The first stream says nothing more.
    is_first_read: bool,
    /// Further streams that have not ended.
    joined: usize,
    /// Those that have joined so far, which are numbered.
    numbered: u32,
    /// Of these, the ones that the sender uses, and those that were lost before their first record.
    used: HashSet<u32>,
    unused: HashSet<u32>,
    pub is_complete: bool,
    /// An entry has failed.
    pub has_failed: bool,
    failure: Option<Error>,
    host: Option<Host>,
}

const UNUSED: &str = "it ended before its first record";

impl State {
    /// An entry has come, and will be answered.
    pub fn arrives(&mut self) -> Result<(), Error> {
        self.bounds.arrives(self.folders.open())
    }

    /// The sender is going to compare a file, once.
    pub fn expect_compared(&mut self, id: u64, entry: (u64, OsString)) -> Result<(), Error> {
        self.compared.insert(id, entry);
        ensure(self.compared.len() <= 2 * WINDOW, "too many files are to be compared")
    }

    /// A directory or file can be found now. Does a stream wait for it?
    pub fn is_awaited(&mut self, id: u64) -> bool {
        self.awaited.remove(&id)
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
        Self {
            options,
            as_name,
            names_directory: false,
            shown,
            changed: Condvar::new(),
            state: Mutex::new(State { folders: Folders::new(base), ..State::default() }),
            replies: Mutex::new(Replies::new(output)),
        }
    }

    /// Has no entry failed, on either side?
    pub fn is_whole(&self) -> bool {
        !self.lock().has_failed && self.shown.as_ref().is_none_or(Shown::is_whole)
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    pub fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unpoisoned()
    }

    /// Opens the session for further streams, once.
    pub fn invite(self: &Arc<Self>) -> Result<(), Error> {
        let mut state = self.lock();
        if state.host.is_some() || self.shown.is_some() {
            return Err(out_of_place("Invite"));
        }
        // Without a socket the sender goes on with one stream.
        let token = self.listen().ok().map(|(host, token)| {
            state.host = Some(host);
            token
        });
        drop(state);
        let mut replies = self.replies();
        replies.send(&ToSender::Invitation(token));
        replies.flush()
    }

    fn listen(self: &Arc<Self>) -> io::Result<(Host, Token)> {
        let (host, door) = Host::listen()?;
        let (session, token) = (Arc::clone(self), door.token);
        thread::Builder::new().spawn(move || {
            door.accept_all(|input, output| session.add_stream(input, output));
        })?;
        Ok((host, token))
    }

    fn add_stream(self: &Arc<Self>, mut input: Input, mut output: Output) {
        // Before the answer: the sender may send all that is left at once.
        let Some(number) = self.begin_stream() else { return };
        let session = Arc::clone(self);
        let serves = move || {
            session.end_stream(session.serve_further(number, &mut input, &mut output));
        };
        if thread::Builder::new().spawn(serves).is_err() {
            self.end_stream(Ok(()));
        }
    }

    /// Opens a stream and serves it. One that cannot be opened is done without.
    pub fn join(&self, transport: &dyn Transport, token: Token, is_asked: bool) {
        let Some(number) = self.begin_stream() else { return };
        let joined = transport.open(is_asked).and_then(|streams| join::join(streams, token));
        self.end_stream(match joined {
            Ok(((mut input, mut output), _)) => self.serve_further(number, &mut input, &mut output),
            Err(error) => {
                if let (Some(shown), true) = (&self.shown, is_asked && self.is_wanted()) {
                    let warning = stream_less(&shown.source(OsStr::new("")), &error);
                    shown.show(move |events| events.warns(&warning));
                }
                Ok(())
            }
        });
    }

    /// Is there more to come?
    fn is_wanted(&self) -> bool {
        let state = self.lock();
        !state.is_complete && state.failure.is_none()
    }

    /// What has failed on a further stream.
    pub fn failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// A further stream begins. Returns its number, if the session still wants it.
    pub fn begin_stream(&self) -> Option<u32> {
        let mut state = self.lock();
        (!state.is_complete && state.failure.is_none()).then(|| {
            state.joined += 1;
            state.numbered += 1;
            state.numbered
        })
    }

    /// The sender uses a further stream: from now on its loss is the session's.
    pub fn uses(&self, number: u32) -> Result<(), Error> {
        let mut state = self.lock();
        ensure((1..=state.numbered).contains(&number), "it uses a stream that has not joined")?;
        match state.unused.contains(&number) {
            true => Err(Error::Further(UNUSED.into())),
            false => {
                state.used.insert(number);
                Ok(())
            }
        }
    }

    /// A stream was lost before its first record: with nothing, unless the sender uses it.
    pub fn lost_unused(&self, number: u32, error: Error) -> Result<(), Error> {
        let mut state = self.lock();
        if state.used.contains(&number) {
            return Err(error);
        }
        state.unused.insert(number);
        Ok(())
    }

    /// A further stream has ended. A failure of it is the session's, until all has come: the sender
    /// then closes the streams at once.
    pub fn end_stream(&self, result: Result<(), Error>) {
        let mut state = self.lock();
        state.joined -= 1;
        let is_all = state.folders.is_empty();
        if let (Err(error), None, false) = (result, &state.failure, is_all) {
            let text = error.to_string();
            // The user at the sender sees it there.
            let is_shown = self.shown.is_some();
            state.failure = Some(if is_shown { error } else { Error::Refused(text.clone()) });
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
            let may_come = state.joined > 0 || state.folders.is_empty();
            ensure(may_come, "less has come than was counted")?;
            state = self.changed.wait(state).unpoisoned();
        }
    }

    /// Does a stream go on? No after a failure of another one.
    pub fn goes_on(&self) -> bool {
        self.lock().failure.is_none()
    }

    /// The session has failed, which the user at the sender is to know.
    pub fn tells_end(&self, error: Error) -> Error {
        if self.shown.is_some() {
            return error;
        }
        let mut replies = self.replies();
        if error.is_known_there() {
            // Only one direction may be lost: what has arrived is counted there.
            let _ = replies.flush();
            return error;
        }
        let text = error.to_string();
        replies.send(&ToSender::Refused(text.clone()));
        match replies.flush() {
            Ok(()) => Error::Refused(text),
            Err(_) => error,
        }
    }

    /// No stream joins any more.
    pub fn end(&self) {
        let host = self.lock().host.take();
        drop(host);
    }

    /// Looks something up that the first stream brings: another stream waits for it.
    fn find<T>(
        &self,
        (id, is_first): (u64, bool),
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
            state.awaited.insert(id);
            state = self.changed.wait(state).unpoisoned();
        }
    }

    /// The directory with a number; the inner `None` is one that failed.
    pub fn folder(&self, id: u64, is_first: bool) -> Result<Option<Arc<Folder>>, Error> {
        self.find((id, is_first), "an unknown directory", |state| state.folders.find(id))
    }

    /// The file with a number.
    pub fn file(&self, id: u64, is_first: bool) -> Result<Arc<Incoming>, Error> {
        self.find((id, is_first), "data of an unknown file", |state| state.files.get(&id).cloned())
    }

    /// Announces a file, whose data may come on any stream.
    pub fn announce(&self, id: u64, file: Incoming) -> Result<(), Error> {
        if file.has_names {
            self.expect_names(id)?;
        }
        let mut state = self.lock();
        state.arrives()?;
        state.bounds.take(file.waiting_bytes)?;
        if state.files.insert(id, Arc::new(file)).is_some() {
            return Err(out_of_place("a file announced twice"));
        }
        if state.is_awaited(id) {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// A file has ended, and is to be forgotten.
    pub fn forget(&self, id: u64) {
        let mut state = self.lock();
        if let Some(file) = state.files.remove(&id) {
            state.bounds.release(file.waiting_bytes);
        }
    }
}

pub(super) fn out_of_place(what: &str) -> Error {
    Error::Protocol(format!("{what} is out of place"))
}
