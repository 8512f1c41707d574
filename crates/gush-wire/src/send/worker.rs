//! What a worker does for its stream: it sends the files of the queue, small ones whole, and ranges
//! of large ones.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use gush_text::quote;
use gush_tree::remote::{EntryMetadata, Failure, partial_name};

use super::Session;
use super::outgoing::{Data, Outgoing};
use super::queue::{Found, Job};
use super::streams::Stream;
use crate::entry::Pace;
use crate::error::Error;
use crate::frame::{COPIED_BYTES, MOST_DATA_BYTES};
use crate::record::{RESUMED_BYTES, ToReceiver};

pub(super) const TOO_MANY_ATTRIBUTES: &str = "has more attributes than fit into a message of 1 MiB";

const SHORTER: &str = "it became shorter while being copied; copy it again";

/// Data of a file that could not be sent: how many bytes of it were put into frames, and the
/// reason.
struct Unsent {
    bytes: u64,
    why: Failure,
}

fn unread(error: &gush::Error) -> Failure {
    Failure {
        text: error.to_string(),
        errno: error.errno().map(gush::Errno::raw_os_error),
        hint: error.hint().map(str::to_owned),
        ..Failure::default()
    }
}

fn unreadable(why: Failure) -> Failure {
    let what = "could not be read";
    Failure { text: format!("{what}: {}", why.text), what: what.into(), ..why }
}

impl Session<'_> {
    /// Sends what is in the queue until it is closed.
    pub(super) fn work(&self, stream: &Stream) -> Result<(), Error> {
        loop {
            let job = match self.queue.take() {
                Some(job) => Some(job),
                None => {
                    stream.flush()?;
                    self.queue.next()
                }
            };
            match job {
                None => return Ok(()),
                Some(Job::Found(found)) if self.asks => self.ask(stream, *found)?,
                Some(Job::Wanted(found)) if !found.is_file() => {
                    self.send_other(&found)?;
                    self.first.flush()?;
                }
                Some(Job::Found(found) | Job::Wanted(found)) => self.send_file(stream, *found)?,
                Some(Job::Compare(found, digest)) => self.compare(stream, *found, &digest)?,
                Some(Job::Range(file, data)) => self.send_range(stream, &file, data)?,
                Some(Job::Invite(token)) => {
                    stream.record(&ToReceiver::Invitation(token))?;
                    stream.flush()?;
                }
                Some(Job::Ended(file)) => self.end_file(stream, &file, 0)?,
            }
            self.queue.done();
        }
    }

    /// Asks whether the receiver needs a file.
    pub(super) fn ask(&self, stream: &Stream, found: Found) -> Result<(), Error> {
        let metadata = match self.options.updates_attributes() {
            true => {
                let pinned = found.place.open(&found.stat, &found.path, false);
                pinned.and_then(|fd| self.metadata(&fd, &found.stat, &found.path))
            }
            false => Ok(self.plain_metadata(&found.place.dir, &found.stat, &found.path)),
        };
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                self.fails(&found.target, error);
                return self.give_up(stream, &found);
            }
        };
        let record = ToReceiver::Ask(found.item(metadata));
        self.question(stream, found, &record)
    }

    /// Sends what the receiver may answer by a request for the file.
    fn question(
        &self,
        stream: &Stream,
        mut found: Found,
        record: &ToReceiver,
    ) -> Result<(), Error> {
        let id = found.id;
        found.let_go();
        self.queue.ask();
        self.lock().asked.insert(id, found);
        if stream.record(record)? {
            return Ok(());
        }
        self.queue.answer(None);
        let Some(found) = self.lock().asked.remove(&id) else { return Ok(()) };
        self.refuses(&found.path, &found.target, TOO_MANY_ATTRIBUTES);
        self.give_up(stream, &found)
    }

    /// Opens a file that was found. What cannot be opened is reported, and has no answer.
    fn open(
        &self,
        stream: &Stream,
        found: &Found,
    ) -> Result<Option<(OwnedFd, EntryMetadata)>, Error> {
        let opened = found.place.open(&found.stat, &found.path, true);
        let opened = opened
            .and_then(|fd| Ok((self.metadata(&fd, &found.stat, &found.path)?, fd)))
            .map(|(metadata, fd)| (fd, metadata));
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => {
                self.fails(&found.target, error);
                self.give_up(stream, found)?;
                Ok(None)
            }
        }
    }

    /// Sends a symbolic link or special file.
    pub(super) fn send_other(&self, found: &Found) -> Result<(), Error> {
        let Some((_, metadata)) = self.open(&self.first, found)? else { return Ok(()) };
        if self.first.record(&ToReceiver::Other(found.item(metadata)))? {
            return Ok(());
        }
        self.refuses(&found.path, &found.target, TOO_MANY_ATTRIBUTES);
        self.give_up(&self.first, found)
    }

    /// Tells the receiver that an entry does not come.
    pub(super) fn give_up(&self, stream: &Stream, found: &Found) -> Result<(), Error> {
        let Found { id, folder, has_names, .. } = *found;
        self.lock().awaited.remove(&id);
        // No answer will come that tells the walk of the room.
        self.changed.notify_all();
        let name = found.sent_as.as_bytes().to_vec();
        let record = ToReceiver::Unreadable { id, folder, name, has_names };
        // Names that wait for this one are on the first stream.
        match has_names {
            true => self.first.send(&record),
            false => stream.record(&record).map(drop),
        }
    }

    /// Compares the receiver's hash of a file, and sends the file if it is another.
    fn compare(&self, stream: &Stream, found: Found, theirs: &str) -> Result<(), Error> {
        let Some((fd, metadata)) = self.open(stream, &found)? else { return Ok(()) };
        let is_same = match gush::digest_of(&fd) {
            Ok(ours) => ours.to_string() == theirs,
            Err(error) => {
                self.refuses(&found.path, &found.target, unreadable(unread(&error)));
                return self.give_up(stream, &found);
            }
        };
        if !is_same && !self.options.dry_run {
            return self.send_opened(stream, found, fd, metadata);
        }
        let record = ToReceiver::Compared { item: found.item(metadata), is_same };
        self.question(stream, found, &record)
    }

    /// Sends a file, or announces it for all workers.
    pub(super) fn send_file(&self, stream: &Stream, found: Found) -> Result<(), Error> {
        match self.open(stream, &found)? {
            Some((fd, metadata)) => self.send_opened(stream, found, fd, metadata),
            None => Ok(()),
        }
    }

    fn send_opened(
        &self,
        stream: &Stream,
        found: Found,
        fd: OwnedFd,
        metadata: EntryMetadata,
    ) -> Result<(), Error> {
        let Found { id, has_names, .. } = found;
        let resumes = self.resumes(&found);
        if resumes.is_some() {
            stream.flush()?;
            self.queue.ask_to_resume();
        }
        let is_divided = has_names || metadata.size_bytes > MOST_DATA_BYTES as u64;
        // The receiver has to know a file before its data comes on another stream.
        let announces = if is_divided { &self.first } else { stream };
        let is_asked = resumes.is_some();
        let file = Arc::new(Outgoing::new(&found, File::from(fd), is_asked));
        if is_asked {
            self.lock().resuming.insert(id, Arc::clone(&file));
        }
        let record = ToReceiver::File { item: found.item(metadata), resumes };
        if !announces.record(&record)? {
            self.refuses(&found.path, &found.target, TOO_MANY_ATTRIBUTES);
            if is_asked {
                self.lock().resuming.remove(&id);
                self.queue.give_up_resuming();
            }
            return self.give_up(stream, &found);
        }
        match file.is_empty() {
            // What is sent depends on the answer.
            _ if is_asked => {}
            true => self.end_file(announces, &file, 0)?,
            false if is_divided => self.queue.divide(file),
            false => {
                while let Some(data) = file.claim() {
                    self.send_range(stream, &file, data)?;
                }
            }
        }
        // Its own worker may be waiting.
        if is_divided { self.first.flush() } else { Ok(()) }
    }

    /// What shows that a large file is that of an earlier copy, if the copy resumes.
    fn resumes(&self, Found { stat, place, sent_as, .. }: &Found) -> Option<Vec<u8>> {
        let is_large = u64::try_from(stat.st_size).is_ok_and(|size| size > RESUMED_BYTES);
        // The receiver has no name for the parts of a file where the source has that name, too.
        let may_resume = || !place.has_sibling(&partial_name(sent_as));
        (self.options.resume && is_large && may_resume()).then(|| {
            let changed = (stat.st_ctime, stat.st_ctime_nsec);
            format!("{} {} {changed:?}", stat.st_dev, stat.st_ino).into_bytes()
        })
    }

    /// Sends a range, and after the last one of its file the end.
    fn send_range(&self, stream: &Stream, file: &Outgoing, data: Data) -> Result<(), Error> {
        let ended = match self.send_data(stream, file, data)? {
            Ok(bytes) => file.sent(bytes, false),
            Err(unsent) => {
                if !file.is_broken() {
                    self.refuses(&file.path, &file.target, unreadable(unsent.why));
                }
                file.sent(unsent.bytes, true)
            }
        };
        match ended {
            Some(sent_bytes) => self.end_file(stream, file, sent_bytes),
            None => Ok(()),
        }
    }

    /// The file has nothing more to send.
    pub(super) fn end_file(
        &self,
        stream: &Stream,
        file: &Outgoing,
        sent_bytes: u64,
    ) -> Result<(), Error> {
        let id = file.id;
        let digest = match file.is_broken() {
            false if file.has_content_without_size() => {
                Err("could not be read: its size is 0, and it has content".into())
            }
            // A hole at its end may be what was cut off.
            false if file.is_sparse() && file.is_shorter() => {
                Err(format!("could not be read: {SHORTER}"))
            }
            false if self.options.verify => file.digest().map(|digest| {
                if let Some(awaited) = self.lock().awaited.get_mut(&id) {
                    awaited.digest = Some(digest);
                }
                Some(digest.to_string())
            }),
            false => Ok(None),
            true => return stream.record(&ToReceiver::Broken { id, sent_bytes }).map(drop),
        };
        let record = match digest {
            Ok(digest) => {
                if file.has_changed() {
                    let text = format!(
                        "warning: {} changed while it was being copied; the copy holds the bytes read",
                        quote::always(&file.path)
                    );
                    let error = gush_tree::Error::reported(&file.path, text);
                    self.warns(&error);
                }
                ToReceiver::End { id, sent_bytes, digest }
            }
            Err(why) => {
                self.refuses(&file.path, &file.target, why);
                ToReceiver::Broken { id, sent_bytes }
            }
        };
        stream.record(&record).map(drop)
    }

    fn send_data(
        &self,
        stream: &Stream,
        file: &Outgoing,
        Data { range, hole_bytes }: Data,
    ) -> Result<Result<u64, Unsent>, Error> {
        let (id, offset) = (file.id, range.start);
        let mut pace = Pace::new();
        let mut shows = |bytes| {
            if let Some(bytes) = pace.due(bytes) {
                self.counts(id, bytes);
            }
        };
        let length = usize::try_from(range.end - range.start).unwrap_or(MOST_DATA_BYTES);
        let announced = ToReceiver::Data { id, offset, length: length as u32, hole_bytes };
        let is_packed = stream.with(|output| Ok(output.packs()))?;
        // What cannot be read is filled with zeros, which nobody may keep.
        let may_fill = !file.is_kept;
        if may_fill && !file.looks_for_zeros() && length >= COPIED_BYTES && !is_packed {
            let limit = self.options.moving.limit.as_ref();
            let moved = stream.with(|output| {
                output.record(&announced)?;
                output.data_from(
                    &file.file,
                    offset,
                    length,
                    limit,
                    self.shows.then_some(&mut shows),
                )
            })?;
            if self.shows && file.size_bytes > length as u64 {
                self.counts(id, pace.rest(length as u64) + hole_bytes);
            }
            // The frame was filled in any case.
            let unsent = |why| Unsent { bytes: length as u64, why };
            return Ok(match moved {
                Ok(bytes) if bytes == length as u64 => Ok(bytes),
                Ok(_) => Err(unsent(SHORTER.into())),
                Err(error) => Err(unsent(unread(&error))),
            });
        }
        self.wait_for_allowance(length as u64);
        let read = stream.with(|output| {
            output.data_by(&announced, length, |data| {
                file.file.read_exact_at(data, offset)?;
                Ok(!file.looks_for_zeros() || data.iter().any(|&byte| byte != 0))
            })
        })?;
        if self.shows && file.size_bytes > length as u64 {
            self.counts(id, length as u64 + hole_bytes);
        }
        Ok(match read {
            Ok(true) => Ok(length as u64),
            Ok(false) => Ok(0),
            Err(error) => {
                let error: std::io::Error = error;
                let why = match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => SHORTER.into(),
                    _ => Failure {
                        text: gush_text::os_text(&error).to_string(),
                        errno: error.raw_os_error(),
                        ..Failure::default()
                    },
                };
                Err(Unsent { bytes: 0, why })
            }
        })
    }

    fn wait_for_allowance(&self, bytes: u64) {
        let Some(limit) = &self.options.moving.limit else { return };
        while let Err(pause) = limit.allowance() {
            limit.begin_sleep();
            thread::sleep(pause);
        }
        limit.spend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::{Seek, SeekFrom};
    use std::path::{Path, PathBuf};

    use gush_tree::CopyOptions;

    use super::super::queue::Place;
    use super::*;
    use crate::Request;
    use crate::frame::{Input, Output};

    /// Zeros in the place of what could not be read would be found there by the next copy.
    #[test]
    fn nothing_is_sent_in_the_place_of_what_cannot_be_read_of_a_file_that_is_kept() {
        let mut sent = tempfile::tempfile().unwrap();
        let (options, mut events) = (CopyOptions::default(), ());
        let sources = [Path::new("s")];
        let request = Request::new(&sources, Path::new("t"), OsStr::new("h:"));
        let output = Output::new(sent.try_clone().unwrap());
        let session = Session::new(&request, &options, output, &(), &mut events);
        session.lock().is_exact = Some(true);
        // Reads of a directory fail (EISDIR).
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        (stat.st_size, stat.st_blocks) = (1 << 20, 2048);
        let found = Found {
            id: 1,
            place: Place { dir: Arc::new(file.try_clone().unwrap().into()), name: PathBuf::new() },
            sent_as: "s".into(),
            stat,
            path: PathBuf::from("s"),
            target: PathBuf::from("s"),
            folder: 0,
            has_names: false,
            below: None,
        };
        let file = Outgoing::new(&found, file, true);
        let data = file.claim().unwrap();
        session.send_range(&session.first, &file, data).unwrap();
        session.first.flush().unwrap();
        sent.seek(SeekFrom::Start(0)).unwrap();
        let mut input = Input::new(sent);
        assert_eq!(
            input.record::<ToReceiver>().unwrap(),
            ToReceiver::Broken { id: 1, sent_bytes: 0 }
        );
        assert!(matches!(input.record::<ToReceiver>(), Err(Error::Ended)));
    }
}
