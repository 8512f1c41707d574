//! Which file system a file is on.

use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// statfs(2), `f_type`.
const BTRFS: u64 = 0x9123_683e;

/// The own id of the file system that an open file is on: the next mount, perhaps by another device
/// number, has the same. `None` where the file system has none, such as NFS and FUSE. Before
/// Linux 6.9 the id of XFS, F2FS and FAT is that of the device.
///
/// # Errors
/// Those of statfs(2).
///
/// ```
/// let (one, other) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// assert_eq!(gush::file_system_id(&one)?, gush::file_system_id(&other)?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn file_system_id(file: &impl AsFd) -> io::Result<Option<u128>> {
    let file = file.as_fd();
    // The subvolumes of btrfs share a UUID, but not their inode numbers; f_fsid is of a subvolume.
    if sys::file::file_system(file)? != BTRFS
        && let Ok(uuid) = sys::file::file_system_uuid(file)
        && uuid != [0; 16]
    {
        return Ok(Some(u128::from_ne_bytes(uuid)));
    }
    let id = sys::file::file_system_fsid(file)?;
    Ok((id != 0).then_some(id.into()))
}
