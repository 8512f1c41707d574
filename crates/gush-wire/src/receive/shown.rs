//! What the user sees where the user is at the receiver, and what the sender may send there: the
//! sources that were asked for.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use gush::Unpoisoned;
use gush_tree::remote::Failure;
use gush_tree::{
    CopyOptions, Dereference, Error as TreeError, Events, Naming, strip_trailing_slashes,
};
use rustix::fs::FileType;

use super::session::{Session, out_of_place};
use crate::entry::Entry;
use crate::error::{Error, ensure};
use crate::record::{Outcome, Token};
use crate::remote::{at_host, said_at};
use crate::send::Request;

/// The most events that wait for the user's thread.
const MOST_WAITING: usize = 1024;

pub(super) const NOT_ASKED_FOR: &str = "it sends what was not asked for";

/// Something that the user's thread is to show.
pub(crate) type Event = Box<dyn FnOnce(&mut dyn Events) + Send>;

pub(crate) struct Shown {
    happens: SyncSender<Event>,
    sources: Vec<PathBuf>,
    host: OsString,
    pub is_recursive: bool,
    pub verifies: bool,
    /// Progress is displayed.
    pub wants_counts: bool,
    follows_sources: bool,
    is_whole: AtomicBool,
    /// What the sender has explained, and the entries that did not come.
    problems: AtomicUsize,
    unsent: AtomicUsize,
    announced: Mutex<Announced>,
    /// `None` once the sender has invited, and where one stream is all there is.
    invites: Mutex<Option<SyncSender<Invited>>>,
}

/// The sources that the sender has announced.
#[derive(Default)]
struct Announced {
    /// By their names, the latest one of a name: of others with the name nothing more comes.
    numbers: HashMap<OsString, u32>,
    last: Option<u32>,
    count: usize,
}

/// Further streams can join a session.
pub(super) type Invited = (Arc<Session>, Token);

/// The name of a source's copy. That of the home directory is known to the sender alone.
fn name_of(source: &Path) -> Option<&OsStr> {
    let is_home = strip_trailing_slashes(source) == Path::new("~");
    (!is_home).then(|| Naming::default().name_below(source).as_os_str())
}

impl Shown {
    pub(super) fn new(
        request: &Request<'_>,
        options: &CopyOptions,
        wants_counts: bool,
        invites: Option<SyncSender<Invited>>,
    ) -> (Self, Receiver<Event>) {
        let (happens, happened) = sync_channel(MOST_WAITING);
        let shown = Self {
            happens,
            sources: request.sources.iter().map(|path| path.to_path_buf()).collect(),
            host: request.host.to_owned(),
            is_recursive: options.recursive,
            verifies: options.verify,
            wants_counts,
            follows_sources: options.dereference != Dereference::Never,
            is_whole: AtomicBool::new(true),
            problems: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            announced: Mutex::default(),
            invites: Mutex::new(invites),
        };
        (shown, happened)
    }

    /// Has nothing failed so far?
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    pub fn fails(&self) {
        self.is_whole.store(false, Ordering::Relaxed);
    }

    pub fn show(&self, event: impl FnOnce(&mut dyn Events) + Send + 'static) {
        // The user's thread has ended only after a panic.
        let _ = self.happens.send(Box::new(event));
    }

    /// The sender has invited further streams, once.
    pub(super) fn is_invited(&self, session: &Arc<Session>, token: Token) -> Result<(), Error> {
        let invites = self.invites.lock().unpoisoned().take();
        let invites = invites.ok_or_else(|| out_of_place("Invitation"))?;
        // Nobody listens where a thread could not be had.
        let _ = invites.send((Arc::clone(session), token));
        Ok(())
    }

    /// A source that was asked for comes next, under a name that it can have.
    pub fn announce(&self, number: u32, name: OsString) -> Result<(), Error> {
        let source = self.sources.get(number as usize).ok_or_else(|| out_of_place("Operand"))?;
        // A home directory without a name of this user's programs, and not the target itself.
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let is_right = name_of(source).map_or(!is_hidden, |asked| asked == name);
        ensure(is_right, NOT_ASKED_FOR)?;
        let mut announced = self.announced.lock().unpoisoned();
        if announced.last >= Some(number) {
            return Err(out_of_place("Operand"));
        }
        announced.last = Some(number);
        announced.count += 1;
        announced.numbers.insert(name, number);
        Ok(())
    }

    /// Nothing more is announced: each source was, or a problem with it is known.
    pub fn end_announcements(&self) -> Result<(), Error> {
        let is_all = self.announced.lock().unpoisoned().count == self.sources.len();
        ensure(is_all || !self.is_whole(), "a source was not sent")
    }

    /// Was an entry of the base announced?
    pub fn has_announced(&self, name: &OsStr) -> bool {
        self.announced.lock().unpoisoned().numbers.contains_key(name)
    }

    /// The source of an entry of the base. One with another name is the only one.
    fn source_of(&self, name: &OsStr) -> &Path {
        let number =
            self.announced.lock().unpoisoned().numbers.get(name).copied().unwrap_or_default();
        self.sources.get(number as usize).map_or(Path::new(""), PathBuf::as_path)
    }

    /// Can an entry of the base be of this kind, which is no directory?
    pub fn may_be_other(&self, name: &OsStr, kind: FileType) -> bool {
        name_of(self.source_of(name)).is_some_and(|name| name != ".")
            && match kind {
                FileType::RegularFile => true,
                FileType::Symlink => !self.follows_sources,
                _ => self.is_recursive,
            }
    }

    /// A file of the base comes: if it is the only source, its size is all there is to copy.
    pub fn expects(&self, bytes: u64) {
        if self.wants_counts && self.sources.len() == 1 {
            self.show(move |events| events.expects(1, bytes));
        }
    }

    /// The source of an entry of the base, as messages show it.
    pub fn source(&self, name: &OsStr) -> PathBuf {
        at_host(&self.host, self.source_of(name))
    }

    /// An entry has its answer; one without a reason to fail was reported before.
    pub fn ends(&self, entry: Entry, ended: Result<Outcome, Failure>) {
        let verifies = self.verifies;
        match ended {
            Ok(outcome) => {
                if !outcome.is_complete() {
                    self.fails();
                }
                self.show(move |events| entry.ends(outcome, verifies, events));
            }
            Err(why) => {
                self.fails();
                if !why.text.is_empty() {
                    self.show(move |events| entry.fails(why, events));
                }
            }
        }
    }

    /// Shows what the sender says about its side.
    pub fn problem(&self, path: &Path, target: PathBuf, why: Failure, is_warning: bool) {
        let path = at_host(&self.host, path);
        let error = TreeError::reported(&path, said_at(&self.host, why));
        if is_warning {
            return self.show(move |events| events.warns(&error));
        }
        self.fails();
        self.problems.fetch_add(1, Ordering::Relaxed);
        self.show(move |events| events.entry_ended(&path, &target, &Err(error)));
    }

    /// An entry does not come, which the sender explains.
    pub fn is_unsent(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// Shows how many entries did not come for no reason that the sender has said.
    pub fn ends_explanations(&self) {
        let (unsent, problems) = (self.unsent.load(Ordering::Relaxed), &self.problems);
        let unexplained = unsent.saturating_sub(problems.load(Ordering::Relaxed));
        if unexplained > 0 {
            let text = format!("{unexplained} entries were not sent, without a reason");
            self.problem(Path::new(""), PathBuf::new(), text.into(), false);
        }
    }
}
