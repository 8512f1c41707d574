//! The techniques by name: a row of `methods!` for each.

use std::fmt;
use std::str::FromStr;

#[cfg(not(feature = "uring"))]
use super::absent;
#[cfg(feature = "uring")]
use super::uring;
use super::{
    Method, copy_file_range, direct, mmap_copy, mmap_write, read_mmap, read_write, reflink,
    sendfile, splice, vmsplice,
};

#[cfg(feature = "uring")]
const URING: uring::Uring = uring::Uring;
#[cfg(not(feature = "uring"))]
const URING: absent::Absent = absent::Absent {
    name: MethodName::Uring,
    why: "this program was built without io_uring (the feature uring of the library gush)",
};

macro_rules! methods {
    ($($variant:ident $name:literal $method:path, $what:literal;)+) => {
        /// The techniques, by the names that `--method` takes.
        ///
        /// ```
        /// use gush::MethodName;
        /// let name: MethodName = "copy-file-range".parse()?;
        /// assert_eq!(name, MethodName::CopyFileRange);
        /// assert!("rsync".parse::<MethodName>().is_err());
        /// # Ok::<(), gush::UnknownMethod>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum MethodName {
            $(#[doc = $what] $variant,)+
        }

        impl MethodName {
            /// Every technique.
            pub const ALL: &'static [MethodName] = &[$(MethodName::$variant),+];

            /// The name, as in `--method`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(MethodName::$variant => $name,)+ }
            }

            /// The technique, in a line.
            ///
            /// ```
            /// for name in gush::MethodName::ALL {
            ///     println!("{name:16} {}", name.summary());
            /// }
            /// assert_eq!(gush::MethodName::Splice.as_str(), "splice");
            /// ```
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(MethodName::$variant => $what,)+ }
            }

            /// The technique itself.
            pub(crate) fn method(self) -> &'static dyn Method {
                match self { $(MethodName::$variant => &$method,)+ }
            }
        }
    };
}

methods! {
    Reflink "reflink" reflink::Reflink,
        "Shares the blocks: FICLONE, or FICLONERANGE for a part; no data is written";
    CopyFileRange "copy-file-range" copy_file_range::CopyFileRange,
        "Copies inside the kernel, or inside the server: copy_file_range";
    Sendfile "sendfile" sendfile::Sendfile,
        "Copies in the kernel, from files and devices to targets not opened for append: sendfile";
    Splice "splice" splice::Splice,
        "Moves page references through a pipe: splice";
    Vmsplice "vmsplice" vmsplice::Vmsplice,
        "Reads into page-aligned memory, lends its pages to a pipe, splices on";
    MmapWrite "mmap-write" mmap_write::MmapWrite,
        "Maps the source and writes from the mapping";
    MmapCopy "mmap-copy" mmap_copy::MmapCopy,
        "Maps both files and copies memory";
    ReadMmap "read-mmap" read_mmap::ReadMmap,
        "Reads into the mapped target, in several threads if that helps";
    ReadWrite "read-write" read_write::ReadWrite,
        "Reads into a buffer and writes from it: works everywhere";
    Direct "direct" direct::Direct,
        "Reads and writes past the page cache: O_DIRECT";
    Uring "uring" URING,
        "Keeps several reads and writes under way: io_uring";
}

impl MethodName {
    /// Do the bytes pass through this process, so that they can be hashed on the way?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::ReadWrite.sees_bytes());
    /// assert!(!MethodName::Splice.sees_bytes());
    /// ```
    #[must_use]
    pub fn sees_bytes(self) -> bool {
        self.method().traits().sees_bytes
    }

    /// Can a later write to a source file show in bytes "already sent" to a pipe or socket?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::Sendfile.shares_source());
    /// assert!(!MethodName::ReadWrite.shares_source());
    /// ```
    #[must_use]
    pub fn shares_source(self) -> bool {
        self.method().traits().shares_source
    }

    /// May ranges of one file be moved on several threads at once?
    ///
    /// ```
    /// use gush::MethodName;
    /// assert!(MethodName::ReadWrite.is_parallel());
    /// assert!(!MethodName::Reflink.is_parallel());
    /// ```
    #[must_use]
    pub fn is_parallel(self) -> bool {
        self.method().traits().parallel
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name without a technique.
///
/// ```
/// let unknown = "rsync".parse::<gush::MethodName>().unwrap_err();
/// assert!(unknown.to_string().starts_with("unknown method 'rsync'; choose from auto, reflink,"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMethod(String);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown method '{}'; choose from auto, {}", self.0, all_names())
    }
}

impl std::error::Error for UnknownMethod {}

fn all_names() -> String {
    let names: Vec<_> = MethodName::ALL.iter().map(|name| name.as_str()).collect();
    names.join(", ")
}

impl FromStr for MethodName {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .iter()
            .copied()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownMethod(text.to_owned()))
    }
}
