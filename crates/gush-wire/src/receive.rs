//! The receiver: records to files, below the target's directory.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_text::errno_text;
use gush_tree::remote::{Draft, Folder, Portrait};
use gush_tree::{CopyOptions, Events};
use rustix::fs::FileType;

use crate::error::Error;
use crate::frame::{Input, MOST_DATA_BYTES, Output};
use crate::record::{Hello, MAGIC, ToReceiver, ToSender, VERSION};

/// Serves one session: reads records from `input`, makes what they describe, and answers on
/// `output`.
///
/// # Errors
/// When a stream fails, or the sender breaks the protocol. Entries that fail are answered.
pub fn receive(input: File, output: File) -> Result<(), Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    output.record(&Hello::OURS)?;
    output.flush()?;
    meet(&mut input)?;
    let ToReceiver::Begin { target, is_exact, is_directory, preserve } = input.record()? else {
        return Err(Error::Protocol("no request came first".into()));
    };
    let target = PathBuf::from(OsString::from_vec(target));
    let (base, as_name) = match destination(&target, is_exact, is_directory) {
        Ok(found) => found,
        Err(why) => {
            output.record(&ToSender::Refused(why))?;
            return output.flush();
        }
    };
    let mut options = CopyOptions::default();
    options.preserve = preserve;
    let mut receiver = Receiver {
        input,
        replies: Replies { output, failed: Ok(()) },
        options,
        as_name,
        open: vec![Some(base)],
        ids: Vec::new(),
        firsts: HashMap::new(),
        left: VecDeque::new(),
    };
    receiver.serve()
}

/// Checks the other side's first record.
pub(crate) fn meet(input: &mut Input) -> Result<(), Error> {
    let hello: Hello =
        input.expect_greeting().and_then(|()| input.record()).map_err(|error| match error {
            Error::Ended if input.is_empty() => Error::Silent,
            error => error,
        })?;
    match hello {
        Hello { magic: MAGIC, version: VERSION } => Ok(()),
        Hello { magic: MAGIC, version } => Err(Error::Version { theirs: version, ours: VERSION }),
        _ => Err(Error::Protocol("it is no gush".into())),
    }
}

/// The directory in which the copies are made, and the name of the only one, if it is given.
fn destination(
    target: &Path,
    is_exact: bool,
    is_directory: bool,
) -> Result<(Arc<Folder>, Option<OsString>), String> {
    let target = if target.as_os_str().is_empty() { Path::new(".") } else { target };
    let open = |path: &Path| Folder::base(path).map_err(|error| error.to_string());
    if is_directory || (!is_exact && target.is_dir()) {
        return Ok((open(target)?, None));
    }
    let shown = gush_text::quote::always(target);
    let name = target.file_name().ok_or_else(|| format!("{shown} names no file to be made"))?;
    let above = match target.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    Ok((open(above)?, Some(name.to_owned())))
}

/// The way back to the sender. A failure to write is kept, because events cannot return it.
struct Replies {
    output: Output,
    failed: Result<(), Error>,
}

impl Replies {
    fn send(&mut self, reply: &ToSender) {
        if self.failed.is_ok() {
            self.failed = self.output.record(reply).map(drop);
        }
    }

    fn failed(&mut self, id: u64, why: String) {
        self.send(&ToSender::Failed { id, why });
    }

    fn ended(&mut self, id: u64, result: Result<bool, gush_tree::Error>) -> bool {
        let is_made = result.is_ok();
        match result {
            Ok(is_complete) => self.send(&ToSender::Done { id, is_complete }),
            Err(error) => self.failed(id, error.to_string()),
        }
        is_made
    }
}

impl Events for Replies {
    fn warns(&mut self, warning: &gush_tree::Error) {
        self.send(&ToSender::Warning(warning.to_string()));
    }
}

/// An entry's directory, its name, and its device and inode.
type First = (Arc<Folder>, OsString, (u64, u64));

struct Receiver {
    input: Input,
    replies: Replies,
    options: CopyOptions,
    /// The name of the only operand's copy, if it is not the operand's.
    as_name: Option<OsString>,
    /// The directories entered and not yet left, from the base on. `None` is one that failed.
    open: Vec<Option<Arc<Folder>>>,
    /// The numbers of those but the base.
    ids: Vec<u64>,
    /// Entries that may get further names.
    firsts: HashMap<u64, First>,
    /// Directories that were left and may be needed for further names, while they are held.
    left: VecDeque<Arc<Folder>>,
}

/// Directories above the last ones, and those left before the last ones, are closed, and opened again where they are needed.
const MOST_HELD: usize = 256;

/// Each directory on the way holds its path.
const MOST_PATH_BYTES: usize = 32 << 10;

impl Receiver {
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            if self.input.is_empty() {
                // The sender may wait for these answers.
                self.replies.output.flush()?;
            }
            let record = self.input.record()?;
            let is_last = record == ToReceiver::Finish;
            self.serve_one(record)?;
            std::mem::replace(&mut self.replies.failed, Ok(()))?;
            if is_last {
                return self.replies.output.flush();
            }
        }
    }

    fn serve_one(&mut self, record: ToReceiver) -> Result<(), Error> {
        match record {
            ToReceiver::Enter { id, name, portrait } => {
                let name = self.name(name)?;
                of_kind(&portrait, portrait.kind() == FileType::Directory)?;
                let entered = match self.folder().cloned() {
                    Some(folder)
                        if folder.shown_entry(&name).as_os_str().len() > MOST_PATH_BYTES =>
                    {
                        return Err(Error::Protocol("a path is longer than 32 KiB".into()));
                    }
                    Some(folder) => match folder.enter(&name, portrait, &self.options) {
                        Ok(entered) => Some(entered),
                        Err(error) => {
                            self.replies.failed(id, error.to_string());
                            None
                        }
                    },
                    None => {
                        self.replies.failed(id, String::new());
                        None
                    }
                };
                if let Some(above) = self.open.len().checked_sub(MOST_HELD)
                    && let Some(folder) = &self.open[above]
                {
                    folder.let_go();
                }
                self.open.push(entered);
                self.ids.push(id);
            }
            ToReceiver::Leave => {
                let id = self.ids.pop().ok_or_else(|| out_of_place("Leave"))?;
                if let Some(folder) = self.open.pop().flatten() {
                    let result = folder.finish(&self.options, &mut self.replies);
                    self.replies.ended(id, result);
                    self.keeps(folder);
                }
            }
            ToReceiver::File { id, name, portrait, has_names } => {
                let name = self.name(name)?;
                of_kind(&portrait, portrait.kind() == FileType::RegularFile)?;
                self.file(id, &name, portrait, has_names)?;
            }
            ToReceiver::Other { id, name, portrait, has_names } => {
                let name = self.name(name)?;
                let is_file = matches!(
                    portrait.kind(),
                    FileType::RegularFile | FileType::Directory | FileType::Unknown
                );
                of_kind(&portrait, !is_file)?;
                self.entry(id, &name, has_names, |receiver, folder| {
                    folder.make(&name, &portrait, &receiver.options, &mut receiver.replies)
                });
            }
            ToReceiver::Link { id, name, first } => {
                let name = self.name(name)?;
                match self.firsts.get(&first).cloned() {
                    Some((above, first, file)) => {
                        self.entry(id, &name, false, |_, folder| {
                            folder.link(&name, (&above, &first, file)).map(|()| true)
                        });
                        self.keeps(above);
                    }
                    None => {
                        let name = name.to_string_lossy();
                        let why =
                            format!("cannot create hard link '{name}': the first name failed");
                        self.replies.failed(id, why);
                    }
                }
            }
            ToReceiver::Finish if self.ids.is_empty() => self.replies.send(&ToSender::Finished),
            ToReceiver::Finish => return Err(out_of_place("Finish")),
            ToReceiver::Begin { .. } => return Err(out_of_place("Begin")),
            ToReceiver::Data { .. } | ToReceiver::End { .. } | ToReceiver::Broken => {
                return Err(out_of_place("data without a file"));
            }
        }
        Ok(())
    }

    fn folder(&self) -> Option<&Arc<Folder>> {
        self.open.last().and_then(Option::as_ref)
    }

    /// Makes an entry in the current directory, and answers.
    fn entry(
        &mut self,
        id: u64,
        name: &OsStr,
        has_names: bool,
        make: impl FnOnce(&mut Self, &Folder) -> Result<bool, gush_tree::Error>,
    ) {
        let Some(folder) = self.folder().cloned() else {
            return self.replies.failed(id, String::new());
        };
        let result = make(self, &folder);
        if self.replies.ended(id, result)
            && has_names
            && let Some(file) = folder.identity(name)
        {
            self.firsts.insert(id, (folder, name.to_owned(), file));
        }
    }

    /// Bounds the descriptors of directories that were left.
    fn keeps(&mut self, folder: Arc<Folder>) {
        if Arc::strong_count(&folder) > 1 {
            self.left.push_back(folder);
        }
        if self.left.len() > MOST_HELD
            && let Some(first) = self.left.pop_front()
        {
            first.let_go();
        }
    }

    /// The name of an entry, which cannot lead out of its directory.
    fn name(&mut self, name: Vec<u8>) -> Result<OsString, Error> {
        let is_name = !matches!(&name[..], b"" | b"." | b"..")
            && name.len() <= 255
            && !name.contains(&b'/')
            && !name.contains(&0);
        if !is_name {
            return Err(Error::Protocol("a name is no name of an entry".into()));
        }
        match (self.ids.is_empty(), &self.as_name) {
            (true, Some(given)) => Ok(given.clone()),
            _ => Ok(OsString::from_vec(name)),
        }
    }

    fn file(
        &mut self,
        id: u64,
        name: &OsStr,
        portrait: Portrait,
        has_names: bool,
    ) -> Result<(), Error> {
        let size_bytes = portrait.size_bytes;
        let mut begun = self
            .folder()
            .map(|folder| Draft::begin(folder, name, portrait, &self.options))
            .transpose()
            .map_err(|error| error.to_string());
        // A descriptor of its own, because the data is moved while the session's state is in use.
        let file = match &begun {
            Ok(Some(draft)) => match draft.fd().try_clone_to_owned() {
                Ok(fd) => Some(File::from(fd)),
                Err(error) => {
                    begun = Err(format!("cannot write: {}", gush_text::os_text(&error)));
                    None
                }
            },
            _ => None,
        };
        let mut received = begun;
        let digest = loop {
            if self.input.is_empty() {
                self.replies.output.flush()?;
            }
            match self.input.record()? {
                ToReceiver::Data { offset, length } => {
                    let length = length as usize;
                    let is_inside =
                        offset.checked_add(length as u64).is_some_and(|end| end <= size_bytes);
                    if length == 0 || length > MOST_DATA_BYTES || !is_inside {
                        return Err(Error::Protocol("data lies outside its file".into()));
                    }
                    let into = file.as_ref().filter(|_| received.is_ok());
                    let written = self.input.data(length, into.map(|file| (file, offset)))?;
                    if let (Err(errno), Ok(Some(draft))) = (written, &received) {
                        let shown = draft.shown();
                        let name = gush_text::quote::always(&shown);
                        received = Err(format!("error writing {name}: {}", errno_text(errno)));
                    }
                }
                ToReceiver::End { digest } => break digest,
                ToReceiver::Broken => {
                    self.replies.failed(id, String::new());
                    return Ok(());
                }
                _ => return Err(out_of_place("an entry within a file")),
            }
        };
        drop(file);
        match received {
            Ok(Some(draft)) => self.entry(id, name, has_names, |receiver, _| {
                draft.set_size()?;
                verify(&draft, digest)?;
                draft.finish(&receiver.options, &mut receiver.replies)
            }),
            Ok(None) => self.replies.failed(id, String::new()),
            Err(why) => self.replies.failed(id, why),
        }
        Ok(())
    }
}

fn verify(draft: &Draft, sent: Option<String>) -> Result<(), gush_tree::Error> {
    let Some(sent) = sent else { return Ok(()) };
    let arrived = draft.digest()?;
    if arrived.to_string() == sent {
        return Ok(());
    }
    let shown = draft.shown();
    let name = gush_text::quote::always(&shown);
    let text = format!("verification of {name} failed: blake3 {arrived} arrived, {sent} was sent");
    Err(gush_tree::Error::reported(&shown, text))
}

fn of_kind(portrait: &Portrait, is_right: bool) -> Result<(), Error> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Protocol(format!("an entry has the mode {:o}", portrait.mode))),
    }
}

fn out_of_place(what: &str) -> Error {
    Error::Protocol(format!("{what} is out of place"))
}
