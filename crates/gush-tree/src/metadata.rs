//! Metadata in GNU's order: times, owner, extended attributes, access control list and mode.
//!
//! Writing an attribute needs the old mode, and changing the owner clears set-id bits and
//! capabilities. The mode that opens the file to others must come last, when all else is right.

pub(crate) mod kept;

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::events::Events;
use crate::options::{CopyOptions, Label, ModeRule, Preserve, Xattrs};
use crate::place::{Place, kind, proc_path};
use crate::xattr::{self, Attributes, Holder};

/// Set-user-id, set-group-id and sticky. With another owner these bits are useless or dangerous.
const SPECIAL_BITS: u32 = 0o7000;

/// A file whose metadata is read or written.
#[derive(Clone, Copy)]
pub(crate) enum Handle<'a> {
    Open(BorrowedFd<'a>),
    /// A symbolic link, a special file or a directory, held by an `O_PATH` descriptor: another file
    /// may have its name by now.
    Pinned {
        fd: BorrowedFd<'a>,
        is_link: bool,
    },
}

impl<'a> Handle<'a> {
    pub(crate) fn holder(self) -> Holder<'a> {
        match self {
            Self::Open(fd) => Holder::Open(fd),
            Self::Pinned { fd, .. } => Holder::Pinned(proc_path(fd)),
        }
    }

    fn set_times(self, times: &Timestamps) -> io::Result<()> {
        retry_on_intr(|| match self {
            Self::Open(fd) => fs::futimens(fd, times),
            Self::Pinned { fd, .. } => match fs::utimensat(fd, c"", times, AtFlags::EMPTY_PATH) {
                // The flag came with Linux 5.8 (utimensat(2)).
                Err(Errno::INVAL) => fs::utimensat(CWD, proc_path(fd), times, AtFlags::empty()),
                done => done,
            },
        })
    }

    fn set_owner(self, user: Option<u32>, group: u32) -> io::Result<()> {
        let (user, group) = (user.map(Uid::from_raw), Some(Gid::from_raw(group)));
        retry_on_intr(|| match self {
            Self::Open(fd) => fs::fchown(fd, user, group),
            Self::Pinned { fd, .. } => fs::chownat(fd, c"", user, group, AtFlags::EMPTY_PATH),
        })
    }

    pub(crate) fn set_mode(self, bits: u32) -> io::Result<()> {
        let mode = Mode::from_bits_retain(bits & 0o7777);
        retry_on_intr(|| match self {
            Self::Open(fd) => fs::fchmod(fd, mode),
            // fchmod(2) refuses O_PATH, and fchmodat2(2) came only with Linux 6.6. Without /proc
            // there is no way, as in glibc's fchmodat.
            Self::Pinned { fd, .. } => {
                fs::chmod(proc_path(fd), mode).map_err(|errno| match errno {
                    Errno::NOENT => Errno::OPNOTSUPP,
                    errno => errno,
                })
            }
        })
    }

    fn stat(self) -> io::Result<Stat> {
        retry_on_intr(|| match self {
            Self::Open(fd) | Self::Pinned { fd, .. } => fs::fstat(fd),
        })
    }

    fn is_link(self) -> bool {
        matches!(self, Self::Pinned { is_link: true, .. })
    }
}

/// The user and the group that own a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    user: u32,
    group: u32,
}

impl Ownership {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { user: stat.st_uid, group: stat.st_gid }
    }
}

pub(crate) struct Transfer<'a> {
    pub(crate) options: &'a CopyOptions,
    pub(crate) source: &'a dyn Attributes,
    pub(crate) source_stat: &'a Stat,
    pub(crate) source_shown: &'a Path,
    pub(crate) target: Handle<'a>,
    pub(crate) target_shown: &'a Path,
    /// The target's owner at the time of opening, if known: an owner that is right already is not
    /// set.
    pub(crate) target_owner: Option<Ownership>,
    /// The mode of a target that was there before, if known.
    pub(crate) existing_mode: Option<u32>,
    pub(crate) created: bool,
    /// The directory of a new file may have given it an access control list.
    pub(crate) may_inherit_acl: bool,
    /// The mode of a directory that has it already: as it was there, or as it was made below its
    /// parent.
    pub(crate) directory_mode: Option<u32>,
    /// Permission bits lacking in the new file, or in excess, until the final mode is set.
    pub(crate) provisional_bits: u32,
}

/// The bits to create a file with, and the bits left for [`Transfer`] to correct.
pub(crate) fn creation_bits(preserve: &Preserve, source_bits: u32) -> (u32, u32) {
    let wanted = source_bits & 0o777;
    // Until the owner is right, the group is that of this process.
    let withheld = if preserve.owner { wanted & 0o077 } else { 0 };
    // Only a file with write permission for the owner takes extended attributes.
    let lent = match (preserve.xattrs, 0o200 & !wanted) {
        (Xattrs::Leave, _) | (_, 0) => 0,
        _ if process::geteuid().is_root() => 0,
        (_, lacking) => lacking,
    };
    ((wanted & !withheld) | lent, withheld | lent)
}

impl<'a> Transfer<'a> {
    /// With the looks of both sides. A target that was `created` has no mode of its own to keep.
    pub(crate) fn between(
        options: &'a CopyOptions,
        (source, source_stat, source_shown): (&'a dyn Attributes, &'a Stat, &'a Path),
        (target, there, target_shown): (Handle<'a>, &'a Stat, &'a Path),
        created: bool,
    ) -> Self {
        Self {
            options,
            source,
            source_stat,
            source_shown,
            target,
            target_shown,
            target_owner: Some(Ownership::of(there)),
            existing_mode: (!created && !target.is_link()).then_some(there.st_mode),
            created,
            may_inherit_acl: true,
            directory_mode: None,
            provisional_bits: 0,
        }
    }
}

impl Transfer<'_> {
    /// Applies all requested metadata; `false` when a required part failed.
    pub(crate) fn apply(&self, events: &mut dyn Events) -> bool {
        let preserve = &self.options.preserve;
        if preserve.times && !self.keep_times(events) {
            return false;
        }
        let mut bits = self.source_stat.st_mode & 0o7777;
        // chown(2) clears set-ID bits and capabilities even where nothing changes.
        if preserve.owner && !self.has_same_owner() {
            match self.keep_owner(events) {
                OwnerResult::Kept => {}
                // A set-user-ID program must not become one of another user.
                OwnerResult::Lost => bits &= !SPECIAL_BITS,
                OwnerResult::Failed => return false,
            }
        }
        let labelled = self.keep_label(events);
        let names = match preserve.xattrs {
            Xattrs::Leave => None,
            _ => Some(self.source.list()),
        };
        // Every file system that has such lists names them (`posix_acl_listxattr` of
        // `fs/posix_acl.c`).
        let is_acl = |name: &CString| name.as_c_str() == xattr::ACL;
        let may_have_acl = match &names {
            Some(Ok(names)) => names.iter().any(is_acl),
            _ => true,
        };
        let complete = labelled & self.keep_xattrs(names, events);
        complete & self.keep_final_mode(bits, may_have_acl, events)
    }

    fn keep_times(&self, events: &mut dyn Events) -> bool {
        let Err(errno) = self.target.set_times(&times_of(self.source_stat)) else { return true };
        events.warns(&self.failed("preserving times for {}", errno));
        !self.options.preserve.required
    }

    fn keep_final_mode(&self, bits: u32, may_have_acl: bool, events: &mut dyn Events) -> bool {
        if self.target.is_link() {
            return true;
        }
        let Err(errno) = self.set_final_mode(bits, may_have_acl) else { return true };
        events.warns(&self.failed("preserving permissions for {}", errno));
        let preserve = &self.options.preserve;
        !preserve.required && preserve.mode != ModeRule::Fresh
    }

    fn failed(&self, what: &'static str, errno: Errno) -> Error {
        Error::os(self.target_shown, what, errno)
    }

    fn has_same_owner(&self) -> bool {
        self.target_owner == Some(Ownership::of(self.source_stat))
    }

    fn keep_owner(&self, events: &mut dyn Events) -> OwnerResult {
        let preserve = &self.options.preserve;
        let give_up = |required| if required { OwnerResult::Failed } else { OwnerResult::Lost };
        if let (ModeRule::Keep, Some(mode)) = (preserve.mode, self.existing_mode) {
            // The new owner must not meet the old, perhaps too generous, permissions.
            let both = mode & self.source_stat.st_mode & 0o700;
            if let Err(errno) = self.target.set_mode(both) {
                if errno != Errno::PERM || process::geteuid().is_root() {
                    events.warns(&self.failed("clearing permissions for {}", errno));
                }
                return give_up(preserve.required);
            }
        }
        match set_owner(self.target, self.source_stat) {
            Ok(true) => OwnerResult::Kept,
            Ok(false) => OwnerResult::Lost,
            Err(errno) => {
                events.warns(&self.failed("failed to preserve ownership for {}", errno));
                give_up(preserve.required)
            }
        }
    }

    fn keep_xattrs(
        &self,
        names: Option<io::Result<Vec<CString>>>,
        events: &mut dyn Events,
    ) -> bool {
        let effort = self.options.preserve.xattrs;
        let Some(names) = names else { return true };
        let with_label = self.options.preserve.label == Label::Leave;
        let lost = xattr::copy_listed(names, self.source, &self.target.holder(), with_label);
        for lost in &lost {
            let silent = match effort {
                Xattrs::Leave | Xattrs::Try => self.options.data,
                Xattrs::Warn => self.options.data && xattr::is_absence(lost.errno),
                Xattrs::Require => false,
            };
            if !silent {
                events.warns(&self.lost_xattr(lost));
            }
        }
        lost.is_empty() || effort != Xattrs::Require
    }

    fn lost_xattr(&self, lost: &xattr::Lost) -> Error {
        let path = if lost.on_source { self.source_shown } else { self.target_shown };
        let what = match &lost.name {
            Some(name) => format!("setting attribute '{}' for {{}}", name.to_string_lossy()),
            None => "listing attributes of {}".into(),
        };
        Error::os(path, what, lost.errno)
    }

    fn keep_label(&self, events: &mut dyn Events) -> bool {
        let effort = self.options.preserve.label;
        if effort == Label::Leave {
            return true;
        }
        let label = self.source.get(xattr::LABEL);
        match label.and_then(|label| self.target.holder().set(xattr::LABEL, &label)) {
            Ok(()) => true,
            Err(_) if effort == Label::Try => true,
            Err(errno) => {
                events.warns(&self.failed("failed to set the security context of {}", errno));
                false
            }
        }
    }

    fn set_final_mode(&self, bits: u32, may_have_acl: bool) -> io::Result<()> {
        match self.options.preserve.mode {
            ModeRule::Keep => self.keep_mode(bits, may_have_acl),
            ModeRule::Fresh if self.created => {
                let all = match kind(self.source_stat) {
                    FileType::Directory | FileType::Socket => 0o777,
                    _ => 0o666,
                };
                let bits = self.with_own_special(all & !umask());
                self.drop_acl(bits)?;
                self.target.set_mode(bits)
            }
            _ if self.provisional_bits == 0 => Ok(()),
            // The umask may withhold all bits withheld on purpose, but a lent bit must go.
            _ => self.target.set_mode(self.source_stat.st_mode & 0o777 & !umask()),
        }
    }

    /// As GNU cp, whose access list of three entries leaves the special bits of a directory that is
    /// to have none: those that it had, the sticky bit that it was made with, and the set-group-ID
    /// bit of a parent that hands on its group.
    fn with_own_special(&self, bits: u32) -> u32 {
        match self.directory_mode {
            Some(mode) if bits & SPECIAL_BITS == 0 => bits | (mode & SPECIAL_BITS),
            _ => bits,
        }
    }

    fn keep_mode(&self, bits: u32, may_have_acl: bool) -> io::Result<()> {
        let bits = self.with_own_special(bits);
        if may_have_acl {
            self.keep_access_list(bits)?;
        } else {
            self.drop_acl(bits)?;
        }
        // That list is for files to come: without it the directory itself grants what it should.
        let for_files = match kind(self.source_stat) {
            FileType::Directory => self.keep_default_list(),
            _ => Ok(()),
        };
        self.target.set_mode(bits)?;
        for_files
    }

    /// A directory's default list, which a new directory may have got from its parent.
    fn keep_default_list(&self) -> io::Result<()> {
        let target = self.target.holder();
        match self.source.get(xattr::DEFAULT_ACL) {
            Ok(list) => target.set(xattr::DEFAULT_ACL, &list),
            Err(errno) if xattr::is_absence(errno) => match target.remove(xattr::DEFAULT_ACL) {
                Err(errno) if !xattr::is_absence(errno) => Err(errno),
                _ => Ok(()),
            },
            Err(errno) => Err(errno),
        }
    }

    fn keep_access_list(&self, bits: u32) -> io::Result<()> {
        match self.source.get(xattr::ACL) {
            Ok(acl) => {
                if let Err(errno) = self.target.holder().set(xattr::ACL, &acl) {
                    // The mode's group bits are the list's mask. Without the list they would grant
                    // the group rights that the list may deny.
                    let group = xattr::group_bits(&acl).unwrap_or(0) << 3;
                    self.target.set_mode(bits & (!0o070 | group))?;
                    return Err(errno);
                }
            }
            Err(errno) if xattr::is_absence(errno) => self.drop_acl(bits)?,
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    fn drop_acl(&self, bits: u32) -> io::Result<()> {
        match self.created && !self.may_inherit_acl {
            true => Ok(()),
            false => drop_acl(&self.target.holder(), bits),
        }
    }
}

/// What became of the owner.
enum OwnerResult {
    Kept,
    /// Impossible for this user, which is no error.
    Lost,
    Failed,
}

/// Sets user and group. `false` when only root may set the user; the group alone is tried then.
fn set_owner(target: Handle<'_>, wanted: &Stat) -> io::Result<bool> {
    match target.set_owner(Some(wanted.st_uid), wanted.st_gid) {
        Ok(()) => Ok(true),
        // EINVAL: the user namespace does not map the owner.
        Err(Errno::PERM | Errno::INVAL) if !process::geteuid().is_root() => {
            // As GNU: the group alone may be permitted, to one of its members.
            let _ = target.set_owner(None, wanted.st_gid);
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

/// Removes an access control list, such as a directory's default list may have given a new file. As
/// GNU, by a list of the mode's bits: a list that is only removed leaves its mask to the group.
fn drop_acl(holder: &Holder<'_>, bits: u32) -> io::Result<()> {
    match holder.set(xattr::ACL, &xattr::list_of_bits(bits)) {
        Err(errno) if !xattr::is_absence(errno) => Err(errno),
        _ => Ok(()),
    }
}

/// The bits that the kernel clears in a file that this user writes to (`file_remove_privs` of
/// fs/inode.c). Writes by root leave them.
fn bits_lost_by_writing(bits: u32) -> u32 {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    const GROUP_MAY_EXECUTE: u32 = 0o010;
    match (process::geteuid().is_root(), bits & GROUP_MAY_EXECUTE) {
        (true, _) => 0,
        (false, 0) => SET_USER,
        (false, _) => SET_USER | SET_GROUP,
    }
}

/// Gives a file that will replace another one the owner, attributes and mode of the other.
///
/// Only the data and the preserved metadata shall change, as with a copy into the existing file.
pub(crate) fn inherit(new: BorrowedFd<'_>, old: &Place<'_>, old_stat: &Stat) -> Result<(), Error> {
    inherit_all(new, old, old_stat)
        .map_err(|errno| Error::os(old.shown, "cannot keep the permissions of the old {}", errno))
}

fn inherit_all(new: BorrowedFd<'_>, old: &Place<'_>, old_stat: &Stat) -> io::Result<()> {
    let target = Handle::Open(new);
    let new_stat = target.stat()?;
    let same_owner = (old_stat.st_uid, old_stat.st_gid) == (new_stat.st_uid, new_stat.st_gid);
    let kept = same_owner || set_owner(target, old_stat)?;
    let bits = old_stat.st_mode & if kept { 0o7777 } else { 0o777 };
    // An unreadable file's attributes cannot be copied.
    if let Ok(old) = old.open_regular(fs::OFlags::RDONLY, Mode::empty()) {
        use std::os::fd::AsFd as _;
        let (from, to) = (Holder::Open(old.as_fd()), target.holder());
        xattr::copy_to_new_content(&from, &to);
        if let Ok(acl) = from.get(xattr::ACL) {
            to.set(xattr::ACL, &acl)?;
        } else {
            drop_acl(&to, bits)?;
        }
    }
    target.set_mode(bits & !bits_lost_by_writing(bits))
}

pub(crate) fn times_of(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    }
}

/// The umask of this thread, read from proc(5) (since Linux 4.7). umask(2) answers only by setting
/// a new mask, which for a moment gives files that other threads create the wrong mode.
pub(crate) fn umask() -> u32 {
    // Without an answer, grant no permission that the umask could withhold.
    const STRICTEST: u32 = 0o077;
    let status = std::fs::read("/proc/thread-self/status").unwrap_or_default();
    // The program may have been called by a name that is not UTF-8, and the name is there too.
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(STRICTEST)
}
