//! A regular file of the target while its data arrives, under no name or a temporary one.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{self, Mode};
use rustix::io::retry_on_intr;

use super::comparing::refuse_irreplaceable;
use super::folder::Folder;
use super::portrait::Portrait;
use crate::atomic::{Resting, Staged};
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::metadata::{self, Handle, Ownership, Transfer};
use crate::open;
use crate::options::CopyOptions;

/// A file that gets its data, then its attributes, and its name last. Dropped before, it leaves
/// nothing.
#[derive(Debug)]
pub struct Draft {
    folder: Arc<Folder>,
    name: OsString,
    portrait: Portrait,
    provisional_bits: u32,
    /// `None` once it has its name.
    file: Option<Resting>,
}

impl Draft {
    /// Begins the file with this name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(
        folder: &Arc<Folder>,
        name: &OsStr,
        portrait: Portrait,
        options: &CopyOptions,
    ) -> Result<Self, Error> {
        let (bits, provisional_bits) = metadata::creation_bits(&options.preserve, portrait.mode);
        let mode = Mode::from_bits_retain(bits);
        let file = folder.with(name, |place| {
            if let Ok(there) = place.stat(false) {
                refuse_irreplaceable(place, &there, &portrait)?;
            }
            Staged::create(*place, mode)
                .map(Staged::rest)
                .map_err(|errno| open::cannot_create(place, errno))
        })?;
        let (folder, name) = (Arc::clone(folder), name.to_owned());
        Ok(Self { folder, name, portrait, provisional_bits, file: Some(file) })
    }

    /// Where the data goes.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("a draft has its file until it is finished").as_fd()
    }

    /// The path of the file, as the user wrote the target.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        self.folder.shown_entry(&self.name)
    }

    /// Ends the file with its size, which it lacks where it ends in a hole.
    ///
    /// # Errors
    /// When the file cannot be cut or extended.
    pub fn set_size(&self) -> Result<(), Error> {
        retry_on_intr(|| fs::ftruncate(self.fd(), self.portrait.size_bytes))
            .map_err(|errno| Error::os(&self.shown(), "failed to extend {}", errno))
    }

    /// Hashes the bytes as storage has them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn digest(&self) -> Result<gush::Digest, Error> {
        data::digest_as_stored(self.fd(), &self.shown())
    }

    /// Gives the file its attributes and then its name, which what is no
    /// directory loses to it. `false` if something required could not be set.
    ///
    /// # Errors
    /// When it cannot be completed; then the old file is unchanged.
    pub fn finish(mut self, options: &CopyOptions, events: &mut dyn Events) -> Result<bool, Error> {
        let (folder, name) = (Arc::clone(&self.folder), self.name.clone());
        folder.with(&name, |place| {
            let stat = retry_on_intr(|| fs::fstat(self.fd()))
                .map_err(|errno| Error::os(place.shown, "cannot stat {}", errno))?;
            let complete = Transfer {
                options,
                source: &self.portrait,
                source_stat: &self.portrait.stat(&options.preserve, &stat),
                source_shown: place.shown,
                target: Handle::Open(self.fd()),
                target_shown: place.shown,
                target_owner: Some(Ownership::of(&stat)),
                existing_mode: None,
                created: true,
                may_inherit_acl: true,
                directory_mode: None,
                provisional_bits: self.provisional_bits,
            }
            .apply(events);
            let file = self.file.take().expect("a draft is finished once");
            file.wake(*place)
                .commit(true)
                .map_err(|errno| open::cannot_replace(options, place, false, errno))?;
            Ok(complete)
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = self.folder.with(&self.name, |place| {
                drop(file.wake(*place));
                Ok(())
            });
        }
    }
}
