//! The sender: a walk through the source fills a [queue](queue), and a worker for each stream sends
//! what is in it, while answers are read.
//!
//! Every thread flushes its stream before it waits for anything, so that the other side always has
//! what it needs for the next answer.

mod ahead;
mod answers;
mod outgoing;
mod queue;
mod streams;
mod walk;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use gush::Unpoisoned;
use gush_text::{quote, without_controls};
use gush_tree::remote::{EntryMetadata, Failure};
use gush_tree::{Action, CopyOptions, Events, Preserve};
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::entry::{self, Entry};
use crate::error::Error;
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::join::Host;
use crate::record::{Hello, Rules, Streams, ToReceiver, Token, WINDOW, Wish};
use crate::remote::at_host;
use crate::serve::at_home;
use ahead::Ahead;
use outgoing::Outgoing;
use queue::{Found, Queue};
use streams::Stream;
pub use streams::Transport;
pub(crate) use streams::stream_less;
use walk::Walk;

/// What is copied, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Files and directories of the sender.
    pub sources: &'a [&'a Path],
    /// The path at the receiver.
    pub target: &'a Path,
    /// What messages put before a path of the other machine, such as `host:`.
    pub host: &'a OsStr,
    /// The target is the copy itself, even where it is a directory.
    pub is_exact: bool,
    /// The target is a directory, and an error otherwise.
    pub is_directory: bool,
    /// The data of files is compressed where that is faster.
    pub compresses: bool,
}

impl<'a> Request<'a> {
    /// A copy without options.
    #[must_use]
    pub fn new(sources: &'a [&'a Path], target: &'a Path, host: &'a OsStr) -> Self {
        let (is_exact, is_directory, compresses) = (false, false, false);
        Self { sources, target, host, is_exact, is_directory, compresses }
    }
}

/// Sends the sources over a pair of streams, from the other side and to it, and over those that
/// `transport` can add. Returns whether all of them arrived; what did not is reported to `events`.
///
/// # Errors
/// When the session ends before all is answered.
pub fn send(
    request: &Request<'_>,
    options: &CopyOptions,
    (input, output): (File, File),
    (transport, streams): (&dyn Transport, Streams),
    events: &mut dyn Events,
) -> Result<bool, Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    // Before the answer: the other side need not wait for a second round trip.
    let greeted = output.record(&Hello::OURS).and_then(|_| {
        output.record(&ToReceiver::Begin {
            target: request.target.as_os_str().as_bytes().to_vec(),
            is_exact: request.is_exact,
            is_directory: request.is_directory || request.sources.len() > 1,
            rules: Rules::of(options),
        })?;
        // Later it would have to wait for the data before.
        if streams.most() > 1 {
            output.record(&ToReceiver::Invite)?;
        }
        output.flush()
    });
    let ahead = Ahead::default();
    thread::scope(|scope| {
        // Without a thread streams are opened when files wait.
        let _ = thread::Builder::new().spawn_scoped(scope, || {
            ahead.open(request.sources, options, transport, streams);
        });
        let met = meet(&mut input);
        ahead.is_answered();
        // What the other side has to say explains a failure to write.
        met?;
        greeted?;
        if request.compresses {
            output.compress()?;
        }
        let mut session = Session::new(request, options, output, transport, events);
        session.ahead = Some(&ahead);
        session.run(&mut input, request, streams)
    })
}

/// Ends the service of a session that has failed: a thread of it may still wait for an answer.
struct Service(SyncSender<Result<(), Error>>);

impl Transport for Service {
    fn fails(&self, why: Error) {
        // An end that is known already is as good.
        let _ = self.0.try_send(Err(why));
    }
}

/// Sends what a receiver has asked for. What fails here is shown by the receiver.
pub(crate) fn serve(wish: Wish, input: Input, output: Output) -> Result<(), Error> {
    let (ends, ended) = sync_channel(1);
    let service = Service(ends.clone());
    thread::Builder::new()
        .spawn(move || {
            let _ = ends.try_send(send_wish(wish, input, output, &service));
        })
        .map_err(|error| Error::Io { doing: "starting a thread", error })?;
    ended.recv().unwrap_or(Err(Error::Ended))
}

fn send_wish(
    wish: Wish,
    mut input: Input,
    mut output: Output,
    service: &Service,
) -> Result<(), Error> {
    let sources: Vec<_> = wish.sources.iter().map(|path| at_home(path)).collect();
    let (compresses, streams) = (wish.compresses, wish.streams);
    if compresses {
        output.compress()?;
    }
    let options = match wish.options() {
        Ok(options) => options,
        Err(why) => {
            output.record(&ToReceiver::Refused(why.clone()))?;
            output.flush()?;
            return Err(Error::Refused(why));
        }
    };
    let sources: Vec<_> = sources.iter().map(PathBuf::as_path).collect();
    let request = Request::new(&sources, Path::new(""), OsStr::new(""));
    let request = Request { compresses, ..request };
    let mut unseen = ();
    let mut session = Session::new(&request, &options, output, service, &mut unseen);
    session.is_served = true;
    session.run(&mut input, &request, streams).map(drop)
}

/// What all threads of the sender use.
struct Session<'a> {
    options: &'a CopyOptions,
    compresses: bool,
    /// The receiver is asked what it needs.
    asks: bool,
    /// The target, as its machine finds it.
    target: &'a Path,
    /// What messages put before paths of the other machine.
    host: &'a OsStr,
    /// The user is at the receiver, which is told what fails here.
    is_served: bool,
    /// Progress is displayed.
    shows: bool,
    first: Stream,
    queue: Queue,
    state: Mutex<State<'a>>,
    changed: Condvar,
    transport: &'a dyn Transport,
    ahead: Option<&'a Ahead>,
}

struct State<'a> {
    events: &'a mut dyn Events,
    /// The entries sent and not answered.
    awaited: BTreeMap<u64, Entry>,
    /// Of these, what the receiver may want when it has looked at what it has.
    asked: HashMap<u64, Found>,
    /// Files of which the receiver looks for what it lacks.
    resuming: HashMap<u64, Arc<Outgoing>>,
    next_id: u64,
    /// The directories entered and not left, which have no answer yet.
    depth: usize,
    is_whole: bool,
    /// The walk waits for answers.
    wants_room: bool,
    /// All is sent.
    is_finishing: bool,
    /// All is answered, or the session has failed.
    is_ended: bool,
    /// The target becomes the copy of the only operand: the answer to [`ToReceiver::Begin`].
    is_exact: Option<bool>,
    /// The answer to [`ToReceiver::Invite`].
    invitation: Option<Option<Token>>,
    /// Where the streams join that the receiver opens.
    host: Option<Host>,
    failure: Option<Error>,
}

impl<'a> Session<'a> {
    fn new(
        request: &Request<'a>,
        options: &'a CopyOptions,
        output: Output,
        transport: &'a dyn Transport,
        events: &'a mut dyn Events,
    ) -> Self {
        Self {
            options,
            compresses: request.compresses,
            asks: Rules::of(options).ask(),
            target: request.target,
            host: request.host,
            is_served: false,
            shows: events.wants_counts(),
            first: Stream::first(output),
            queue: Queue::default(),
            state: Mutex::new(State {
                events,
                awaited: BTreeMap::new(),
                asked: HashMap::new(),
                resuming: HashMap::new(),
                next_id: 1,
                depth: 0,
                is_whole: true,
                wants_room: false,
                is_finishing: false,
                is_ended: false,
                is_exact: None,
                invitation: None,
                host: None,
                failure: None,
            }),
            changed: Condvar::new(),
            transport,
            ahead: None,
        }
    }

    fn run(
        self,
        input: &mut Input,
        request: &Request<'_>,
        streams: Streams,
    ) -> Result<bool, Error> {
        thread::scope(|scope| {
            scope.spawn(|| self.ends_with(self.read_answers(input)));
            scope.spawn(|| self.ends_with(self.work(&self.first)));
            scope.spawn(|| self.ends_with(streams::add(scope, &self, streams)));
            self.ends_with(Walk::new(&self).send_all(request.sources));
        });
        let state = self.state.into_inner().unpoisoned();
        state.failure.map_or(Ok(state.is_whole), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unpoisoned()
    }

    /// Ends the session where a thread of it has failed.
    fn ends_with(&self, result: Result<(), Error>) {
        let Err(error) = result else { return };
        let mut state = self.lock();
        // A reason explains a stream that was closed.
        let explains =
            |error: &Error| !matches!(error, Error::Ended | Error::Io { .. } | Error::Further(_));
        let failure = match state.failure.take() {
            Some(known) if explains(&known) || !explains(&error) => known,
            _ => error,
        };
        let (text, is_known) = (failure.to_string(), failure.is_known_there());
        state.failure = Some(failure);
        state.is_ended = true;
        state.host = None;
        drop(state);
        self.changed.notify_all();
        self.queue.close();
        if self.is_served {
            let is_said = is_known || self.first.send(&ToReceiver::Refused(text.clone())).is_ok();
            self.transport.fails(if is_said { Error::Ended } else { Error::Local(text) });
        }
        // With its stream closed the other side ends, and with it the answers. One that is in use
        // is ended by the transport.
        self.first.close_if_idle();
        self.transport.end();
        self.first.close_if_idle();
    }

    /// Waits for the answer to [`ToReceiver::Invite`]. `None` if the session ends before, or no
    /// stream can join.
    fn invitation(&self) -> Option<Token> {
        let mut state = self.lock();
        while state.invitation.is_none() && !state.is_ended && !state.is_finishing {
            state = self.changed.wait(state).unpoisoned();
        }
        state.invitation.flatten()
    }

    /// A message from the other machine, without control characters for this terminal.
    fn said(&self, text: &str) -> String {
        format!("{} {}", self.host.display(), without_controls(text))
    }

    /// Can an entry be numbered without waiting?
    fn has_number(&self) -> bool {
        !self.lock().is_full()
    }

    /// A number for an entry that is sent next. Waits while too many are without an answer.
    fn number(
        &self,
        stream: &Stream,
        source: &Path,
        target: PathBuf,
        action: Action,
        bytes: Option<u64>,
    ) -> Result<u64, Error> {
        let mut state = self.lock();
        if state.is_full() {
            drop(state);
            stream.flush()?;
            state = self.lock();
        }
        // Until there is room for many: a wake-up for each answer would cost more than the entry.
        let was_full = state.is_full();
        while was_full && state.is_nearly_full() && !state.is_ended {
            state.wants_room = true;
            state = self.changed.wait(state).unpoisoned();
        }
        if state.is_ended {
            return Err(Error::Ended);
        }
        let id = state.next_id;
        let source = source.to_path_buf();
        let entry = Entry { source, target, action, bytes, digest: None, counted_bytes: 0 };
        state.next_id += 1;
        state.awaited.insert(id, entry);
        Ok(id)
    }

    /// Waits until all that was sent is answered.
    fn wait_for_answers(&self) -> Result<(), Error> {
        self.first.flush()?;
        self.queue.drain();
        let mut state = self.lock();
        while !state.awaited.is_empty() && !state.is_ended {
            state = self.changed.wait(state).unpoisoned();
        }
        if state.is_ended { Err(Error::Ended) } else { Ok(()) }
    }

    fn metadata(
        &self,
        fd: &impl AsFd,
        stat: &Stat,
        path: &Path,
    ) -> Result<EntryMetadata, gush_tree::Error> {
        let mut warn = |error| self.warns(&error);
        EntryMetadata::of(fd.as_fd(), stat, &self.options.preserve, path, &mut warn)
    }

    /// Metadata without attributes, for which nothing is opened.
    fn plain_metadata(&self, fd: &impl AsFd, stat: &Stat, path: &Path) -> EntryMetadata {
        EntryMetadata::of(fd.as_fd(), stat, &Preserve::default(), path, &mut |_| {})
            .unwrap_or_default()
    }

    /// The path of a copy, as messages show it. `below` begins with the name of the operand.
    fn shown(&self, below: &Path, is_exact: bool) -> PathBuf {
        let mut names = below.iter();
        if is_exact {
            names.next();
        }
        let target = match names.as_path() {
            below if below.as_os_str().is_empty() => self.target,
            below => &self.target.join(below),
        };
        at_host(self.host, target)
    }

    /// Counts bytes of a file that were sent, or are a hole, as progress.
    fn counts(&self, id: u64, bytes: u64) {
        let state = &mut *self.lock();
        if let Some(entry) = state.awaited.get_mut(&id) {
            entry.counted_bytes += bytes;
            entry::count(bytes, &entry.source, state.events);
        }
    }

    fn refuses(&self, source: &Path, target: &Path, why: impl Into<Failure>) {
        let mut why = why.into();
        if why.what.is_empty() {
            why.what.clone_from(&why.text);
        }
        why.text = format!("{} {}", quote::always(source), why.text);
        self.fails(target, gush_tree::Error::reported(source, why));
    }

    fn fails_text(&self, source: &Path, target: &Path, what: &str, errno: Errno) {
        let text = format!("{what} {}: {}", quote::always(source), gush_text::errno_text(errno));
        let errno = Some(errno.raw_os_error());
        let why = Failure { text, what: what.into(), errno, ..Failure::default() };
        self.fails(target, gush_tree::Error::reported(source, why));
    }

    fn fails(&self, target: &Path, error: gush_tree::Error) {
        if self.is_served {
            return self.tell(target, &error, false);
        }
        let mut state = self.lock();
        state.is_whole = false;
        while state.is_exact.is_none() && !state.is_ended {
            state = self.changed.wait(state).unpoisoned();
        }
        let target = self.shown(target, state.is_exact == Some(true));
        let source = error.path().to_path_buf();
        state.events.entry_ended(&source, &target, &Err(error));
    }

    fn warns(&self, warning: &gush_tree::Error) {
        match self.is_served {
            true => self.tell(Path::new(""), warning, true),
            false => self.lock().events.warns(warning),
        }
    }

    fn tell(&self, target: &Path, error: &gush_tree::Error, is_warning: bool) {
        let [path, target] =
            [error.path(), target].map(|path| path.as_os_str().as_bytes().to_vec());
        let why = error.into();
        // A stream that fails ends the session elsewhere.
        let _ = self.first.send(&ToReceiver::Problem { path, target, why, is_warning });
    }
}

impl State<'_> {
    fn is_full(&self) -> bool {
        self.awaited.len() >= WINDOW + self.depth
    }

    fn is_nearly_full(&self) -> bool {
        self.awaited.len() >= WINDOW / 2 + self.depth
    }

    /// The entry that is answered, with the path of its copy as `shown` has it.
    fn take(
        &mut self,
        id: u64,
        shown: impl FnOnce(&Path, bool) -> PathBuf,
    ) -> Result<Entry, Error> {
        let unsent = || Error::Protocol(format!("it answers entry {id}, which was not sent"));
        let entry = self.awaited.remove(&id).ok_or_else(unsent)?;
        let target = shown(&entry.target, self.is_exact == Some(true));
        Ok(Entry { target, ..entry })
    }
}
