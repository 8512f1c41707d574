//! `--verify` at the end: a file that was compared is looked at once more when all is copied.
//!
//! Whatever wrote to it meanwhile, by another of its names or from another process, has changed its
//! change time, which before Linux 6.13 counts in ticks of up to 10 ms. Such a file is compared
//! again.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gush::Unpoisoned;
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::{SHARED_FILES, Walk};
use crate::data;
use crate::error::Error;
use crate::place::{Bounds, Place, open_above, same_file};

/// A target that equalled its source: the path below the root, and the state when complete.
pub(super) struct Verified {
    path: PathBuf,
    state: Stat,
}

/// A further name, as `-a` gives it, changes the change time but no byte.
fn has_same_bytes(was: &Stat, now: &Stat) -> bool {
    let modified = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
    let changed = |stat: &Stat| (stat.st_ctime, stat.st_ctime_nsec);
    same_file(was, now)
        && was.st_size == now.st_size
        && match was.st_nlink == now.st_nlink {
            true => changed(was) == changed(now),
            false => modified(was) == modified(now),
        }
}

impl Walk<'_> {
    /// Remembers a file that was just compared.
    pub(super) fn note_verified(&self, path: &Path, state: &Stat) {
        let file = Verified { path: path.to_owned(), state: *state };
        self.verified.lock().unpoisoned().push(file);
    }

    /// Looks at the files compared since the last call, and reports those that are no longer equal.
    pub(super) fn verify_again(&self) {
        let files = mem::take(&mut *self.verified.lock().unpoisoned());
        let next = AtomicUsize::new(0);
        let look = || {
            // Relaxed: only the number counts.
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.is_cancelled() {
                    return;
                }
                let [source, target] =
                    [self.roots.source, self.roots.target].map(|root| root.join(&file.path));
                if let Err(error) = self.verify_file_again(file, &source, &target) {
                    self.note_failure();
                    self.listener.entry_ended(&source, &target, &Err(error));
                }
            }
        };
        // As many as the tree's, which waited for the same file systems.
        let threads = self.queue.threads().min(files.len() / SHARED_FILES + 1);
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without one more thread the others look at all files.
                let _ = thread::Builder::new().spawn_scoped(scope, look);
            }
            look();
        });
    }

    fn verify_file_again(
        &self,
        file: &Verified,
        source: &Path,
        target: &Path,
    ) -> Result<(), Error> {
        let (from, to) = (self.root_pair.source(), self.root_pair.target());
        let cannot = |shown, errno| Error::os(shown, "cannot verify {} again", errno);
        let now = stat_below(to, &file.path).map_err(|errno| cannot(target, errno))?;
        if has_same_bytes(&file.state, &now) {
            return Ok(());
        }
        let copy = Place::below(to, &file.path, target);
        let bounds = self.common.options.confine.then_some(Bounds { root: to, path: &file.path });
        let copy = open(&Place { bounds, ..copy }).map_err(|errno| cannot(target, errno))?;
        let original =
            open(&Place::below(from, &file.path, source)).map_err(|errno| cannot(source, errno))?;
        let stored = data::as_stored(copy.as_fd(), target)?;
        match data::difference((original.as_fd(), source), (stored.as_fd(), target))? {
            None => Ok(()),
            Some(at) => {
                let text = format!(
                    "verification of {{}} failed: the copy was equal, and differs from the source \
                     at byte {at} now"
                );
                Err(Error::refusal(target, text).hinting("another process changed one of them"))
            }
        }
    }
}

/// The look at a file in a tree of any depth, whose last name may be a link.
fn stat_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<Stat> {
    match retry_on_intr(|| fs::statat(root, path, AtFlags::empty())) {
        Err(Errno::NAMETOOLONG) => {
            let file = open_step_by_step(root, path, OFlags::PATH)?;
            retry_on_intr(|| fs::fstat(&file))
        }
        found => found,
    }
}

fn open(place: &Place<'_>) -> io::Result<OwnedFd> {
    match place.open_regular(OFlags::RDONLY, Mode::empty()) {
        Err(Errno::NAMETOOLONG) => {
            open_step_by_step(place.dir, place.name, OFlags::RDONLY | OFlags::NONBLOCK)
        }
        opened => opened,
    }
}

/// Opens what has a path longer than PATH_MAX, which may hold no link.
fn open_step_by_step(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let above = open_above(root, path, OFlags::NOFOLLOW)?;
    let name = Path::new(path.file_name().unwrap_or_default());
    Place::below(above.as_ref().map_or(root, AsFd::as_fd), name, path)
        .open(flags | OFlags::NOFOLLOW, Mode::empty())
}
