//! Extended attributes, access control lists and labels among them.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rustix::fs::{self, XattrFlags};
use rustix::io::{self, Errno, retry_on_intr};

/// The attribute of POSIX access control lists.
pub(crate) const ACL: &CStr = c"system.posix_acl_access";
/// The attribute of the access control list that new files in a directory get.
pub(crate) const DEFAULT_ACL: &CStr = c"system.posix_acl_default";
/// The attribute of capabilities that a program gets.
pub(crate) const CAPABILITIES: &CStr = c"security.capability";
/// The attribute of SELinux labels.
pub(crate) const LABEL: &CStr = c"security.selinux";

/// Attributes that grant access: copied with the mode, never as plain attributes.
const PERMISSIONS: [&CStr; 5] =
    [ACL, DEFAULT_ACL, c"system.nfs4_acl", c"system.nfs4acl", c"system.richacl"];
/// The beginnings of attributes that are a file system's own, which GNU cp leaves out by
/// `/etc/xattr.conf` (attr_copy_file(3)). XFS stores access control lists as the first, and lists
/// them for root next to the list itself (`xfs_xattr_put_listent` of fs/xfs/xfs_xattr.c): copied,
/// they would grant access, and be stale lists once they come back from another file system. The
/// kernel alone writes the second.
const OF_FILE_SYSTEMS: [&[u8]; 3] = [b"trusted.SGI_", b"security.evm", b"afs."];

/// A file whose attributes are read or written.
#[derive(Clone, Debug)]
pub(crate) enum Holder<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// The `/proc` path of an `O_PATH` descriptor, which the f…xattr calls refuse. The path leads
    /// to exactly the held file, even if this is a symbolic link (proc(5) on magic links).
    Pinned(String),
    /// A path to what is no symbolic link, or is to be followed.
    Named(PathBuf),
}

/// What attributes are read from: a file, or values that another process has read from one.
pub(crate) trait Attributes {
    fn list(&self) -> io::Result<Vec<CString>>;

    fn get(&self, name: &CStr) -> io::Result<Vec<u8>>;
}

impl Attributes for Holder<'_> {
    fn get(&self, name: &CStr) -> io::Result<Vec<u8>> {
        // Large enough for nearly all values; for others the kernel answers ERANGE.
        self.sized(256, |buffer| match self {
            Self::Open(fd) => fs::fgetxattr(fd, name, buffer),
            Self::Pinned(path) => fs::getxattr(path, name, buffer),
            Self::Named(path) => fs::getxattr(path, name, buffer),
        })
    }

    fn list(&self) -> io::Result<Vec<CString>> {
        let ask = |buffer: &mut [u8]| match self {
            Self::Open(fd) => fs::flistxattr(fd, buffer),
            Self::Pinned(path) => fs::listxattr(path, buffer),
            Self::Named(path) => fs::listxattr(path, buffer),
        };
        // Most files have none, and each file is asked: without memory of the heap, which would
        // have to be cleared.
        let mut few = [0; 128];
        let names = match retry_on_intr(|| ask(&mut few)) {
            Ok(0) => return Ok(Vec::new()),
            Ok(length) => few[..length].to_vec(),
            Err(Errno::RANGE) => self.sized(1024, ask)?,
            Err(errno) => return Err(errno),
        };
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.filter_map(|name| CString::new(name).ok()).collect())
    }
}

impl Holder<'_> {
    pub(crate) fn set(&self, name: &CStr, value: &[u8]) -> io::Result<()> {
        retry_on_intr(|| match self {
            Self::Open(fd) => fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Pinned(path) => fs::setxattr(path, name, value, XattrFlags::empty()),
            Self::Named(path) => fs::setxattr(path, name, value, XattrFlags::empty()),
        })
    }

    pub(crate) fn remove(&self, name: &CStr) -> io::Result<()> {
        retry_on_intr(|| match self {
            Self::Open(fd) => fs::fremovexattr(fd, name),
            Self::Pinned(path) => fs::removexattr(path, name),
            Self::Named(path) => fs::removexattr(path, name),
        })
    }

    fn sized(
        &self,
        guess_bytes: usize,
        ask: impl Fn(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; guess_bytes];
        loop {
            match retry_on_intr(|| ask(&mut buffer)) {
                Ok(length) => {
                    buffer.truncate(length);
                    return Ok(buffer);
                }
                // Doubled rather than asked for: rustix answers 0 to an empty buffer. No value is
                // longer than 64 KiB (XATTR_SIZE_MAX, XATTR_LIST_MAX of
                // include/uapi/linux/limits.h), so this ends.
                Err(Errno::RANGE) if buffer.len() <= 64 << 10 => buffer = vec![0; 2 * buffer.len()],
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// The owning group's rights in an access control list: `rwx` as three bits.
///
/// A list is a version of four bytes and entries of eight: tag, permissions, id, little-endian
/// (`struct posix_acl_xattr_entry`, include/uapi/linux/posix_acl_xattr.h).
pub(crate) fn group_bits(acl: &[u8]) -> Option<u32> {
    // Of include/uapi/linux/posix_acl.h.
    const ACL_GROUP_OBJ: u16 = 0x04;
    let entries = acl.get(4..)?.chunks_exact(8);
    let mut pairs = entries.map(|e| [[e[0], e[1]], [e[2], e[3]]].map(u16::from_le_bytes));
    pairs.find(|[tag, _]| *tag == ACL_GROUP_OBJ).map(|[_, bits]| u32::from(bits) & 0o7)
}

/// The access control list that says what these permission bits say, as [`group_bits`] reads it.
pub(crate) fn list_of_bits(bits: u32) -> Vec<u8> {
    // Of include/uapi/linux/posix_acl.h: tags, and the id of entries that name nobody.
    const VERSION: u32 = 2;
    const OWNER_GROUP_OTHER: [(u16, u32); 3] = [(0x01, 6), (0x04, 3), (0x20, 0)];
    const NOBODY: u32 = u32::MAX;
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, shift) in OWNER_GROUP_OTHER {
        list.extend(tag.to_le_bytes());
        list.extend(((bits >> shift & 0o7) as u16).to_le_bytes());
        list.extend(NOBODY.to_le_bytes());
    }
    list
}

/// Does the error only mean: no such attribute, or no support for attributes?
pub(crate) fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// An attribute not copied, and why.
#[derive(Debug)]
pub(crate) struct Lost {
    /// `None` when the names could not be listed.
    pub(crate) name: Option<CString>,
    pub(crate) errno: Errno,
    pub(crate) on_source: bool,
}

/// Copies, as far as possible, all attributes but those of the mode, and but the capabilities,
/// which every write takes from a file.
pub(crate) fn copy_to_new_content(source: &Holder<'_>, target: &Holder<'_>) {
    let names = source.list().unwrap_or_default();
    let names = names.into_iter().filter(|name| name.as_c_str() != CAPABILITIES).collect();
    copy_listed(Ok(names), source, target, true);
}

/// Copies all attributes that [`Holder::list`] found but those of the mode, and the label only if
/// `with_label` is true.
pub(crate) fn copy_listed(
    names: io::Result<Vec<CString>>,
    source: &dyn Attributes,
    target: &Holder<'_>,
    with_label: bool,
) -> Vec<Lost> {
    let names = match names {
        Ok(names) => names,
        // A file system without attributes has none that could be lost.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Vec::new(),
        Err(errno) => return vec![Lost { name: None, errno, on_source: true }],
    };
    let wanted = names.into_iter().filter(|name| is_copied(name, with_label));
    wanted.filter_map(|name| copy_one(source, target, name)).collect()
}

pub(crate) fn is_copied(name: &CStr, with_label: bool) -> bool {
    // Access lists go with the mode, and the label with its own option.
    !PERMISSIONS.contains(&name)
        && (with_label || name != LABEL)
        && !OF_FILE_SYSTEMS.iter().any(|of| name.to_bytes().starts_with(of))
}

fn copy_one(source: &dyn Attributes, target: &Holder<'_>, name: CString) -> Option<Lost> {
    let value = match source.get(&name) {
        Ok(value) => value,
        // Removed after the listing.
        Err(Errno::NODATA) => return None,
        Err(errno) => return Some(Lost { name: Some(name), errno, on_source: true }),
    };
    let errno = target.set(&name, &value).err()?;
    Some(Lost { name: Some(name), errno, on_source: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_a_file_system_and_lists_are_no_plain_attributes() {
        let left_out = [
            c"system.posix_acl_access",
            c"system.nfs4_acl",
            c"trusted.SGI_ACL_FILE",
            c"trusted.SGI_ACL_DEFAULT",
            c"trusted.SGI_DMI_x",
            c"security.evm",
            c"afs.acl",
        ];
        for name in left_out {
            assert!(!is_copied(name, true), "{name:?}");
        }
        let copied =
            [c"user.x", c"trusted.x", c"trusted.SG", c"security.capability", c"user.afs.x"];
        for name in copied {
            assert!(is_copied(name, false), "{name:?}");
        }
        assert!(is_copied(LABEL, true) && !is_copied(LABEL, false));
    }
}
