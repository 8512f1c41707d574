//! The records of both directions. A new one, or a new field, is a new [`VERSION`].

use gush_tree::Preserve;
use gush_tree::remote::Portrait;
use serde::{Deserialize, Serialize};

/// The version of all that the two sides say to each other.
pub const VERSION: u32 = 2;
/// The first bytes of the first record of either side.
pub const MAGIC: [u8; 8] = *b"gushwire";
/// The most entries without an answer.
pub const WINDOW: usize = 4096;
/// The number of the directory in which the operands are copied.
pub const BASE: u64 = 0;
/// The most files that the receiver has open at once.
pub const MOST_OPEN_FILES: usize = 256;
/// The most streams of one session.
pub const MOST_STREAMS: usize = 32;

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

/// What a further stream needs to join a session: the name of the receiver's socket, and a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The number in the socket's name, which every user of the machine can read.
    pub socket: u64,
    /// What only the two sides know.
    pub secret: [u8; 16],
}

/// What the sender says.
///
/// The first stream carries [`Begin`](Self::Begin), directories, links, special files, and each
/// file whose data is on several streams. A record on another stream may name a directory or file
/// that the first stream has not delivered yet: the receiver waits for it. Nothing on the first
/// stream waits for another, so that waits form no cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToReceiver {
    /// Where the copies go, and how: the second record of the first stream.
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
    /// Further streams will come: the answer is a [`Token`].
    Invite,
    /// The second record of a further stream. The sender goes on when it is answered.
    Join(Token),
    /// A directory.
    Enter {
        /// Its number, by which it is answered.
        id: u64,
        /// The directory above.
        folder: u64,
        /// Its name there.
        name: Vec<u8>,
        /// Its metadata, set when all that is in it has ended.
        portrait: Portrait,
    },
    /// The directory entered last and not left has this many entries.
    Leave {
        /// Its number.
        id: u64,
        /// The entries that name it as their directory.
        entries: u64,
    },
    /// One of a directory's entries that were counted could not be read: the sender has said why.
    Missing {
        /// The directory.
        folder: u64,
    },
    /// A regular file. Data follows, then its `End`.
    File {
        /// The number by which it is answered.
        id: u64,
        /// Its directory.
        folder: u64,
        /// Its name.
        name: Vec<u8>,
        /// Its size and metadata.
        portrait: Portrait,
        /// Further names may follow.
        has_names: bool,
    },
    /// Data of a file follows in one frame. What no data covers is a hole.
    Data {
        /// The file.
        id: u64,
        /// Where in the file.
        offset: u64,
        /// Bytes: one frame.
        length: u32,
    },
    /// All data of the file is sent.
    End {
        /// The file.
        id: u64,
        /// The bytes of data sent on all streams.
        sent_bytes: u64,
        /// The blake3 hash of the source in hexadecimal, to be compared with the file's.
        digest: Option<String>,
    },
    /// The file cannot be completed: nothing is made of it. The sender has said why.
    Broken {
        /// The file.
        id: u64,
        /// The bytes of data sent on all streams.
        sent_bytes: u64,
    },
    /// A symbolic link or special file.
    Other {
        /// The number by which it is answered.
        id: u64,
        /// Its directory.
        folder: u64,
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
        /// The directory of the name.
        folder: u64,
        /// The name.
        name: Vec<u8>,
        /// The number of the earlier entry.
        first: u64,
    },
    /// Nothing more comes on the first stream, nor on another.
    Finish {
        /// The entries of [`BASE`].
        entries: u64,
    },
}

/// What the receiver says, on the first stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSender {
    /// The request cannot be served, or the session has failed.
    Refused(String),
    /// How to join.
    Invitation(Token),
    /// On a further stream: it has joined.
    Joined,
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
