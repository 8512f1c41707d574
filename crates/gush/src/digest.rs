//! Hashing what passes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::flow::Eye;

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

/// What a method that sees the bytes shows them to, in order, each once.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<blake3::Hasher>>);

impl Tap {
    pub(crate) fn if_wanted(wanted: bool) -> Option<Self> {
        wanted.then(Self::default)
    }

    pub(crate) fn show(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
    }

    pub(crate) fn show_hole(&self, mut len_bytes: u64) {
        static ZEROS: [u8; 65536] = [0; 65536];
        while len_bytes > 0 {
            let part = len_bytes.min(ZEROS.len() as u64);
            self.show(&ZEROS[..usize::try_from(part).unwrap_or(0)]);
            len_bytes -= part;
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest(self.0.lock().unwrap_or_else(PoisonError::into_inner).finalize())
    }
}

impl Eye for Tap {
    fn bytes(&mut self, bytes: &[u8]) {
        self.show(bytes);
    }

    fn gap(&mut self, zeros_bytes: u64) {
        self.show_hole(zeros_bytes);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}
