//! A regular file while its data is sent, in ranges that several workers take.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;

use gush::Unpoisoned;
use rustix::fs::{self, SeekFrom, Stat};
use rustix::io::Errno;

use super::queue::Found;
use crate::frame::{COPIED_BYTES, MOST_DATA_BYTES};

/// The most of a file that is read before it is announced.
const KEPT_DATA_BYTES: usize = 1 << 20;

/// Bytes of a file, from one offset to another.
pub(super) type Range = std::ops::Range<u64>;

/// A range with data, and the length of the hole before it.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub range: Range,
    pub hole_bytes: u64,
}

pub(super) struct Outgoing {
    pub id: u64,
    pub file: File,
    pub stat: Stat,
    pub path: PathBuf,
    pub target: PathBuf,
    pub size_bytes: u64,
    /// The receiver keeps what it has got of the file, should the session end.
    pub is_kept: bool,
    progress: Mutex<Progress>,
}

/// Invariant: `next` begins where the file has data, and everything wanted before it is sent, in
/// flight, or a hole.
#[derive(Default)]
struct Progress {
    next: Option<Data>,
    /// What is to be sent of the file, from where it is not looked at yet.
    wanted: VecDeque<Range>,
    in_flight: usize,
    sent_bytes: u64,
    is_broken: bool,
}

impl Outgoing {
    pub fn new(found: &Found, file: File, is_kept: bool) -> Self {
        let (id, stat) = (found.id, found.stat);
        let (path, target) = (found.path.clone(), found.target.clone());
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let progress = Mutex::default();
        let outgoing = Self { id, file, stat, path, target, size_bytes, is_kept, progress };
        outgoing.limit_to(&[(0, size_bytes)]);
        outgoing
    }

    /// Only these ranges are wanted of the file, of which nothing is sent yet.
    pub fn limit_to(&self, ranges: &[(u64, u64)]) {
        let mut progress = self.progress.lock().unpoisoned();
        progress.wanted =
            ranges.iter().map(|&(begin, end)| begin..end.min(self.size_bytes)).collect();
        self.advance(&mut progress);
    }

    /// Looks for the next data.
    fn advance(&self, progress: &mut Progress) {
        progress.next = None;
        while let Some(wanted) = progress.wanted.front_mut() {
            if let Some(range) = self.after(wanted.clone()) {
                let hole_bytes = range.start - wanted.start;
                wanted.start = range.end;
                progress.next = Some(Data { range, hole_bytes });
                return;
            }
            progress.wanted.pop_front();
        }
    }

    /// A file system that reports no block at all may know no holes: zeros are looked for.
    pub fn looks_for_zeros(&self) -> bool {
        self.stat.st_blocks == 0
    }

    /// The first data in a range.
    fn after(&self, wanted: Range) -> Option<Range> {
        let (mut at, mut end) = (wanted.start, wanted.end);
        if self.is_sparse() && !self.looks_for_zeros() {
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
        let most = match self.is_kept {
            _ if self.looks_for_zeros() => COPIED_BYTES,
            true => KEPT_DATA_BYTES,
            false => MOST_DATA_BYTES,
        };
        (at < end).then(|| at..end.min(at.saturating_add(most as u64)))
    }

    /// Takes the next range. Each one taken is given back by [`sent`](Self::sent).
    pub fn claim(&self) -> Option<Data> {
        let mut progress = self.progress.lock().unpoisoned();
        let data = progress.next.take()?;
        progress.in_flight += 1;
        self.advance(&mut progress);
        Some(data)
    }

    /// A range is sent, or has failed after so many bytes. Returns all bytes sent if it was the
    /// last one under way.
    pub fn sent(&self, bytes: u64, is_broken: bool) -> Option<u64> {
        let mut progress = self.progress.lock().unpoisoned();
        progress.in_flight -= 1;
        progress.sent_bytes += bytes;
        if is_broken {
            progress.is_broken = true;
            progress.next = None;
            progress.wanted.clear();
        }
        (progress.in_flight == 0 && progress.next.is_none()).then_some(progress.sent_bytes)
    }

    /// Has it no data to send?
    pub fn is_empty(&self) -> bool {
        let progress = self.progress.lock().unpoisoned();
        progress.in_flight == 0 && progress.next.is_none() && progress.sent_bytes == 0
    }

    pub fn is_broken(&self) -> bool {
        self.progress.lock().unpoisoned().is_broken
    }

    /// Had it holes when the walk has found it?
    pub fn is_sparse(&self) -> bool {
        let blocks_bytes = u64::try_from(self.stat.st_blocks).unwrap_or(0).saturating_mul(512);
        blocks_bytes < self.size_bytes
    }

    fn size_now(&self) -> Option<u64> {
        u64::try_from(fs::fstat(&self.file).ok()?.st_size).ok()
    }

    pub fn is_shorter(&self) -> bool {
        self.size_now().is_none_or(|size| size < self.size_bytes)
    }

    /// Files of /proc have content and no size.
    pub fn has_content_without_size(&self) -> bool {
        self.size_bytes == 0
            && self.size_now() == Some(0)
            && matches!(self.file.read_at(&mut [0], 0), Ok(1))
    }

    /// Did it change since the walk has found it?
    pub fn has_changed(&self) -> bool {
        let times = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        fs::fstat(&self.file).is_ok_and(|now| times(&now) != times(&self.stat))
    }

    /// The hash of its content.
    pub fn digest(&self) -> Result<gush::Digest, String> {
        // The search for holes has moved the position that the hash starts from.
        fs::seek(&self.file, SeekFrom::Start(0))
            .map_err(|e| gush_text::errno_text(e).to_string())?;
        gush::digest_of(&self.file).map_err(|e| e.to_string())
    }
}
