//! Permissions of what was made, given by descriptor: a name may have become a link to somebody else's file.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, fstat, open};
use rustix::io::Errno;

/// Gives `path` the permissions `mode`, which the umask has taken from at its making.
///
/// # Errors
/// `EEXIST` where `path` is no `kind` any more; what the calls answer.
pub(super) fn widen(path: &Path, kind: FileType, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty())?;
    let found = fstat(&fd)?.st_mode;
    if FileType::from_raw_mode(found) != kind {
        return Err(Errno::EXIST.into());
    }
    if found & 0o7777 == mode {
        return Ok(());
    }
    // fchmod(2) refuses O_PATH; this name leads to the very file that is open (proc_pid_fd(5)).
    let ours = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(chmodat(CWD, ours, Mode::from_raw_mode(mode), AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_link_points_to_keeps_its_permissions() {
        let dir = tempfile::tempdir().expect("a directory");
        let (fifo, link) = (dir.path().join("fifo"), dir.path().join("link"));
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .expect("a FIFO");
        std::os::unix::fs::symlink(&fifo, &link).expect("a link");
        let mode = || fifo.metadata().expect("it is there").permissions().mode() & 0o777;
        let error = widen(&link, FileType::Fifo, 0o666).expect_err("a link");
        assert_eq!((error.raw_os_error(), mode()), (Some(libc::EEXIST), 0o600));
        widen(&fifo, FileType::Fifo, 0o666).expect("a FIFO");
        assert_eq!(mode(), 0o666);
    }
}
