//! The options of a copy: plain data, decided before the first system call.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::backup::Backup;
use crate::filter::{Filter, GitIgnored};
use crate::tree::shard::Shard;

/// All options of a copy; the default is `cp SRC DST`.
///
/// ```
/// use gush_tree::{ModeRule, CopyOptions};
/// let mut options = CopyOptions::default();
/// options.preserve.mode = ModeRule::Keep;
/// options.atomic = true;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyOptions {
    /// A copy, or a link instead.
    pub make: Make,
    /// Move the data too; `false` is `--attributes-only`.
    pub data: bool,
    /// Which symbolic links are followed in sources.
    pub dereference: Dereference,
    /// How FIFOs, sockets and devices are treated.
    pub specials: Specials,
    /// Which existing targets are replaced.
    pub update: Update,
    /// Ask before an existing target is replaced.
    pub ask: bool,
    /// Remove an existing target that cannot be opened, and try again.
    pub force: bool,
    /// Remove each existing target first.
    pub remove_first: bool,
    /// Create the missing file that a dangling symbolic link at the target leads to.
    pub through_dangling: bool,
    /// The metadata to keep.
    pub preserve: Preserve,
    /// How an existing target is kept under another name.
    pub backup: Option<Backup>,
    /// The final name shows the old file or the whole new one, never a half-written one.
    pub atomic: bool,
    /// The file and its directory reach stable storage before the copy returns.
    pub sync: bool,
    /// Re-read the target and compare hashes; in a tree once more when all is copied, where the
    /// target has changed since. In a tree that was there before, the target becomes a
    /// separate file if it has several names, as with all options that promise an equal tree.
    pub verify: bool,
    /// A source that changes during the copy is a failure, not just a warning. Size and times
    /// reveal the change; stores through a shared mapping may change neither. Only a regular file
    /// that is no file of procfs or sysfs has such times: any other source is refused.
    pub stable: bool,
    /// Copy directories with all that is in them.
    pub recursive: bool,
    /// Make a directory of another file system than its parent's, and leave its entries out.
    pub one_file_system: bool,
    /// A symbolic link to a directory counts as this directory where a tree is copied to.
    pub keep_directory_symlink: bool,
    /// In a tree, write through no symbolic link that leads out of the tree copied to.
    pub confine: bool,
    /// Leave out entries of a tree by name.
    pub filter: Option<Filter>,
    /// Leave out what the `.gitignore` files of a tree name.
    pub gitignore: bool,
    /// Remove from the target of a tree what the source lacks, and what is no file where the source
    /// has one: a symbolic link there is followed only without [`confine`](Self::confine). What
    /// [`filter`](Self::filter) and [`gitignore`](Self::gitignore) leave out stays, and so does
    /// each entry of another mount than the target's, and what is mounted in the source. Without
    /// mount ids, which came with Linux 5.8, or where the mounts in the source cannot be read,
    /// nothing is removed, and each entry that stays is a failure.
    pub mirror: bool,
    /// Of a tree, the files whose names fit here are copied when all the others are, and are on
    /// stable storage, with [`sync`](Self::sync); and not at all if one of the others has failed.
    /// Each appears whole, as with [`atomic`](Self::atomic). A [`mirror`](Self::mirror) removes
    /// after them, and only if all was copied.
    pub last: Option<Filter>,
    /// Keep a journal next to the target of a tree, and resume where an earlier copy with this
    /// journal was killed. Then an existing target that the journal does not know is removed first.
    pub resume: bool,
    /// Copy one share of a tree, and as rank 0 all that comes after the shares;
    /// [`resume`](Self::resume) goes on with an interrupted one.
    pub shard: Option<Shard>,
    /// Only report what would be done.
    pub dry_run: bool,
    /// End a tree at the first entry that fails.
    pub stop_at_error: bool,
    /// How the engine moves the bytes.
    pub moving: Moving,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            make: Make::Copy,
            data: true,
            dereference: Dereference::Always,
            specials: Specials::Read,
            update: Update::All,
            ask: false,
            force: false,
            remove_first: false,
            through_dangling: false,
            preserve: Preserve::default(),
            backup: None,
            atomic: false,
            sync: false,
            verify: false,
            stable: false,
            recursive: false,
            one_file_system: false,
            keep_directory_symlink: false,
            confine: true,
            filter: None,
            gitignore: false,
            mirror: false,
            last: None,
            resume: false,
            shard: None,
            dry_run: false,
            stop_at_error: false,
            moving: Moving::default(),
        }
    }
}

impl CopyOptions {
    /// Do these options promise that each file of a tree's target equals its source in the end?
    ///
    /// Then no file is written by two names of the target: a hard link is replaced, and a file that
    /// another name of the copy leads to is refused.
    pub(crate) fn promises_equality(&self) -> bool {
        let compares = matches!(self.update, Update::Changed | Update::Different);
        let publishes = self.sync || self.last.is_some();
        self.mirror || self.verify || self.stable || self.resume || compares || publishes
    }

    /// May these options lead to a refusal before the first byte?
    pub(crate) fn may_be_refused(&self) -> bool {
        let moving = &self.moving;
        self.data
            && self.make == Make::Copy
            && (moving.choice != gush::Choice::Auto
                || moving.reflink == Reflink::Always
                || moving.space == Some(gush::Space::Reserve))
    }

    /// May a file get a temporary name meanwhile, which [`remove_temporaries`] would remove?
    ///
    /// Atomic copies make temporary names, and so do files that come last ([`CopyOptions::last`]).
    /// So do copies that take the place of an existing target only if the named method serves.
    ///
    /// [`remove_temporaries`]: crate::remove_temporaries
    ///
    /// ```
    /// let mut options = gush_tree::CopyOptions::default();
    /// assert!(!options.makes_temporaries());
    /// options.atomic = true;
    /// assert!(options.makes_temporaries());
    /// ```
    #[must_use]
    pub fn makes_temporaries(&self) -> bool {
        let breaks_links = self.preserve.links || self.promises_equality() || self.shard.is_some();
        let removes = self.remove_first || self.force || breaks_links;
        self.atomic || self.last.is_some() || (removes && self.may_be_refused())
    }

    /// Do targets that stay because they are unchanged get the attributes of their sources, as far
    /// as [`preserve`](Self::preserve) asks for any?
    #[must_use]
    pub fn updates_attributes(&self) -> bool {
        let Preserve { mode, owner, times, xattrs, label, .. } = self.preserve;
        let looks_for_changes = match self.update {
            Update::Changed | Update::Different => true,
            Update::All => self.resume,
            Update::None | Update::NoneFail | Update::Older => false,
        };
        let keeps_any = mode == ModeRule::Keep
            || owner
            || times
            || xattrs != Xattrs::Leave
            || label != Label::Leave;
        looks_for_changes && keeps_any && self.make == Make::Copy
    }

    /// Is an entry of a tree, with this path below the root, left out by its name? `ignored` is
    /// what its directory's `.gitignore` and those above say.
    pub(crate) fn leaves_out(
        &self,
        ignored: Option<&Arc<GitIgnored>>,
        path: &Path,
        is_directory: bool,
    ) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.excludes(path, is_directory))
            || ignored.is_some_and(|ignored| ignored.excludes(path, is_directory))
    }

    /// Is the file of a tree with this path below the root copied after the others?
    pub(crate) fn comes_last(&self, path: &Path) -> bool {
        self.last.as_ref().is_some_and(|last| last.excludes_or_above(path))
    }

    /// Is a source of this kind opened and read, instead of linked or made anew?
    pub(crate) fn reads(&self, source_kind: FileType) -> bool {
        let like_files = self.specials == Specials::Read && source_kind != FileType::Symlink;
        self.make == Make::Copy && (source_kind == FileType::RegularFile || like_files)
    }
}

/// The kind of target made from a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Make {
    /// A copy.
    #[default]
    Copy,
    /// Another name of the same file.
    HardLink,
    /// A symbolic link to the source.
    SymbolicLink,
}

/// Which symbolic links are followed in sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dereference {
    /// None: a link is copied as a link (`-P`).
    Never,
    /// Links named by the user (`-H`).
    Named,
    /// All (`-L`).
    Always,
}

/// How FIFOs, sockets and devices are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Special files are read like files.
    Read,
    /// Special files are made anew (`-R`).
    Recreate,
    /// Special files are errors, as FIFOs are for Python's `shutil.copytree`.
    Refuse,
}

/// Which existing targets are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Update {
    /// All.
    #[default]
    All,
    /// None; a target that stays is no failure.
    None,
    /// None; each target that stays is a failure.
    NoneFail,
    /// Targets older than the source.
    Older,
    /// Targets of another kind or size than the source, or with another modification time. The
    /// others get the attributes that [`Preserve`] names.
    Changed,
    /// Targets of another kind or size than the source, or with other bytes; the others as with
    /// [`Changed`](Self::Changed).
    Different,
}

/// The metadata to keep.
///
/// ```
/// use gush_tree::{ModeRule, Preserve, Xattrs};
/// let as_cp_p = Preserve {
///     mode: ModeRule::Keep,
///     owner: true,
///     times: true,
///     required: true,
///     ..Preserve::default()
/// };
/// assert_eq!(as_cp_p.xattrs, Xattrs::Leave);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Preserve {
    /// Permission bits and access control list.
    pub mode: ModeRule,
    /// User and group.
    pub owner: bool,
    /// Owners keep their numbers on another machine, where the names may have others.
    pub numeric_ids: bool,
    /// Times of last access and modification.
    pub times: bool,
    /// Names of one source file become names of one target file.
    pub links: bool,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// The SELinux label.
    pub label: Label,
    /// A failure to keep times, owner or mode is a failure of the copy.
    pub required: bool,
}

impl Preserve {
    /// Is an owner on another machine the one with the same name?
    pub(crate) fn keeps_names(&self) -> bool {
        self.owner && !self.numeric_ids
    }
}

/// The rule for a target's permission bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ModeRule {
    /// A new file gets the source's bits less the umask; an existing file keeps its own bits.
    #[default]
    Umask,
    /// The target gets the source's bits and access control list.
    Keep,
    /// A new file gets read and write for all, less the umask.
    Fresh,
}

/// The effort to copy extended attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Xattrs {
    /// Not at all.
    #[default]
    Leave,
    /// Silently (`-a`).
    Try,
    /// With a warning, except where the file system has none (`--preserve=all`).
    Warn,
    /// A failure is a failure of the copy (`--preserve=xattr`).
    Require,
}

/// The effort to copy the SELinux label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Label {
    /// Not at all: the kernel picks a label.
    #[default]
    Leave,
    /// Silently (`-a`).
    Try,
    /// A failure is a failure of the copy (`--preserve=context`).
    Require,
}

/// How the engine moves the bytes.
///
/// ```
/// use gush_tree::{CopyOptions, Reflink};
/// let mut options = CopyOptions::default();
/// options.moving.choice = "splice".parse()?;
/// options.moving.reflink = Reflink::Never;
/// options.moving.limit = gush::Rate::bytes_per_second(10_000_000);
/// # Ok::<(), gush::UnknownMethod>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Moving {
    /// A method by name, or the engine's choice.
    pub choice: gush::Choice,
    /// Whether blocks may be shared with the source.
    pub reflink: Reflink,
    /// Exclude methods by which later writes to the source can show in the copy.
    pub isolated: bool,
    /// The treatment of holes and zeros.
    pub holes: gush::Holes,
    /// Threads for one large file, and for the entries of a tree; 0 means as many as pay: one a
    /// processor, or up to 64 where they mostly wait for a server or a disk.
    pub threads: usize,
    /// Sizes and advice.
    pub tuning: gush::Tuning,
    /// When blocks are allocated for the target; `None` reserves them where this makes writing
    /// faster.
    pub space: Option<gush::Space>,
    /// The rate limit, of all files together; a [`Copier`](crate::Copier) with a clone of it shares
    /// it.
    pub limit: Option<gush::Rate>,
    /// Leave the page cache as it was: pages that the copy brought there are taken away, after
    /// those of the target are on the disk.
    pub no_cache: bool,
    /// Lets another thread end the copy: the file under way fails, as does each file after it, and
    /// a tree takes no more of its entries.
    ///
    /// ```
    /// use gush_tree::{Copier, CopyOptions, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    /// std::fs::create_dir(&source)?;
    /// std::fs::write(source.join("file"), "hello")?;
    ///
    /// let cancel = gush::Cancel::new();
    /// let mut options = CopyOptions::default();
    /// options.recursive = true;
    /// options.moving.cancel = Some(cancel.clone());
    /// cancel.cancel();
    /// let done = Copier::new(&options).copy(Place::here(&source), Place::here(&target), &mut ())?;
    /// assert!(!done.complete && !target.join("file").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub cancel: Option<gush::Cancel>,
}

/// Whether the copy may share blocks with the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflink {
    /// Share where the file system can.
    #[default]
    Auto,
    /// Share, or fail.
    Always,
    /// Never share: every byte is written anew.
    Never,
}
