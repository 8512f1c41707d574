//! Unix sockets and links to pseudo-terminals with a name only once they are ready.
//!
//! A socket is bound under a hidden name beside the wanted one, and renamed after listen(2). A client that
//! finds the name finds a server. If several servers start at once, none takes the name from another that
//! already listens.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gush::Doing;
use gush_process::start_of_name;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, open, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::connect::socket;
use super::error::OpenError;
use super::holder;
use super::permissions::Permissions;

/// A socket or link under a hidden name, which is removed on drop.
pub(super) struct Hidden {
    path: PathBuf,
}

/// The parts of a hidden name before and behind the wanted name.
const HIDDEN: (&str, &str) = (".", ".gush-");

/// So much of the wanted name is in the hidden one: with the numbers of a process it is shorter than the longest name of a socket behind
/// `/proc/self/fd/N/`.
const MOST_BYTES: usize = 48;

/// The hidden name up to the numbers. A fingerprint takes the place of the bytes that a longer name has: /proc/net/unix shows a socket
/// under its hidden name, by which its holder is found.
fn hidden_start(wanted: &OsStr) -> OsString {
    let mut start = OsString::from(HIDDEN.0);
    if wanted.len() <= MOST_BYTES {
        start.push(wanted);
    } else {
        let mut hasher = DefaultHasher::new();
        hasher.write(wanted.as_bytes());
        let fingerprint = format!("~{:016x}", hasher.finish());
        start.push(start_of_name(wanted.as_bytes(), MOST_BYTES - fingerprint.len()));
        start.push(fingerprint);
    }
    start.push(HIDDEN.1);
    start
}

impl Hidden {
    /// Binds `fd` beside `wanted`.
    pub fn bind(fd: &OwnedFd, wanted: &Path) -> Result<Self, OpenError> {
        Self::make("bind", wanted, |path| bind(fd, path))
    }

    /// Makes a symbolic link to `target` beside `wanted`.
    pub fn symlink(target: &Path, wanted: &Path) -> Result<Self, OpenError> {
        Self::make("make the link", wanted, |path| rustix::fs::symlink(target, path))
    }

    fn make(
        step: &str,
        wanted: &Path,
        make: impl Fn(&Path) -> Result<(), Errno>,
    ) -> Result<Self, OpenError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let mut name = hidden_start(wanted.file_name().unwrap_or_default());
            // The number of the process keeps servers apart that start at once, the count those of one process.
            name.push(format!("{}-{number}", std::process::id()));
            let path = wanted.with_file_name(name);
            match make(&path) {
                Ok(()) => return Ok(Self { path }),
                // The name was left behind by a killed process with our number.
                Err(Errno::ADDRINUSE | Errno::EXIST) => {}
                Err(Errno::NOENT) => {
                    let directory = wanted.parent().unwrap_or(wanted).display();
                    return Err(OpenError::new(step, Errno::NOENT)
                        .hinted(format!("make the directory {directory} first")));
                }
                Err(errno @ Errno::ACCESS) => {
                    return Err(OpenError::new(step, errno)
                        .hinted("the directory must be writable to this user"));
                }
                Err(errno) => {
                    return Err(OpenError::new(step, errno).hinted_by(gush::remedy_at(
                        CWD,
                        &path,
                        Doing::Making,
                        errno,
                    )));
                }
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the socket its mode, of which the umask withheld some, and its owner, before any client can connect.
    pub fn give(&self, permissions: &Permissions) -> Result<(), OpenError> {
        permissions.give(&self.path, FileType::Socket)
    }

    /// Publishes the name. `check` refuses a path whose present owner does not make room.
    pub fn publish(
        self,
        wanted: &Path,
        check: impl Fn(&Path) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let fail = |errno: Errno| OpenError::new("publish the name", errno);
        loop {
            // First without replacing: a check before the rename would be out of date by then.
            match self.rename(wanted, RenameFlags::NOREPLACE) {
                // Not every file system has RENAME_NOREPLACE. linkat(2) fails with EEXIST on all of them.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    match linkat(CWD, &self.path, CWD, wanted, AtFlags::empty()) {
                        Err(Errno::EXIST) => {}
                        // The hidden name, a second link to the socket now, is removed on drop.
                        answer => return answer.map_err(fail),
                    }
                }
                Err(Errno::EXIST) => {}
                answer => return answer.map_err(fail),
            }
            check(wanted)?;
            // An exchange, since a plain rename would destroy a server's name that came after the check.
            match self.rename(wanted, RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // The old name went meanwhile: the first way is free again.
                Err(Errno::NOENT) => continue,
                Err(Errno::INVAL | Errno::NOSYS) => {
                    // A file system without the exchange leaves this gap; nothing better is to be had.
                    return self.rename(wanted, RenameFlags::empty()).map_err(fail);
                }
                Err(errno) => return Err(fail(errno)),
            }
            // Another server may have taken the name since the check: it gets the name back.
            let Err(error) = check(&self.path) else { return Ok(()) };
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

/// Calls `call` with the address of a path of any length. `sun_path` has 108 bytes (unix(7)); a longer path
/// starts from the short name of the directory's descriptor.
fn with_address(
    path: &Path,
    call: impl FnOnce(&SocketAddrUnix) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if let Ok(address) = SocketAddrUnix::new(path) {
        return call(&address);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // O_PATH needs no right to read the directory, only to search it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    let mut short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    short.push(path.file_name().unwrap_or_default());
    call(&SocketAddrUnix::new(&short)?)
}

/// Refuses a path that is a directory's: what is made there needs a name.
///
/// # Errors
/// [`OpenError`], with the remedy.
pub(super) fn has_last_part(step: &str, path: &Path) -> Result<(), OpenError> {
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        let name = path.join("NAME");
        return Err(OpenError::new(step, Errno::ISDIR)
            .hinted(format!("write {} for a name in this directory", name.display())));
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(OpenError::new(step, Errno::NOTDIR)
            .hinted("with a slash at its end a name is a directory's: leave the slash out"));
    }
    Ok(())
}

/// Is the name free, or does it belong to a socket without a listener that `unlink` permits to replace?
pub(super) fn check(path: &Path, unlink: bool) -> Result<(), OpenError> {
    let in_use = || OpenError::new("bind", Errno::ADDRINUSE);
    has_last_part("bind", path)?;
    match path.symlink_metadata() {
        // Not followed if it is a link: the rename would replace the link, not what it leads to.
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(in_use()
                .passing(false)
                .hinted("a file that is no socket has this name; choose another name"));
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
        // The owner removed the name between the two questions.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => {
            Err(in_use().hinted(format!("cannot find out whether a server answers there: {errno}")))
        }
    }
}

/// Does any process have the socket of this name?
///
/// A datagram socket that connects is refused because of the stream socket's type (EPROTOTYPE), or because no
/// process has the socket (ECONNREFUSED): unix_find_bsd in net/unix/af_unix.c. The server does not notice. A
/// probe by a stream socket would be a client, and perhaps the only one that the server accepts.
fn is_served(path: &Path) -> Result<bool, Errno> {
    let probe = socket(AddressFamily::UNIX, SocketType::DGRAM)?;
    match with_address(path, |address| rustix::net::connect(&probe, address)) {
        Ok(()) | Err(Errno::PROTOTYPE) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Is `bound` the name, or the hidden name, of the socket at `path`?
pub(super) fn is_bound_for(path: &Path, bound: &Path) -> bool {
    if bound == path {
        return true;
    }
    let (Some(name), Some(bound_name)) = (path.file_name(), bound.file_name()) else {
        return false;
    };
    let start = hidden_start(name);
    bound.parent() == path.parent()
        && bound_name.as_encoded_bytes().starts_with(start.as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_long_name_is_cut() {
        for ascii_bytes in 0..4 {
            let name = "n".repeat(ascii_bytes) + &"\u{1f600}".repeat(20);
            let hidden = hidden_start(name.as_ref());
            assert!(hidden.to_str().is_some(), "{hidden:?}");
        }
    }

    #[test]
    fn a_socket_is_held_by_the_process_of_its_own_name() {
        for len in [1, MOST_BYTES, MOST_BYTES + 1, 107, 255] {
            let [one, other] =
                ["a", "b"].map(|last| PathBuf::from(format!("d/{}{last}", "n".repeat(len - 1))));
            let mut bound = hidden_start(one.file_name().unwrap());
            bound.push("1-0");
            let bound = Path::new("d").join(bound);
            assert!(is_bound_for(&one, &bound) && !is_bound_for(&other, &bound), "{len}");
        }
    }
}
