//! What is cleaned up when an end is no longer used: names, programs, terminals.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gush_net::Conduit;
use rustix::fs::{Mode, OFlags, fstat};

use super::child::Program;
use super::flows::Served;
use super::input::Input;
use super::pty::{self, Line};
use super::terminal::PutBack;
use crate::address::{Opt, OptionSet};

/// A name in the file system made for one end, and removed with the end.
#[derive(Debug)]
pub(crate) struct Made {
    path: PathBuf,
    /// Held open, so that no other file gets its inode number (inode(7)).
    held: OwnedFd,
    is_kept: bool,
}

impl Made {
    /// The name at `path`, where `now_at` will be renamed to; `None` with `unlink-close=0`.
    pub fn if_removed(path: &Path, now_at: &Path, options: &OptionSet) -> io::Result<Option<Self>> {
        Ok(Self::at(path, now_at)?.unless_kept(options))
    }

    pub fn at(path: &Path, now_at: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(now_at, flags, Mode::empty())?;
        // The working directory may change before the end.
        Ok(Self { path: std::path::absolute(path)?, held, is_kept: false })
    }

    /// `None` with `unlink-close=0`, for which the name stays.
    pub fn unless_kept(mut self, options: &OptionSet) -> Option<Self> {
        self.is_kept = options.flag(Opt::UnlinkClose) == Some(false);
        (!self.is_kept).then_some(self)
    }

    /// Whose name another process has until [`own`](Self::own).
    pub fn of_another(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Removes the name at the end from now on.
    pub fn own(&mut self) {
        self.is_kept = false;
    }

    /// Does the name lead to this file?
    pub fn is_there(&self) -> bool {
        fstat(&self.held).is_ok_and(|made| {
            let now = self.path.symlink_metadata();
            now.is_ok_and(|now| (now.dev(), now.ino()) == (made.st_dev, made.st_ino))
        })
    }

    /// Leaves the name to another process.
    pub fn keep(self) {
        // The descriptor is closed with the process, which ends soon.
        std::mem::forget(self);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // Another process may have replaced the file.
        if self.is_there()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!("{}: cannot be removed: {error}", self.path.display());
        }
    }
}

/// What is taken of others for as long as an end is used, and given back when this is dropped.
pub(super) enum Borrowed {
    Terminal(#[expect(dead_code, reason = "it is only dropped")] PutBack),
    /// A descriptor that has the lock of an inherited file.
    Lock(OwnedFd),
}

impl Borrowed {
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Lock(fd) => Some(fd.as_fd()),
            Self::Terminal(_) => None,
        }
    }
}

/// What an end owns besides its descriptors, until the connection is over.
///
/// Dropping the keeper removes the end's FIFO and ends the end's program. Most ends own nothing,
/// and have no memory for it.
#[derive(Default)]
pub struct Keeper(Option<Box<Owned>>);

pub struct Owned {
    pub(super) made: Vec<Made>,
    pub(super) program: Option<Program>,
    /// The master of the program's terminal, if the program gets no end of its input. Dropped after
    /// `program`, which is signalled first.
    pub(super) without_eof: Option<OwnedFd>,
    /// The pipe that the program reads, once bytes are relayed.
    pub(crate) input: Option<Arc<Input>>,
    pub(super) put_back: Vec<Borrowed>,
    /// The names of the pseudo-terminals in `lines`, which are still open when these are dropped.
    pub(super) ours: Vec<pty::Ours>,
    /// Pseudo-terminals for programs that this process did not start.
    pub(super) lines: Vec<Line>,
    /// Of a sender of datagrams.
    pub(super) served: Option<Served>,
    /// The number of datagrams that could not be sent.
    pub(super) unsent: Option<Arc<AtomicU64>>,
}

impl Owned {
    const NOTHING: Self = Self {
        made: Vec::new(),
        program: None,
        without_eof: None,
        input: None,
        put_back: Vec::new(),
        ours: Vec::new(),
        lines: Vec::new(),
        served: None,
        unsent: None,
    };
}

impl Deref for Keeper {
    type Target = Owned;

    fn deref(&self) -> &Owned {
        static NOTHING: Owned = Owned::NOTHING;
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Keeper {
    fn deref_mut(&mut self) -> &mut Owned {
        self.0.get_or_insert_with(|| Box::new(Owned::NOTHING))
    }
}

impl Keeper {
    /// Is there nothing to wait for or to remove at the end?
    pub(crate) fn is_empty(&self) -> bool {
        let Owned { made, program, without_eof, input, put_back, ours, lines, served, unsent: _ } =
            &**self;
        made.is_empty()
            && put_back.is_empty()
            && ours.is_empty()
            && lines.is_empty()
            && (program.is_none() && without_eof.is_none() && input.is_none() && served.is_none())
    }

    /// Removes the name with the end.
    pub(super) fn keep(&mut self, made: Option<Made>) {
        if let Some(made) = made {
            self.made.push(made);
        }
    }

    /// The names that are removed at the end.
    pub(crate) fn take_made(&mut self) -> Vec<Made> {
        self.0.as_mut().map(|owned| std::mem::take(&mut owned.made)).unwrap_or_default()
    }

    /// The process started for this end.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.program.as_ref().map(Program::id)
    }

    /// Does the program of this end go on without the link?
    pub(crate) fn leaves_program(&self) -> bool {
        self.program.as_ref().is_some_and(Program::is_left)
    }

    /// The number of datagrams that this machine could not send.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent.as_ref().map_or(0, |unsent| unsent.load(Ordering::Relaxed))
    }

    /// Resolves when this end, a sender of datagrams, is evicted; `None` for other ends.
    pub(crate) fn makes_room(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.served.as_ref().map(Served::makes_room)
    }

    /// The keeper of an end whose directions were opened separately. Only one has a program.
    pub(crate) fn and(self, later: Self) -> Self {
        let (first, mut later) = match (self.0, later.0) {
            (Some(first), Some(later)) => (first, later),
            (first, later) => return Self(first.or(later)),
        };
        later.made.extend(first.made);
        // The change that was made first is put back last.
        later.put_back.extend(first.put_back);
        later.lines.extend(first.lines);
        later.ours.extend(first.ours);
        later.program = first.program.or(later.program.take());
        later.without_eof = first.without_eof.or(later.without_eof.take());
        later.unsent = first.unsent.or(later.unsent.take());
        Self(Some(later))
    }

    /// The program is ended once it has read all, if its terminal is raw, which passes no end on.
    pub(crate) fn ends_once_read(&mut self, terminal: &Conduit) {
        if let Some(master) = terminal.write_fd().filter(|master| pty::is_raw(*master)) {
            self.without_eof = master.try_clone_to_owned().ok();
        }
    }

    /// Resolves when a program whose terminal gets no end of input has had nothing to read for
    /// `long`; never for other programs, nor after it closed the terminal. What it writes meanwhile
    /// is dropped.
    pub(crate) fn has_read(&self, long: Duration) -> impl Future<Output = ()> + use<> {
        let master = self.without_eof.as_ref().and_then(|master| master.try_clone().ok());
        async move {
            match master {
                Some(master) => pty::has_read(&master, long).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Is there a pseudo-terminal that goes on when the program there has closed it?
    pub(crate) fn holds_a_line(&self) -> bool {
        self.lines.iter().any(Line::is_held)
    }

    /// Waits until all that was sent to new pseudo-terminals is read there.
    ///
    /// # Errors
    /// How many bytes at least were not, where for `limit` none was read.
    pub(crate) async fn is_read(&self, limit: Duration) -> Result<(), u64> {
        pty::are_read(&self.lines, limit).await
    }

    /// Waits until the program has ended by itself, if there is one.
    ///
    /// Call this method only after dropping the conduit: a program that still has input may never
    /// end.
    ///
    /// # Errors
    /// The error of waitpid(2).
    pub async fn finished(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        match self.0.as_mut().and_then(|owned| owned.program.as_mut()) {
            Some(program) => program.finished().await.map(Some),
            None => Ok(None),
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made: Vec<_> = self.made.iter().map(|made| &made.path).collect();
        f.debug_struct("Keeper").field("made", &made).field("process", &self.process()).finish()
    }
}
