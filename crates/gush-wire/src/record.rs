//! The records of both directions. A new one, or a new field, is a new [`VERSION`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use gush::Rate;
use gush_tree::remote::{EntryMetadata, Failure};
use gush_tree::{CopyOptions, Dereference, Filter, Preserve, Specials, Update};
use serde::{Deserialize, Serialize};

/// The version of the protocol.
pub const VERSION: u32 = 11;
/// The first bytes of the first record of either side.
pub const MAGIC: [u8; 8] = *b"gushwire";
/// The most entries that may be unanswered.
pub const WINDOW: usize = 4096;
/// The number of the directory in which the operands are copied.
pub const BASE: u64 = 0;
/// Files of more than this size are kept in part where a copy can be resumed.
pub const RESUMED_BYTES: u64 = 4 << 20;
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
    /// The greeting of this side.
    pub const OURS: Self = Self { magic: MAGIC, version: VERSION };
}

/// How many streams a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// This many, opened at once.
    Exactly(usize),
    /// One, and up to this many if it is slower than the walk.
    UpTo(usize),
}

impl Default for Streams {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

impl Streams {
    pub(crate) fn most(self) -> usize {
        let (Self::Exactly(most) | Self::UpTo(most)) = self;
        most.clamp(1, MOST_STREAMS)
    }

    /// Has the user asked for so many?
    pub(crate) fn is_asked(self) -> bool {
        matches!(self, Self::Exactly(_))
    }
}

/// What a further stream needs to join a session: the name of the receiver's socket, and a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The number in the socket's name, which every user of the machine can read.
    pub socket: u64,
    /// What only the two sides know.
    pub secret: [u8; 16],
}

/// The options of the copy that the receiver follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The metadata to set.
    pub preserve: Preserve,
    /// Which existing targets are replaced.
    pub update: Update,
    /// Remove what the source lacks, but for what `filter` keeps.
    pub is_mirror: bool,
    /// What the sender leaves out of a tree: `true` includes, and the first that fits decides.
    pub filter: Vec<(bool, Vec<u8>)>,
    /// Keep what has come of large files, should the session end.
    pub resumes: bool,
    /// Only answer what would be done.
    pub is_dry_run: bool,
}

impl Rules {
    /// Those of a copy with these options.
    #[must_use]
    pub fn of(options: &CopyOptions) -> Self {
        let filter = options.filter.as_ref().map(|filter| filter.rules().to_vec());
        Self {
            preserve: options.preserve,
            update: options.update,
            is_mirror: options.mirror,
            filter: filter.unwrap_or_default(),
            resumes: options.resume,
            is_dry_run: options.dry_run,
        }
    }

    /// The options of a copy by these rules.
    pub(crate) fn options(self) -> Result<CopyOptions, String> {
        let mut options = CopyOptions::default();
        options.preserve = self.preserve;
        // A file gets its name last, with its times: one of the same size and time is complete.
        options.update = match (self.update, self.resumes) {
            (Update::All, true) => Update::Changed,
            (update, _) => update,
        };
        options.mirror = self.is_mirror;
        // The content of special files is not served.
        options.specials = Specials::Recreate;
        options.resume = self.resumes;
        options.dry_run = self.is_dry_run;
        if !self.filter.is_empty() {
            let filter: Vec<_> = self
                .filter
                .into_iter()
                .map(|(includes, pattern)| (includes, OsString::from_vec(pattern)))
                .collect();
            options.filter = Some(Filter::new(&filter)?);
        }
        Ok(options)
    }

    /// May the receiver need no data of a file? Then it is asked before.
    #[must_use]
    pub fn ask(&self) -> bool {
        self.update != Update::All || self.resumes || self.is_dry_run
    }
}

/// What a sender on the other machine sends, and the options of the copy that it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The paths of the sources.
    pub sources: Vec<Vec<u8>>,
    /// What the receiver follows: the sender's questions depend on it.
    pub rules: Rules,
    /// Directories are sent with all that is in them.
    pub is_recursive: bool,
    /// A source that is a symbolic link stands for what it leads to.
    pub follows_sources: bool,
    /// Stay on the file system of each source.
    pub one_file_system: bool,
    /// Leave out what the `.gitignore` files of the source name.
    pub gitignore: bool,
    /// Send the hash of each file.
    pub verify: bool,
    /// Compress data where that is faster.
    pub compresses: bool,
    /// How many streams the receiver opens when it is invited.
    pub streams: Streams,
    /// Send at most this much, if it is not 0.
    pub limit_bytes_per_second: u64,
}

impl Wish {
    /// For these sources, in a copy with these options.
    pub(crate) fn of(
        sources: Vec<Vec<u8>>,
        options: &CopyOptions,
        compresses: bool,
        streams: Streams,
    ) -> Self {
        Self {
            sources,
            rules: Rules::of(options),
            is_recursive: options.recursive,
            follows_sources: options.dereference != Dereference::Never,
            one_file_system: options.one_file_system,
            gitignore: options.gitignore,
            verify: options.verify,
            compresses,
            streams,
            limit_bytes_per_second: options.moving.limit.as_ref().and_then(Rate::get).unwrap_or(0),
        }
    }

    /// The options that the sender follows.
    pub(crate) fn options(self) -> Result<CopyOptions, String> {
        let mut options = self.rules.options()?;
        options.recursive = self.is_recursive;
        options.dereference = match self.follows_sources {
            true => Dereference::Named,
            false => Dereference::Never,
        };
        options.one_file_system = self.one_file_system;
        options.gitignore = self.gitignore;
        options.verify = self.verify;
        options.moving.limit = Rate::bytes_per_second(self.limit_bytes_per_second);
        Ok(options)
    }
}

/// An entry that is no directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The number by which it is answered.
    pub id: u64,
    /// Its directory.
    pub folder: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its size and metadata.
    pub metadata: EntryMetadata,
    /// Further names may follow.
    pub has_names: bool,
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
        /// What becomes of what is there.
        rules: Rules,
    },
    /// In the place of [`Begin`](Self::Begin): the other side is to be the sender.
    Send(Wish),
    /// To a receiver that has asked with [`Send`](Self::Send): what comes next below [`BASE`] is
    /// this source.
    Operand {
        /// Its number among the sources, from 0.
        number: u32,
        /// Its name.
        name: Vec<u8>,
    },
    /// To a receiver that has asked with [`Send`](Self::Send): an entry could not be read as it
    /// should.
    Problem {
        /// The path at the sender.
        path: Vec<u8>,
        /// The path below the target.
        target: Vec<u8>,
        /// What has failed.
        why: Failure,
        /// The entry comes all the same.
        is_warning: bool,
    },
    /// Further streams will come: the answer is a [`Token`].
    Invite,
    /// To a receiver that has asked with [`Send`](Self::Send) for several streams: they can join.
    Invitation(Token),
    /// The second record of a further stream. The sender goes on when it is answered.
    Join(Token),
    /// On the first stream: a further one has joined, and records may have been sent on it. One
    /// that was lost before is done without.
    Uses {
        /// Its number, which the receiver has given it.
        number: u32,
    },
    /// A directory.
    Enter {
        /// Its number, by which it is answered.
        id: u64,
        /// The directory above.
        folder: u64,
        /// Its name there.
        name: Vec<u8>,
        /// Its metadata, set when all that is in it has ended.
        metadata: EntryMetadata,
        /// The root of a tree in a mirror: the identities of this directory and of those above it.
        within: Vec<u64>,
        /// As well, of what is mounted in the tree; `None` if that is not known.
        mounted: Option<Vec<u64>>,
    },
    /// In a mirror, the `.gitignore` of the directory entered last: what it names stays.
    Ignore {
        /// The text of the file.
        lines: Vec<u8>,
    },
    /// The directory entered last and not left has this many entries.
    Leave {
        /// Its number.
        id: u64,
        /// The entries that name it as their directory.
        entries: u64,
        /// The source was listed to its end: what was not named is not there.
        is_listed: bool,
    },
    /// One of a directory's entries that were counted could not be read: the sender has said why.
    /// It has no answer.
    Unreadable {
        /// Its number.
        id: u64,
        /// The directory.
        folder: u64,
        /// Its name, which a mirror does not remove.
        name: Vec<u8>,
        /// Further names may have been expected.
        has_names: bool,
    },
    /// Is this regular file needed? The answer is `Wanted`, `Compare`, or its last. If no
    /// attributes of what stays are set, the metadata has only size and times.
    Ask(Item),
    /// The answer to `Compare`. Its own is `Wanted`, where the file has other names and lacks
    /// attributes, or its last.
    Compared {
        /// The file, by the number of the question.
        item: Item,
        /// Both sides have the same bytes. If not, and the copy is real, the file comes instead.
        is_same: bool,
    },
    /// A regular file. Data follows, then its `End`.
    File {
        /// The file.
        item: Item,
        /// What shows, besides size and time, that the source is that of an earlier copy. The
        /// receiver answers with `Lacking` what it still needs of the data.
        resumes: Option<Vec<u8>>,
    },
    /// Data of a file follows in one frame. What no data covers is a hole.
    Data {
        /// The file.
        id: u64,
        /// Where in the file.
        offset: u64,
        /// Bytes: one frame.
        length: u32,
        /// So many bytes before them are a hole.
        hole_bytes: u64,
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
    /// A symbolic link or special file, with the text of a link.
    Other(Item),
    /// Another name of an earlier entry.
    Link {
        /// The number by which it is answered.
        id: u64,
        /// The directory of the name.
        folder: u64,
        /// The name.
        name: Vec<u8>,
        /// The size and times of the entry.
        metadata: EntryMetadata,
        /// The number of the earlier entry.
        first: u64,
    },
    /// Nothing more comes on the first stream, nor on another.
    Finish {
        /// The entries of [`BASE`].
        entries: u64,
    },
    /// The last record of a further stream: one that ends without it was lost.
    Close,
    /// To a receiver that has asked with [`Send`](Self::Send): the session has failed.
    Refused(String),
}

/// How an entry has ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was made.
    Made,
    /// It was made, and something required was not preserved.
    Incomplete,
    /// What was there stays; of a directory, with the attributes of the source.
    Kept,
    /// What was there stays, and got attributes of the source.
    Updated {
        /// Nothing that is required is missing.
        is_complete: bool,
    },
}

impl Outcome {
    /// Is nothing missing that is required?
    #[must_use]
    pub fn is_complete(self) -> bool {
        !matches!(self, Self::Incomplete | Self::Updated { is_complete: false })
    }
}

/// What the receiver says, on the first stream but for [`Joined`](Self::Joined).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSender {
    /// The request cannot be served, or the session has failed.
    Refused(String),
    /// The answer to [`Begin`](ToReceiver::Begin).
    Begun {
        /// The target becomes the copy of the only operand: it is no directory that is there.
        is_exact: bool,
    },
    /// How to join; `None` if no stream can.
    Invitation(Option<Token>),
    /// On a further stream: it has joined.
    Joined {
        /// The receiver's number for it; a sender gives none.
        number: u32,
    },
    /// An entry is as it should be.
    Done {
        /// Its number.
        id: u64,
        /// How it came to be so.
        outcome: Outcome,
    },
    /// This file is needed, or this further name as a file.
    Wanted {
        /// Its number.
        id: u64,
    },
    /// The file is needed if its blake3 hash is another.
    Compare {
        /// Its number.
        id: u64,
        /// In hexadecimal.
        digest: String,
    },
    /// The data that the receiver lacks of a file, which it has kept in part.
    Lacking {
        /// Its number.
        id: u64,
        /// Offsets of begin and end, in order.
        ranges: Vec<(u64, u64)>,
    },
    /// In a mirror, something that the source lacks was removed, or could not be.
    Removed {
        /// The path, as the user wrote the target.
        path: Vec<u8>,
        /// Why it could not be removed.
        why: Option<Failure>,
    },
    /// An entry could not be made.
    Failed {
        /// Its number.
        id: u64,
        /// Why not; without words below a directory that failed.
        why: Failure,
    },
    /// Something optional was not done.
    Warning(String),
    /// Everything is answered.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_about_entries_have_the_bytes_of_this_version() {
        let metadata = EntryMetadata { mode: 0o100_644, ..EntryMetadata::default() };
        let item = Item { id: 300, folder: 1, name: b"n".to_vec(), metadata, has_names: true };
        let [asked, compared, sent, other] = std::array::from_fn(|_| item.clone());
        let records = [
            (12, ToReceiver::Ask(asked), &[][..]),
            (13, ToReceiver::Compared { item: compared, is_same: true }, &[1]),
            (14, ToReceiver::File { item: sent, resumes: Some(vec![7]) }, &[1, 1, 7]),
            (18, ToReceiver::Other(other), &[]),
        ];
        for (number, record, rest) in records {
            let item = [&[number, 172, 2, 1, 1, b'n', 164, 131, 2][..], &[0; 13], &[1]].concat();
            let bytes = [&item[..], rest].concat();
            assert_eq!(postcard::to_stdvec(&record).unwrap(), bytes, "{record:?}");
        }
        assert_eq!(VERSION, 11);
    }
}
