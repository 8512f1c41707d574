//! Hashing what passes, and comparing what arrived.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Fault};
use crate::pages::Pages;
use crate::port::Side;
use crate::sys::{self, Call};

/// The blake3 hash of a stretch of bytes; shown in hexadecimal.
///
/// ```
/// let empty = gush::digest_of(&tempfile::tempfile()?)?;
/// assert!(empty.to_string().starts_with("af1349b9f5f9a1a6"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(blake3::Hash);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a file from its start to its end and hashes it; the file position stays.
///
/// # Errors
/// The error of a read, with the bytes hashed before it as delivered bytes.
///
/// ```
/// use std::io::Write;
/// let mut a = tempfile::tempfile()?;
/// a.write_all(b"same")?;
/// let mut b = tempfile::tempfile()?;
/// b.write_all(b"same")?;
/// assert_eq!(gush::digest_of(&a)?, gush::digest_of(&b)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn digest_of(fd: &impl AsFd) -> Result<Digest, Error> {
    const BUFFER_BYTES: usize = 1 << 20;
    let fault = |call, errno| Error::failed(Fault { call, side: Side::Source, errno });
    let mut buffer = Pages::new(BUFFER_BYTES).map_err(|errno| fault(Call::Mmap, errno))?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    loop {
        match sys::data::pread(fd.as_fd(), buffer.as_mut_slice(), at) {
            Ok(0) => return Ok(Digest(hasher.finalize())),
            Ok(got) => {
                hasher.update(&buffer.as_slice()[..got]);
                at += got as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(fault(Call::Pread, errno).after(at, 0)),
        }
    }
}

/// What a method that sees the bytes shows them to, in order, each once.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<blake3::Hasher>>);

impl Tap {
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

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}
