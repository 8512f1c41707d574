//! Further streams that are opened while the other side is still logging in: the connections of a
//! copy then begin at about the same time. One that fits through the first stream in no time opens
//! none.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gush::Unpoisoned;
use gush_tree::remote::{Visitor, walk};
use gush_tree::{CopyOptions, Dereference, Error as TreeError, Place, Update};
use rustix::fs::{self, AtFlags, FileType, Stat};

use super::streams::Transport;
use crate::record::Streams;

/// Sources of so many bytes are worth further streams: one of ssh needs more than a second for them
/// at a round trip of 50 ms, about as long as another takes to log in.
pub(super) const MUCH_BYTES: u64 = 64 << 20;

/// What is opened ahead.
#[derive(Default)]
pub(super) struct Ahead {
    opened: Mutex<Vec<(File, File)>>,
    is_used: AtomicBool,
    /// The other side has answered.
    is_over: AtomicBool,
}

impl Ahead {
    /// Opens all further streams if the sources are large. Returns when that is known, or the other
    /// side has answered.
    pub fn open(
        &self,
        sources: &[&Path],
        options: &CopyOptions,
        transport: &dyn Transport,
        streams: Streams,
    ) {
        // Of what may be there already, nothing is known.
        let may_be_there = options.update != Update::All || options.dry_run;
        let is_alone = streams.most() == 1 || transport.may_ask();
        if is_alone || may_be_there || !self.is_much(sources, options) {
            return;
        }
        // Who takes a stream waits until all are there, and opens none as well.
        let mut opened = self.opened.lock().unpoisoned();
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.is_used.store(true, Ordering::Relaxed);
        for _ in 1..streams.most() {
            // Where it fails, it is tried again when the stream is to join.
            let Ok(streams) = transport.open(false) else { break };
            opened.push(streams);
        }
    }

    /// The other side has answered: from now on it shows how fast it is.
    pub fn is_answered(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Are streams opened, or about to be?
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// A stream that is opened and not joined.
    pub fn take(&self) -> Option<(File, File)> {
        self.opened.lock().unpoisoned().pop()
    }

    fn is_much(&self, sources: &[&Path], options: &CopyOptions) -> bool {
        let mut seen = Seen { ahead: self, bytes: 0 };
        let flags = match options.dereference {
            Dereference::Never => AtFlags::SYMLINK_NOFOLLOW,
            _ => AtFlags::empty(),
        };
        for source in sources {
            let Ok(stat) = fs::statat(fs::CWD, *source, flags) else { continue };
            let is_tree = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let goes_on = match is_tree && options.recursive {
                // A walk that fails shows enough, too.
                true => walk(options, Place::here(source), &mut seen).is_ok(),
                false => seen.adds(&stat, source).is_ok(),
            };
            if !goes_on {
                break;
            }
        }
        seen.bytes >= MUCH_BYTES
    }
}

/// About how much of a file is sent: its holes are not.
pub(super) fn data_bytes(stat: &Stat) -> u64 {
    let [size, blocks] = [stat.st_size, stat.st_blocks.saturating_mul(512)];
    u64::try_from(size.min(blocks)).unwrap_or(0)
}

/// How much the survey has seen.
struct Seen<'a> {
    ahead: &'a Ahead,
    bytes: u64,
}

impl Seen<'_> {
    /// Counts a file. An error ends the survey: it has seen enough, or nobody waits for it.
    fn adds(&mut self, stat: &Stat, path: &Path) -> Result<(), TreeError> {
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.bytes += data_bytes(stat);
        }
        let goes_on = self.bytes < MUCH_BYTES && !self.ahead.is_over.load(Ordering::Relaxed);
        if goes_on { Ok(()) } else { Err(TreeError::reported(path, String::new())) }
    }
}

impl Visitor for Seen<'_> {
    fn enters(&mut self, _: &Arc<OwnedFd>, stat: &Stat, path: &Path) -> Result<(), TreeError> {
        self.adds(stat, path)
    }

    fn finds(
        &mut self,
        _: &Arc<OwnedFd>,
        _: &OsStr,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), TreeError> {
        self.adds(stat, path)
    }

    /// The walk that sends will say it.
    fn fails(&mut self, _: TreeError) -> Result<(), TreeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;
    use crate::Error;

    /// A transport whose further logins may ask the user or not.
    struct FakeTransport {
        may_ask: bool,
        opened: AtomicUsize,
    }

    impl Transport for FakeTransport {
        fn may_ask(&self) -> bool {
            self.may_ask
        }

        fn open(&self, shows_errors: bool) -> Result<(File, File), Error> {
            assert!(!shows_errors, "one that fails is tried again");
            self.opened.fetch_add(1, Ordering::Relaxed);
            Ok((tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()))
        }
    }

    #[test]
    fn one_question_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        fallocate(File::create(&path).unwrap(), FallocateFlags::empty(), 0, MUCH_BYTES).unwrap();
        for (may_ask, opened) in [(false, 3), (true, 0)] {
            let transport = FakeTransport { may_ask, opened: AtomicUsize::new(0) };
            let options = CopyOptions::default();
            Ahead::default().open(&[path.as_path()], &options, &transport, Streams::Exactly(4));
            assert_eq!(transport.opened.into_inner(), opened);
        }
    }
}
