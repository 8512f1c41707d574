//! Hashing what arrived, to compare it with what passed.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::digest::Digest;
use crate::error::Error;
use crate::fault::Fault;
use crate::pages::Pages;
use crate::port::Side;
use crate::sys::{self, Call};

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
