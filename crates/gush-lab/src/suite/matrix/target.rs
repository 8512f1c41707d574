//! The end that bytes go to, and the bytes that have arrived there.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::far::{self, Helper};
use super::load::Load;
use super::source::Workshop;
use super::{Kind, ends};
use crate::procfs::reopened;

/// An open target.
#[derive(Debug)]
pub(in crate::suite) struct Target {
    fd: OwnedFd,
    pub(super) kind: Kind,
    /// The thread that takes what arrives.
    pub(super) drainer: Option<Helper>,
    /// The same file once more, to be read back.
    file: Option<File>,
}

/// The bytes that came out of a target.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// How many bytes; none if unknown.
    pub(super) bytes: Option<u64>,
    /// The bytes, where they were kept.
    pub(super) kept: Option<Vec<u8>>,
    /// The file, kept until all is timed: freeing its pages takes time.
    _file: Option<(OwnedFd, File)>,
}

/// The content of a file with O_APPEND before the move.
const BEFORE: &[u8] = b"what was there before";

/// The name of this process: a file of procfs that can be written without harm.
const COMM: &str = "/proc/self/comm";
const OWN_NAME: &str = "gush";

impl Target {
    /// Opens one that is to get `bytes`.
    pub(super) fn open(
        kind: Kind,
        workshop: &Workshop,
        load: &Load,
        bytes: u64,
    ) -> io::Result<Self> {
        let device = |path: &str| {
            let fd = File::options().write(true).open(path)?.into();
            Ok(Self { fd, kind, drainer: None, file: None })
        };
        let drained = |near: OwnedFd, far: OwnedFd| {
            let drainer = Some(far::drain(far, workshop.processor, kind, load, bytes));
            Self { fd: near, kind, drainer, file: None }
        };
        match kind {
            Kind::Procfs => {
                std::fs::write(COMM, OWN_NAME)?;
                device(COMM)
            }
            Kind::Zero => device("/dev/zero"),
            Kind::Null => device("/dev/null"),
            Kind::Full => device("/dev/full"),
            kind => match ends::open(kind, workshop, false)? {
                Some((near, far)) => Ok(drained(near, far)),
                None => Self::file(kind, workshop),
            },
        }
    }

    fn file(kind: Kind, workshop: &Workshop) -> io::Result<Self> {
        let mut file = workshop.create(kind)?;
        let flags = match kind {
            Kind::Append => {
                file.write_all(BEFORE)?;
                OFlags::WRONLY | OFlags::APPEND
            }
            Kind::Direct => OFlags::WRONLY | OFlags::DIRECT,
            _ => OFlags::RDWR,
        };
        let near = reopened(&file, flags)?;
        Ok(Self { fd: near.into(), kind, drainer: None, file: Some(file) })
    }

    /// Takes in the bytes still under way, and returns the arrived bytes.
    pub(super) fn arrived(self, load: &Load) -> io::Result<Arrived> {
        let Self { fd, kind, drainer, file } = self;
        if let Some(drainer) = drainer {
            // Some need the end to know that all has come; others forget what is in flight.
            let kept_open = if kind.shows_the_end() {
                drop(fd);
                None
            } else {
                Some(fd)
            };
            let mut done = drainer.finish();
            drop(kept_open);
            let kept = load.verifies.then(|| std::mem::take(&mut done.kept));
            return Ok(Arrived { bytes: Some(done.bytes), kept, _file: None });
        }
        let skip = if kind == Kind::Append { BEFORE.len() } else { 0 };
        if let Some(file) = file {
            let bytes = Some(file.metadata()?.len().saturating_sub(skip as u64));
            let kept = if load.verifies { Some(read_back(&file, skip)?) } else { None };
            return Ok(Arrived { bytes, kept, _file: Some((fd, file)) });
        }
        if kind == Kind::Procfs {
            let kept = std::fs::read(COMM)?;
            // A list of processes is to show what this is.
            std::fs::write(COMM, OWN_NAME)?;
            return Ok(Arrived { kept: Some(kept), ..Arrived::default() });
        }
        Ok(Arrived::default())
    }

    /// Gives the target up: nothing is expected any more.
    pub(super) fn abandon(self) {
        drop(self.fd);
        self.drainer.map(Helper::abandon);
    }

    /// The bytes that a reader finds in the target when all of `content` has arrived.
    pub(super) fn shows(kind: Kind, content: &[u8]) -> Vec<u8> {
        if kind != Kind::Procfs {
            return content.to_vec();
        }
        // A name ends at its first zero byte, and is shown as a line (`comm_show`,
        // `fs/proc/base.c`).
        let name = match content {
            [] => OWN_NAME.as_bytes(),
            content => content.split(|&byte| byte == 0).next().unwrap_or_default(),
        };
        [name, b"\n"].concat()
    }
}

fn read_back(file: &File, skip: usize) -> io::Result<Vec<u8>> {
    let mut reader = reopened(&file, OFlags::RDONLY)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut reader, &mut bytes)?;
    if skip > 0 && bytes.get(..skip) != Some(BEFORE) {
        return Err(io::Error::other("what stood in the O_APPEND file before is gone"));
    }
    Ok(bytes.split_off(skip.min(bytes.len())))
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
