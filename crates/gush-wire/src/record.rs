//! The records of both directions. A new one, or a new field, is a new [`VERSION`].

use gush_tree::Preserve;
use gush_tree::remote::Portrait;
use serde::{Deserialize, Serialize};

/// The version of all that the two sides say to each other.
pub const VERSION: u32 = 1;
/// The first bytes of the first record of either side.
pub const MAGIC: [u8; 8] = *b"gushwire";
/// The most entries without an answer.
pub const WINDOW: usize = 4096;

/// The first record of either side, which stays the same in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
}

impl Hello {
    /// That of this side.
    pub const OURS: Self = Self { magic: MAGIC, version: VERSION };
}

/// What the sender says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToReceiver {
    /// Where the copies go, and how: the second record.
    Begin {
        /// The target's path.
        target: Vec<u8>,
        /// `-T`: the target is the copy itself.
        is_exact: bool,
        /// The target is a directory, or an error.
        is_directory: bool,
        /// The metadata to set.
        preserve: Preserve,
    },
    /// The next entries are in this directory, up to its `Leave`.
    Enter {
        /// The number by which it is answered.
        id: u64,
        /// Its name in the directory above.
        name: Vec<u8>,
        /// Its metadata, set at `Leave`.
        portrait: Portrait,
    },
    /// The directory entered last is complete.
    Leave,
    /// A regular file, whose data follows up to its `End`.
    File {
        /// The number by which it is answered.
        id: u64,
        /// Its name.
        name: Vec<u8>,
        /// Its size and metadata.
        portrait: Portrait,
        /// Further names may follow.
        has_names: bool,
    },
    /// Data of the file follows in frames up to this length. Between these parts are holes.
    Data {
        /// Where in the file.
        offset: u64,
        /// Bytes: one frame.
        length: u32,
    },
    /// The file has all its data.
    End {
        /// The blake3 hash of the source in hexadecimal, to be compared with the file's.
        digest: Option<String>,
    },
    /// The file cannot be completed: nothing is made of it. The sender has said why.
    Broken,
    /// A symbolic link or special file.
    Other {
        /// The number by which it is answered.
        id: u64,
        /// Its name.
        name: Vec<u8>,
        /// Its metadata, with the text of a link.
        portrait: Portrait,
        /// Further names may follow.
        has_names: bool,
    },
    /// Another name of an earlier entry.
    Link {
        /// The number by which it is answered.
        id: u64,
        /// The name.
        name: Vec<u8>,
        /// The number of the earlier entry.
        first: u64,
    },
    /// Nothing more comes.
    Finish,
}

/// What the receiver says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSender {
    /// The request cannot be served.
    Refused(String),
    /// An entry is made.
    Done {
        /// Its number.
        id: u64,
        /// Everything required was preserved.
        is_complete: bool,
    },
    /// An entry could not be made.
    Failed {
        /// Its number.
        id: u64,
        /// The error message; empty below a directory that failed.
        why: String,
    },
    /// Something optional was not done.
    Warning(String),
    /// Everything is answered.
    Finished,
}
