//! The parts of a copy whose two sides are in different processes, on which `gush-wire` is built.
//!
//! The source side walks ([`walk`]) and takes each entry's [`EntryMetadata`]. The target side makes
//! entries from metadata: below a [`Folder`], held by a descriptor and reached by one name at a
//! time without following links, so that nothing outside the target can be named; the data of a
//! regular file goes into an [`UnfinishedFile`], which gets its name when it is complete. Metadata
//! is applied by the same code as in a copy within one machine.

mod comparing;
mod failure;
mod folder;
mod metadata;
mod mirroring;
mod owners;
mod partial;
mod rehearsing;
mod unfinished;

pub use crate::place::open_above;
pub use failure::Failure;
pub use folder::{Folder, Spared};
pub use metadata::{EntryMetadata, lineage, open_found};
pub(crate) use metadata::{climb, identity};
pub use mirroring::Names;
pub use partial::{partial_name, shares_identities};
pub use unfinished::UnfinishedFile;

pub use crate::metadata::kept::Updated;
pub use crate::overwriting::OverwriteDecision;
pub use crate::tree::mirror::mounted_below;
pub use crate::tree::survey::{Visitor, walk};
