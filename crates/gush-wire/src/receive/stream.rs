//! The records of one stream.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use gush_text::without_controls;
use gush_tree::Update;
use gush_tree::remote::{EntryMetadata, Folder, OverwriteDecision, Spared, Updated};
use rustix::fs::FileType;

use super::answers::{Arrival, Ending, Told};
use super::bounds::HEAP_BYTES;
use super::incoming::Incoming;
use super::links::{First, Link};
use super::session::{Session, out_of_place};
use super::shown::{NOT_ASKED_FOR, Shown};
use crate::error::{Error, ensure};
use crate::frame::{Input, Output};
use crate::join;
use crate::record::{BASE, Item, ToReceiver, ToSender};

const NO_NAME: &str = "a name is no name of an entry";
/// If nothing has come for this long, answers are sent.
const PATIENCE: Duration = Duration::from_millis(2);

impl Session {
    /// Serves the first stream to its last record, and waits for the others.
    pub fn serve_first(self: &Arc<Self>, input: &mut Input) -> Result<(), Error> {
        loop {
            match self.next(input, true)? {
                ToReceiver::Invite => self.invite()?,
                ToReceiver::Uses { number } => self.uses(number)?,
                ToReceiver::Invitation(token) => {
                    let shown = self.shown.as_ref().ok_or_else(|| out_of_place("Invitation"))?;
                    shown.is_invited(self, token)?;
                }
                ToReceiver::Enter { id, folder, name, metadata, within, mounted } => {
                    let name = self.directory_name(name, folder)?;
                    of_kind(&metadata, metadata.kind() == FileType::Directory)?;
                    let spared = Spared { above: &within, mounted: mounted.as_deref() };
                    self.enter(id, folder, &name, (metadata, spared))?;
                }
                ToReceiver::Ignore { lines } => self.ignore(&lines)?,
                ToReceiver::Leave { id, .. } if id == BASE => return Err(out_of_place("Leave")),
                ToReceiver::Leave { id, entries, is_listed } => {
                    self.leave(id, entries, is_listed)?;
                }
                ToReceiver::Other(mut item) => {
                    let (name, folder) = self.entry(&mut item, false, true)?;
                    self.lock().arrives()?;
                    let arrival = Arrival::of(&item, &name);
                    match &folder {
                        Some(folder) => {
                            let place = (item.folder, &**folder);
                            let made = self.make_other(place, &name, &item.metadata);
                            self.end_entry(&arrival, Some(folder), made)?;
                        }
                        None => self.fail_entry(&arrival)?,
                    }
                }
                ToReceiver::Operand { number, name } => {
                    let shown = self.shown.as_ref().ok_or_else(|| out_of_place("Operand"))?;
                    shown.announce(number, OsString::from_vec(name))?;
                }
                ToReceiver::Problem { path, target, why, is_warning } => {
                    let [path, below] = [path, target].map(OsString::from_vec);
                    self.problem(path.as_ref(), below.as_ref(), why, is_warning)?;
                }
                ToReceiver::Link { id, folder, name, metadata, first } => {
                    let name = self.name(name, folder)?;
                    let above = self.folder(folder, true)?;
                    self.takes(above.as_deref(), &name)?;
                    self.link(Link { id, folder, name, metadata }, first)?;
                }
                ToReceiver::Finish { entries } => {
                    self.shown.as_ref().map_or(Ok(()), Shown::end_announcements)?;
                    self.leave(BASE, entries, false)?;
                    return self.wait_until_complete();
                }
                ToReceiver::Refused(why) if self.shown.is_some() => {
                    return Err(Error::Refused(without_controls(&why)));
                }
                record => self.take(record, input, true)?,
            }
        }
    }

    /// The name of an entry that is no directory, and its directory if that has not failed.
    fn entry(
        &self,
        item: &mut Item,
        is_file: bool,
        is_first: bool,
    ) -> Result<(OsString, Option<Arc<Folder>>), Error> {
        let kind = item.metadata.kind();
        let is_right = match kind {
            FileType::Directory | FileType::Unknown => false,
            kind => is_file == (kind == FileType::RegularFile),
        };
        of_kind(&item.metadata, is_right)?;
        let name = self.name(std::mem::take(&mut item.name), item.folder)?;
        let may_be = |shown: &Shown| shown.may_be_other(&name, kind);
        ensure(item.folder != BASE || self.shown.as_ref().is_none_or(may_be), NOT_ASKED_FOR)?;
        let folder = self.folder(item.folder, is_first)?;
        self.takes(folder.as_deref(), &name)?;
        Ok((name, folder))
    }

    /// The source has a name in a directory.
    fn takes(&self, folder: Option<&Folder>, name: &OsStr) -> Result<(), Error> {
        match folder.is_some_and(|folder| folder.takes(name)) {
            // To the end of the copy: links may keep the directory so long.
            true => self.lock().bounds.take(name.len() + HEAP_BYTES),
            false => Ok(()),
        }
    }

    /// Serves a further stream, which is told that it has joined, to its last record.
    pub fn serve_further(
        &self,
        number: u32,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<(), Error> {
        let first = join::welcome(output, number)
            .map_err(Error::further)
            .and_then(|()| self.next(input, false));
        let mut record = match first {
            Err(error @ Error::Further(_)) => return self.lost_unused(number, error),
            first => first?,
        };
        while record != ToReceiver::Close {
            self.take(record, input, false)?;
            if !self.goes_on() {
                break;
            }
            record = self.next(input, false)?;
        }
        self.replies().flush()
    }

    fn next(&self, input: &mut Input, is_first: bool) -> Result<ToReceiver, Error> {
        // The sender may wait for these answers; but each write of them wakes four processes.
        if input.is_empty() && !self.replies().is_flushed() && !input.comes_within(PATIENCE) {
            self.replies().flush()?;
        }
        input.record().map_err(|error| failed_on(is_first, error))
    }

    /// The records that any stream can carry.
    fn take(&self, record: ToReceiver, input: &mut Input, is_first: bool) -> Result<(), Error> {
        match record {
            ToReceiver::File { mut item, resumes } => {
                let (name, folder) = self.entry(&mut item, true, is_first)?;
                if self.options.dry_run {
                    return Err(out_of_place("a file in a dry run"));
                }
                if item.has_names && !is_first {
                    return Err(out_of_place("a file with several names"));
                }
                if let (BASE, Some(shown)) = (item.folder, &self.shown) {
                    shown.expects(item.metadata.size_bytes);
                }
                let (id, is_resumed) = (item.id, resumes.is_some());
                self.lock().compared.remove(&id);
                if is_resumed && !(is_first && self.options.resume) {
                    return Err(out_of_place("a file to be resumed"));
                }
                self.announce(id, Incoming::new(folder, name, item, resumes))?;
                if is_resumed {
                    self.file(id, is_first)?.resume(self, id);
                }
                Ok(())
            }
            ToReceiver::Data { id, offset, length, hole_bytes } => {
                let place = (offset, length, hole_bytes);
                let taken = self.file(id, is_first)?.take_data(self, input, id, place);
                taken.map_err(|error| failed_on(is_first, error))
            }
            ToReceiver::End { id, sent_bytes, digest } => {
                self.file(id, is_first)?.end(self, id, sent_bytes, digest, false)
            }
            ToReceiver::Broken { id, sent_bytes } => {
                self.is_unsent();
                self.file(id, is_first)?.end(self, id, sent_bytes, None, true)
            }
            ToReceiver::Unreadable { id, folder, name, has_names } => {
                let name = self.name(name, folder)?;
                self.folder(folder, is_first)?;
                self.lock().compared.remove(&id);
                self.is_unsent();
                if has_names {
                    self.settle_names(id, First::None)?;
                }
                self.ended(folder, &name)
            }
            ToReceiver::Ask(mut item) => {
                let (name, folder) = self.entry(&mut item, true, is_first)?;
                if item.has_names {
                    self.expect_names(item.id)?;
                }
                self.lock().arrives()?;
                let arrival = Arrival::of(&item, &name);
                let Some(folder) = folder else { return self.fail_entry(&arrival) };
                let standing = folder.decide(&name, &item.metadata, &self.options);
                self.answer_file(&arrival, &folder, &item.metadata, standing)
            }
            ToReceiver::Compared { mut item, is_same } => {
                let (name, folder) = self.entry(&mut item, true, is_first)?;
                self.lock().arrives()?;
                let is_dry = self.options.dry_run;
                let asked = self.lock().compared.remove(&item.id);
                let is_asked = asked.as_ref() == Some(&(item.folder, name.clone()));
                ensure(is_asked && (is_same || is_dry), "Compared is out of place")?;
                let folder = folder.ok_or_else(|| out_of_place("Compared"))?;
                let standing =
                    if is_same { OverwriteDecision::Keep } else { OverwriteDecision::Copy };
                self.answer_file(&Arrival::of(&item, &name), &folder, &item.metadata, Ok(standing))
            }
            _ => Err(out_of_place("a record")),
        }
    }

    /// Makes a symbolic link or special file, where the rules do not keep what is there.
    fn make_other(
        &self,
        (folder_id, folder): (u64, &Folder),
        name: &OsStr,
        metadata: &EntryMetadata,
    ) -> Result<Ending, gush_tree::Error> {
        if let Some(stays) = self.stays(folder, name, metadata)? {
            return Ok(stays);
        }
        self.make_way((folder_id, folder), name, metadata)?;
        let is_complete = folder.make(name, metadata, &self.options, &mut Told(self))?;
        Ok(Ending::Made { is_complete })
    }

    /// How an entry ends that the rules do not copy, whatever the sender has asked before.
    pub fn stays(
        &self,
        folder: &Folder,
        name: &OsStr,
        metadata: &EntryMetadata,
    ) -> Result<Option<Ending>, gush_tree::Error> {
        if self.options.update == Update::All {
            return Ok(None);
        }
        match folder.decide(name, metadata, &self.options)? {
            OverwriteDecision::Skip => Ok(Some(Ending::Skipped)),
            OverwriteDecision::Keep => self.keep(folder, name, metadata),
            OverwriteDecision::Copy | OverwriteDecision::Compare => Ok(None),
        }
    }

    /// What is there counts as the copy, and gets the attributes that it lacks. `None` where it
    /// must be copied, since it has other names.
    fn keep(
        &self,
        folder: &Folder,
        name: &OsStr,
        metadata: &EntryMetadata,
    ) -> Result<Option<Ending>, gush_tree::Error> {
        if !self.options.updates_attributes() {
            return Ok(Some(Ending::Kept));
        }
        let updated = folder.update(name, metadata, &self.options, &mut Told(self))?;
        Ok(updated.map(|updated| match updated {
            Updated { is_complete: true, has_changed: false } => Ending::Kept,
            Updated { is_complete, .. } => Ending::Updated { is_complete },
        }))
    }

    /// Is a file needed, or what is there compared, or kept?
    fn answer_file(
        &self,
        arrival: &Arrival<'_>,
        folder: &Arc<Folder>,
        metadata: &EntryMetadata,
        standing: Result<OverwriteDecision, gush_tree::Error>,
    ) -> Result<(), Error> {
        let Arrival { id, folder: folder_id, name, .. } = *arrival;
        let stays = match standing {
            Ok(OverwriteDecision::Skip) => Ok(Some(Ending::Skipped)),
            Ok(OverwriteDecision::Keep) => self.keep(folder, name, metadata),
            Ok(OverwriteDecision::Copy) => Ok(None),
            Ok(OverwriteDecision::Compare) => match folder.digest(name) {
                Ok(digest) => {
                    let digest = digest.to_string();
                    self.lock().expect_compared(id, (folder_id, name.to_owned()))?;
                    self.reply_without_end(&ToSender::Compare { id, digest });
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let ended = match stays {
            Ok(None) if self.options.dry_run => self
                .make_way((folder_id, folder), name, metadata)
                .and_then(|()| folder.rehearse(name, metadata, &self.options))
                .map(|()| Ending::Made { is_complete: true }),
            Ok(None) => {
                self.reply_without_end(&ToSender::Wanted { id });
                return Ok(());
            }
            Ok(Some(stays)) => Ok(stays),
            Err(error) => Err(error),
        };
        self.end_entry(arrival, Some(folder), ended)
    }

    /// The name of an entry, which cannot lead out of its directory.
    fn name(&self, name: Vec<u8>, folder: u64) -> Result<OsString, Error> {
        ensure(name != b".", NO_NAME)?;
        self.directory_name(name, folder)
    }

    /// The name of a directory. An operand can be the content of one: `.`.
    fn directory_name(&self, name: Vec<u8>, folder: u64) -> Result<OsString, Error> {
        let is_name = !matches!(&name[..], b"" | b"..")
            && (folder == BASE || name != b".")
            && name.len() <= 255
            && !name.contains(&b'/')
            && !name.contains(&0);
        ensure(is_name, NO_NAME)?;
        let is_announced = |shown: &Shown| shown.has_announced(OsStr::from_bytes(&name));
        ensure(folder != BASE || self.shown.as_ref().is_none_or(is_announced), NOT_ASKED_FOR)?;
        match (folder, &self.as_name) {
            (BASE, Some(given)) => Ok(given.clone()),
            _ => Ok(OsString::from_vec(name)),
        }
    }
}

fn failed_on(is_first: bool, error: Error) -> Error {
    if is_first { error } else { error.further() }
}

fn of_kind(metadata: &EntryMetadata, is_right: bool) -> Result<(), Error> {
    ensure(is_right, &format!("an entry has the mode {:o}", metadata.mode))
}

#[cfg(test)]
mod tests {
    use gush_tree::CopyOptions;

    use super::*;

    #[test]
    fn names_that_could_be_those_of_partial_files_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let base = Folder::base(dir.path()).unwrap();
        let output = Output::new(tempfile::tempfile().unwrap());
        let session = Session::new(Arc::clone(&base), None, CopyOptions::default(), output, None);
        let takes = |number: u32, end: &str| {
            session.takes(Some(&base), OsStr::new(&format!(".{number}{end}"))).is_ok()
        };
        assert!((0..20_000).all(|number| takes(number, "gush-partial")));
        // One that is known already takes no more.
        assert!((0..20_000).all(|_| takes(0, ".gush-partial")));
        assert!(!(0..20_000).all(|number| takes(number, ".gush-partial")));
    }
}
