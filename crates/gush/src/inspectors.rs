//! Those that are shown the bytes: the hash, and the caller's function.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::digest::Hasher;
use crate::flow::Inspector;
use crate::locked::Unpoisoned;

type Look = dyn FnMut(&[u8]) + Send;

/// The caller's function that is shown the bytes.
#[derive(Clone)]
pub(crate) struct InspectFn(Arc<Mutex<Look>>);

impl InspectFn {
    pub(crate) fn new(look: impl FnMut(&[u8]) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(look)))
    }

    fn show(&self, bytes: &[u8]) {
        // A panic of the function ended its own move; another clone may still be shown bytes.
        let mut look = self.0.lock().unpoisoned();
        (*look)(bytes);
    }
}

impl fmt::Debug for InspectFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InspectFn")
    }
}

/// The consumers to which a method that sees the bytes shows them, in order, each byte once.
#[derive(Clone, Debug)]
pub(crate) struct Inspectors {
    hasher: Option<Hasher>,
    inspector: Option<InspectFn>,
}

impl Inspectors {
    pub(crate) fn if_wanted(digest: bool, inspector: Option<&InspectFn>) -> Option<Self> {
        let hasher = Hasher::if_wanted(digest);
        let inspector = inspector.cloned();
        (hasher.is_some() || inspector.is_some()).then_some(Self { hasher, inspector })
    }

    pub(crate) fn show(&self, bytes: &[u8]) {
        if let Some(hasher) = &self.hasher {
            hasher.add(bytes);
        }
        if let Some(inspector) = &self.inspector {
            inspector.show(bytes);
        }
    }

    pub(crate) fn show_hole(&self, mut len_bytes: u64) {
        static ZEROS: [u8; 65536] = [0; 65536];
        while len_bytes > 0 {
            let part = len_bytes.min(ZEROS.len() as u64);
            self.show(&ZEROS[..usize::try_from(part).unwrap_or(0)]);
            len_bytes -= part;
        }
    }

    /// The hash, if one was asked for.
    #[cfg(feature = "digest")]
    pub(crate) fn digest(&self) -> Option<crate::digest::Digest> {
        self.hasher.as_ref().map(Hasher::digest)
    }
}

impl Inspector for Inspectors {
    fn bytes(&mut self, bytes: &[u8]) {
        self.show(bytes);
    }

    fn gap(&mut self, zeros_bytes: u64) {
        self.show_hole(zeros_bytes);
    }
}
