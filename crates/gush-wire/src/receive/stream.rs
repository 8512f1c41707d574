//! The records of one stream.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use gush_tree::remote::Portrait;
use rustix::fs::FileType;

use super::incoming::Incoming;
use super::session::{Link, Session, Warnings, out_of_place};
use crate::error::Error;
use crate::frame::Input;
use crate::record::{BASE, ToReceiver};

impl Session {
    /// Serves the first stream to its last record, and waits for the others.
    pub fn serve_first(self: &Arc<Self>, input: &mut Input) -> Result<(), Error> {
        loop {
            match self.next(input)? {
                ToReceiver::Invite => self.invite()?,
                ToReceiver::Enter { id, folder, name, portrait } => {
                    let name = self.name(name, folder)?;
                    of_kind(&portrait, portrait.kind() == FileType::Directory)?;
                    self.enter(id, folder, &name, portrait)?;
                }
                ToReceiver::Leave { id, .. } if id == BASE => return Err(out_of_place("Leave")),
                ToReceiver::Leave { id, entries } => self.leave(id, entries)?,
                ToReceiver::Other { id, folder: folder_id, name, portrait, has_names } => {
                    let name = self.name(name, folder_id)?;
                    let is_file = matches!(
                        portrait.kind(),
                        FileType::RegularFile | FileType::Directory | FileType::Unknown
                    );
                    of_kind(&portrait, !is_file)?;
                    let folder = self.folder(folder_id, true)?;
                    self.arrived()?;
                    let Some(folder) = folder else {
                        self.fail_entry(id, folder_id, String::new(), has_names)?;
                        continue;
                    };
                    let made = folder.make(&name, &portrait, &self.options, &mut Warnings(self));
                    self.end_entry(id, folder_id, &name, Some(&folder), made, has_names)?;
                }
                ToReceiver::Link { id, folder, name, first } => {
                    let name = self.name(name, folder)?;
                    self.folder(folder, true)?;
                    self.link(Link { id, folder, name }, first)?;
                }
                ToReceiver::Finish { entries } => {
                    self.leave(BASE, entries)?;
                    return self.wait_until_complete();
                }
                record => self.take(record, input, true)?,
            }
        }
    }

    /// Serves a further stream until it is closed.
    pub fn serve_further(&self, input: &mut Input) -> Result<(), Error> {
        while self.goes_on() {
            match self.next(input) {
                Err(Error::Ended) => break,
                Err(error) => return Err(error),
                Ok(record) => self.take(record, input, false)?,
            }
        }
        self.replies().flush()
    }

    fn next(&self, input: &mut Input) -> Result<ToReceiver, Error> {
        if input.is_empty() {
            // The sender may wait for these answers.
            self.replies().flush()?;
        }
        input.record()
    }

    /// The records that any stream can carry.
    fn take(&self, record: ToReceiver, input: &mut Input, is_first: bool) -> Result<(), Error> {
        match record {
            ToReceiver::File { id, folder: folder_id, name, portrait, has_names } => {
                let name = self.name(name, folder_id)?;
                of_kind(&portrait, portrait.kind() == FileType::RegularFile)?;
                if has_names && !is_first {
                    return Err(out_of_place("a file with several names"));
                }
                let folder = self.folder(folder_id, is_first)?;
                self.announce(id, Incoming::new(folder, folder_id, name, portrait, has_names))
            }
            ToReceiver::Data { id, offset, length } => {
                self.file(id, is_first)?.take_data(self, input, id, offset, length)
            }
            ToReceiver::End { id, sent_bytes, digest } => {
                self.file(id, is_first)?.end(self, id, sent_bytes, digest, false)
            }
            ToReceiver::Broken { id, sent_bytes } => {
                self.file(id, is_first)?.end(self, id, sent_bytes, None, true)
            }
            ToReceiver::Missing { folder } => {
                self.folder(folder, is_first)?;
                self.ended(folder)
            }
            _ => Err(out_of_place("a record")),
        }
    }

    /// The name of an entry, which cannot lead out of its directory.
    fn name(&self, name: Vec<u8>, folder: u64) -> Result<OsString, Error> {
        let is_name = !matches!(&name[..], b"" | b"." | b"..")
            && name.len() <= 255
            && !name.contains(&b'/')
            && !name.contains(&0);
        if !is_name {
            return Err(Error::Protocol("a name is no name of an entry".into()));
        }
        match (folder, &self.as_name) {
            (BASE, Some(given)) => Ok(given.clone()),
            _ => Ok(OsString::from_vec(name)),
        }
    }
}

fn of_kind(portrait: &Portrait, is_right: bool) -> Result<(), Error> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Protocol(format!("an entry has the mode {:o}", portrait.mode))),
    }
}
