//! Remedies for error numbers of calls on names, programs and addresses.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use gush::Side;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::{self, Errno};

use crate::quote;

/// What the failed call was for. Remedies for reading and writing are those of [`gush::hint_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Opening an existing file for writing.
    Opening,
    /// Giving a new name: to a file, directory, link, FIFO or socket.
    Making,
    /// Removing or renaming a name.
    Removing,
    /// Starting a program.
    Starting,
    /// Connecting a socket.
    Connecting,
    /// Binding a socket to the address at which it listens.
    Listening,
    /// Anything else.
    Other,
}

impl Doing {
    const ALL: [Self; 7] = [
        Self::Opening,
        Self::Making,
        Self::Removing,
        Self::Starting,
        Self::Connecting,
        Self::Listening,
        Self::Other,
    ];
}

const ANYTHING: &[Doing] = &Doing::ALL;

/// The work, the answer, and the remedy; without one, it is that of a failed write. The first row
/// that fits counts.
#[rustfmt::skip]
const TABLE: &[(&[Doing], Errno, Option<&str>)] = &[
    (&[Doing::Opening], Errno::NOSPC, None),
    (&[Doing::Making], Errno::NOSPC, Some("its file system has no space or no inodes left: `df` and `df -i` show which; remove files")),
    (&[Doing::Opening, Doing::Making], Errno::DQUOT, None),
    (&[Doing::Opening], Errno::TXTBSY, Some("a program that runs cannot be written")),

    (&[Doing::Starting], Errno::NOENT, Some("there is no such file, or no such program in PATH")),
    (&[Doing::Starting], Errno::ACCESS, Some("the file is not executable: chmod +x, unless its file system is mounted noexec")),
    (&[Doing::Starting], Errno::NOEXEC, Some("the file is not a program for this machine: it is of another architecture, or a script whose first line names no interpreter (#!/bin/sh)")),
    (&[Doing::Starting], Errno::TXTBSY, Some("the program's file is open for writing: wait until its writer has closed it")),
    (&[Doing::Starting], Errno::TOOBIG, Some("the arguments and the environment are too long together: pass some by a file")),
    (&[Doing::Starting], Errno::AGAIN, Some("the limit on processes is reached: ulimit -u, or pids.max of the control group")),

    (&[Doing::Connecting], Errno::CONNREFUSED, Some("nothing listens there; start the server")),
    (&[Doing::Connecting], Errno::NETUNREACH, None),
    (&[Doing::Connecting], Errno::HOSTUNREACH, None),
    (&[Doing::Connecting], Errno::TIMEDOUT, Some("nothing answers: the host is down, or a firewall drops what is sent")),
    (&[Doing::Connecting], Errno::ACCESS, Some("a broadcast address takes udp-datagram with broadcast; a route or a firewall forbids any other")),
    (&[Doing::Connecting], Errno::ADDRNOTAVAIL, Some("all local ports are in use, or bind= names an address of another machine")),
    (&[Doing::Listening], Errno::ADDRINUSE, Some("another program has this address; `ss -lpn` shows which")),
    (&[Doing::Listening], Errno::ACCESS, Some("ports below 1024 are for root, or CAP_NET_BIND_SERVICE; net.ipv4.ip_unprivileged_port_start says where others begin")),
    (&[Doing::Listening], Errno::ADDRNOTAVAIL, Some("this machine has no such address; `ip address` shows those it has")),

    (ANYTHING, Errno::MFILE, None),
    (ANYTHING, Errno::NFILE, None),
    (ANYTHING, Errno::ROFS, None),
    (ANYTHING, Errno::NAMETOOLONG, Some("a name has at most 255 bytes on most file systems, and a path 4095: choose a shorter one")),
    (ANYTHING, Errno::LOOP, Some("symbolic links lead in a circle, or are more than 40: `namei -l` shows them")),
];

/// No inodes: ENOSPC where space is left.
const NO_INODES: &str = "no inodes are left on its file system: remove files (`df -i` counts them)";
/// ENOENT of execve(2) for a file that is there.
const NO_INTERPRETER: &str =
    "the file is there, but not the interpreter that its first line names, or its loader";
/// EACCES of execve(2) for a directory.
const NO_FILE: &str = "it is a directory, and no program";
/// EACCES of execvp(3), which found the program nowhere else in PATH.
const DENIED_IN_PATH: &str =
    "no such program in PATH is executable, or a directory of PATH may not be searched";

/// The remedy if `errno` was the answer to a call for this, where there is one.
///
/// ```
/// use gush::Errno;
/// use gush_text::{Doing, remedy};
/// assert!(remedy(Doing::Opening, Errno::NOSPC).unwrap().contains("free some space"));
/// assert!(remedy(Doing::Other, Errno::MFILE).unwrap().contains("ulimit -n"));
/// assert_eq!(remedy(Doing::Other, Errno::NOSPC), None);
/// ```
#[must_use]
pub fn remedy(doing: Doing, errno: Errno) -> Option<&'static str> {
    let row = TABLE.iter().find(|row| row.0.contains(&doing) && row.1 == errno)?;
    row.2.or_else(|| gush::hint_for(Side::Target, errno))
}

/// As [`remedy`], of a call on `name` in `directory` (openat(2)). The file and its file system may
/// show more than the errno: an attribute of chattr(1) is in the way, inodes are lacking and not
/// space, an interpreter is missing and not the program, a program's name is that of a directory,
/// or is looked for in PATH.
///
/// ```
/// use std::fs::File;
/// use gush::Errno;
/// use gush_text::{Doing, remedy_at};
/// let root = File::open("/")?;
/// let missing = remedy_at(&root, "bin/sh", Doing::Starting, Errno::NOENT);
/// assert!(missing.unwrap().contains("interpreter"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn remedy_at(
    directory: impl AsFd,
    name: impl AsRef<Path>,
    doing: Doing,
    errno: Errno,
) -> Option<&'static str> {
    let (directory, name) = (directory.as_fd(), name.as_ref());
    let found = match (doing, errno) {
        (Doing::Making, Errno::NOSPC) => {
            lacks_inodes(directory, parent(name)).unwrap_or(false).then_some(NO_INODES)
        }
        (Doing::Starting, Errno::NOENT) => {
            let is_there = look_at(directory, name, true).is_ok();
            (is_there && has_slash(name)).then_some(NO_INTERPRETER)
        }
        (Doing::Starting, Errno::ACCESS) if !has_slash(name) => Some(DENIED_IN_PATH),
        (Doing::Starting, Errno::ACCESS) => {
            let is_directory = look_at(directory, name, true).is_ok_and(|file| {
                FileType::from_raw_mode(file.stx_mode.into()) == FileType::Directory
            });
            is_directory.then_some(NO_FILE)
        }
        (Doing::Opening, Errno::PERM) => {
            look_at(directory, name, true).ok().and_then(|file| attribute(&file))
        }
        // unlink(2), rename(2) and link(2) act on a link, not on its target.
        (Doing::Making | Doing::Removing, Errno::PERM) => {
            let look = |name, follows| look_at(directory, name, follows).ok();
            let of_file = look(name, false).and_then(|file| attribute(&file));
            let of_directory = || look(parent(name), true).and_then(|found| of_directory(&found));
            of_file.or_else(of_directory)
        }
        _ => None,
    };
    found.or_else(|| remedy(doing, errno))
}

/// A program's name without a slash is looked for in PATH.
fn has_slash(name: &Path) -> bool {
    name.as_os_str().as_encoded_bytes().contains(&b'/')
}

fn parent(name: &Path) -> &Path {
    match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

type Attribute = (StatxAttributes, &'static str);

fn first_set(found: &Statx, attributes: &[Attribute]) -> Option<&'static str> {
    let set = |(attribute, _): &&Attribute| found.stx_attributes.contains(*attribute);
    attributes.iter().find(set).map(|(_, remedy)| *remedy)
}

/// The attribute against which even root cannot write a file.
fn attribute(file: &Statx) -> Option<&'static str> {
    first_set(
        file,
        &[
            (StatxAttributes::IMMUTABLE, "the file is immutable: chattr -i removes this attribute"),
            (StatxAttributes::APPEND, "the file is append-only: chattr -a removes this attribute"),
        ],
    )
}

fn of_directory(directory: &Statx) -> Option<&'static str> {
    first_set(
        directory,
        &[
            (
                StatxAttributes::IMMUTABLE,
                "its directory is immutable: chattr -i removes this attribute",
            ),
            (
                StatxAttributes::APPEND,
                "its directory is append-only: chattr -a removes this attribute",
            ),
        ],
    )
}

/// A name in a directory, with the attributes of chattr(1) (statx(2)).
fn look_at(directory: BorrowedFd<'_>, name: &Path, follows: bool) -> io::Result<Statx> {
    let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    io::retry_on_intr(|| fs::statx(directory, name, flags, StatxFlags::BASIC_STATS))
}

/// Is no inode of the directory's file system free, though it counts them? (statfs(2); btrfs
/// returns 0 of 0.)
fn lacks_inodes(directory: BorrowedFd<'_>, name: &Path) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = io::retry_on_intr(|| fs::openat(directory, name, flags, Mode::empty()))?;
    let found = io::retry_on_intr(|| fs::fstatfs(&fd))?;
    Ok(found.f_files > 0 && found.f_ffree == 0)
}

/// The remedy for a name that cannot be made because its directory is missing.
///
/// ```
/// use std::path::Path;
/// let remedy = gush_text::mkdir_remedy(Path::new("my backup"));
/// assert_eq!(remedy, "mkdir -p 'my backup' makes the directory");
/// ```
#[must_use]
pub fn mkdir_remedy(directory: &Path) -> String {
    format!("mkdir -p {} makes the directory", quote::always(directory))
}

/// The remedy `mkdir -p`, if the directory is missing in which `path` is, or to which it links.
///
/// ```
/// use std::path::Path;
/// assert_eq!(gush_text::missing_directory(Path::new("file")), None);
/// let remedy = gush_text::missing_directory(Path::new("/no/such/file"));
/// assert_eq!(remedy.unwrap(), "mkdir -p '/no/such' makes the directory");
/// ```
#[must_use]
pub fn missing_directory(path: &Path) -> Option<String> {
    let path = followed(path);
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    // mkdir(1) does not make the directory to which a link leads.
    let directory = followed(directory);
    directory.symlink_metadata().is_err().then(|| mkdir_remedy(&directory))
}

/// The name to which `path` leads if it is a symbolic link.
fn followed(path: &Path) -> Cow<'_, Path> {
    let mut path = Cow::Borrowed(path);
    // As many as the kernel follows (path_resolution(7)).
    for _ in 0..40 {
        let Ok(target) = path.read_link() else { break };
        path = path.with_file_name(target).into();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_path_that_is_denied_may_be_missing() {
        let remedy = |name| remedy_at(fs::CWD, name, Doing::Starting, Errno::ACCESS);
        assert!(remedy("no-such").expect("of PATH").contains("a directory of PATH"));
        assert!(remedy("./no-such").expect("of a file").contains("chmod +x"));
    }

    #[test]
    fn every_row_is_reached() {
        for (at, (doings, errno, words)) in TABLE.iter().enumerate() {
            let own = words.or_else(|| gush::hint_for(Side::Target, *errno));
            let own = own.unwrap_or_else(|| panic!("row {at}: the engine has no remedy"));
            let is_reached = |doing: &Doing| remedy(*doing, *errno) == Some(own);
            assert!(doings.iter().any(is_reached), "row {at}: {own}");
            assert!(!own.ends_with('.') && !own.starts_with(char::is_uppercase), "{own}");
        }
    }

    #[test]
    fn every_errno_that_commands_meet_has_a_remedy() {
        for (doing, errno) in [
            (Doing::Making, Errno::NOSPC),
            (Doing::Opening, Errno::DQUOT),
            (Doing::Making, Errno::DQUOT),
            (Doing::Opening, Errno::TXTBSY),
            (Doing::Starting, Errno::TXTBSY),
            (Doing::Starting, Errno::NOEXEC),
            (Doing::Starting, Errno::NOENT),
            (Doing::Starting, Errno::ACCESS),
            (Doing::Listening, Errno::ADDRINUSE),
            (Doing::Connecting, Errno::CONNREFUSED),
            (Doing::Connecting, Errno::HOSTUNREACH),
        ] {
            assert!(remedy(doing, errno).is_some(), "{doing:?} {errno:?}");
        }
        for doing in Doing::ALL {
            for errno in [Errno::MFILE, Errno::NFILE, Errno::ROFS, Errno::NAMETOOLONG, Errno::LOOP]
            {
                assert!(remedy(doing, errno).is_some(), "{doing:?} {errno:?}");
            }
        }
        assert_eq!(remedy(Doing::Other, Errno::NOSPC), None);
        assert_eq!(remedy(Doing::Connecting, Errno::NOENT), None);
    }

    #[test]
    fn attributes_of_a_file_and_of_its_directory_have_remedies() {
        let here = rustix::fs::CWD;
        let mut found = look_at(here, Path::new("."), true).expect("a directory");
        found.stx_attributes = StatxAttributes::empty();
        assert_eq!((attribute(&found), of_directory(&found)), (None, None));
        found.stx_attributes = StatxAttributes::APPEND;
        assert!(attribute(&found).expect("append-only").contains("chattr -a"));
        found.stx_attributes = StatxAttributes::APPEND | StatxAttributes::IMMUTABLE;
        assert!(of_directory(&found).expect("immutable").contains("its directory is immutable"));
    }
}
