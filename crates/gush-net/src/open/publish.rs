//! Unix sockets that have their name only once they listen.
//!
//! A socket is bound under a hidden name beside the wanted one, and renamed when it listens. Whoever finds the name
//! finds a server, and of several starts at once none takes the name from another that listens already.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, open, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::connect::socket;
use super::error::OpenError;
use super::{holder, mode};

/// A socket that is bound under a hidden name, which is removed when this is dropped.
pub(super) struct Hidden {
    path: PathBuf,
}

/// What stands before and behind the wanted name in a hidden one.
const HIDDEN: (&str, &str) = (".", ".gush-");

impl Hidden {
    /// Binds `fd` beside `wanted`.
    pub fn bind(fd: &OwnedFd, wanted: &Path) -> Result<Self, OpenError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let mut name = OsString::from(HIDDEN.0);
            name.push(wanted.file_name().unwrap_or_default());
            name.push(format!("{}{}-{number}", HIDDEN.1, std::process::id()));
            let path = wanted.with_file_name(name);
            match bind(fd, &path) {
                Ok(()) => return Ok(Self { path }),
                // Left behind by a process that had our number and was killed.
                Err(Errno::ADDRINUSE) => {}
                Err(Errno::NOENT) => {
                    let directory = wanted.parent().unwrap_or(wanted).display();
                    return Err(OpenError::new("bind", Errno::NOENT)
                        .hinted(format!("make the directory {directory} first")));
                }
                Err(errno @ (Errno::ACCESS | Errno::ROFS)) => {
                    return Err(OpenError::new("bind", errno)
                        .hinted("the directory must be writable to this user"));
                }
                Err(errno) => return Err(OpenError::new("bind", errno)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives back what the umask took from the mode, before anybody can connect.
    pub fn widen(&self, mode: u32) -> io::Result<()> {
        mode::widen(&self.path, FileType::Socket, mode)
    }

    /// Gives the socket, which listens now, its name; a socket that nobody listens on makes room if `unlink` says so.
    pub fn publish(self, wanted: &Path, unlink: bool) -> Result<(), OpenError> {
        let fail = |errno: Errno| OpenError::new("give the socket its name", errno);
        loop {
            match self.rename(wanted, RenameFlags::NOREPLACE) {
                // Not every file system has the flag; a second name is refused like that everywhere.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    match linkat(CWD, &self.path, CWD, wanted, AtFlags::empty()) {
                        Err(Errno::EXIST) => {}
                        answer => return answer.map_err(fail),
                    }
                }
                Err(Errno::EXIST) => {}
                answer => return answer.map_err(fail),
            }
            check(wanted, unlink)?;
            match self.rename(wanted, RenameFlags::EXCHANGE) {
                Ok(()) => {}
                Err(Errno::NOENT) => continue,
                Err(Errno::INVAL | Errno::NOSYS) => {
                    return self.rename(wanted, RenameFlags::empty()).map_err(fail);
                }
                Err(errno) => return Err(fail(errno)),
            }
            // Another start may have taken the name since it was looked at: it gets the name back.
            let Err(error) = check(&self.path, true) else { return Ok(()) };
            self.rename(wanted, RenameFlags::EXCHANGE).map_err(fail)?;
            return Err(error);
        }
    }

    fn rename(&self, wanted: &Path, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(CWD, &self.path, CWD, wanted, flags)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // After a rename nothing is there, or the dead socket that made room.
        let _ = unlinkat(CWD, &self.path, AtFlags::empty());
    }
}

fn bind(fd: &OwnedFd, path: &Path) -> Result<(), Errno> {
    with_address(path, |address| rustix::net::bind(fd, address))
}

/// Calls `call` with the address of a path of any length: `sun_path` has 108 bytes (unix(7)), and a directory's
/// descriptor has a short name.
fn with_address(
    path: &Path,
    call: impl FnOnce(&SocketAddrUnix) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if let Ok(address) = SocketAddrUnix::new(path) {
        return call(&address);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    let mut short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    short.push(path.file_name().unwrap_or_default());
    call(&SocketAddrUnix::new(&short)?)
}

/// May `path` be had: is nothing there, or a socket that nobody listens on and that `unlink` gives up?
pub(super) fn check(path: &Path, unlink: bool) -> Result<(), OpenError> {
    let in_use = || OpenError::new("bind", Errno::ADDRINUSE);
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(in_use()
                .passing(false)
                .hinted("something that is no socket has this name; choose another"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::new("bind", error)),
    }
    match is_served(path) {
        Ok(true) => {
            let hint = format!("a live server answers there: {}", holder::of_unix_socket(path));
            Err(in_use().hinted(hint))
        }
        Ok(false) if unlink => Ok(()),
        Ok(false) => {
            Err(in_use().hinted("nobody listens there any more: remove the file, or say unlink"))
        }
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => {
            Err(in_use().hinted(format!("whether a server answers there is not known: {errno}")))
        }
    }
}

/// Has a process the socket of this name?
///
/// A datagram socket that connects is refused by the type of a stream socket (EPROTOTYPE), or because nobody has
/// the socket (ECONNREFUSED): unix_find_bsd in net/unix/af_unix.c. A server sees nothing of that; a stream's
/// connection would be its client, and the only one of a server that takes one.
fn is_served(path: &Path) -> Result<bool, Errno> {
    let probe = socket(AddressFamily::UNIX, SocketType::DGRAM)?;
    match with_address(path, |address| rustix::net::connect(&probe, address)) {
        Ok(()) | Err(Errno::PROTOTYPE) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Is `bound` the name, or the hidden name, of a socket that is to be found at `path`?
pub(super) fn is_bound_for(path: &Path, bound: &Path) -> bool {
    if bound == path {
        return true;
    }
    let (Some(name), Some(bound_name)) = (path.file_name(), bound.file_name()) else {
        return false;
    };
    let mut start = OsString::from(HIDDEN.0);
    start.push(name);
    start.push(HIDDEN.1);
    bound.parent() == path.parent()
        && bound_name.as_encoded_bytes().starts_with(start.as_encoded_bytes())
}
