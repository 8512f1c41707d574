//! What a copy shall do: plain data, decided before the first system call.

use std::sync::Arc;

use rustix::fs::FileType;

use crate::backup::Backup;

/// Everything that can be asked of a copy; the default is `cp SRC DST`.
///
/// ```
/// use gush_tree::{ModeRule, Options};
/// let mut options = Options::default();
/// options.preserve.mode = ModeRule::Keep;
/// options.atomic = true;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// A copy, or a link instead of one.
    pub make: Make,
    /// Move the data too; `false` is `--attributes-only`.
    pub data: bool,
    /// Which symbolic links are followed in sources.
    pub dereference: Dereference,
    /// What becomes of FIFOs, sockets and devices.
    pub specials: Specials,
    /// Which existing targets are replaced.
    pub update: Update,
    /// Ask before an existing target is replaced.
    pub ask: bool,
    /// Remove an existing target that cannot be opened, and try again.
    pub force: bool,
    /// Remove each existing target before opening it.
    pub remove_first: bool,
    /// Create the file that a dangling symbolic link as target points to.
    pub through_dangling: bool,
    /// The metadata to keep.
    pub preserve: Preserve,
    /// How an existing target is kept under another name.
    pub backup: Option<Backup>,
    /// The final name shows the old file or the whole new one, never something in between.
    pub atomic: bool,
    /// The file and its directory are on stable storage when the copy is reported as done.
    pub sync: bool,
    /// Re-read the target and compare hashes.
    pub verify: bool,
    /// A source that changes while it is copied is a failure, and not only worth a warning. Its size and times tell;
    /// stores through a shared mapping may change neither.
    pub stable: bool,
    /// How the engine moves the bytes.
    pub moving: Moving,
}

impl Default for Options {
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
            moving: Moving::default(),
        }
    }
}

impl Options {
    /// May a copy be refused before its first byte, because of how it was asked for?
    pub(crate) fn may_be_refused(&self) -> bool {
        let moving = &self.moving;
        self.data
            && self.make == Make::Copy
            && (moving.choice != gush::Choice::Auto
                || moving.reflink == Reflink::Always
                || moving.space == Some(gush::Space::Reserve))
    }

    /// May a file get a temporary name on its way, which [`remove_temporaries`] would remove?
    ///
    /// Atomic copies do, and those that take an existing target's place only if the method that was named
    /// serves.
    ///
    /// [`remove_temporaries`]: crate::remove_temporaries
    ///
    /// ```
    /// let mut options = gush_tree::Options::default();
    /// assert!(!options.makes_temporaries());
    /// options.atomic = true;
    /// assert!(options.makes_temporaries());
    /// ```
    #[must_use]
    pub fn makes_temporaries(&self) -> bool {
        let removes = self.remove_first || self.force || self.preserve.links;
        self.atomic || (removes && self.may_be_refused())
    }

    /// Is a source of this kind opened and read, rather than linked or made anew?
    pub(crate) fn reads(&self, source_kind: FileType) -> bool {
        let like_files = self.specials == Specials::Read && source_kind != FileType::Symlink;
        self.make == Make::Copy && (source_kind == FileType::RegularFile || like_files)
    }
}

/// What is made of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Make {
    /// A copy.
    #[default]
    Copy,
    /// Another name of the same file.
    HardLink,
    /// A symbolic link to it.
    SymbolicLink,
}

/// Which symbolic links are followed in sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dereference {
    /// None: a link is copied as a link (`-P`).
    Never,
    /// Those the user named (`-H`).
    Named,
    /// All (`-L`).
    Always,
}

/// What becomes of FIFOs, sockets and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// They are read like files.
    Read,
    /// They are made anew (`-R`).
    Recreate,
}

/// Which existing targets are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// All.
    All,
    /// None; that is no failure.
    None,
    /// None, and each is a failure.
    NoneFail,
    /// Those that are older than the source.
    Older,
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Preserve {
    /// Permission bits and access control list.
    pub mode: ModeRule,
    /// User and group.
    pub owner: bool,
    /// Times of last access and modification.
    pub times: bool,
    /// Sources that are one file become targets that are one file.
    pub links: bool,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// The SELinux label.
    pub label: Label,
    /// A failure to keep times, owner or mode is a failure of the copy.
    pub required: bool,
}

/// Which permission bits a target gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeRule {
    /// A new file gets the source's less the umask, an existing one keeps its own.
    #[default]
    Umask,
    /// The source's, with its access control list.
    Keep,
    /// A new file gets read and write for all, less the umask.
    Fresh,
}

/// How hard extended attributes are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// How hard the SELinux label is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// Not at all: the kernel picks one.
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
/// use gush_tree::{Options, Reflink};
/// let mut options = Options::default();
/// options.moving.choice = "splice".parse()?;
/// options.moving.reflink = Reflink::Never;
/// options.moving.limit = gush::Rate::bytes_per_second(10_000_000);
/// # Ok::<(), gush::UnknownMethod>(())
/// ```
#[derive(Clone, Debug)]
pub struct Moving {
    /// A method by name, or the engine's choice.
    pub choice: gush::Choice,
    /// Whether blocks may be shared with the source.
    pub reflink: Reflink,
    /// No method by which later writes to the source can show in the copy.
    pub isolated: bool,
    /// What becomes of holes and zeros.
    pub holes: gush::Holes,
    /// Threads for one file; 0 lets the engine choose.
    pub threads: usize,
    /// Sizes and advice.
    pub tuning: gush::Tuning,
    /// When the target's space is found; `None` reserves it where that makes writing faster.
    pub space: Option<gush::Space>,
    /// The user's measured profile, which may reorder the engine's choice.
    pub profile: Option<Arc<gush::Profile>>,
    /// The most bytes a second.
    pub limit: Option<gush::Rate>,
}

impl Default for Moving {
    fn default() -> Self {
        Self {
            choice: gush::Choice::Auto,
            reflink: Reflink::Auto,
            isolated: false,
            holes: gush::Holes::Keep,
            threads: 0,
            tuning: gush::Tuning::default(),
            space: None,
            profile: None,
            limit: None,
        }
    }
}

/// Whether blocks may be shared with the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reflink {
    /// Where the file system can.
    Auto,
    /// Or the copy fails.
    Always,
    /// Never, so that every byte is written anew.
    Never,
}
