//! The end that bytes come from, with the content inside or on the way.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags};

use super::far::{self, Helper};
use super::load::Load;
use super::{Kind, ends};
use crate::procfs::reopened;

/// The directories for files, and the files filled before.
#[derive(Debug, Default)]
pub(in crate::suite) struct Workshop {
    pub(super) dirs: HashMap<Kind, PathBuf>,
    /// For the far ends' threads.
    pub(super) processor: Option<usize>,
    filled: HashMap<Kind, (u64, File)>,
}

impl Workshop {
    pub(in crate::suite) fn new(dirs: HashMap<Kind, PathBuf>) -> Self {
        Self { dirs, ..Self::default() }
    }

    /// A file without a name and without content, open for both.
    pub(super) fn create(&self, kind: Kind) -> io::Result<File> {
        if kind == Kind::Memfd {
            return Ok(rustix::fs::memfd_create("gush-lab", MemfdFlags::CLOEXEC)?.into());
        }
        tempfile::tempfile_in(self.dir(kind)?)
    }

    /// Where things of a kind are made that have a name on a file system.
    pub(super) fn dir(&self, kind: Kind) -> io::Result<&Path> {
        let dir = self.dirs.get(&kind).map(PathBuf::as_path);
        dir.ok_or_else(|| io::Error::other("no file system for it"))
    }

    /// Makes sure of a file of a kind with the load inside, so that no timing includes making the
    /// file.
    pub(super) fn fill(&mut self, kind: Kind, load: &Load) -> io::Result<()> {
        if kind.is_in(Kind::FILES) { self.filled(kind, load).map(drop) } else { Ok(()) }
    }

    /// A file of a kind with the load inside; the same file as long as the load stays the same.
    fn filled(&mut self, kind: Kind, load: &Load) -> io::Result<&File> {
        if self.filled.get(&kind).is_none_or(|(bytes, _)| *bytes != load.bytes) {
            self.filled.remove(&kind);
            let mut file = self.create(kind)?;
            let mut left = load.bytes;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(load.block.len());
                file.write_all(&load.block[..most])?;
                left -= most as u64;
            }
            self.filled.insert(kind, (load.bytes, file));
        }
        Ok(&self.filled[&kind].1)
    }
}

/// An open source.
#[derive(Debug)]
pub(in crate::suite) struct Source {
    fd: OwnedFd,
    pub(super) feeder: Option<Helper>,
    /// The bytes for a reader: as many as the load has, unless the source ends before.
    pub(super) gives: Gives,
}

/// The bytes that can be read from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Load,
    /// Zeros without end.
    Zeros,
    /// These bytes and no more.
    These(Vec<u8>),
}

const VERSION: &str = "/proc/version";
/// The file has no splice_read, like that of /proc/self/maps (`proc_single_file_operations` of
/// `fs/proc/base.c`), but the text stays the same when read again.
const LIMITS: &str = "/proc/self/limits";

impl Source {
    pub(super) fn open(kind: Kind, workshop: &mut Workshop, load: &Load) -> io::Result<Self> {
        let still = |fd: OwnedFd, gives| Ok(Self { fd, feeder: None, gives });
        let device = |path: &str| File::open(path).map(OwnedFd::from);
        match kind {
            Kind::Procfs => still(device(VERSION)?, Gives::These(std::fs::read(VERSION)?)),
            Kind::ProcfsSeq => still(device(LIMITS)?, Gives::These(std::fs::read(LIMITS)?)),
            Kind::Zero => still(device("/dev/zero")?, Gives::Zeros),
            Kind::Full => still(device("/dev/full")?, Gives::Zeros),
            Kind::Null => still(device("/dev/null")?, Gives::These(Vec::new())),
            kind => match ends::open(kind, workshop, true)? {
                Some((near, far)) => Ok(Self::fed(near, far, kind, workshop, load)),
                None => {
                    let flags = match kind {
                        Kind::Direct => OFlags::RDONLY | OFlags::DIRECT,
                        Kind::Append => OFlags::RDWR | OFlags::APPEND,
                        _ => OFlags::RDONLY,
                    };
                    let file = reopened(&workshop.filled(kind, load)?, flags)?;
                    still(file.into(), Gives::Load)
                }
            },
        }
    }

    fn fed(near: OwnedFd, far: OwnedFd, kind: Kind, workshop: &Workshop, load: &Load) -> Self {
        let feeder = Some(far::feed(far, workshop.processor, kind, load));
        Self { fd: near, feeder, gives: Gives::Load }
    }

    /// The bytes of a load that are to arrive.
    pub(super) fn content(&self, load: &Load) -> Vec<u8> {
        let most = usize::try_from(load.bytes).unwrap_or(usize::MAX);
        match &self.gives {
            Gives::Load => load.content(),
            Gives::Zeros => vec![0; most],
            Gives::These(bytes) => bytes[..bytes.len().min(most)].to_vec(),
        }
    }

    /// How many bytes are to arrive of a load.
    pub(super) fn bytes(&self, load: &Load) -> u64 {
        match &self.gives {
            Gives::These(bytes) => load.bytes.min(bytes.len() as u64),
            Gives::Load | Gives::Zeros => load.bytes,
        }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
