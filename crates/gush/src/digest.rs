//! Hashing the bytes that pass.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::locked::Unpoisoned;

/// The blake3 hash of a stretch of bytes; shown in hexadecimal.
///
/// ```
/// let empty = gush::digest_of(&tempfile::tempfile()?)?;
/// assert!(empty.to_string().starts_with("af1349b9f5f9a1a6"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub(crate) blake3::Hash);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of a move's bytes so far; a clone continues the same hash.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Arc<Mutex<blake3::Hasher>>);

impl Hasher {
    pub(crate) fn if_wanted(wanted: bool) -> Option<Self> {
        wanted.then(Self::default)
    }

    pub(crate) fn add(&self, bytes: &[u8]) {
        self.0.lock().unpoisoned().update(bytes);
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest(self.0.lock().unpoisoned().finalize())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}
