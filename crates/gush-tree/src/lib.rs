//! Copies of files: one file with name, metadata and promises.
//!
//! The engine below (`gush`) moves bytes between descriptors and knows nothing of names. This floor
//! knows names: which target each source becomes ([`Naming`]), whether the two are one file, the
//! fate of a target already there ([`Update`], [`Backup`]), how source and target are opened so
//! that nobody can slip another file in between, which metadata follows and in what order
//! ([`Preserve`]), and how a file appears whole or not at all ([`CopyOptions::atomic`]).
//!
//! A [`Copier`] copies one file after the other and reports to [`Events`]. The result is [`Done`],
//! or an [`Error`] with the failed operation, the path, and the number of bytes delivered.
//!
//! ```
//! use gush_tree::{Copier, ModeRule, CopyOptions, Place};
//!
//! let dir = tempfile::tempdir()?;
//! let [source, target] = ["notes", "copy"].map(|name| dir.path().join(name));
//! std::fs::write(&source, "worth keeping")?;
//!
//! let mut options = CopyOptions::default();
//! options.atomic = true;
//! options.verify = true;
//! options.preserve.mode = ModeRule::Keep;
//! options.preserve.times = true;
//! let done = Copier::new(&options).copy(Place::here(&source), Place::here(&target), &mut ())?;
//!
//! assert!(done.complete);
//! assert_eq!(done.digest, Some(gush::digest_of(&std::fs::File::open(&source)?)?));
//! assert_eq!(std::fs::read_to_string(&target)?, "worth keeping");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("gush-tree runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod already_copied;
mod atomic;
mod backup;
mod beneath;
mod copier;
mod data;
mod destination;
mod error;
mod events;
mod exclusive;
mod file;
mod filter;
mod first_copies;
mod job;
mod links;
mod metadata;
mod new_directory;
mod open;
mod options;
mod overwriting;
mod parents;
mod place;
mod regular;
mod rehearsal;
mod remedy;
pub mod remote;
mod same;
mod special;
mod stable;
mod state_path;
mod tree;
mod uncached;
mod writers;
mod xattr;

pub use atomic::remove_temporaries;
pub use backup::{Backup, BackupControl};
pub use copier::{Action, Copier, Done, Name};
pub use destination::{Destination, Naming, NamingError, strip_trailing_slashes};
pub use error::Error;
pub use events::{Events, Question, TreeCounts};
pub use filter::Filter;
/// The engine, whose `Choice`, `Holes`, `Tuning`, `Rate`, `Cancel` and others stand in this
/// interface.
pub use gush;
pub use options::{
    CopyOptions, Dereference, Label, Make, ModeRule, Moving, Preserve, Reflink, Specials, Update,
    Xattrs,
};
pub use parents::Parents;
pub use place::Place;
pub use tree::census::Census;
pub use tree::journal::journal_path;
pub use tree::shard::{Shard, Share, shards_path};
