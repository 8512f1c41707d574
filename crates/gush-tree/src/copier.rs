//! The copier of a command's operands, and the outcome of each copy.

use std::path::PathBuf;

use gush::{Rate, Refusals, Report};
use rustix::fs::{FileType, Stat};

use crate::already_copied::AlreadyCopied;
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Entry, Target};
use crate::options::{CopyOptions, Dereference};
use crate::parents::Parents;
use crate::place::{FileId, Place, kind};
use crate::tree::partition::Everything;
use crate::tree::{self, Operands};
use crate::writers::Writers;

/// Copies one file after the other, and remembers earlier copies as far as later ones depend on
/// them.
///
/// ```
/// use gush_tree::{Copier, CopyOptions, Place};
///
/// let dir = tempfile::tempdir()?;
/// let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
/// std::fs::write(&source, "hello")?;
///
/// let options = CopyOptions::default();
/// let done = Copier::new(&options).copy(Place::here(&source), Place::here(&target), &mut ())?;
/// assert_eq!(done.report.unwrap().bytes, 5);
/// assert_eq!(std::fs::read(&target)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Copier<'o> {
    options: &'o CopyOptions,
    refusals: Refusals,
    /// One limit for all files, on all threads.
    limit: Option<Rate>,
    copied: AlreadyCopied,
    writers: Writers,
    operands: Operands,
}

/// The outcome of a successful copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done {
    /// How the target was made.
    pub action: Action,
    /// The engine's report, if data moved.
    pub report: Option<Report>,
    /// The target was re-read, and the content equals the source's.
    pub verified: bool,
    /// The blake3 digest of source and target, if they were verified by hash. Files with large
    /// holes are compared range by range instead.
    pub digest: Option<gush::Digest>,
    /// The new name of the old target, if there is a backup.
    pub backup: Option<PathBuf>,
    /// Everything required was preserved. If not, [`Events::warns`] reported what is missing.
    pub complete: bool,
    /// The size of a regular source of which no byte had to be moved: the target is not to be
    /// replaced, or is made a link. A further name of a file copied before adds nothing.
    pub unmoved_bytes: Option<u64>,
    /// The file made or written, for later names of the same source.
    pub(crate) made: Option<FileId>,
    /// The copy's last state, seen by its descriptor, where a journal has a line about it or it was
    /// verified.
    pub(crate) last_state: Option<Box<Stat>>,
}

/// How the target was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A copy of the source's data or attributes.
    Copied,
    /// Another name of the source file, or of an earlier copy of it.
    HardLinked,
    /// A symbolic link to the source, or with the same text as the source.
    SymbolicLinked,
    /// A special file of the same kind and device number.
    Recreated,
    /// A directory was made, or filled if it was there.
    Directory,
    /// The target is unchanged and got attributes of the source.
    Attributes,
    /// Nothing was made: the target is the source already, or is not to be replaced.
    Skipped,
}

impl Done {
    /// An entry made on another machine, by this number of bytes sent.
    #[must_use]
    pub fn sent(action: Action, bytes: Option<u64>) -> Self {
        let report = bytes.map(|bytes| {
            let mut report = Report::default();
            report.bytes = bytes;
            report
        });
        Self { report, ..Self::new(action) }
    }

    pub(crate) fn new(action: Action) -> Self {
        Self {
            action,
            report: None,
            verified: false,
            digest: None,
            backup: None,
            complete: true,
            unmoved_bytes: None,
            made: None,
            last_state: None,
        }
    }
}

impl<'o> Copier<'o> {
    /// A copier for one source.
    #[must_use]
    pub fn new(options: &'o CopyOptions) -> Self {
        Self {
            options,
            refusals: Refusals::default(),
            limit: options.moving.limit.clone(),
            copied: AlreadyCopied::default(),
            writers: Writers::default(),
            operands: Operands::default(),
        }
    }

    /// A copier for several sources in one directory, which refuses to overwrite its own earlier
    /// copies.
    ///
    /// ```
    /// use gush_tree::{Copier, CopyOptions, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let [a, b, target] = ["a", "b", "target"].map(|name| dir.path().join(name));
    /// std::fs::write(&a, "first")?;
    /// std::fs::write(&b, "second")?;
    ///
    /// let options = CopyOptions::default();
    /// let mut copier = Copier::for_several(&options);
    /// copier.copy(Place::here(&a), Place::here(&target), &mut ())?;
    /// let error = copier.copy(Place::here(&b), Place::here(&target), &mut ()).unwrap_err();
    /// assert!(error.to_string().starts_with("will not overwrite just-created"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn for_several(options: &'o CopyOptions) -> Self {
        Self { copied: AlreadyCopied::of_several(), ..Self::new(options) }
    }

    /// Copies one file; with [`CopyOptions::recursive`] also a directory and all that is in it.
    ///
    /// Entries of a directory that fail are reported to [`Events::entry_ended`], the others are
    /// copied, and [`Done::complete`] is `false`.
    ///
    /// # Errors
    /// When the target could not be made, or not completed. A new target may then hold the bytes
    /// delivered so far, unless [`CopyOptions::atomic`] is set.
    pub fn copy(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        self.copy_to(source, target, Name::Any, events)
    }

    /// As [`copy`](Self::copy), with what is known of the target's name.
    ///
    /// # Errors
    /// As [`copy`](Self::copy), and of a file found at a name that should be free, which is not
    /// overwritten.
    ///
    /// ```
    /// use gush_tree::{Copier, CopyOptions, Name, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    /// std::fs::write(&source, "hello")?;
    /// std::fs::write(&target, "already here")?;
    ///
    /// let options = CopyOptions::default();
    /// let (from, to) = (Place::here(&source), Place::here(&target));
    /// let error = Copier::new(&options).copy_to(from, to, Name::Free, &mut ());
    /// assert!(error.unwrap_err().to_string().contains(": File exists"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_to(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        name: Name<'_>,
        events: &mut dyn Events,
    ) -> Result<Done, Error> {
        // A dry run looks at a free name: the directory may be missing, too.
        let is_imagined = matches!(name, Name::Below(parents) if parents.are_imagined);
        let is_new = is_imagined || matches!(name, Name::Free if !self.options.dry_run);
        let options = self.options;
        let follow = options.dereference != Dereference::Never;
        let source_stat =
            // One look decides about the kind; opening checks that it is still this file.
            source.look(follow)?;
        let common = Common {
            options,
            refusals: &self.refusals,
            limit: self.limit.as_ref(),
            copied: &self.copied,
            writers: &self.writers,
            keeps_apart: self.copied.is_of_several() && options.promises_equality(),
            base: target.dir,
            journal: None,
            partition: &Everything,
        };
        let entry = Entry::new(source, &source_stat);
        if kind(&source_stat) == FileType::Directory {
            if !options.recursive {
                let text = "-r not specified; omitting directory {}";
                return Err(Error::refusal(source.shown, text));
            }
            let target = Target { is_new: is_imagined, ..Target::operand(target) };
            return tree::copy(&common, &mut self.operands, entry, target, events);
        }
        if options.shard.is_some() {
            let text = "not copying {}: ranks divide a tree, and this is not a directory";
            return Err(Error::refusal(source.shown, text));
        }
        if self.copied.was_named_before(options, &source, &source_stat) {
            events.warns(&Error::refusal(
                source.shown,
                "warning: source file {} specified more than once",
            ));
            return Ok(Done::new(Action::Skipped));
        }
        common.copy_file(entry, Target { is_new, ..Target::operand(target) }, events)
    }
}

/// What is known of the name of an operand's target.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// The target is looked at.
    Any,
    /// Nothing has the name, but perhaps a dangling symbolic link: saves a look.
    Free,
    /// The name is below directories that were made, or, in a dry run, would be made.
    Below(&'a Parents),
}
