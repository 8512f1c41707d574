//! What a mirror may not remove: other mounts, and the source.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::Path;

use gush_text::{Doing, quote};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::error::Error;
use crate::place::{Place, mount_of};
use crate::remote::{identity, lineage};

/// The limits of a mirror: the mount that the target is in, and the source.
#[derive(Debug)]
pub(crate) struct Limits {
    device: u64,
    /// `None` if the kernel does not report it.
    mount: Option<u64>,
    /// The [identities](crate::remote::EntryMetadata::identity) of the source, of the directories
    /// above it, and of what is mounted in it.
    source: HashSet<u64>,
    /// Something is mounted in the source, which may be a file.
    has_mounts: bool,
    /// It is not known what is mounted in the source.
    lacks_mounts: bool,
}

impl Limits {
    pub(crate) fn new(
        target: BorrowedFd<'_>,
        stat: &Stat,
        mut source: HashSet<u64>,
        mounted: Option<&[u64]>,
    ) -> Self {
        let lacks_mounts = mounted.is_none();
        let mounted = mounted.unwrap_or_default();
        let has_mounts = !mounted.is_empty();
        if has_mounts {
            // The target itself may be mounted in the source, and is not copied there.
            let above = lineage(target);
            source.extend(mounted.iter().filter(|mounted| !above.contains(mounted)));
        }
        Self { device: stat.st_dev, mount: mount(target), source, has_mounts, lacks_mounts }
    }

    /// May this name be removed, whose directory was checked?
    pub(super) fn check_file(&self, place: &Place<'_>) -> Result<(), Reason> {
        match self.has_mounts && self.holds_source(&place.stat(false)?) {
            true => Err(Reason::Source),
            false => Ok(()),
        }
    }

    pub(crate) fn holds_source(&self, directory: &Stat) -> bool {
        self.source.contains(&identity(directory))
    }

    /// May entries of this directory be removed?
    pub(super) fn check(&self, dir: BorrowedFd<'_>, stat: &Stat) -> Result<(), Reason> {
        if self.holds_source(stat) {
            return Err(Reason::Source);
        }
        if self.lacks_mounts {
            return Err(Reason::UnknownMounts);
        }
        // A volume of btrfs has the mount of the one above, and another device.
        if stat.st_dev != self.device {
            return Err(Reason::Mounted);
        }
        match (self.mount, mount(dir)) {
            (Some(root), Some(here)) if root == here => Ok(()),
            (Some(_), Some(_)) => Err(Reason::Mounted),
            // Nothing is removed on a guess: a bind mount may lead to files outside the target.
            _ => Err(Reason::Unknown),
        }
    }
}

/// The mount that an open directory was reached by.
fn mount(dir: BorrowedFd<'_>) -> Option<u64> {
    mount_of(dir, c"", AtFlags::EMPTY_PATH)
}

/// Why an entry stays.
pub(super) enum Reason {
    /// The kernel's answer, and the remedy.
    Os(Errno, Option<&'static str>),
    Mounted,
    Source,
    Unknown,
    UnknownMounts,
}

impl From<Errno> for Reason {
    fn from(errno: Errno) -> Self {
        Self::Os(errno, gush_text::remedy(Doing::Removing, errno))
    }
}

impl Reason {
    /// The error of `entry`, which stays because of `at`: itself, or its directory.
    pub(super) fn error(&self, entry: &Path, at: &Path) -> Error {
        let text = match self {
            Self::Os(errno, remedy) => {
                let error = Error::os(at, "cannot remove {}", *errno);
                return match remedy {
                    Some(remedy) => error.hinting(*remedy),
                    None => error,
                };
            }
            Self::Mounted => "is in another mount or volume than the target, and is left as it is",
            Self::Source => "is the source or holds the source",
            Self::UnknownMounts => {
                "may be mounted in the source: its mounts cannot be read (mount /proc whole, and give the \
                 source a path below 4096 bytes that leads to it, and this user the right to search \
                 the directories above each mount)"
            }
            Self::Unknown => "may be a mount: this kernel reports no mount ids (Linux 5.8 does)",
        };
        Error::refusal(entry, format!("cannot remove {{}}: {} {text}", quote::always(at)))
    }
}
