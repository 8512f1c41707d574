//! Reading the copy again: the hash, or the first difference from the source.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

#[cfg(feature = "digest")]
use crate::digest::Digest;
use crate::endpoint::{Endpoint, HoleReport, UNSEEN_FROM};
use crate::error::Error;
use crate::fault::Fault;
use crate::pages::Pages;
use crate::port::Side;
use crate::sys::{self, Call};

/// Hashes a file from start to end; the file position stays. With the feature `digest`.
///
/// # Errors
/// The error of a read, with the bytes hashed before as delivered bytes.
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
#[cfg(feature = "digest")]
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

/// The offset of the first difference of two files, `None` if equal. Their positions stay.
///
/// A hole of both is passed over without reading, where the file system's report of holes can be
/// believed; a hole opposite data is compared as zeros.
///
/// # Errors
/// The failed call and the side, with the bytes compared before as delivered bytes.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// let (a, b) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// a.set_len(1 << 40)?;
/// b.set_len(1 << 40)?;
/// assert_eq!(gush::first_difference(&a, &b)?, None);
/// b.write_all_at(b"x", 1 << 39)?;
/// assert_eq!(gush::first_difference(&a, &b)?, Some(1 << 39));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn first_difference(source: &impl AsFd, target: &impl AsFd) -> Result<Option<u64>, Error> {
    let mut source = Reread::new(source.as_fd(), Side::Source)?;
    let mut target = Reread::new(target.as_fd(), Side::Target)?;
    let outcome = first_difference_between(&mut source, &mut target);
    let settled = source.settle().and(target.settle());
    outcome.and_then(|place| settled.map(|()| place))
}

fn first_difference_between(
    source: &mut Reread<'_>,
    target: &mut Reread<'_>,
) -> Result<Option<u64>, Error> {
    let common = source.size_bytes.min(target.size_bytes);
    let mut at = 0;
    loop {
        at = source.next_data(at)?.min(target.next_data(at)?).min(common);
        if at == common {
            return Ok((source.size_bytes != target.size_bytes).then_some(common));
        }
        let (was, is) = (source.read(at, common)?, target.read(at, common)?);
        if let Some(place) = was.iter().zip(is).position(|(was, is)| was != is) {
            return Ok(Some(at + place as u64));
        }
        let got = was.len().min(is.len()) as u64;
        if got == 0 {
            return Ok(Some(at));
        }
        at += got;
    }
}

/// One of the two compared files.
struct Reread<'fd> {
    fd: BorrowedFd<'fd>,
    side: Side,
    size_bytes: u64,
    position: Option<u64>,
    /// SEEK_DATA reports holes.
    believed: bool,
    buffer: Pages,
}

impl<'fd> Reread<'fd> {
    fn new(fd: BorrowedFd<'fd>, side: Side) -> Result<Self, Error> {
        const BUFFER_BYTES: usize = 1 << 20;
        let fault = |call, errno| Error::failed(Fault { call, side, errno });
        let endpoint = Endpoint::look(fd).map_err(|(call, errno)| fault(call, errno))?;
        Ok(Self {
            fd,
            side,
            size_bytes: endpoint.size_bytes(),
            position: endpoint.position(),
            believed: endpoint.holes() == HoleReport::Believed,
            buffer: Pages::new(BUFFER_BYTES).map_err(|errno| fault(Call::Mmap, errno))?,
        })
    }

    fn failed(&self, call: Call, errno: Errno, at: u64) -> Error {
        Error::failed(Fault { call, side: self.side, errno }).after(at, 0)
    }

    /// Where data can begin at or after `at`.
    fn next_data(&self, at: u64) -> Result<u64, Error> {
        if !self.believed {
            return Ok(at);
        }
        match sys::file::seek(self.fd, SeekFrom::Data(at)) {
            Ok(data) => Ok(data),
            Err(Errno::NXIO) => Ok(at.max(UNSEEN_FROM)),
            Err(errno) => Err(self.failed(Call::Lseek, errno, at)),
        }
    }

    /// The bytes at `at`, one buffer at most; less only at `end` or where the file ends.
    fn read(&mut self, at: u64, end: u64) -> Result<&[u8], Error> {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(self.buffer.len_bytes());
        let mut got = 0;
        while got < most {
            let into = &mut self.buffer.as_mut_slice()[got..most];
            match sys::data::pread(self.fd, into, at + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed(Call::Pread, errno, at)),
            }
        }
        Ok(&self.buffer.as_slice()[..got])
    }

    fn settle(&self) -> Result<(), Error> {
        match self.position.filter(|_| self.believed) {
            Some(position) => sys::file::seek(self.fd, SeekFrom::Start(position))
                .map(drop)
                .map_err(|errno| self.failed(Call::Lseek, errno, 0)),
            None => Ok(()),
        }
    }
}
