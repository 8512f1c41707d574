//! Whose process it is, and which part of the file system it sees (credentials(7), chroot(2)).

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{self, Errno};

/// What a process becomes; it keeps what is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The new root directory, which becomes the working directory as well.
    pub root: Option<CString>,
    /// The supplementary groups.
    pub groups: Option<Vec<u32>>,
    /// The group: real, effective and saved.
    pub group: Option<u32>,
    /// The user: real, effective and saved.
    pub user: Option<u32>,
}

/// Makes this process, with all its threads, somebody else. What has been opened stays open.
///
/// # Errors
/// The error of the call that failed, `EPERM` for one that takes root; the calls before it have had
/// their effect.
pub fn assume(identity: &Identity) -> io::Result<()> {
    let Identity { root, groups, group, user } = identity;
    // The user last: after that nothing else may be changed.
    // By the C library, whose functions change all threads, where system calls change one.
    if let Some(root) = root {
        // SAFETY: both take a string that ends with a zero.
        checked(unsafe { libc::chroot(root.as_ptr()) })?;
        // SAFETY: as above.
        checked(unsafe { libc::chdir(c"/".as_ptr()) })?;
    }
    if let Some(groups) = groups {
        // SAFETY: the pointer is to as many groups as the length says.
        checked(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    }
    if let Some(group) = *group {
        // SAFETY: takes any number.
        checked(unsafe { libc::setgid(group) })?;
    }
    if let Some(user) = *user {
        // SAFETY: takes any number.
        checked(unsafe { libc::setuid(user) })?;
    }
    Ok(())
}

fn checked(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}

/// Starts a program as somebody else.
pub fn with_identity(command: &mut Command, identity: Identity) {
    let set = move || Ok(assume(&identity)?);
    // SAFETY: between fork and exec the child makes system calls alone. Nothing is allocated, not
    // even for an error, which is a number.
    unsafe { command.pre_exec(set) };
}
