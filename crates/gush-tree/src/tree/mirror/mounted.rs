//! What is mounted in the source of a mirror, and may be a part of its target.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::place::{Place, mount_of, proc_path, same_file};
use crate::remote::identity;

/// The [identities](crate::remote::EntryMetadata::identity) of what is mounted below a directory,
/// whether a copy reads it or not. No name leads to what another mount covers: that is none of it.
/// `None` if the mounts are not known.
#[must_use]
pub fn mounted_below(dir: BorrowedFd<'_>) -> Option<Vec<u64>> {
    let at = retry_on_intr(|| fs::readlink(proc_path(dir), Vec::new())).ok()?;
    let at = Path::new(OsStr::from_bytes(at.to_bytes()));
    if !is_path_of(at, dir) {
        return None;
    }
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    let lines = table.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let points: Vec<_> = lines.map(mount_point).collect::<Option<_>>()?;
    let below = points.iter().filter_map(|point| point.strip_prefix(at).ok());
    let mut identities = Vec::new();
    for path in below.filter(|path| !path.as_os_str().is_empty()) {
        // Not with O_DIRECTORY: it may be a file, and an automount is not to be triggered.
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        match Place::below(dir, path, path).open(flags, Mode::empty()) {
            // What one user mounts by FUSE is no part of what another one copies to.
            Ok(held) => {
                identities.extend(retry_on_intr(|| fs::fstat(&held)).ok().map(|s| identity(&s)))
            }
            // Another mount covers it. The names of a mount are no symbolic links.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            // Others reach it.
            Err(_) => return None,
        }
    }
    Some(identities)
}

/// Does a path lead to a directory? One outside the root directory of this process, or that
/// another mount covers, has a path that leads elsewhere.
fn is_path_of(path: &Path, dir: BorrowedFd<'_>) -> bool {
    match Place::here(path).open(OFlags::PATH, Mode::empty()) {
        Ok(found) => {
            let [here, there] = [dir, found.as_fd()].map(|fd| retry_on_intr(|| fs::fstat(fd)));
            let mount = |fd| mount_of(fd, c"", AtFlags::EMPTY_PATH);
            here.is_ok_and(|here| there.is_ok_and(|there| same_file(&here, &there)))
                && mount(dir) == mount(found.as_fd())
        }
        // A user may have a directory open without rights to those above.
        Err(errno) => errno == Errno::ACCESS,
    }
}

/// The mount point in a line of proc_pid_mountinfo(5).
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let point = line.split(|&byte| byte == b' ').nth(4)?;
    Some(OsStr::from_bytes(&unescaped(point)).into())
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
        let point: &Path = OsStr::from_bytes(b"/m/my disk\\\\0\xe9").as_ref();
        assert_eq!(mount_point(line).as_deref(), Some(point));
        assert_eq!(mount_point(b"33 32 0:27 /x"), None);
    }
}
