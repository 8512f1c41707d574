//! Which file system a file is on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys;

/// A file system by its magic number (statfs(2), `f_type`): those of `include/uapi/linux/magic.h`,
/// and ZFS's of its `zfs_vfsops_os.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem(u64);

/// File systems that share blocks, or copy inside the kernel or on the server, between files whose
/// `st_dev` differ.
const SPANNING: &[(FileSystem, &str)] = &[
    (FileSystem::BTRFS, "btrfs: each subvolume has a device number"),
    (FileSystem::ZFS, "ZFS: so has each dataset of a pool"),
    (FileSystem::OVERLAY, "overlay: a file can show the number of its layer"),
    (FileSystem(0x6969), "NFS: two mounts can be of one server"),
    (FileSystem(0xff53_4d42), "SMB1: so can these"),
    (FileSystem(0xfe53_4d42), "SMB2: and these"),
];
/// ext2 and ext3 have ext4's. Overlayfs is not here: the layer below may be NFS, where the server
/// copies.
const LOCAL: &[(FileSystem, &str)] = &[
    (FileSystem(0xef53), "ext4"),
    (FileSystem(0x5846_5342), "xfs"),
    (FileSystem::BTRFS, "btrfs"),
    (FileSystem(0xf2f5_2010), "f2fs"),
    (FileSystem(0x8584_58f6), "ramfs"),
    (FileSystem::TMPFS, "tmpfs"),
];

impl FileSystem {
    pub(crate) const TMPFS: Self = Self(0x0102_1994);
    pub(crate) const PIPEFS: Self = Self(0x5049_5045);
    const FUSE: Self = Self(0x6573_5546);
    const BTRFS: Self = Self(0x9123_683e);
    const OVERLAY: Self = Self(0x794c_7630);
    const ZFS: Self = Self(0x2fc1_2fc1);

    /// The file system of an open file, unless a filter denies the question.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        sys::file::file_system(fd).ok().map(Self)
    }

    /// Do all copies pass through this machine's page cache?
    pub(crate) fn is_local(self) -> bool {
        LOCAL.iter().any(|(known, _)| *known == self)
    }

    /// May blocks be shared, or copied in the kernel, between two devices of this kind? EXDEV
    /// reports where that is impossible.
    pub(crate) fn spans_devices(self) -> bool {
        SPANNING.iter().any(|(known, _)| *known == self)
    }

    /// Can SEEK_HOLE report data as a hole?
    ///
    /// FUSE: a virtiofs called a full file one hole. ZFS: before 2.1.14 and 2.2.2 a file just
    /// written could show holes where data were not yet on disk (openzfs issue 15526).
    pub(crate) fn hides_data(self) -> bool {
        [Self::FUSE, Self::ZFS].contains(&self)
    }

    /// Does the kernel make up its files while they are read?
    pub(crate) fn is_made_up(self) -> bool {
        // procfs, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, configfs, bpf.
        const MADE_UP: [u64; 9] = [
            0x9fa0,
            0x6265_6572,
            0x6462_6720,
            0x7472_6163,
            0x7363_6673,
            0x0027_e0eb,
            0x6367_7270,
            0x6265_6570,
            0xcafe_4a11,
        ];
        MADE_UP.contains(&self.0)
    }
}

/// The own id of the file system that an open file is on: the next mount, perhaps by another device
/// number, has the same. `None` where the file system has none, such as NFS and FUSE. Before
/// Linux 6.9 the id of XFS, F2FS and FAT is that of the device.
///
/// # Errors
/// Those of statfs(2).
pub fn file_system_id(file: &impl AsFd) -> io::Result<Option<u128>> {
    let file = file.as_fd();
    // The subvolumes of btrfs share a UUID, but not their inode numbers; f_fsid is of a subvolume.
    if FileSystem(sys::file::file_system(file)?) != FileSystem::BTRFS
        && let Ok(uuid) = sys::file::file_system_uuid(file)
        && uuid != [0; 16]
    {
        return Ok(Some(u128::from_ne_bytes(uuid)));
    }
    let id = sys::file::file_system_fsid(file)?;
    Ok((id != 0).then_some(id.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_believed_but_of_fuse_and_zfs_also_of_an_unknown_file_system() {
        assert!(FileSystem::FUSE.hides_data() && FileSystem(0x2fc1_2fc1).hides_data());
        let others = [(FileSystem::OVERLAY, "overlay"), (FileSystem(0x1234_5678), "unknown")];
        for (other, name) in LOCAL.iter().chain(&others) {
            assert!(!other.hides_data(), "{name}");
        }
    }
}
