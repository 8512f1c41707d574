//! Permissions of new files, and owners, set by descriptor: the name may have become a link.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::unistd::{Group, User};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fstat, open};
use rustix::io::Errno;

use super::error::OpenError;
use crate::address::{Opt, OptionSet};

/// The permissions and owners that `mode=`, `user=` and `group=` name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Permissions {
    mode: Option<u32>,
    user: Option<Uid>,
    group: Option<Gid>,
}

impl Permissions {
    /// Those of a FIFO or a socket, which are `default` less `umask=` without `mode=`. Looks up the
    /// names of the user and the group.
    pub fn of(options: &OptionSet, default: u32) -> Result<Self, OpenError> {
        let reduced = || Some(default & !options.mode(Opt::Umask)?);
        let mode = options.mode(Opt::Mode).or_else(reduced);
        Ok(Self { mode, ..Self::owners(options)? })
    }

    /// Those of a file or FIFO. The umask reduces `mode=`: that of the process, or `umask=`.
    pub fn of_file(options: &OptionSet) -> Result<Self, OpenError> {
        let mode = options.mode(Opt::Umask).map(|umask| file_mode(options) & !umask);
        Ok(Self { mode, ..Self::owners(options)? })
    }

    fn owners(options: &OptionSet) -> Result<Self, OpenError> {
        let number = |name| user("user", name).map(Uid::from_raw);
        let user = options.text(Opt::User).map(number).transpose()?;
        let number = |name| group("group", name).map(Gid::from_raw);
        let group = options.text(Opt::Group).map(number).transpose()?;
        Ok(Self { mode: None, user, group })
    }

    pub fn mode(&self) -> Option<u32> {
        self.mode
    }

    /// Are there any?
    pub fn are_named(&self) -> bool {
        self.mode.is_some() || self.name_an_owner()
    }

    fn name_an_owner(&self) -> bool {
        self.user.is_some() || self.group.is_some()
    }

    /// Sets those of `path`, whose mode was reduced by the umask.
    pub fn give(&self, path: &Path, kind: FileType) -> Result<(), OpenError> {
        if !self.are_named() {
            return Ok(());
        }
        // O_PATH opens a device or FIFO without any effect on it.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(refused)?;
        match fstat(&fd).map_err(refused)?.st_mode {
            mode if FileType::from_raw_mode(mode) != kind => Err(refused(Errno::EXIST)),
            _ => self.give_open(&fd).map_err(refused),
        }
    }

    /// Sets those of a file that was just made.
    pub fn give_new(&self, fd: &impl AsFd) -> Result<(), OpenError> {
        self.give_open(fd).map_err(refused)
    }

    /// Gives an open file to the owner that is named, if it has another one.
    pub fn give_away(&self, fd: &impl AsFd) -> Result<(), OpenError> {
        self.change_owner(fd).map_err(refused)
    }

    fn change_owner(&self, fd: &impl AsFd) -> Result<(), Errno> {
        if !self.name_an_owner() {
            return Ok(());
        }
        let found = fstat(fd)?;
        let is_theirs = self.user.is_none_or(|user| user.as_raw() == found.st_uid)
            && self.group.is_none_or(|group| group.as_raw() == found.st_gid);
        match is_theirs {
            true => Ok(()),
            false => chownat(fd, c"", self.user, self.group, AtFlags::EMPTY_PATH),
        }
    }

    fn give_open(&self, fd: &impl AsFd) -> Result<(), Errno> {
        // Owner before mode: chown(2) clears the set-user-ID bits.
        self.change_owner(fd)?;
        let found = fstat(fd)?.st_mode & 0o7777;
        match self.mode {
            Some(mode) if mode != found => {
                // fchmod(2) refuses O_PATH. This name is exactly the open file (proc_pid_fd(5)).
                let ours = gush_text::fd_path(fd.as_fd().as_raw_fd());
                chmodat(CWD, ours, Mode::from_raw_mode(mode), AtFlags::empty())
            }
            _ => Ok(()),
        }
    }
}

/// The mode that a new file gets, before the umask.
pub(super) fn file_mode(options: &OptionSet) -> u32 {
    options.mode(Opt::Mode).unwrap_or(0o666)
}

fn refused(errno: Errno) -> OpenError {
    let error = OpenError::new("set mode and owner", errno);
    match errno {
        Errno::PERM => error.hinted(
            "giving files to another user takes root (CAP_CHOWN); to a group, being one of its members",
        ),
        Errno::EXIST => error.hinted("another process has replaced it"),
        _ => error,
    }
}

/// The number of the user that `option` names.
pub(super) fn user(option: &str, name: &str) -> Result<u32, OpenError> {
    number("user", option, name, || {
        User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()))
    })
}

/// The number of the group that `option` names.
pub(super) fn group(option: &str, name: &str) -> Result<u32, OpenError> {
    number("group", option, name, || {
        Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()))
    })
}

/// The number of a user or group: `found` by its name, or written as digits.
fn number(
    what: &str,
    option: &str,
    name: &str,
    found: impl FnOnce() -> nix::Result<Option<u32>>,
) -> Result<u32, OpenError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let step = format!("look up {option}={name}");
    match found() {
        Ok(Some(number)) => Ok(number),
        Ok(None) => Err(OpenError::said(step, format!("there is no {what} of this name"))),
        Err(errno) => Err(OpenError::new(step, io::Error::from(errno))),
    }
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
        let permissions = Permissions { mode: Some(0o666), ..Permissions::default() };
        let error = permissions.give(&link, FileType::Fifo).expect_err("a link");
        assert_eq!((error.errno(), mode()), (Some(libc::EEXIST), 0o600));
        permissions.give(&fifo, FileType::Fifo).expect("a FIFO");
        assert_eq!(mode(), 0o666);
    }
}
