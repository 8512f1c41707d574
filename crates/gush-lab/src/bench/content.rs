//! A command's output: the digest of a file, or of a directory with all its entries.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::Error;
use crate::runner::interrupt;

/// A file's or directory's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The blake3 hash in hexadecimal: of a file's bytes; of a directory's names, kinds, bytes and
    /// link targets.
    pub digest: String,
    pub bytes: u64,
}

impl Content {
    /// Reads the file or directory at `path`; a symbolic link there is followed, those inside of a
    /// directory are not.
    ///
    /// # Errors
    /// The path that cannot be read, and the reason: also a FIFO, a socket or a device, whose bytes
    /// may never end.
    pub fn of(path: &Path) -> Result<Self, Error> {
        if Self::look(path)?.is_dir() {
            let mut tree = Tree { hasher: blake3::Hasher::new(), bytes: 0 };
            tree.directory(path)?;
            return Ok(Self { digest: tree.hasher.finalize().to_string(), bytes: tree.bytes });
        }
        let (digest, bytes) = of_file(path)?;
        Ok(Self { digest, bytes })
    }

    /// Refuses what [`of`](Self::of) would refuse at once, and reads nothing.
    pub(super) fn look(path: &Path) -> Result<fs::Metadata, Error> {
        let there = fs::metadata(path).map_err(|error| cannot_read(path, error))?;
        // A FIFO would be read for ever, and a device is never the same twice.
        match special_kind(there.file_type()) {
            None => Ok(there),
            Some(kind) => Err(Error::refused(format!(
                "'{}' is {kind}, and neither a file nor a directory",
                path.display()
            ))),
        }
    }

    /// The first digits of the digest, enough to distinguish two contents.
    pub fn short(&self) -> &str {
        &self.digest[..16]
    }
}

/// The name of a kind of entry that has no content.
pub(crate) fn special_kind(kind: FileType) -> Option<&'static str> {
    let kinds = [
        (kind.is_fifo(), "a FIFO"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device(), "a character device"),
        (kind.is_block_device(), "a block device"),
    ];
    kinds.into_iter().find_map(|(is_so, name)| is_so.then_some(name))
}

fn cannot_read(path: &Path, error: io::Error) -> Error {
    Error::failed(format!("cannot read '{}'", path.display()), error)
}

fn of_file(path: &Path) -> Result<(String, u64), Error> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut file = File::open(path).map_err(|error| cannot_read(path, error))?;
    let (mut hasher, mut bytes) = (blake3::Hasher::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // Reading gibibytes takes seconds, too long after Ctrl-C.
        if interrupt::requested() {
            return Err(Error::refused("interrupted"));
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok((hasher.finalize().to_string(), bytes)),
            Ok(len) => {
                hasher.update(&piece[..len]);
                bytes += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot_read(path, error)),
        }
    }
}

struct Tree {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Tree {
    fn directory(&mut self, path: &Path) -> Result<(), Error> {
        let cannot = |error| cannot_read(path, error);
        let entries = fs::read_dir(path).map_err(cannot)?;
        let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(cannot)?;
        // The order of a listing is the file system's affair, and no difference.
        entries.sort_by_key(fs::DirEntry::file_name);
        // The number first, so that two trees cannot give the same bytes by another nesting.
        self.part(&entries.len().to_le_bytes());
        for entry in entries {
            self.part(entry.file_name().as_bytes());
            let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
            if kind.is_dir() {
                self.part(b"directory");
                self.directory(&path)?;
            // The link itself, not followed: it may lead out of the tree, or nowhere.
            } else if kind.is_symlink() {
                self.part(b"link");
                let target = fs::read_link(&path).map_err(|error| cannot_read(&path, error))?;
                self.part(target.as_os_str().as_bytes());
            } else if kind.is_file() {
                self.part(b"file");
                let (digest, bytes) = of_file(&path)?;
                self.part(digest.as_bytes());
                self.bytes += bytes;
            } else {
                self.part(b"special");
            }
        }
        Ok(())
    }

    /// The part's length stands before the part, so that no two lists of parts give the same bytes.
    fn part(&mut self, bytes: &[u8]) {
        // The length first: "ab", "c" and "a", "bc" must differ.
        self.hasher.update(&bytes.len().to_le_bytes());
        self.hasher.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn tree(dir: &Path, name: &str, change: impl Fn(&Path)) -> PathBuf {
        let path = dir.join(name);
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::write(path.join("sub/file"), "text").unwrap();
        symlink("sub/file", path.join("link")).unwrap();
        change(&path);
        path
    }

    #[test]
    fn directories_differ_by_names_kinds_bytes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let content = |path: &Path| Content::of(path).unwrap();
        let one = content(&tree(dir.path(), "one", |_| ()));
        assert_eq!(one, content(&tree(dir.path(), "same", |_| ())));
        assert_eq!(one.bytes, 4);
        type Change = fn(&Path);
        let changes: [(&str, Change); 5] = [
            ("text", |path| fs::write(path.join("sub/file"), "tex").unwrap()),
            ("more", |path| fs::write(path.join("more"), "").unwrap()),
            ("name", |path| fs::rename(path.join("link"), path.join("other")).unwrap()),
            ("empty", |path| fs::create_dir(path.join("sub/empty")).unwrap()),
            ("link", |path| {
                fs::remove_file(path.join("link")).unwrap();
                symlink("elsewhere", path.join("link")).unwrap();
            }),
        ];
        for (name, change) in changes {
            assert_ne!(one.digest, content(&tree(dir.path(), name, change)).digest, "{name}");
        }
    }

    #[test]
    fn bytes_that_may_never_end_are_not_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let zero = dir.path().join("zero");
        symlink("/dev/zero", &zero).unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for (path, kind) in [(&zero, "a character device"), (&fifo, "a FIFO")] {
            let said = Content::of(path).unwrap_err().to_string();
            assert!(said.contains(&format!("is {kind}, and neither")), "{said}");
        }
    }

    #[test]
    fn nothing_there_is_reported_with_its_path() {
        let said = Content::of(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert_eq!(said, "cannot read '/nowhere/at/all': No such file or directory");
    }
}
