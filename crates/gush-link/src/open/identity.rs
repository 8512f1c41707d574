//! Programs of another user, and this process as another one: `run-as=`, `setuid=`, `setgid=` and
//! `chroot=`.
//!
//! One process serves all clients, so it can change once, as soon as an address is open that is
//! opened once (`Roles::of`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::OnceLock;

use gush_process::Identity;
use nix::unistd::{Uid, User, getgrouplist};
use rustix::io::Errno;

use super::error::OpenError;
use super::permissions::{group, user};
use crate::address::{Opt, OptionSet};

const STEP: &str = "become another user";

/// The user that this process has become: programs get its variables.
static ASSUMED: OnceLock<User> = OnceLock::new();

/// Does this process become another one by these options, or its programs?
pub(crate) fn is_changed(options: &OptionSet) -> bool {
    crate::address::options::IDENTITY.iter().any(|&option| options.has(option))
}

/// Does this process lose the rights by which it was started, or the files that it saw?
pub(crate) fn changes_user(options: &OptionSet) -> bool {
    [Opt::RunAs, Opt::SetUser, Opt::Chroot].iter().any(|&option| options.has(option))
}

/// Changes this process, if the options say so.
pub(super) fn assume(options: &OptionSet) -> Result<(), OpenError> {
    if !is_changed(options) {
        return Ok(());
    }
    let (identity, user) = named(options)?;
    gush_process::assume(&identity).map_err(refused)?;
    if let Some(user) = user {
        // Of several the first.
        let _ = ASSUMED.set(user);
    }
    Ok(())
}

/// Starts the program as the options say.
pub(super) fn set(command: &mut Command, options: &OptionSet) -> Result<(), OpenError> {
    let (identity, user) = named(options)?;
    if let Some(user) = user.as_ref().or(ASSUMED.get()) {
        command.env("USER", &user.name).env("LOGNAME", &user.name);
        command.env("HOME", &user.dir).env("SHELL", &user.shell);
    }
    // First, because the error of spawn(3) does not say what is missing.
    if let Some(root) = options.path(Opt::Chroot)
        && let Err(error) = std::fs::metadata(root)
    {
        return Err(OpenError::new(format!("change the root to {}", root.display()), error));
    }
    if is_changed(options) {
        gush_process::with_identity(command, identity);
    }
    Ok(())
}

/// The numbers of what the options name, and the user of `run-as=`.
pub(super) fn named(options: &OptionSet) -> Result<(Identity, Option<User>), OpenError> {
    let mut identity = Identity {
        root: options
            .path(Opt::Chroot)
            .map(|path| CString::new(path.as_bytes()))
            .transpose()
            .map_err(|_| OpenError::said(STEP, "a path holds no zero byte"))?,
        groups: None,
        group: options.text(Opt::SetGroup).map(|name| group("setgid", name)).transpose()?,
        user: options.text(Opt::SetUser).map(|name| user("setuid", name)).transpose()?,
    };
    let Some(name) = options.text(Opt::RunAs) else { return Ok((identity, None)) };
    let number = user("run-as", name)?;
    let found = User::from_uid(Uid::from_raw(number)).map_err(|errno| refused(as_errno(errno)))?;
    let found = found.ok_or_else(|| {
        OpenError::said(STEP, format!("there is no user {name}"))
            .hinted("a number without a name is for setuid=")
    })?;
    let groups = CString::new(found.name.as_bytes())
        .map_err(|_| nix::Error::EINVAL)
        .and_then(|name| getgrouplist(&name, found.gid))
        .map_err(|errno| refused(as_errno(errno)))?;
    identity.groups = Some(groups.iter().map(|group| group.as_raw()).collect());
    identity.group = identity.group.or(Some(found.gid.as_raw()));
    identity.user = Some(number);
    Ok((identity, Some(found)))
}

fn as_errno(errno: nix::Error) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

fn refused(errno: Errno) -> OpenError {
    let error = OpenError::new(STEP, errno).passing(false);
    match errno {
        Errno::PERM => error.hinted("this takes root"),
        _ => error,
    }
}
