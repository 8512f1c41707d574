//! Where contenders work: the input, and a hidden directory for outputs.

use std::cell::OnceCell;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gush_text::{SizeError, size_bytes};
use rustix::io::Errno;
use serde::{Deserialize, Deserializer};

use super::{Content, from_text, special_kind};
use crate::Error;
use crate::scratch::{Scratch, cannot_make};

/// The input, which replaces `{in}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file of so many bytes, made for the run: nowhere zeros for long, nowhere the same.
    Bytes(u64),
    /// A file or directory that is there.
    Path(PathBuf),
}

/// A text that is a size is one; `./1G` is a path.
impl FromStr for Input {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match size_bytes(text) {
            Ok(0) => Err(Error::refused("an input of no bytes cannot be measured")),
            _ if text == "null" => Err(Error::refused(
                "without --input the commands read /dev/null (./null is a file)",
            )),
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(SizeError::NotASize) => Ok(Self::Path(text.into())),
            Err(error) => Err(Error::refused(error.to_string())),
        }
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

/// The input, and the hidden directory in which contenders make their outputs.
#[derive(Debug)]
pub(super) struct Workplace {
    pub(super) scratch: Scratch,
    pub(super) input: Option<PathBuf>,
    /// The bytes of the input, unless it is a device or a FIFO.
    pub(super) input_bytes: Option<u64>,
    is_made: bool,
    content: OnceCell<Content>,
    /// The device and inode of the input.
    file: Option<(u64, u64)>,
    /// The input with all that is inside, as it was at first.
    pub(super) first_survey: Option<Look>,
}

/// A hash of what stat(2) says of the input: it changes when the file is written to or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look(u64);

fn file_of(there: &fs::Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

/// The largest input of the user's that is hashed to identify a case.
const READ_BYTES: u64 = 1 << 30;

impl Workplace {
    /// Makes the directory in `dir`, and the input.
    pub(super) fn new(dir: &Path, input: Option<&Input>) -> Result<Self, Error> {
        let scratch = Scratch::new_in(dir)?;
        // Commands are text, and a path that is none cannot be written into one.
        if scratch.path().to_str().is_none() {
            return Err(Error::refused(format!(
                "'{}' is not valid UTF-8 and cannot be part of a command: choose another with --dir",
                dir.display()
            )));
        }
        let is_made = matches!(input, Some(Input::Bytes(_)));
        let (path, input_bytes) = match input {
            None => (None, None),
            Some(Input::Bytes(bytes)) => (Some(scratch.filled("in", *bytes)?.0), Some(*bytes)),
            Some(Input::Path(path)) => {
                let (path, bytes) = given(path)?;
                (Some(path), bytes)
            }
        };
        let (content, first_survey) = (OnceCell::new(), None);
        let file = path.as_ref().filter(|_| input_bytes.is_some());
        let file = file.and_then(|path| fs::metadata(path).ok()).map(|there| file_of(&there));
        let input = path;
        let mut place = Self { scratch, input, input_bytes, is_made, content, file, first_survey };
        // Before any command, so that a later change is attributed to the command that made it.
        place.first_survey = place.survey();
        Ok(place)
    }

    /// The input's content, read when first asked for.
    pub(super) fn input_content(&self) -> Result<Option<&Content>, Error> {
        let Some(path) = self.input.as_ref().filter(|_| self.input_bytes.is_some()) else {
            return Ok(None);
        };
        if self.content.get().is_none() {
            // The cell is set only here.
            let _ = self.content.set(Content::of(path)?);
        }
        Ok(self.content.get())
    }

    /// The input as it is now, of a directory only its direct entries; `None` where there is no
    /// input, or no file or directory.
    pub(super) fn look(&self) -> Option<Look> {
        self.hashed(false)
    }

    /// The input with all that is inside, as it is now. This reads all metadata of a directory, so
    /// no timed run comes right after.
    pub(super) fn survey(&self) -> Option<Look> {
        self.hashed(true)
    }

    fn hashed(&self, is_deep: bool) -> Option<Look> {
        let path = self.input.as_deref().filter(|_| self.input_bytes.is_some())?;
        let mut hasher = DefaultHasher::new();
        survey(path, is_deep, &mut hasher);
        Some(Look(hasher.finish()))
    }

    /// Moves the user's input back that a command has renamed to `{out}`, which would be removed;
    /// answers whether it was there.
    pub(super) fn take_back(&self) -> Result<bool, Error> {
        let (Some(path), Some(file)) = (&self.input, self.file) else { return Ok(false) };
        let is_gone = fs::symlink_metadata(path).is_err();
        let out = self.output();
        let is_it = fs::symlink_metadata(&out).is_ok_and(|there| file_of(&there) == file);
        if !is_gone || !is_it {
            return Ok(false);
        }
        // The user's only copy may be the one that was moved.
        fs::rename(&out, path).map(|()| true).map_err(|error| {
            Error::failed(format!("cannot move '{}' back to its place", path.display()), error)
        })
    }

    /// Is `path` the input's own file, by another name?
    pub(super) fn is_input(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|there| Some(file_of(&there)) == self.file)
    }

    /// The difference between inputs of the same size, for the identity of a case: one that is made
    /// is always the same, one of the user's has its content, or the path where the content is too
    /// large to be read for that.
    pub(super) fn input_identity(&self) -> Option<String> {
        let path = self.input.as_deref().filter(|_| !self.is_made)?;
        // Reading a terabyte to name a case would take longer than measuring it.
        let is_read = self.input_bytes.is_some_and(|bytes| bytes <= READ_BYTES);
        let content = is_read.then(|| self.input_content().ok().flatten()).flatten();
        Some(content.map_or_else(|| path.display().to_string(), |one| one.short().to_owned()))
    }

    /// The path that replaces `{out}`; nothing is there before a command makes something.
    pub(super) fn output(&self) -> PathBuf {
        self.scratch.path().join("out")
    }

    /// A directory for files of the setup of the contender number `number`, there until the end.
    pub(super) fn own_dir(&self, number: usize) -> Result<PathBuf, Error> {
        let path = self.scratch.path().join(format!("dir-{number}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::failed(format!("cannot make '{}'", path.display()), error))
            }
            _ => Ok(path),
        }
    }

    /// The file that takes standard output where the comparison needs standard output.
    pub(super) fn printed(&self) -> PathBuf {
        self.scratch.path().join("stdout")
    }

    /// Removes the files that a command wrote.
    pub(super) fn clear(&self) -> Result<(), Error> {
        // Before anything is removed: `{out}` may be the user's own input, moved.
        self.take_back()?;
        let out = self.output();
        let removed = match fs::symlink_metadata(&out) {
            Ok(there) if there.is_dir() => fs::remove_dir_all(&out),
            Ok(_) => fs::remove_file(&out),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|error| Error::failed("cannot remove {out} before the next run", error))
    }

    /// Removes all files, unless `changed_by` has changed an input of the user's: parts of that
    /// input may be among them.
    pub(super) fn remove(self, changed_by: Option<&str>) -> Result<(), Error> {
        let is_own_input = self.input.is_some() && !self.is_made;
        if let Some(changed_by) = changed_by.filter(|_| is_own_input) {
            let kept = self.scratch.keep();
            let kept = kept.map_err(|error| Error::failed("cannot keep the files", error))?;
            return Err(Error::refused(format!(
                "{changed_by} changed the input: what the commands left is kept in '{}', as parts of the input may be there",
                kept.display()
            )));
        }
        let path = self.scratch.path().to_owned();
        self.scratch
            .remove()
            .map_err(|error| Error::failed(format!("cannot remove '{}'", path.display()), error))
    }
}

/// Adds what stat(2) says of `path`, and of everything below, to `hasher`; links are not followed.
fn survey(path: &Path, is_deep: bool, hasher: &mut impl Hasher) {
    let Ok(there) = fs::symlink_metadata(path) else { return };
    (file_of(&there), there.len(), there.mtime(), there.mtime_nsec()).hash(hasher);
    if is_deep && there.is_dir() {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|one| one.path()).collect();
        // A directory lists in any order, and the order must not look like a change.
        paths.sort();
        for path in paths {
            path.hash(hasher);
            survey(&path, is_deep, hasher);
        }
    }
}

/// Refuses a directory or an input that is not there, by a look alone.
pub(super) fn check(dir: &Path, input: Option<&Input>) -> Result<(), Error> {
    let there = fs::metadata(dir).map_err(|error| cannot_make(dir, &error))?;
    if !there.is_dir() {
        return Err(cannot_make(dir, &Errno::NOTDIR.into()));
    }
    match input {
        Some(Input::Path(path)) => found(path).map(drop),
        Some(Input::Bytes(_)) | None => Ok(()),
    }
}

/// The path without symbolic links.
fn found(path: &Path) -> Result<(PathBuf, fs::Metadata), Error> {
    let cannot = |error| Error::failed(format!("cannot use '{}' as input", path.display()), error);
    let full = path.canonicalize().map_err(|error| match fs::metadata(path) {
        // The link of a pipe without a name, such as a shell's <(…), leads nowhere.
        Ok(there) if there.file_type().is_fifo() => Error::refused(format!(
            "'{}' is a pipe, whose bytes come once, and each run needs them: write them into a file",
            path.display()
        )),
        _ => cannot(error),
    })?;
    if full.to_str().is_none() {
        return Err(Error::refused(format!(
            "'{}' is not valid UTF-8 and cannot be part of a command",
            path.display()
        )));
    }
    let there = fs::metadata(&full).map_err(cannot)?;
    Ok((full, there))
}

/// The path and its size; a device or a FIFO has none.
fn given(path: &Path) -> Result<(PathBuf, Option<u64>), Error> {
    let (full, there) = found(path)?;
    let bytes = if there.is_dir() { Content::of(&full)?.bytes } else { there.len() };
    let is_special = special_kind(there.file_type()).is_some();
    // A FIFO or device has no size to compute a rate from.
    Ok((full, Some(bytes).filter(|_| !is_special)))
}
