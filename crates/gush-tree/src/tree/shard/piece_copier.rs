//! A rank whose own files are copied takes pieces of all announced large files.
//!
//! A rank with nothing left to take ends when no other may announce a file any more, which a rank
//! may as long as it walks through the tree. A lock shows the walk, and ends with the process:
//! nobody but rank 0 waits for a lost rank.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock};
use rustix::io::{Errno, retry_on_intr};

use super::Shard;
use super::claims::Claims;
use super::piece_store::{self, Piece, PieceStore, errno_of, pieces, size_of};
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Entry, Job, Target};
use crate::open;
use crate::options::Dereference;
use crate::place::{Place, open_above};
use crate::tree::Roots;
use crate::tree::listener::Listener;

/// So long after its own beginning a rank waits for others to begin.
const OTHERS_BEGIN_WITHIN: Duration = Duration::from_secs(5);

/// How often the lock of a walk is tried, and the pause between two tries: other ranks hold the
/// lock for a moment when they look at it.
const LOCK_TRIES: u32 = 200;
const LOCK_TRIES_EVERY: Duration = Duration::from_millis(5);

/// The sign that this rank walks through the tree, and may announce large files.
pub(super) struct WalkLock<'s> {
    dir: BorrowedFd<'s>,
    name: PathBuf,
    /// Locked.
    _file: File,
}

pub(super) fn sign_of_walk(rank: u32) -> PathBuf {
    PathBuf::from(format!("rank-{rank}.walks"))
}

impl<'s> WalkLock<'s> {
    /// # Errors
    /// EWOULDBLOCK if another process is this rank.
    pub(super) fn begin(dir: BorrowedFd<'s>, rank: u32) -> Result<Self, Errno> {
        let name = sign_of_walk(rank);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = Place::below(dir, &name, &name).open_regular(flags, Mode::RUSR | Mode::WUSR)?;
        let mut tries_left = LOCK_TRIES;
        loop {
            match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Err(Errno::WOULDBLOCK) if tries_left > 0 => thread::sleep(LOCK_TRIES_EVERY),
                locked => break locked?,
            }
            tries_left -= 1;
        }
        Ok(Self { dir, name, _file: file.into() })
    }
}

/// Does a process hold the lock of this file?
pub(super) fn is_locked(place: &Place<'_>) -> bool {
    place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()).is_ok_and(|file| {
        // A lock that is got is let go with the descriptor.
        let locked = retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared));
        locked == Err(Errno::WOULDBLOCK)
    })
}

impl Drop for WalkLock<'_> {
    fn drop(&mut self) {
        let _ = Place::below(self.dir, &self.name, &self.name).unlink();
    }
}

/// The other ranks, as far as they may still announce a large file.
pub(super) struct OtherWalks<'s> {
    dir: BorrowedFd<'s>,
    began: Instant,
    left: VecDeque<u32>,
}

impl<'s> OtherWalks<'s> {
    pub(super) fn of(dir: BorrowedFd<'s>, shard: Shard) -> Self {
        Self { dir, began: Instant::now(), left: shard.others().collect() }
    }

    /// Does another rank walk, or begin soon? A rank that has stopped once is not asked again.
    pub(super) fn any(&mut self) -> bool {
        while let Some(rank) = self.left.front() {
            if self.may_announce(*rank) {
                return true;
            }
            self.left.pop_front();
        }
        false
    }

    fn may_announce(&self, rank: u32) -> bool {
        let sign = sign_of_walk(rank);
        let place = Place::below(self.dir, &sign, &sign);
        if is_locked(&place) {
            return true;
        }
        // A rank with a journal and no lock has ended its walk, or is lost.
        let journal = PathBuf::from(format!("rank-{rank}.journal"));
        let has_begun = Place::below(self.dir, &journal, &journal).stat(false).is_ok();
        !has_begun && self.began.elapsed() < OTHERS_BEGIN_WITHIN
    }
}

/// A large file of which this rank may take pieces.
struct Large {
    /// Below the tree's root.
    path: PathBuf,
    /// For messages: source, target.
    shown: (PathBuf, PathBuf),
    /// The file of pieces.
    name: PathBuf,
    claims: Claims,
    source: OwnedFd,
    stat: Stat,
    /// Claimed before this rank was started again, and not copied.
    left: Mutex<Vec<u64>>,
}

/// Looks for work, and does it. Returns how long the look took by the clock `now`: a rank's pause
/// grows with its looks, and not with the pieces that it has copied, after which others may be
/// free.
fn look_and_take<T, F>(
    copier: &mut T,
    now: impl Fn() -> Instant,
    look: impl FnOnce(&T) -> Result<F, Error>,
    take: impl FnOnce(&mut T, F) -> Result<(), Error>,
) -> Result<Duration, Error> {
    let began = now();
    let found = look(copier)?;
    let looked = now().saturating_duration_since(began);
    take(copier, found)?;
    Ok(looked)
}

/// Takes pieces of one announced file after the other.
pub(super) struct PieceCopier<'a> {
    common: Common<'a>,
    store: &'a PieceStore<'a>,
    /// The source's root.
    root: OwnedFd,
    roots: Roots<'a>,
    /// The links to the files of which this rank takes no more pieces.
    known: HashSet<PathBuf>,
    threads: usize,
    /// Of all pieces that this rank has claimed.
    pub(super) bytes: u64,
    pub(super) is_complete: bool,
}

impl<'a> PieceCopier<'a> {
    pub(super) fn new(
        common: &Common<'a>,
        store: &'a PieceStore<'a>,
        root: OwnedFd,
        roots: Roots<'a>,
        is_complete: bool,
    ) -> Self {
        let threads = match common.options.moving.threads {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        };
        let known = HashSet::new();
        Self { common: *common, store, root, roots, known, threads, bytes: 0, is_complete }
    }

    /// Has the user stopped the copy, or a failure?
    pub(super) fn is_stopped(&self) -> bool {
        let options = self.common.options;
        options.moving.cancel.as_ref().is_some_and(gush::Cancel::is_cancelled)
            || options.stop_at_error && !self.is_complete
    }

    /// The links to files announced since the last look.
    fn new_links(&self) -> Result<Vec<PathBuf>, Error> {
        let links = self.store.links().map_err(|errno| self.store.unreadable(errno))?;
        Ok(links.into_iter().filter(|link| !self.known.contains(link)).collect())
    }

    /// Takes pieces of all files announced since the last call, until none is free. Returns how
    /// long the look at the state took.
    ///
    /// # Errors
    /// If the state cannot be read. Failures of a file are reported to `events`.
    pub(super) fn take(&mut self, events: &mut dyn Events) -> Result<Duration, Error> {
        // Announced by a launch with other options: the owners and rank 0 copy these files whole.
        if !piece_store::are_made(self.common.options) {
            return Ok(Duration::ZERO);
        }
        let take_of_all = |copier: &mut Self, links| copier.take_of_all(links, events);
        look_and_take(self, Instant::now, |copier| copier.new_links(), take_of_all)
    }

    fn take_of_all(&mut self, links: Vec<PathBuf>, events: &mut dyn Events) -> Result<(), Error> {
        for link in links {
            if self.is_stopped() {
                return Ok(());
            }
            match self.large(&link) {
                Ok(Some(large)) => self.take_of(&large, events)?,
                // The owner makes it anew, or rank 0 copies the file whole.
                Ok(None) => {}
                Err(error) => self.failed(&error.0, error.1, events),
            }
            self.known.insert(link);
        }
        Ok(())
    }

    /// Removes announcements whose source is gone or another by now, so that a copy that goes on
    /// does not miss the file again. No rank takes pieces any more.
    ///
    /// # Errors
    /// If the state cannot be read or changed.
    pub(super) fn forget_void(&self) -> Result<(), Error> {
        let failed = |errno| self.store.unreadable(errno);
        for (name, path) in self.store.tables().map_err(failed)? {
            let shown = self.shown(&path);
            let link = piece_store::link_to(&name);
            // What cannot be opened may be there when the copy goes on.
            if let Ok(None) = self.open(&path, &link, &shown) {
                self.store.forget(&link, &name).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn failed(&mut self, shown: &(PathBuf, PathBuf), error: Error, events: &mut dyn Events) {
        self.is_complete = false;
        events.entry_ended(&shown.0, &shown.1, &Err(error));
    }

    /// The names of a file for messages: source, target.
    fn shown(&self, path: &Path) -> (PathBuf, PathBuf) {
        (self.roots.source.join(path), self.roots.target.join(path))
    }

    /// The announced file that the link leads to; `None` where it is gone, or the source is another
    /// by now.
    fn large(&self, link: &Path) -> Result<Option<Large>, ((PathBuf, PathBuf), Error)> {
        let in_state = |errno| {
            let shown = (self.roots.source.to_path_buf(), self.roots.target.to_path_buf());
            (shown, self.store.unreadable(errno))
        };
        let Some((name, claims)) = self.store.named(link).map_err(in_state)? else {
            return Ok(None);
        };
        let path = claims.path.clone();
        let shown = self.shown(&path);
        let opened = self.open(&path, link, &shown);
        let Some((source, stat)) = opened.map_err(|error| (shown.clone(), error))? else {
            return Ok(None);
        };
        let rank = self.store.division.shard.rank();
        let mut left = claims.of(rank).map_err(|error| in_state(errno_of(&error)))?;
        left.retain(|piece| !self.store.has_piece(&name, *piece));
        Ok(Some(Large { path, shown, name, claims, source, stat, left: Mutex::new(left) }))
    }

    /// Opens a source by its path below the root, one name after the other; `None` if it is not
    /// what was announced.
    fn open(
        &self,
        path: &Path,
        link: &Path,
        shown: &(PathBuf, PathBuf),
    ) -> Result<Option<(OwnedFd, Stat)>, Error> {
        let follows = self.common.options.dereference != Dereference::Never;
        let no_follow = if follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        let os = |what: &'static str| {
            let shown = shown.0.clone();
            move |errno| Error::os(&shown, what, errno)
        };
        let above = match open_above(self.root.as_fd(), path, no_follow) {
            Ok(above) => above,
            // Removed or replaced since: no rank has the file any more.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(os("cannot open the directory of {}")(errno)),
        };
        let from = above.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        let name = Path::new(path.file_name().unwrap_or(OsStr::new("")));
        let place = Place::below(from, name, &shown.0);
        let Some(stat) = place.find(follows)? else { return Ok(None) };
        // By size and times, which are in the link's name.
        if PieceStore::link(path, &stat) != link {
            return Ok(None);
        }
        let source = open::source(&self.job(place, &stat, &shown.1))?;
        Ok((PieceStore::link(path, &source.1) == link).then_some(source))
    }

    /// A job of the engine: the pieces go to a file of the state, and the target is only named in
    /// messages.
    fn job<'j>(&'j self, place: Place<'j>, stat: &'j Stat, target: &'j Path) -> Job<'j> {
        let target = Target::operand(Place::below(place.dir, target, target));
        Job::new(&self.common, Entry::new(place, stat), target)
    }

    fn take_of(&mut self, large: &Large, events: &mut dyn Events) -> Result<(), Error> {
        let threads = self.threads.min(pieces(size_of(&large.stat)).len()).max(1);
        let listener = Listener::new(events);
        let failed = Mutex::new(None);
        let note = |result: Result<(), Error>| {
            if let Err(error) = result {
                failed.lock().unpoisoned().get_or_insert(error);
            }
        };
        let is_stopped = || self.is_stopped() || failed.lock().unpoisoned().is_some();
        let work = || note(self.take_until(large, &is_stopped, &mut &listener));
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without one more thread the others take all pieces.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let failed = failed.into_inner().unpoisoned();
        if let Some(error) = failed {
            self.failed(&large.shown, error, events);
        }
        let rank = self.store.division.shard.rank();
        let own = large.claims.of(rank);
        let own = own.map_err(|error| self.store.unreadable(errno_of(&error)))?;
        let is_own = |piece: &Piece| own.contains(&piece.number);
        let own_pieces = pieces(large.claims.file_bytes).filter(is_own);
        self.bytes += own_pieces.map(|piece| piece.len_bytes).sum::<u64>();
        Ok(())
    }

    /// Takes one piece after the other, as one of several threads.
    fn take_until(
        &self,
        large: &Large,
        is_stopped: &dyn Fn() -> bool,
        events: &mut dyn Events,
    ) -> Result<(), Error> {
        let Large { path, shown, name, claims, source, stat, left } = large;
        let shard = self.store.division.shard;
        let place = Place::below(self.root.as_fd(), path, &shown.0);
        let job = self.job(place, stat, &shown.1);
        while !is_stopped() {
            let earlier = left.lock().unpoisoned().pop();
            let number = match earlier {
                Some(number) => number,
                None => {
                    let prefers = |number| shard.takes_piece(path, number);
                    let claimed = claims.claim(shard.rank(), prefers, is_stopped);
                    match claimed.map_err(|error| self.store.unclaimable(&error))? {
                        Some(number) => number,
                        None => break,
                    }
                }
            };
            let Some(piece) = pieces(size_of(stat)).nth(number as usize) else { continue };
            self.store.copy_piece(&job, source.as_fd(), name, piece, events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn copied_pieces_count_for_no_pause() {
        let (began, passed) = (Instant::now(), Cell::new(Duration::ZERO));
        let lasts = |time| passed.set(passed.get() + time);
        let look = |_: &()| {
            lasts(Duration::from_millis(3));
            Ok("an announced file")
        };
        let take = |_: &mut (), found| {
            assert_eq!(found, "an announced file");
            lasts(Duration::from_secs(3600));
            Ok(())
        };
        let looked = look_and_take(&mut (), || began + passed.get(), look, take);
        assert_eq!(looked.unwrap(), Duration::from_millis(3));
        assert_eq!(passed.get(), Duration::from_millis(3_600_003), "all was taken");
    }
}
