//! Where a sparse file has data, and where holes (SEEK_DATA and SEEK_HOLE of lseek(2)).
//!
//! The answers are not believed on FUSE and ZFS, nor where a file has no block at all and FIEMAP, a
//! second witness, does not agree: a virtiofs was seen to report an all-hole file. Such a file is
//! read, and zeros become holes. They are asked only when a file has fewer blocks than its size
//! needs.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::cursor::Cursor;
use super::ends::Ends;
use crate::endpoint::UNSEEN_FROM;
use crate::error::Error;
use crate::port::Side;
use crate::sys::{self, Call};

/// The extent at the cursor.
pub(super) enum Extent {
    /// So many bytes of data, at least 1.
    Data(u64),
    /// A hole of so many bytes, followed by data.
    Hole(u64),
    /// Only a hole of so many bytes is left of the file.
    LastHole(u64),
    /// The file system does not report it.
    Unknown,
}

impl Extent {
    /// Asks for the extent at the cursor; that moves the source's own position.
    ///
    /// # Errors
    /// That of fstat(2).
    pub(super) fn at(cursor: &mut Cursor, ends: &Ends<'_>) -> Result<Self, Error> {
        let Some(at) = cursor.source_at() else { return Ok(Extent::Unknown) };
        Ok(match cursor.seek_source(ends, SeekFrom::Data(at)) {
            // SEEK_DATA answers the offset itself where data is there.
            Ok(data) if data > at => Extent::Hole(data - at),
            Ok(_) => {
                // A file system without holes reports all as data; the end is found by reading.
                let hole = cursor.seek_source(ends, SeekFrom::Hole(at)).unwrap_or(u64::MAX);
                // At least a byte, so that a changing file cannot stop the walk.
                Extent::Data(hole.saturating_sub(at).max(1))
            }
            // No data from here on.
            Err(Errno::NXIO) => {
                let size_bytes = sys::file::size_bytes(ends.source.fd())
                    .map_err(|errno| cursor.failed(Call::Fstat, Side::Source, errno))?;
                match at.max(UNSEEN_FROM) {
                    unseen if unseen >= size_bytes => {
                        Extent::LastHole(size_bytes.saturating_sub(at))
                    }
                    unseen if unseen > at => Extent::Hole(unseen - at),
                    _ => Extent::Data(size_bytes - at),
                }
            }
            // Any other answer says nothing about holes: the rest is read.
            Err(_) => Extent::Unknown,
        })
    }
}
