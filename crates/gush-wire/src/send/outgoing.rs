//! A regular file while its data is sent, in ranges that several workers take.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{self, SeekFrom, Stat};
use rustix::io::Errno;

use crate::frame::{COPIED_BYTES, MOST_DATA_BYTES};

/// Bytes of a file, from one offset to another.
pub(super) type Range = std::ops::Range<u64>;

pub(super) struct Outgoing {
    pub id: u64,
    pub file: File,
    pub stat: Stat,
    pub path: PathBuf,
    pub target: PathBuf,
    pub size_bytes: u64,
    progress: Mutex<Progress>,
}

/// Invariant: `next` begins where the file has data, and everything before it is sent, in flight, or
/// a hole.
struct Progress {
    next: Option<Range>,
    in_flight: usize,
    sent_bytes: u64,
    is_broken: bool,
}

impl Outgoing {
    pub fn new(id: u64, file: File, stat: Stat, path: PathBuf, target: PathBuf) -> Self {
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let progress = Progress { next: None, in_flight: 0, sent_bytes: 0, is_broken: false };
        let outgoing =
            Self { id, file, stat, path, target, size_bytes, progress: Mutex::new(progress) };
        let next = outgoing.after(0);
        outgoing.lock().next = next;
        outgoing
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file system that reports no block at all may know no holes: zeros are looked for.
    pub fn looks_for_zeros(&self) -> bool {
        self.stat.st_blocks == 0
    }

    /// The next data at or behind an offset.
    fn after(&self, mut at: u64) -> Option<Range> {
        let blocks_bytes = u64::try_from(self.stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let mut end = self.size_bytes;
        if blocks_bytes < self.size_bytes && !self.looks_for_zeros() {
            match fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => at = data.max(at),
                // Only a hole is left.
                Err(Errno::NXIO) => return None,
                Err(_) => {}
            }
            if let Ok(hole) = fs::seek(&self.file, SeekFrom::Hole(at)) {
                end = hole.min(end);
            }
        }
        let most = if self.looks_for_zeros() { COPIED_BYTES } else { MOST_DATA_BYTES };
        (at < end).then(|| at..end.min(at.saturating_add(most as u64)))
    }

    /// Takes the next range. Each one taken is given back by [`sent`](Self::sent).
    pub fn claim(&self) -> Option<Range> {
        let mut progress = self.lock();
        let range = progress.next.take()?;
        progress.in_flight += 1;
        progress.next = self.after(range.end);
        Some(range)
    }

    /// A range is sent, or has failed after so many bytes. Returns all bytes sent if it was the
    /// last one under way.
    pub fn sent(&self, bytes: u64, is_broken: bool) -> Option<u64> {
        let mut progress = self.lock();
        progress.in_flight -= 1;
        progress.sent_bytes += bytes;
        if is_broken {
            progress.is_broken = true;
            progress.next = None;
        }
        (progress.in_flight == 0 && progress.next.is_none()).then_some(progress.sent_bytes)
    }

    /// Has it no data to send?
    pub fn is_empty(&self) -> bool {
        let progress = self.lock();
        progress.in_flight == 0 && progress.next.is_none() && progress.sent_bytes == 0
    }

    pub fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    /// Files of /proc have content and no size.
    pub fn has_content_without_size(&self) -> bool {
        self.size_bytes == 0 && matches!(self.file.read_at(&mut [0], 0), Ok(1))
    }

    /// Did it change since the walk has found it?
    pub fn has_changed(&self) -> bool {
        let times = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        fs::fstat(&self.file).is_ok_and(|now| times(&now) != times(&self.stat))
    }

    /// The hash of its content.
    pub fn digest(&self) -> Result<String, String> {
        // The search for holes has moved the position that the hash starts from.
        fs::seek(&self.file, SeekFrom::Start(0))
            .map_err(|e| gush_text::errno_text(e).to_string())?;
        gush::digest_of(&self.file).map(|digest| digest.to_string()).map_err(|e| e.to_string())
    }
}
