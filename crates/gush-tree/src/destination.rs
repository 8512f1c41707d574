//! The target of each source: `SRC DST`, `SRC... DIR`, `-t DIR`, `-T`, `--parents`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gush_text::quote;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::place::Place;

/// How the operands are understood.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// `-t DIR`: every operand is a source.
    pub target_directory: Option<PathBuf>,
    /// `-T`: the last operand is a file, even if the name is a directory's.
    pub no_target_directory: bool,
    /// `--parents`: the whole source name is made below the directory.
    pub parents: bool,
}

/// The target, or the directory of the targets.
#[derive(Debug)]
pub enum Destination {
    /// The one source becomes this file.
    File {
        /// The path as the user wrote it.
        path: PathBuf,
        /// The path does not exist, or is a dangling symbolic link.
        missing: bool,
    },
    /// Each source becomes a file in this directory.
    Directory {
        /// The path as the user wrote it.
        path: PathBuf,
        /// The open directory.
        dir: OwnedFd,
    },
}

/// Why the operands do not name a target.
#[derive(Debug)]
pub enum NamingError {
    /// The command line is wrong; the text explains the mistake.
    Usage(String),
    /// The target directory cannot be used.
    Target(Error),
}

impl Naming {
    /// Takes the target from the operands; the sources remain.
    ///
    /// # Errors
    /// [`NamingError::Usage`] for too few or too many operands, [`NamingError::Target`] when the
    /// target must be a directory and is none.
    ///
    /// ```
    /// use std::path::PathBuf;
    /// use gush_tree::{Destination, Naming};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut operands = vec![PathBuf::from("a"), directory.path().into()];
    /// let destination = Naming::default().destination(&mut operands).unwrap();
    /// assert!(matches!(destination, Destination::Directory { .. }));
    /// assert_eq!(operands, [PathBuf::from("a")]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn destination(&self, operands: &mut Vec<PathBuf>) -> Result<Destination, NamingError> {
        self.check(operands).map_err(NamingError::Usage)?;
        if self.no_target_directory {
            return self.file(operands, false);
        }
        if let Some(path) = &self.target_directory {
            let dir = open_directory(path).map_err(|errno| {
                NamingError::Target(Error::os(path, "target directory {}", errno))
            })?;
            return Ok(Destination::Directory { path: path.clone(), dir });
        }
        // Opened and not only looked at: all names below go by this descriptor, whatever happens to
        // its name.
        match open_directory(&operands[operands.len() - 1]) {
            Ok(dir) => {
                let path = operands.remove(operands.len() - 1);
                Ok(Destination::Directory { path, dir })
            }
            Err(errno) if operands.len() > 2 => {
                let path = &operands[operands.len() - 1];
                Err(NamingError::Target(Error::os(path, "target {}", errno)))
            }
            // Not a directory: with two operands it is the target's own name.
            Err(errno) => self.file(operands, errno == Errno::NOENT),
        }
    }

    /// Checks the number of operands and the options, whatever the operands are.
    ///
    /// # Errors
    /// A text that explains the mistake.
    pub fn check(&self, operands: &[PathBuf]) -> Result<(), String> {
        let least = 1 + usize::from(self.target_directory.is_none());
        match operands.first() {
            None => Err("missing file operand".into()),
            Some(only) if operands.len() < least => {
                let only = quote::always(only);
                Err(format!("missing destination file operand after {only}"))
            }
            _ if self.no_target_directory && self.target_directory.is_some() => {
                Err("cannot combine --target-directory (-t) and --no-target-directory (-T)".into())
            }
            _ if self.no_target_directory && operands.len() > 2 => {
                Err(format!("extra operand {}", quote::always(&operands[2])))
            }
            _ => Ok(()),
        }
    }

    fn file(&self, operands: &mut Vec<PathBuf>, missing: bool) -> Result<Destination, NamingError> {
        if self.parents {
            return Err(NamingError::Usage(
                "with --parents, the destination must be a directory".into(),
            ));
        }
        let path = operands.remove(operands.len() - 1);
        Ok(Destination::File { path, missing })
    }

    /// The name of `source` below a target directory.
    ///
    /// ```
    /// use std::path::Path;
    /// use gush_tree::Naming;
    ///
    /// let plain = Naming::default();
    /// assert_eq!(plain.name_below(Path::new("a/b/c")), Path::new("c"));
    /// let whole = Naming { parents: true, ..Naming::default() };
    /// assert_eq!(whole.name_below(Path::new("/a/b/./.")).as_os_str(), "a/b");
    /// ```
    #[must_use]
    pub fn name_below<'a>(&self, source: &'a Path) -> &'a Path {
        let bytes = strip_trailing_slashes(source).as_os_str().as_bytes();
        let start = match self.parents {
            true => bytes.iter().position(|&byte| byte != b'/').unwrap_or(bytes.len()),
            false => bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1),
        };
        let mut name = Path::new(OsStr::from_bytes(&bytes[start..]));
        // No directory can be made by a name that ends in `/.`.
        while let Some(above) = name.as_os_str().as_bytes().strip_suffix(b"/.") {
            name = strip_trailing_slashes(Path::new(OsStr::from_bytes(above)));
        }
        match name.as_os_str().as_bytes() {
            // `cp -R source/.. dir` must not leave `dir`.
            b".." | b"" => Path::new("."),
            _ => name,
        }
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    Place::here(path).open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
}

/// A path without the slashes at its end; the root stays.
///
/// ```
/// use std::path::Path;
/// use gush_tree::strip_trailing_slashes;
/// assert_eq!(strip_trailing_slashes(Path::new("a/b//")).as_os_str(), "a/b");
/// assert_eq!(strip_trailing_slashes(Path::new("//")).as_os_str(), "/");
/// ```
#[must_use]
pub fn strip_trailing_slashes(path: &Path) -> &Path {
    let mut bytes = path.as_os_str().as_bytes();
    while let [rest @ .., b'/'] = bytes
        && !rest.is_empty()
    {
        bytes = rest;
    }
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(naming: &Naming, operands: &[&str]) -> String {
        let mut operands = operands.iter().map(PathBuf::from).collect();
        match naming.destination(&mut operands) {
            Err(NamingError::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn too_few_and_too_many_operands_are_distinct_errors() {
        let plain = Naming::default();
        assert_eq!(usage(&plain, &[]), "missing file operand");
        assert_eq!(usage(&plain, &["a"]), "missing destination file operand after 'a'");
        let file = Naming { no_target_directory: true, ..Naming::default() };
        assert_eq!(usage(&file, &["a", "b", "c"]), "extra operand 'c'");
        let whole = Naming { parents: true, ..Naming::default() };
        let text = usage(&whole, &["a", "/missing/b"]);
        assert_eq!(text, "with --parents, the destination must be a directory");
    }

    #[test]
    fn names_below_a_directory_follow_gnu() {
        let plain = Naming::default();
        let whole = Naming { parents: true, ..Naming::default() };
        for (source, base, all) in [
            ("a", "a", "a"),
            ("a/b", "b", "a/b"),
            ("a/b/", "b", "a/b"),
            ("//x//y", "y", "x//y"),
            ("a/b/.", ".", "a/b"),
            ("/a/b//././/", ".", "a/b"),
            ("./.", ".", "."),
            ("..", ".", "."),
            ("/", ".", "."),
        ] {
            assert_eq!(plain.name_below(Path::new(source)).as_os_str(), base, "{source}");
            assert_eq!(whole.name_below(Path::new(source)).as_os_str(), all, "{source}");
        }
    }

    #[test]
    fn several_sources_need_a_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut operands = vec!["a".into(), "b".into(), file.path().to_path_buf()];
        match Naming::default().destination(&mut operands) {
            Err(NamingError::Target(error)) => {
                assert!(error.to_string().ends_with("Not a directory"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
