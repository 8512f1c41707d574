//! What a worker does for its stream: it sends the files of the queue, small ones whole, and ranges
//! of large ones.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use gush_text::quote;
use gush_tree::Action;
use gush_tree::remote::open_found;
use std::os::fd::AsFd;

use super::Session;
use super::outgoing::{Outgoing, Range};
use super::queue::{Found, Job};
use super::streams::Stream;
use crate::error::Error;
use crate::frame::{COPIED_BYTES, MOST_DATA_BYTES};
use crate::record::ToReceiver;

/// Data of a file that could not be sent: the bytes of it that went into frames, and why.
struct Unsent {
    bytes: u64,
    why: String,
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
                Some(Job::Found(found)) => self.send_found(stream, *found)?,
                Some(Job::Range(file, range)) => self.send_range(stream, &file, range)?,
            }
            self.queue.done();
        }
    }

    fn send_found(&self, stream: &Stream, found: Found) -> Result<(), Error> {
        let folder = found.folder;
        let opened = open_found(found.dir.as_fd(), &found.name, &found.stat, &found.path)
            .and_then(|fd| Ok((self.portrait(&fd, &found.stat, &found.path)?, fd)));
        let (portrait, fd) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.fails(&found.target, error);
                return stream.record(&ToReceiver::Missing { folder }).map(drop);
            }
        };
        let bytes = Some(portrait.size_bytes);
        let is_divided = portrait.size_bytes > MOST_DATA_BYTES as u64;
        // The receiver has to know a file before its data comes on another stream.
        let announces = if is_divided { &self.first } else { stream };
        let (path, target) = (found.path, found.target);
        let id = self.number(stream, &path, target.clone(), Action::Copied, bytes)?;
        let name = found.sent_as.as_bytes().to_vec();
        let record = ToReceiver::File { id, folder, name, portrait, has_names: false };
        if !self.send_record(announces, &path, id, &record)? {
            return stream.record(&ToReceiver::Missing { folder }).map(drop);
        }
        let file = Outgoing::new(id, File::from(fd), found.stat, path, target);
        if is_divided && !file.is_empty() {
            self.first.flush()?;
            self.queue.divide(Arc::new(file));
            return Ok(());
        }
        if file.is_empty() {
            return self.end_file(stream, &file, 0);
        }
        while let Some(range) = file.claim() {
            self.send_range(stream, &file, range)?;
        }
        Ok(())
    }

    /// Sends a range, and after the last one of its file the end.
    fn send_range(&self, stream: &Stream, file: &Outgoing, range: Range) -> Result<(), Error> {
        let length = range.end - range.start;
        let ended = match self.send_data(stream, file, range)? {
            Ok(bytes) => file.sent(bytes, false),
            Err(unsent) => {
                if !file.is_broken() {
                    let why = format!("could not be read: {}", unsent.why);
                    self.refuses(&file.path, &file.target, &why);
                }
                file.sent(unsent.bytes.min(length), true)
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
            false if self.options.verify => file.digest().map(Some),
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
                    self.lock().events.warns(&error);
                }
                ToReceiver::End { id, sent_bytes, digest }
            }
            Err(why) => {
                self.refuses(&file.path, &file.target, &why);
                ToReceiver::Broken { id, sent_bytes }
            }
        };
        stream.record(&record).map(drop)
    }

    fn send_data(
        &self,
        stream: &Stream,
        file: &Outgoing,
        range: Range,
    ) -> Result<Result<u64, Unsent>, Error> {
        const SHORTER: &str = "it became shorter while being copied; copy it again";
        let (id, offset) = (file.id, range.start);
        let length = usize::try_from(range.end - range.start).unwrap_or(MOST_DATA_BYTES);
        let announced = ToReceiver::Data { id, offset, length: length as u32 };
        if !file.looks_for_zeros() && length >= COPIED_BYTES {
            let limit = self.options.moving.limit.as_ref();
            let moved = stream.with(|output| {
                output.record(&announced)?;
                output.data_from(&file.file, offset, length, limit)
            })?;
            // The frame was filled in any case.
            let unsent = |why| Unsent { bytes: length as u64, why };
            return Ok(match moved {
                Ok(bytes) if bytes == length as u64 => Ok(bytes),
                Ok(_) => Err(unsent(SHORTER.to_owned())),
                Err(error) => Err(unsent(error.to_string())),
            });
        }
        let mut data = vec![0; length];
        if let Err(error) = file.file.read_exact_at(&mut data, offset) {
            let why = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => SHORTER.to_owned(),
                _ => gush_text::os_text(&error).to_string(),
            };
            return Ok(Err(Unsent { bytes: 0, why }));
        }
        if file.looks_for_zeros() && data.iter().all(|&byte| byte == 0) {
            return Ok(Ok(0));
        }
        self.wait_for_allowance(length as u64);
        stream.with(|output| {
            output.record(&announced)?;
            output.data(&data)
        })?;
        Ok(Ok(length as u64))
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
