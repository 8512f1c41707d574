//! A regular file while its data comes, in ranges on any stream.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gush::Unpoisoned;
use gush_text::{errno_text, noted, quote};
use gush_tree::Action;
use gush_tree::remote::{EntryMetadata, Failure, Folder, UnfinishedFile};

use super::answers::{Arrival, Ending, Told};
use super::bounds::weight;
use super::session::{Session, out_of_place};
use crate::entry::Pace;
use crate::error::{Error, ensure};
use crate::frame::{Input, MOST_DATA_BYTES};
use crate::record::{Item, ToSender};

/// The most parts of a file that are asked for one by one.
const MOST_RANGES: usize = 16 << 10;

/// A file that can be resumed is synced to disk after each so many bytes.
const SYNCED_BYTES: u64 = 256 << 20;

pub(super) struct Incoming {
    /// `None` if its directory has failed.
    pub folder: Option<Arc<Folder>>,
    pub folder_id: u64,
    pub name: OsString,
    pub has_names: bool,
    /// An estimate of its memory until it has ended.
    pub waiting_bytes: usize,
    /// What shows that the source is that of an earlier copy.
    resumes: Option<Vec<u8>>,
    size_bytes: u64,
    /// Shown as progress.
    counted_bytes: AtomicU64,
    work: Mutex<Work>,
}

/// Invariant: a thread holds the unfinished file only while bytes of it are announced and have not
/// arrived.
struct Work {
    stage: Stage,
    announced_bytes: u64,
    arrived_bytes: u64,
    /// Of those that have arrived.
    written_bytes: u64,
    /// Where the data that has arrived ends.
    end: u64,
    /// What the sender has sent in all, once it has said so.
    sent_bytes: Option<u64>,
    digest: Option<String>,
    is_broken: bool,
}

/// Where not all data is.
struct Unwritten {
    shown: PathBuf,
    /// Where the rest is kept.
    partial: Option<PathBuf>,
    errno: gush::Errno,
}

enum Stage {
    /// The file is made at its first data: many may be announced before.
    Announced(EntryMetadata),
    Begun(Arc<UnfinishedFile>),
    /// The file is not made: what is there stays.
    Stays(Ending),
    /// Some data was not written. Other streams may still write theirs.
    Unwritten(Unwritten),
    Failed(Failure),
}

impl Incoming {
    /// The file is made under this name.
    pub fn new(
        folder: Option<Arc<Folder>>,
        name: OsString,
        item: Item,
        resumes: Option<Vec<u8>>,
    ) -> Self {
        let Item { folder: folder_id, metadata, has_names, .. } = item;
        let resuming =
            |source: &Vec<u8>| source.len() + UnfinishedFile::resuming_bytes(metadata.size_bytes);
        let waiting_bytes = weight(&metadata) + resumes.as_ref().map_or(0, resuming);
        Self {
            folder,
            folder_id,
            name,
            has_names,
            waiting_bytes,
            resumes,
            size_bytes: metadata.size_bytes,
            counted_bytes: AtomicU64::new(0),
            work: Mutex::new(Work {
                stage: Stage::Announced(metadata),
                announced_bytes: 0,
                arrived_bytes: 0,
                written_bytes: 0,
                end: 0,
                sent_bytes: None,
                digest: None,
                is_broken: false,
            }),
        }
    }

    fn arrival(&self, id: u64) -> Arrival<'_> {
        Arrival {
            id,
            folder: self.folder_id,
            name: &self.name,
            action: Action::Copied,
            bytes: Some(self.size_bytes),
            has_names: self.has_names,
            digest: None,
            counted_bytes: self.counted_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes have come, or a hole.
    fn counts(&self, session: &Session, bytes: u64) {
        self.counted_bytes.fetch_add(bytes, Ordering::Relaxed);
        session.shows_bytes(self.folder_id, &self.name, bytes);
    }

    /// Makes the file, if it is not made yet.
    fn begin(&self, session: &Session, work: &mut Work) -> Option<Arc<UnfinishedFile>> {
        if let Stage::Announced(metadata) = &mut work.stage {
            let metadata = std::mem::take(metadata);
            work.stage = match &self.folder {
                Some(folder) => self
                    .begin_in(folder, metadata, session)
                    .unwrap_or_else(|error| Stage::Failed(error.into())),
                None => Stage::Failed(Failure::default()),
            };
        }
        match &work.stage {
            Stage::Begun(unfinished) => Some(Arc::clone(unfinished)),
            _ => None,
        }
    }

    fn begin_in(
        &self,
        folder: &Arc<Folder>,
        metadata: EntryMetadata,
        session: &Session,
    ) -> Result<Stage, gush_tree::Error> {
        let (name, options) = (&self.name, &session.options);
        if let Some(stays) = session.stays(folder, name, &metadata)? {
            return Ok(Stage::Stays(stays));
        }
        session.make_way((self.folder_id, folder), name, &metadata)?;
        let unfinished = match &self.resumes {
            Some(source) => {
                UnfinishedFile::resume_or_begin(folder, name, metadata, source, options)
            }
            None => UnfinishedFile::begin(folder, name, metadata, options),
        };
        Ok(Stage::Begun(Arc::new(unfinished?)))
    }

    /// Opens what an earlier copy has left of the file, and tells what it lacks.
    pub fn resume(&self, session: &Session, id: u64) {
        let lacking = self
            .begin(session, &mut self.work.lock().unpoisoned())
            .map(|unfinished| unfinished.missing_ranges());
        let mut ranges: Vec<_> =
            lacking.unwrap_or_default().into_iter().map(|range| (range.start, range.end)).collect();
        if let (Some(&(_, end)), true) = (ranges.last(), ranges.len() > MOST_RANGES) {
            ranges.truncate(MOST_RANGES);
            ranges[MOST_RANGES - 1].1 = end;
        }
        session.replies().send(&ToSender::Lacking { id, ranges });
    }

    /// Moves data of a frame into the file.
    pub fn take_data(
        &self,
        session: &Session,
        input: &mut Input,
        id: u64,
        (offset, length, hole_bytes): (u64, u32, u64),
    ) -> Result<(), Error> {
        let length = length as usize;
        let is_inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.size_bytes);
        let is_right = (1..=MOST_DATA_BYTES).contains(&length) && is_inside && hole_bytes <= offset;
        ensure(is_right, "data lies outside its file")?;
        let mut work = self.work.lock().unpoisoned();
        work.announced_bytes += length as u64;
        work.end = work.end.max(offset + length as u64);
        ensure(work.announced_bytes <= self.size_bytes, "a file has more data than its size")?;
        let unfinished = self.begin(session, &mut work);
        drop(work);
        let into = unfinished.as_ref().map(|unfinished| (unfinished.fd(), offset));
        let shows = session.shown.as_ref().is_some_and(|shown| shown.wants_counts);
        let mut pace = Pace::new();
        // What a stream that is lost has brought of a frame is kept, too.
        let keeps = unfinished.as_ref().filter(|_| self.resumes.is_some());
        let mut kept_to = offset - hole_bytes;
        let mut moved = |bytes| {
            if let Some(unfinished) = keeps {
                unfinished.has_arrived(kept_to..offset + bytes);
                kept_to = offset + bytes;
            }
            if let Some(bytes) = shows.then(|| pace.due(bytes)).flatten() {
                self.counts(session, bytes);
            }
        };
        let observes = shows || keeps.is_some();
        let written = input.data(length, into, observes.then_some(&mut moved))?;
        if let (Ok(()), Some(unfinished)) = (&written, keeps) {
            unfinished.has_arrived(kept_to..offset + length as u64);
        }
        if shows && self.size_bytes > length as u64 {
            self.counts(session, pace.rest(length as u64) + hole_bytes);
        }
        let mut work = self.work.lock().unpoisoned();
        if let Some(unfinished) = &unfinished {
            work.written_bytes += match written {
                Ok(()) => length as u64,
                Err(why) => {
                    let (shown, partial) = (unfinished.shown(), unfinished.shown_partial());
                    work.stage = Stage::Unwritten(Unwritten { shown, partial, errno: why.errno });
                    why.written_bytes
                }
            };
        }
        let before = work.arrived_bytes / SYNCED_BYTES;
        work.arrived_bytes += length as u64;
        if let (Some(unfinished), true) = (&unfinished, work.arrived_bytes / SYNCED_BYTES > before)
            && self.resumes.is_some()
            && let Err(error) = unfinished.sync()
        {
            work.stage = Stage::Failed(error.into());
        }
        drop(unfinished);
        self.end_if_whole(session, work, id)
    }

    /// The sender has sent all data of the file, or what there is of it.
    pub fn end(
        &self,
        session: &Session,
        id: u64,
        sent_bytes: u64,
        digest: Option<String>,
        is_broken: bool,
    ) -> Result<(), Error> {
        let needs_hash = session.shown.as_ref().is_some_and(|shown| shown.verifies);
        ensure(digest.is_some() || is_broken || !needs_hash, "a file came without its hash")?;
        let mut work = self.work.lock().unpoisoned();
        if work.sent_bytes.is_some() {
            return Err(out_of_place("the second end of a file"));
        }
        work.sent_bytes = Some(sent_bytes);
        (work.digest, work.is_broken) = (digest, is_broken);
        self.end_if_whole(session, work, id)
    }

    fn end_if_whole(
        &self,
        session: &Session,
        mut work: MutexGuard<'_, Work>,
        id: u64,
    ) -> Result<(), Error> {
        match work.sent_bytes {
            Some(sent) if sent < work.arrived_bytes => {
                return Err(Error::Protocol("a file has more data than was sent".into()));
            }
            Some(sent) if sent == work.arrived_bytes => {}
            _ => return Ok(()),
        }
        session.forget(id);
        let mut arrival = self.arrival(id);
        if work.is_broken {
            // Before its directory ends: what is left of the file would be removed later.
            work.stage = Stage::Failed(Failure::default());
            drop(work);
            return session.fail_entry(&arrival);
        }
        self.begin(session, &mut work);
        let digest = work.digest.take();
        let ends_in_hole = work.end < self.size_bytes;
        let written_bytes = work.written_bytes;
        let stage = std::mem::replace(&mut work.stage, Stage::Failed(Failure::default()));
        drop(work);
        let unfinished = match stage {
            Stage::Begun(unfinished) => Arc::into_inner(unfinished),
            Stage::Unwritten(why) => {
                return session.end_entry(&arrival, None, Err(why.failure(written_bytes)));
            }
            Stage::Failed(why) => return session.end_entry(&arrival, None, Err(why)),
            Stage::Stays(ending) => {
                return session.end_entry(&arrival, self.folder.as_ref(), Ok::<_, Failure>(ending));
            }
            Stage::Announced(_) => None,
        };
        let unfinished = unfinished.ok_or_else(|| out_of_place("the end of a file in use"))?;
        let sized = if ends_in_hole { unfinished.set_size() } else { Ok(()) };
        let ended = match sized.and_then(|()| verify(&unfinished, digest)) {
            Ok(digest) => {
                arrival.digest = digest;
                unfinished
                    .finish(&session.options, &mut Told(session))
                    .map(|is_complete| Ending::Made { is_complete })
            }
            Err(error) => {
                // Nothing goes on with bytes that are wrong.
                unfinished.discard();
                Err(error)
            }
        };
        session.end_entry(&arrival, self.folder.as_ref(), ended)
    }
}

impl Unwritten {
    fn failure(self, written_bytes: u64) -> Failure {
        let Self { shown, partial, errno } = self;
        let (name, why) = (quote::always(&shown), errno_text(errno));
        let after = format!("after {written_bytes} bytes");
        let can_pass = [gush::Errno::NOSPC, gush::Errno::DQUOT, gush::Errno::IO].contains(&errno);
        let kept = partial.filter(|_| can_pass).map(|partial| {
            let partial = quote::always(&partial);
            format!("{partial} keeps what has arrived, and the same command goes on with it")
        });
        let remedy = gush::hint_for(gush::Side::Target, errno).map(str::to_owned);
        let hints: Vec<_> = kept.into_iter().chain(remedy).collect();
        let hint = (!hints.is_empty()).then(|| hints.join("; "));
        Failure {
            text: format!("error writing {name}: {why}{}", noted(&after, hint.as_deref())),
            what: "write failed on the target".into(),
            errno: Some(errno.raw_os_error()),
            delivered_bytes: Some(written_bytes),
            hint,
        }
    }
}

fn verify(
    unfinished: &UnfinishedFile,
    sent: Option<String>,
) -> Result<Option<gush::Digest>, gush_tree::Error> {
    let Some(sent) = sent else { return Ok(None) };
    let arrived = unfinished.digest()?;
    if arrived.to_string() == sent {
        return Ok(Some(arrived));
    }
    let shown = unfinished.shown();
    let [text, what] = [format!(" of {}", quote::always(&shown)), String::new()].map(|of_name| {
        format!("verification{of_name} failed: blake3 {arrived} arrived, {sent} was sent")
    });
    Err(gush_tree::Error::reported(&shown, Failure { text, what, ..Failure::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With another error the same command would fail at the same place.
    #[test]
    fn a_copy_is_said_to_go_on_where_the_error_can_pass() {
        let is_said = |errno| {
            let partial = Some("t/.f.gush-partial".into());
            let failure = Unwritten { shown: "t/f".into(), partial, errno }.failure(1);
            let hint = failure.hint.unwrap_or_default();
            assert_eq!(failure.text.contains("same command"), hint.contains("same command"));
            hint.contains("same command")
        };
        assert!([gush::Errno::NOSPC, gush::Errno::DQUOT, gush::Errno::IO].into_iter().all(is_said));
        assert!(![gush::Errno::FBIG, gush::Errno::ROFS].into_iter().any(is_said));
    }
}
