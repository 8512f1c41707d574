//! What is to be sent next, from the walk to the workers.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gush::Unpoisoned;
use gush_text::quote;
use gush_tree::Action;
use gush_tree::remote::{EntryMetadata, open_above, open_found};
use rustix::fs::{self, AtFlags, FileType, OFlags, Stat};

use super::ahead::{MUCH_BYTES, data_bytes};
use super::outgoing::{Data, Outgoing};
use crate::entry;
use crate::record::{Item, Token};

/// The most files that wait: each holds a descriptor of its directory.
const MOST_WAITING: usize = 64;
/// The most files that the receiver has opened to see what it lacks of them.
const MOST_RESUMING: usize = 8;

/// A regular file that the walk has found.
pub(super) struct Found {
    pub id: u64,
    pub place: Place,
    pub sent_as: OsString,
    pub stat: Stat,
    pub path: PathBuf,
    pub target: PathBuf,
    /// The number of its directory.
    pub folder: u64,
    pub has_names: bool,
    /// The root of the walk and the path below it, by which the file is found again.
    pub below: Option<(Arc<OwnedFd>, PathBuf)>,
}

impl Found {
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// What the receiver learns of it.
    pub fn item(&self, metadata: EntryMetadata) -> Item {
        let Self { id, folder, has_names, .. } = *self;
        Item { id, folder, name: self.sent_as.as_bytes().to_vec(), metadata, has_names }
    }

    /// Lets go of the directory, until an answer has come.
    pub fn let_go(&mut self) {
        if let Some((dir, name)) = self.below.take() {
            self.place = Place { dir, name };
        }
    }
}

/// How an entry is copied, and the size of a regular file.
pub(super) fn copied(stat: &Stat) -> (Action, Option<u64>) {
    let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    entry::copied(FileType::from_raw_mode(stat.st_mode), size_bytes)
}

/// Where a file was found: in a directory that is held, or below one. While many files wait for an
/// answer, their directories are not held.
pub(super) struct Place {
    pub dir: Arc<OwnedFd>,
    pub name: PathBuf,
}

impl Place {
    /// Has the directory another entry with this name?
    pub fn has_sibling(&self, name: &OsStr) -> bool {
        let name = self.name.with_file_name(name);
        fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens the file, for reading or by `O_PATH`. No symbolic link is followed on the way, and a
    /// file that has taken its place is refused.
    pub fn open(
        &self,
        stat: &Stat,
        shown: &Path,
        reads: bool,
    ) -> Result<OwnedFd, gush_tree::Error> {
        let above = open_above(self.dir.as_fd(), &self.name, OFlags::NOFOLLOW);
        let above = above.map_err(|errno| {
            let why = gush_text::errno_text(errno);
            let text = format!("cannot open {} again: {why}", quote::always(shown));
            gush_tree::Error::reported(shown, text)
        })?;
        let dir = above.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
        open_found(dir, self.name.file_name().unwrap_or_default(), stat, shown, reads)
    }
}

/// One worker's next piece of work.
pub(super) enum Job {
    /// To be sent, or to be asked about.
    Found(Box<Found>),
    /// The receiver wants this file.
    Wanted(Box<Found>),
    /// The receiver wants this file if its hash is another.
    Compare(Box<Found>, String),
    /// A file of which the receiver has all data.
    Ended(Arc<Outgoing>),
    /// A range of a file that the receiver knows.
    Range(Arc<Outgoing>, Data),
    /// The receiver is asked to open further streams.
    Invite(Token),
}

/// Is the first stream slower than the walk?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Not,
    /// Work waits for it at this moment.
    Now,
    /// So much is to be sent that it will be.
    Much,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Workers wait for work.
    work: Condvar,
    /// Somebody waits for the last job to be done, for an answer, or for the end.
    changed: Condvar,
    /// The walk waits for room.
    room: Condvar,
}

#[derive(Default)]
struct State {
    invitation: Option<Token>,
    found: VecDeque<Box<Found>>,
    /// What the receiver has answered to questions.
    answered: VecDeque<Job>,
    /// Questions without an answer.
    asked: usize,
    /// Of these, about files that the receiver has opened.
    resuming: usize,
    /// Files with ranges that no worker has taken.
    divided: VecDeque<Arc<Outgoing>>,
    /// Workers with a job.
    busy: usize,
    wants_room: bool,
    /// What the files had that were added so far.
    added_bytes: u64,
    /// Somebody waits for the last job to be done.
    is_draining: bool,
    is_closed: bool,
}

impl State {
    fn waiting(&self) -> usize {
        self.found.len() + self.divided.len()
    }

    /// Files under way come first, so that few are.
    fn take(&mut self) -> Option<Job> {
        if self.is_closed {
            return None;
        }
        if let Some(token) = self.invitation.take() {
            self.busy += 1;
            return Some(Job::Invite(token));
        }
        while let Some(file) = self.divided.front() {
            if let Some(data) = file.claim() {
                self.busy += 1;
                return Some(Job::Range(Arc::clone(file), data));
            }
            self.divided.pop_front();
        }
        let job = match self.answered.pop_front() {
            Some(job) => job,
            None => Job::Found(self.found.pop_front()?),
        };
        self.busy += 1;
        Some(job)
    }

    fn has_work(&self) -> bool {
        !(self.found.is_empty() && self.answered.is_empty() && self.divided.is_empty())
    }

    fn is_idle(&self) -> bool {
        !self.has_work() && self.busy == 0 && self.asked == 0
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// After any change by which the last job may be done.
    fn settles(&self, state: &State) {
        if state.is_draining && state.is_idle() {
            self.changed.notify_all();
        }
    }

    /// Is there room for another file? A caller that waits for it flushes its stream first.
    pub fn has_room(&self) -> bool {
        self.lock().waiting() < MOST_WAITING
    }

    /// Waits until there is room for many files: a wake-up for each would cost more than the file.
    pub fn wait_for_room(&self) {
        let mut state = self.lock();
        while state.waiting() > MOST_WAITING / 2 && !state.is_closed {
            state.wants_room = true;
            state = self.room.wait(state).unpoisoned();
        }
    }

    /// Adds files.
    pub fn put(&self, found: impl IntoIterator<Item = Found>) {
        let mut state = self.lock();
        let before_bytes = state.added_bytes;
        for found in found {
            state.added_bytes += data_bytes(&found.stat);
            state.found.push_back(Box::new(found));
        }
        if before_bytes < MUCH_BYTES && state.added_bytes >= MUCH_BYTES {
            self.changed.notify_all();
        }
        drop(state);
        self.work.notify_all();
    }

    /// Adds a file whose ranges any worker can send.
    pub fn divide(&self, file: Arc<Outgoing>) {
        self.lock().divided.push_back(file);
        self.work.notify_all();
    }

    /// Asks for further streams, before anything else.
    pub fn invite(&self, token: Token) {
        self.lock().invitation = Some(token);
        self.work.notify_one();
    }

    /// A question is asked, which is going to be answered.
    pub fn ask(&self) {
        self.lock().asked += 1;
    }

    /// A question is answered, by a job or without one.
    pub fn answer(&self, job: Option<Job>) {
        let mut state = self.lock();
        state.asked -= 1;
        state.answered.extend(job);
        self.work.notify_one();
        self.settles(&state);
    }

    /// Asks about a file that the receiver opens; not about many at once.
    pub fn ask_to_resume(&self) {
        let mut state = self.lock();
        while state.resuming >= MOST_RESUMING && !state.is_closed {
            state = self.changed.wait(state).unpoisoned();
        }
        state.resuming += 1;
        state.asked += 1;
    }

    /// The receiver has said what it lacks of a file.
    pub fn resume(&self, file: Arc<Outgoing>) {
        let mut state = self.lock();
        state.resuming -= 1;
        state.asked -= 1;
        match file.is_empty() {
            true => state.answered.push_back(Job::Ended(file)),
            false => state.divided.push_back(file),
        }
        self.work.notify_all();
        self.changed.notify_all();
    }

    /// A file that was to be resumed cannot be sent.
    pub fn give_up_resuming(&self) {
        let mut state = self.lock();
        state.resuming -= 1;
        state.asked -= 1;
        self.changed.notify_all();
    }

    /// The next job, if there is one now.
    pub fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        let job = state.take();
        self.makes_room(&mut state);
        self.settles(&state);
        job
    }

    fn makes_room(&self, state: &mut State) {
        if state.wants_room && state.waiting() <= MOST_WAITING / 2 {
            state.wants_room = false;
            self.room.notify_all();
        }
    }

    /// The next job. `None` at the end.
    pub fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.take() {
                self.makes_room(&mut state);
                return Some(job);
            }
            self.settles(&state);
            state = self.work.wait(state).unpoisoned();
        }
    }

    /// A job is done.
    pub fn done(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        self.settles(&state);
    }

    /// Waits until all is sent.
    pub fn drain(&self) {
        let mut state = self.lock();
        state.is_draining = true;
        while !state.is_idle() && !state.is_closed {
            state = self.changed.wait(state).unpoisoned();
        }
        state.is_draining = false;
    }

    /// Ends all waiting: nothing more is sent.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
        self.room.notify_all();
        self.changed.notify_all();
    }

    /// Waits for a time, or with `counts` until much was added. Is there then work that no worker
    /// has taken, or that much? `None` at the end.
    pub fn is_behind(&self, after: Duration, counts: bool) -> Option<Behind> {
        let is_much = |state: &State| counts && state.added_bytes >= MUCH_BYTES;
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, after, |state| !(state.is_closed || is_much(state)))
            .unpoisoned();
        (!state.is_closed).then(|| match state.has_work() {
            _ if is_much(&state) => Behind::Much,
            true => Behind::Now,
            false => Behind::Not,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// For a test that hangs otherwise.
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn what_takes_long_to_send_is_known_before_it_has_waited() {
        let dir = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let mut stat = fs::fstat(&dir).unwrap();
        let bytes = i64::try_from(MUCH_BYTES / 2).unwrap();
        (stat.st_size, stat.st_blocks) = (bytes, bytes / 512);
        let found = || Found {
            id: 1,
            place: Place { dir: Arc::clone(&dir), name: PathBuf::new() },
            sent_as: OsString::new(),
            stat,
            path: PathBuf::new(),
            target: PathBuf::new(),
            folder: 0,
            has_names: false,
            below: None,
        };
        let queue = Queue::default();
        queue.put([found()]);
        assert_eq!(queue.is_behind(Duration::ZERO, true), Some(Behind::Now));
        let (to, from) = mpsc::channel();
        thread::scope(|scope| {
            let queue = &queue;
            scope.spawn(move || {
                to.send(rustix::thread::gettid()).unwrap();
                assert_eq!(queue.is_behind(LONG, true), Some(Behind::Much));
            });
            let waiting = from.recv().unwrap().as_raw_nonzero();
            let stat = format!("/proc/self/task/{waiting}/stat");
            while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
                thread::yield_now();
            }
            queue.put([found()]);
        });
        assert_eq!(queue.is_behind(Duration::ZERO, false), Some(Behind::Now));
        queue.close();
        assert_eq!(queue.is_behind(LONG, true), None);
    }
}
