//! A hidden directory for the files of a run. The run removes the directory in the end; one that SIGKILL left is removed by a
//! later run in the same place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// The beginning of the directories' names.
const PREFIX: &str = ".gush-lab-";
/// An empty file in each directory, so that no directory of the user's is taken for one.
const MARK: &str = ".made-by-gush-lab";
/// The beginning of the names of directories that hold files of the user's.
const KEPT_PREFIX: &str = "gush-lab-kept-";

/// The directory, with the lock that shows others that the directory is in use.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
    /// Without symbolic links, as `/proc` shows open files.
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a directory in `dir`, and removes those of runs that were killed.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn new_in(dir: &Path) -> io::Result<Self> {
        remove_left_ones(dir);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir)?;
        // A relative path would change its meaning with a command's working directory.
        let path = made.path().canonicalize()?;
        // A directory of the user's may have such a name: only one with this mark is ever removed.
        File::create_new(path.join(MARK))?;
        let lock = File::open(&path)?;
        // Refused where the file system has no locks: then nothing of anybody is removed there.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { dir: made, path, _lock: lock })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of file system that the directory is on, by name or number (statfs(2)).
    pub(crate) fn file_system(&self) -> String {
        const NAMES: [(u64, &str); 6] = [
            (0xef53, "ext4"),
            (0x0102_1994, "tmpfs"),
            (0x5846_5342, "xfs"),
            (0x9123_683e, "btrfs"),
            (0x794c_7630, "overlay"),
            (0x6969, "nfs"),
        ];
        let Ok(about) = rustix::fs::statfs(&self.path) else { return "unknown".to_owned() };
        let magic = about.f_type as u64 & 0xffff_ffff;
        let known = NAMES.iter().find(|(number, _)| *number == magic);
        known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())
    }

    /// The device or server that the file system is on, as the mount table names it: two disks with the same kind of file
    /// system are two places.
    pub(crate) fn device(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        device_of(&self.path, &mounts).unwrap_or("unknown").to_owned()
    }

    /// Keeps the directory, under a name that no later run removes; answers the path.
    pub(crate) fn keep(self) -> io::Result<PathBuf> {
        let Self { dir, path, _lock } = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = path.with_file_name(name.replacen(PREFIX, KEPT_PREFIX, 1));
        // From here on nobody removes the directory, also where renaming fails.
        let _ = dir.keep();
        fs::rename(&path, &kept).map(|()| kept)
    }

    /// Removes the directory, and tells if that fails.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.dir.close()
    }
}

/// The source of the mount in `mountinfo` (proc_pid_mountinfo(5)) that `path` is in: the last one of the longest mount point.
fn device_of<'m>(path: &Path, mountinfo: &'m str) -> Option<&'m str> {
    let mount = |line: &'m str| {
        let (place, kind) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&point).then_some((point.len(), kind.split(' ').nth(1)?))
    };
    // The longest mount point above the path is the one that holds it.
    let found = mountinfo.lines().filter_map(mount).max_by_key(|&(length, _)| length);
    found.map(|(_, source)| source)
}

/// Removes the directories of runs that were killed: unlocked ones, older than the moment
/// between mkdir(2) and flock(2).
fn remove_left_ones(dir: &Path) {
    const MOMENT: Duration = Duration::from_secs(60);
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(is_ours) {
        let is_old = entry.metadata().ok().filter(fs::Metadata::is_dir).is_some_and(|about| {
            let age = about.modified().ok().and_then(|changed| changed.elapsed().ok());
            age.is_some_and(|age| age > MOMENT)
        });
        let is_free = || {
            let lock = File::open(entry.path()).ok()?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()
        };
        let is_marked =
            || fs::symlink_metadata(entry.path().join(MARK)).is_ok_and(|it| it.is_file());
        if is_old && is_marked() && is_free().is_some() {
            // Somebody else's may not be removed, and is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Fills a file with bytes that are nowhere zero for long and nowhere the same.
///
/// # Errors
/// The error of write(2).
pub(crate) fn fill(mut file: &File, size_bytes: u64) -> io::Result<()> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut piece = vec![0_u8; PIECE_BYTES];
    // The same bytes for the same size in every run, and none that a file system could compress or share.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ size_bytes;
    let mut left_bytes = size_bytes;
    while left_bytes > 0 {
        for word in piece.chunks_exact_mut(8) {
            // xorshift (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let len = usize::try_from(left_bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.write_all(&piece[..len])?;
        left_bytes -= len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn the_device_is_that_of_the_innermost_and_newest_mount() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 22 0:25 / /mnt rw,noatime shared:1 - xfs /dev/vdb rw\n\
                      31 30 0:26 / /mnt/my\\040disk rw - ext4 /dev/vdc rw\n\
                      32 31 0:27 / /mnt/my\\040disk rw - ext4 /dev/vdd rw\n";
        let device = |path: &str| device_of(Path::new(path), mounts);
        assert_eq!(device("/home"), Some("/dev/vda"));
        assert_eq!(device("/mnt/a"), Some("/dev/vdb"));
        assert_eq!(device("/mnt2"), Some("/dev/vda"), "a name is not its beginning");
        assert_eq!(device("/mnt/my disk/a"), Some("/dev/vdd"));
        assert_eq!(device_of(Path::new("/a"), ""), None);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Scratch::new_in(dir.path()).expect("a directory");
        let [left, new, foreign] =
            [".gush-lab-left", ".gush-lab-new", "gush-lab"].map(|name| dir.path().join(name));
        for path in [&left, &new, &foreign] {
            fs::create_dir(path).expect("made");
            fs::write(path.join("source-1"), "x").expect("written");
            fs::write(path.join(MARK), "").expect("written");
        }
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        for path in [&left, &foreign, &running.path] {
            File::open(path).expect("open").set_modified(long_ago).expect("older");
        }
        drop(Scratch::new_in(dir.path()).expect("a directory"));
        assert!(!left.exists(), "nobody uses it any more");
        assert!(new.exists(), "somebody may be about to lock it");
        assert!(foreign.exists() && running.path.exists());
        let path = running.path.clone();
        running.remove().expect("removed");
        assert!(!path.exists());
    }
}
