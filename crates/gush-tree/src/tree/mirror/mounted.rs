//! What is mounted in the source of a mirror, and may be a part of its target.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::retry_on_intr;

use crate::options::CopyOptions;
use crate::place::{Place, mount_of, proc_path};
use crate::remote::identity;

/// The [identities](crate::remote::Portrait::identity) of the directories that are mounted below
/// this one, as far as a copy by these options reads them.
#[must_use]
pub fn mounted_below(dir: BorrowedFd<'_>, stat: &Stat, options: &CopyOptions) -> Vec<u64> {
    // Without mount ids a mirror removes nothing.
    let Some(own) = mount_of(dir, c"", AtFlags::EMPTY_PATH) else { return Vec::new() };
    let Ok(at) = retry_on_intr(|| fs::readlink(proc_path(dir), Vec::new())) else {
        return Vec::new();
    };
    let at = Path::new(OsStr::from_bytes(at.to_bytes()));
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<_> = table.split(|&byte| byte == b'\n').filter_map(Mount::read).collect();
    let device = mounts.iter().find(|mount| mount.id == own).map(|mount| mount.device);
    let is_read = |path: &Path| {
        let filter = options.filter.as_ref();
        let is_left_out = |above: &Path| filter.is_some_and(|filter| filter.excludes(above, true));
        let mut names = path.ancestors().filter(|above| !above.as_os_str().is_empty());
        !path.as_os_str().is_empty() && !names.any(is_left_out)
    };
    let found = mounts
        .iter()
        // By the table: a server of another file system may not answer.
        .filter(|mount| !options.one_file_system || Some(mount.device) == device)
        .filter_map(|mount| {
            let path = mount.point.strip_prefix(at).ok().filter(|path| is_read(path))?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let held = Place::below(dir, path, path).open(flags, Mode::empty()).ok()?;
            retry_on_intr(|| fs::fstat(held.as_fd())).ok()
        })
        .filter(|found| !options.one_file_system || found.st_dev == stat.st_dev);
    found.map(|found| identity(&found)).collect()
}

/// A line of proc_pid_mountinfo(5).
#[derive(Debug, PartialEq, Eq)]
struct Mount<'t> {
    id: u64,
    /// Its numbers, as text.
    device: &'t [u8],
    point: PathBuf,
}

impl<'t> Mount<'t> {
    fn read(line: &'t [u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let (device, point) = (fields.nth(1)?, fields.nth(1)?);
        Some(Self { id, device, point: OsStr::from_bytes(&unescaped(point)).into() })
    }
}

/// Some characters are three octal digits there, after a backslash.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut left) = (Vec::new(), text);
    while let Some((&first, rest)) = left.split_first() {
        let (byte, after) = match (first, rest) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), after)
            }
            _ => (first, rest),
        };
        plain.push(byte);
        left = after;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_its_point_as_it_is() {
        let line = b"33 32 0:27 /x /m/my\\040disk\\134\\0\xe9 rw shared:1 - tmpfs none rw";
        let point = OsStr::from_bytes(b"/m/my disk\\\\0\xe9").into();
        assert_eq!(Mount::read(line), Some(Mount { id: 33, device: b"0:27", point }));
        assert_eq!(Mount::read(b""), None);
    }
}
