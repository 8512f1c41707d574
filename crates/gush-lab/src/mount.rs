//! The mount that a path is in, from the kernel's table of mounts (proc_pid_mountinfo(5)).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    /// The file system, such as `ext4`.
    pub(crate) kind: String,
    /// The device or server.
    pub(crate) source: String,
}

impl Mount {
    /// The mount of the file or directory at `path`.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        Self::among(&table(), &path, fs::metadata(&path).ok()?.dev())
    }

    /// The newest mount with the longest point above `path`. A mount of the same device wins; btrfs
    /// has one device per subvolume.
    fn among(table: &str, path: &Path, device: u64) -> Option<Self> {
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let mount = |line: &str| {
            let (front, back) = line.split_once(" - ")?;
            let front: Vec<&str> = front.split(' ').collect();
            let mut back = back.split(' ').map(unescaped);
            let (point, kind, source) = (unescaped(front.get(4)?), back.next()?, back.next()?);
            let rank = (front[2] == number, point.len());
            path.starts_with(&point).then(|| (rank, Self { point: point.into(), kind, source }))
        };
        table.lines().filter_map(mount).max_by_key(|(rank, _)| *rank).map(|(_, mount)| mount)
    }
}

/// The mount points, in order.
pub(crate) fn points() -> Vec<PathBuf> {
    table()
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| unescaped(point).into())
        .collect()
}

fn table() -> String {
    // Bytes, because one mount point that is not UTF-8 must not hide the others.
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()).into_owned()
}

/// Blanks, tabs, line ends and backslashes are octal there.
fn unescaped(text: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
                         30 22 0:26 / /mnt rw,noatime shared:1 - xfs /dev/vdb rw\n\
                         31 22 0:40 / /data rw - btrfs /dev/vdc rw\n\
                         32 30 0:27 / /mnt/my\\040disk\\134x rw - ext4 /dev/vdd rw\n\
                         33 32 0:27 / /mnt/my\\040disk\\134x rw - tmpfs /dev/vde rw\n";

    #[test]
    fn the_innermost_and_newest_mount_is_that_of_a_path() {
        let source = |path: &str, device: (u32, u32)| {
            let device = rustix::fs::makedev(device.0, device.1);
            Mount::among(TABLE, Path::new(path), device).map(|mount| mount.source)
        };
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(source("/home", (254, 0)), is("/dev/vda"));
        assert_eq!(source("/mnt/a", (0, 26)), is("/dev/vdb"));
        assert_eq!(source("/mnt2", (254, 0)), is("/dev/vda"), "a name is not its beginning");
        assert_eq!(source("/mnt/my disk\\x/a", (0, 27)), is("/dev/vde"));
        assert_eq!(source("/data/sub", (0, 41)), is("/dev/vdc"), "a subvolume has its own device");
        assert_eq!(Mount::among("", Path::new("/a"), 0), None);
    }

    #[test]
    fn every_directory_is_in_a_mount() {
        let mount = Mount::of(&std::env::temp_dir()).expect("a mount");
        assert!(points().contains(&mount.point) && !mount.kind.is_empty(), "{mount:?}");
    }
}
