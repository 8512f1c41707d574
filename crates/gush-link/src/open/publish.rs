//! Names of Unix sockets, and of links to pseudo-terminals, appear only once these are ready.
//!
//! A socket is bound under a hidden name in the same directory, and renamed after listen(2): a
//! client that finds the name finds a server. Of several servers that start at once, none takes the
//! name of one that already listens.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gush_process::start_of_name;
use gush_text::Doing;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, open, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::connect::socket;
use super::error::{OpenError, Step};
use super::holder;
use super::permissions::Permissions;

/// A socket or link under a hidden name, which is removed on drop.
pub(super) struct Hidden {
    path: PathBuf,
}

/// The parts of a hidden name before and after the wanted name.
const HIDDEN: (&str, &str) = (".", ".gush-");

/// The most bytes of the wanted name in the hidden one, so that it fits `sun_path` after
/// `/proc/self/fd/N/`.
const MAX_BYTES: usize = 48;

/// The hidden name up to the numbers, with a fingerprint of a longer name: /proc/net/unix shows the
/// hidden name, by which the socket's holder is found.
fn hidden_start(wanted: &OsStr) -> OsString {
    let mut start = OsString::from(HIDDEN.0);
    if wanted.len() <= MAX_BYTES {
        start.push(wanted);
    } else {
        let mut hasher = DefaultHasher::new();
        hasher.write(wanted.as_bytes());
        let fingerprint = format!("~{:016x}", hasher.finish());
        start.push(start_of_name(wanted.as_bytes(), MAX_BYTES - fingerprint.len()));
        start.push(fingerprint);
    }
    start.push(HIDDEN.1);
    start
}

impl Hidden {
    /// Binds `fd` in the directory of `wanted`.
    pub fn bind(fd: &OwnedFd, wanted: &Path) -> Result<Self, OpenError> {
        Self::make("bind", wanted, |path| bind(fd, path))
    }

    /// Makes a symbolic link to `target` in the directory of `wanted`.
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
            name.push(format!("{}-{number}", std::process::id()));
            let path = wanted.with_file_name(name);
            match make(&path) {
                Ok(()) => return Ok(Self { path }),
                // Left by a killed process with our number.
                Err(Errno::ADDRINUSE | Errno::EXIST) => {}
                Err(Errno::NOENT) => {
                    let hint = gush_text::missing_directory(wanted);
                    return Err(OpenError::new(step, Errno::NOENT).hinted_by(hint.as_deref()));
                }
                Err(errno @ Errno::ACCESS) => {
                    return Err(OpenError::new(step, errno)
                        .hinted("the directory must be writable to this user"));
                }
                Err(errno) => {
                    return Err(OpenError::new(step, errno).hinted_by(gush_text::remedy_at(
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

    /// Sets the socket's mode and owner, before any client can connect.
    pub fn give(&self, permissions: &Permissions) -> Result<(), OpenError> {
        permissions.give(&self.path, FileType::Socket)
    }

    /// Publishes the name. `check` refuses a path whose owner must not be replaced.
    pub fn publish(
        self,
        wanted: &Path,
        check: impl Fn(&Path) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        loop {
            // First without replacing: a check before the rename would be racy.
            match self.rename(wanted, RenameFlags::NOREPLACE) {
                // Not every file system has RENAME_NOREPLACE. linkat(2) fails with EEXIST on all of
                // them.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    match linkat(CWD, &self.path, CWD, wanted, AtFlags::empty()) {
                        Err(Errno::EXIST) => {}
                        // The hidden name, a second link to the socket now, is removed on drop.
                        answer => return answer.step("publish the name"),
                    }
                }
                Err(Errno::EXIST) => {}
                answer => return answer.step("publish the name"),
            }
            check(wanted)?;
            // A plain rename would destroy the name of a server that came after the check.
            match self.rename(wanted, RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // The old name is gone: try without replacing again.
                Err(Errno::NOENT) => continue,
                Err(Errno::INVAL | Errno::NOSYS) => {
                    // Without the exchange this race remains.
                    return self.rename(wanted, RenameFlags::empty()).step("publish the name");
                }
                Err(errno) => return Err(OpenError::new("publish the name", errno)),
            }
            // Another server may have taken the name since the check: it gets the name back.
            let Err(error) = check(&self.path) else { return Ok(()) };
            self.rename(wanted, RenameFlags::EXCHANGE).step("publish the name")?;
            return Err(error);
        }
    }

    fn rename(&self, wanted: &Path, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(CWD, &self.path, CWD, wanted, flags)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // After a rename it is missing, or the replaced dead socket.
        let _ = unlinkat(CWD, &self.path, AtFlags::empty());
    }
}

/// Connects to the socket of packets at `path`. Later calls do not wait.
pub(crate) fn connect_packets(path: &Path) -> Result<OwnedFd, Errno> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    with_address(path, |address| rustix::net::connect(&socket, address))?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

fn bind(fd: &OwnedFd, path: &Path) -> Result<(), Errno> {
    with_address(path, |address| rustix::net::bind(fd, address))
}

/// Calls `call` with the address of a path of any length: one that does not fit `sun_path`
/// (unix(7)) is relative to the directory's descriptor.
fn with_address(
    path: &Path,
    call: impl FnOnce(&SocketAddrUnix) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if let Ok(address) = SocketAddrUnix::new(path) {
        return call(&address);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // O_PATH requires no permission to read the directory.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    let mut short = PathBuf::from(gush_text::fd_path(directory.as_raw_fd()));
    short.push(path.file_name().unwrap_or_default());
    call(&SocketAddrUnix::new(&short)?)
}

/// The pattern with random letters and digits in the place of each `X` at its end, as for
/// mkstemp(3).
pub(super) fn with_random_end(pattern: &str) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let start = pattern.trim_end_matches('X');
    let mut name = start.to_owned();
    // Each state has keys of its own.
    let mut number = RandomState::new().hash_one(pattern);
    for _ in start.len()..pattern.len() {
        let letters = LETTERS.len() as u64;
        name.push(LETTERS[(number % letters) as usize].into());
        number /= letters;
    }
    name
}

/// Refuses the path of a directory.
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

/// Refuses a name that exists, unless it is a socket without a listener and `unlink` permits to
/// replace it.
pub(super) fn check(path: &Path, unlink: bool) -> Result<(), OpenError> {
    let in_use = || OpenError::new("bind", Errno::ADDRINUSE);
    has_last_part("bind", path)?;
    match path.symlink_metadata() {
        // Links are not followed: the rename would replace the link.
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(in_use()
                .passing(false)
                .hinted("a file that is not a socket has this name; choose another name"));
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
        Ok(false) => Err(in_use().hinted("it has no listener: remove the file, or use unlink")),
        // The owner has removed the name meanwhile.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => {
            Err(in_use().hinted(format!("cannot find out whether a server answers there: {errno}")))
        }
    }
}

/// Does any process have the socket of this name? A datagram socket that connects is refused
/// because of its type (EPROTOTYPE), or because no process has the socket (ECONNREFUSED):
/// unix_find_bsd in net/unix/af_unix.c. A stream socket would be a client, perhaps the only one
/// that the server accepts.
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
        for len in [1, MAX_BYTES, MAX_BYTES + 1, 107, 255] {
            let [one, other] =
                ["a", "b"].map(|last| PathBuf::from(format!("d/{}{last}", "n".repeat(len - 1))));
            let mut bound = hidden_start(one.file_name().unwrap());
            bound.push("1-0");
            let bound = Path::new("d").join(bound);
            assert!(is_bound_for(&one, &bound) && !is_bound_for(&other, &bound), "{len}");
        }
    }
}
