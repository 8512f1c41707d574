//! Remedies for error numbers: the one table from which all commands take their words.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Statx, StatxAttributes};
use rustix::io::Errno;

use crate::port::Side;
use crate::sys;

/// The work at which the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doing {
    /// Taking bytes from the source of a move.
    Reading,
    /// Giving bytes to the target of a move.
    Writing,
    /// Opening a file that is there for writing.
    Opening,
    /// Giving a new name: to a file, directory, link, FIFO or socket.
    Making,
    /// Removing or renaming a name.
    Removing,
    /// Starting a program.
    Starting,
    /// Connecting a socket.
    Connecting,
    /// Giving a socket the address under which others reach it.
    Listening,
    /// Anything else.
    Other,
}

impl Doing {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Reading,
        Self::Writing,
        Self::Opening,
        Self::Making,
        Self::Removing,
        Self::Starting,
        Self::Connecting,
        Self::Listening,
        Self::Other,
    ];
}

/// A move takes from the source and gives to the target.
impl From<Side> for Doing {
    fn from(side: Side) -> Self {
        match side {
            Side::Source => Self::Reading,
            Side::Target => Self::Writing,
        }
    }
}

/// The work, the answer, and the remedy.
type Row = (&'static [Doing], Errno, &'static str);

const ANYTHING: &[Doing] = &Doing::ALL;
/// A call that may put bytes or a name on a file system.
const STORING: &[Doing] = &[Doing::Writing, Doing::Opening, Doing::Making];
const MOVING: &[Doing] = &[Doing::Reading, Doing::Writing];
/// The peer of a socket is not there.
const REACHING: &[Doing] = &[Doing::Reading, Doing::Writing, Doing::Connecting];

/// The first row that fits counts.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    (&[Doing::Writing, Doing::Opening], Errno::NOSPC, "the target is full: free some space on its file system, if it is a file"),
    (&[Doing::Making], Errno::NOSPC, "its file system has no space or no inodes left: `df` and `df -i` tell which; remove files"),
    (STORING, Errno::DQUOT, "the user's quota on the target is used up: remove files, or ask for more (`quota -s`)"),
    (&[Doing::Writing], Errno::FBIG, "the target's file system or the limit on file size (ulimit -f) allows no more"),
    (&[Doing::Reading], Errno::BADF, "open the source for reading"),
    (&[Doing::Writing], Errno::BADF, "open the target for writing"),
    (&[Doing::Reading], Errno::FAULT, "the source was truncated while it was being copied"),
    (&[Doing::Writing], Errno::FAULT, "the target was truncated while it was being written"),
    (&[Doing::Reading], Errno::MSGSIZE, "the next datagram is longer than what is left of the length, or than there is room for"),
    (&[Doing::Writing], Errno::MSGSIZE, "the target takes no datagram of that size; a smaller buffer makes smaller ones"),
    (MOVING, Errno::IO, "a file of /proc or /sys may not allow this; a device that fails is told of in the kernel's log"),

    (&[Doing::Opening], Errno::TXTBSY, "a program that runs cannot be written"),

    (&[Doing::Starting], Errno::NOENT, "there is no such file, or no such program in PATH"),
    (&[Doing::Starting], Errno::ACCESS, "the file is not executable: chmod +x, unless its file system is mounted noexec"),
    (&[Doing::Starting], Errno::NOEXEC, "the file is no program for this machine: it is of another architecture, or a script whose first line names no interpreter (#!/bin/sh)"),
    (&[Doing::Starting], Errno::TXTBSY, "the program's file is open for writing: wait until whoever writes it has closed it"),
    (&[Doing::Starting], Errno::TOOBIG, "the arguments and the environment are too long together: pass some by a file"),
    (&[Doing::Starting], Errno::AGAIN, "the limit on processes is reached: ulimit -u, or pids.max of the control group"),

    (&[Doing::Connecting], Errno::CONNREFUSED, "nobody listens there; start the server"),
    (MOVING, Errno::CONNREFUSED, "nobody receives at that port"),
    (REACHING, Errno::NETUNREACH, "this machine has no route there; check the network"),
    (REACHING, Errno::HOSTUNREACH, "the host is down, or a firewall refuses"),
    (&[Doing::Connecting], Errno::TIMEDOUT, "nothing answers: the host is down, or a firewall drops what is sent"),
    (MOVING, Errno::TIMEDOUT, "the peer no longer answers; is the network up?"),
    (MOVING, Errno::CONNRESET, "the peer broke the connection off: it failed, reached a limit, or closed without reading all"),
    (&[Doing::Writing], Errno::PIPE, "the peer reads no more"),
    (&[Doing::Listening], Errno::ADDRINUSE, "another program has this address; `ss -lpn` shows which"),
    (&[Doing::Listening], Errno::ACCESS, "ports below 1024 are for root, or CAP_NET_BIND_SERVICE; net.ipv4.ip_unprivileged_port_start says where others begin"),
    (&[Doing::Listening], Errno::ADDRNOTAVAIL, "this machine has no such address; `ip address` shows those it has"),
    (&[Doing::Connecting], Errno::ADDRNOTAVAIL, "all local ports are in use, or bind= names an address of another machine"),

    (ANYTHING, Errno::MFILE, "raise the limit on open files (ulimit -n)"),
    (ANYTHING, Errno::NFILE, "no program gets another open file: close some, or as root raise fs.file-max (sysctl)"),
    (ANYTHING, Errno::ROFS, "the file system is mounted read-only: mount -o remount,rw, or choose another place"),
    (ANYTHING, Errno::NAMETOOLONG, "a name has at most 255 bytes on most file systems, and a path 4095: choose a shorter one"),
    (ANYTHING, Errno::LOOP, "symbolic links lead in a circle, or are more than 40: `namei -l` shows them"),
];

/// No inodes: ENOSPC where space is left.
const NO_INODES: &str = "no inodes are left on its file system: remove files (`df -i` counts them)";
/// ENOENT of execve(2) for a file that is there.
const NO_INTERPRETER: &str =
    "the file is there, but not the interpreter that its first line names, or its loader";
/// EACCES of execve(2) for a directory.
const NO_FILE: &str = "it is a directory, and no program";

/// The remedy where the kernel answered `errno` to a program that was `doing` this, if there is one.
///
/// ```
/// use gush::{Doing, Errno};
/// let full = gush::remedy(Doing::Writing, Errno::NOSPC).unwrap();
/// assert!(full.contains("free some space"));
/// assert_eq!(gush::remedy(Doing::Reading, Errno::NOSPC), None);
/// assert!(gush::remedy(Doing::Other, Errno::MFILE).unwrap().contains("ulimit -n"));
/// ```
#[must_use]
pub fn remedy(doing: Doing, errno: Errno) -> Option<&'static str> {
    let fits = |row: &&Row| row.0.contains(&doing) && row.1 == errno;
    TABLE.iter().find(fits).map(|row| row.2)
}

/// As [`remedy`], of a call on the name `name` in `directory` (openat(2)). The file and its file system may tell more than the errno:
/// an attribute of chattr(1) is in the way, inodes are lacking and not space, an interpreter is missing and not the program, a program's name is that of a directory.
///
/// ```
/// use std::fs::File;
/// use gush::{Doing, Errno};
/// let root = File::open("/")?;
/// let missing = gush::remedy_at(&root, "bin/sh", Doing::Starting, Errno::NOENT);
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
            sys::file::lacks_inodes(directory, parent(name)).unwrap_or(false).then_some(NO_INODES)
        }
        (Doing::Starting, Errno::NOENT) => {
            let is_there = sys::file::look_at(directory, name, true).is_ok();
            (is_there && has_slash(name)).then_some(NO_INTERPRETER)
        }
        (Doing::Starting, Errno::ACCESS) => {
            let is_directory = sys::file::look_at(directory, name, true).is_ok_and(|file| {
                FileType::from_raw_mode(file.stx_mode.into()) == FileType::Directory
            });
            (is_directory && has_slash(name)).then_some(NO_FILE)
        }
        (Doing::Opening, Errno::PERM) => {
            sys::file::look_at(directory, name, true).ok().and_then(|file| attribute(&file))
        }
        // unlink(2), rename(2) and link(2) act on a link, not on the file behind it.
        (Doing::Making | Doing::Removing, Errno::PERM) => {
            let look = |name, follows| sys::file::look_at(directory, name, follows).ok();
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

fn told(found: &Statx, attributes: &[Attribute]) -> Option<&'static str> {
    let set = |(attribute, _): &&Attribute| found.stx_attributes.contains(*attribute);
    attributes.iter().find(set).map(|(_, remedy)| *remedy)
}

/// The attribute against which even root cannot write a file.
fn attribute(file: &Statx) -> Option<&'static str> {
    told(
        file,
        &[
            (StatxAttributes::IMMUTABLE, "the file is immutable: chattr -i removes this attribute"),
            (StatxAttributes::APPEND, "the file is append-only: chattr -a removes this attribute"),
        ],
    )
}

fn of_directory(directory: &Statx) -> Option<&'static str> {
    told(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_stands_behind_one_that_takes_its_place() {
        for (at, (doings, errno, words)) in TABLE.iter().enumerate() {
            let is_reached = |doing: &Doing| remedy(*doing, *errno) == Some(words);
            assert!(doings.iter().any(is_reached), "row {at}: {words}");
            assert!(!words.ends_with('.') && !words.starts_with(char::is_uppercase), "{words}");
        }
    }

    #[test]
    fn every_errno_that_commands_meet_has_a_remedy() {
        for (doing, errno) in [
            (Doing::Writing, Errno::NOSPC),
            (Doing::Making, Errno::NOSPC),
            (Doing::Writing, Errno::DQUOT),
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
        assert_eq!(remedy(Doing::Reading, Errno::NOSPC), None);
        assert_eq!(remedy(Doing::Connecting, Errno::NOENT), None);
    }

    #[test]
    fn a_file_and_its_directory_tell_their_attributes() {
        let here = rustix::fs::CWD;
        let mut found = sys::file::look_at(here, Path::new("."), true).expect("a directory");
        found.stx_attributes = StatxAttributes::empty();
        assert_eq!((attribute(&found), of_directory(&found)), (None, None));
        found.stx_attributes = StatxAttributes::APPEND;
        assert!(attribute(&found).expect("append-only").contains("chattr -a"));
        found.stx_attributes = StatxAttributes::APPEND | StatxAttributes::IMMUTABLE;
        assert!(of_directory(&found).expect("immutable").contains("its directory is immutable"));
    }
}
