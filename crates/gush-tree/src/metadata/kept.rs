//! The attributes of what stays because its content is unchanged: compared, and set where they
//! differ.
//!
//! The time of access alone is no difference: whoever reads a file changes it. Extended attributes
//! that the source lacks stay, as in a copy over the file; a capability does not, since a write
//! would take it as well.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;
use rustix::thread::{CapabilitySet, capabilities};

use super::{Handle, Ownership, SPECIAL_BITS, Transfer};
use crate::error::Error;
use crate::events::Events;
use crate::file::pin;
use crate::job::{Entry, Job};
use crate::options::{CopyOptions, Dereference, Label, ModeRule, Xattrs};
use crate::overwriting::has_same_time;
use crate::place::{kind, proc_path, same_file};
use crate::xattr::{self, Attributes, Holder};

const OWNER_MAY_WRITE: u32 = 0o200;
const SET_GROUP: u32 = 0o2000;

/// What the target lacks of the attributes that are asked for and can be had.
#[derive(Debug, PartialEq, Eq)]
struct Differences {
    times: bool,
    owner: bool,
    label: bool,
    /// Those to be set; an error if the source's could not be listed.
    xattrs: io::Result<Vec<CString>>,
    /// The source's program has no such privileges.
    excess_capability: bool,
    /// The permission bits, if these or the access control list differ.
    mode: Option<u32>,
}

impl Differences {
    fn is_none(&self) -> bool {
        let has_xattrs = self.xattrs.as_ref().is_ok_and(Vec::is_empty);
        let any = self.times || self.owner || self.label || self.excess_capability;
        !any && has_xattrs && self.mode.is_none()
    }
}

/// What became of the attributes of a target that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// Nothing that is required is missing.
    pub is_complete: bool,
    /// The target's attributes are not those that it had.
    pub has_changed: bool,
}

impl Transfer<'_> {
    /// Has the target all attributes that are asked for and can be had?
    pub(crate) fn is_up_to_date(&self, there: &Stat) -> bool {
        self.differences(there).is_none()
    }

    /// Sets what differs, and touches nothing else.
    pub(crate) fn bring_up_to_date(&self, there: &Stat, events: &mut dyn Events) -> Updated {
        let before = self.differences(there);
        if before.is_none() {
            return Updated { is_complete: true, has_changed: false };
        }
        let is_lent = self.lends_writing(&before, there);
        let is_complete = match before.owner {
            // All that a chown(2) may take is set after it.
            true => self.apply(events),
            false => self.apply_some(&before, events),
        };
        let sets_mode = self.options.preserve.mode == ModeRule::Keep;
        if is_lent && !(sets_mode && (before.owner || before.mode.is_some())) {
            let kept = if before.owner { !SPECIAL_BITS } else { !0 };
            let _ = self.target.set_mode(there.st_mode & kept);
        }
        let Ok(now) = self.target.stat() else { return Updated { is_complete, has_changed: true } };
        let after = self.differences(&now);
        let narrowed = there.st_mode & self.source_stat.st_mode & 0o700;
        if before.owner && after.owner && after.mode.is_some() && now.st_mode & 0o7777 == narrowed {
            // For a new owner that it did not get.
            let _ = self.target.set_mode(there.st_mode);
        }
        Updated { is_complete, has_changed: after != before }
    }

    fn apply_some(&self, differences: &Differences, events: &mut dyn Events) -> bool {
        if differences.times && !self.keep_times(events) {
            return false;
        }
        let mut complete = !differences.label || self.keep_label(events);
        complete &= self.keep_xattrs(Some(differences.xattrs.clone()), events);
        if differences.excess_capability
            && let Err(errno) = self.target.holder().remove(xattr::CAPABILITIES)
        {
            events.warns(&self.failed("removing attribute 'security.capability' of {}", errno));
            complete &= self.options.preserve.xattrs != Xattrs::Require;
        }
        if let Some(bits) = differences.mode {
            complete &= self.keep_final_mode(bits, true, events);
        }
        complete
    }

    /// Lets this user write attributes to a file without write permission for its owner.
    fn lends_writing(&self, differences: &Differences, there: &Stat) -> bool {
        let has_xattrs = differences.xattrs.as_ref().is_ok_and(|names| !names.is_empty());
        has_xattrs
            && !self.target.is_link()
            && there.st_mode & OWNER_MAY_WRITE == 0
            && !process::geteuid().is_root()
            && self.target.set_mode(there.st_mode | OWNER_MAY_WRITE).is_ok()
    }

    fn differences(&self, there: &Stat) -> Differences {
        let Self { options, source, source_stat, target, .. } = *self;
        let (target, is_link) = (&target.holder(), target.is_link());
        Sides { options, source, source_stat, target, is_link }.differences(there)
    }
}

/// What is compared.
struct Sides<'a> {
    options: &'a CopyOptions,
    source: &'a dyn Attributes,
    source_stat: &'a Stat,
    target: &'a Holder<'a>,
    /// The target is a symbolic link.
    is_link: bool,
}

impl Sides<'_> {
    fn differences(&self, there: &Stat) -> Differences {
        let preserve = &self.options.preserve;
        let (wanted, has) = (Ownership::of(self.source_stat), Ownership::of(there));
        let can_get = if preserve.owner { attainable(wanted, has) } else { has };
        let is_lost = preserve.owner && can_get != wanted;
        let mut bits = self.source_stat.st_mode & if is_lost { 0o777 } else { 0o7777 };
        // chmod(2) leaves it out without an error.
        if bits & SET_GROUP != 0 && !may_set_group_bit(can_get) {
            bits &= !SET_GROUP | there.st_mode;
        }
        let keeps_mode = preserve.mode == ModeRule::Keep && !self.is_link;
        let target = self.target;
        let (from, to) = match keeps_mode || preserve.xattrs != Xattrs::Leave {
            true => (self.source.list(), target.list()),
            false => (Ok(Vec::new()), Ok(Vec::new())),
        };
        let has = |names: &io::Result<Vec<CString>>, name: &CStr| {
            names.as_ref().is_ok_and(|names| names.iter().any(|own| own.as_c_str() == name))
        };
        let list_of = |holder: &dyn Attributes, names| {
            has(names, xattr::ACL).then(|| holder.get(xattr::ACL).ok()).flatten()
        };
        let has_mode = || {
            there.st_mode & 0o7777 == bits && list_of(self.source, &from) == list_of(target, &to)
        };
        Differences {
            times: preserve.times && !has_same_time(self.options, there, self.source_stat),
            owner: can_get != Ownership::of(there),
            label: self.label_differs(target),
            mode: (keeps_mode && !has_mode()).then_some(bits),
            excess_capability: preserve.xattrs != Xattrs::Leave
                && kind(there) == FileType::RegularFile
                && has(&to, xattr::CAPABILITIES)
                && !has(&from, xattr::CAPABILITIES)
                && self.is_to_be_set(xattr::CAPABILITIES),
            xattrs: self.xattrs_to_set(from, &to, target),
        }
    }

    /// A user is to know what `Require` names and cannot be had.
    fn is_to_be_set(&self, name: &CStr) -> bool {
        self.options.preserve.xattrs == Xattrs::Require || may_set(name)
    }

    fn xattrs_to_set(
        &self,
        from: io::Result<Vec<CString>>,
        to: &io::Result<Vec<CString>>,
        target: &Holder<'_>,
    ) -> io::Result<Vec<CString>> {
        let preserve = &self.options.preserve;
        let is_absent =
            |names: &io::Result<Vec<_>>| matches!(names, Err(errno) if xattr::is_absence(*errno));
        let is_lost_in_silence = preserve.xattrs != Xattrs::Require && is_absent(to);
        if preserve.xattrs == Xattrs::Leave || is_absent(&from) || is_lost_in_silence {
            return Ok(Vec::new());
        }
        let with_label = preserve.label == Label::Leave;
        let differs = |name: &CString| match (self.source.get(name), target.get(name)) {
            (Ok(source), Ok(target)) => source != target,
            // Removed after the listing.
            (Err(Errno::NODATA), _) => false,
            _ => true,
        };
        let mut names = from?;
        let is_asked_for =
            |name: &CStr| xattr::is_copied(name, with_label) && self.is_to_be_set(name);
        names.retain(|name| is_asked_for(name) && differs(name));
        Ok(names)
    }

    fn label_differs(&self, target: &Holder<'_>) -> bool {
        let effort = self.options.preserve.label;
        effort != Label::Leave
            && match (self.source.get(xattr::LABEL), target.get(xattr::LABEL)) {
                (Ok(source), target) => target.as_ref() != Ok(&source),
                // The failure is reported.
                (Err(_), _) => effort == Label::Require,
            }
    }
}

impl Job<'_> {
    /// Brings a target that stays up to date, on stable storage where that is promised.
    pub(crate) fn bring_up_to_date(
        &self,
        existing: &Stat,
        events: &mut dyn Events,
    ) -> Result<Updated, Error> {
        self.with_kept(existing, |transfer, there| {
            let updated = transfer.bring_up_to_date(there, events);
            if updated.has_changed && self.options().sync {
                self.sync_kept(transfer.target, kind(there))?;
            }
            Ok(updated)
        })?
    }

    /// Syncs a file that is held by `O_PATH`: with all its file system, where it cannot be opened
    /// or has no storage of its own.
    fn sync_kept(&self, target: Handle<'_>, kind: FileType) -> Result<(), Error> {
        let (Handle::Pinned { fd, .. } | Handle::Open(fd)) = target;
        let path = proc_path(fd);
        let opened = [OFlags::RDONLY, OFlags::WRONLY].into_iter().find_map(|access| {
            let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let is_stored = matches!(kind, FileType::RegularFile | FileType::Directory);
            is_stored.then(|| fs::open(&path, flags, Mode::empty()).ok()).flatten()
        });
        let place = &self.target.place;
        let synced = match opened {
            Some(file) => retry_on_intr(|| fs::fsync(&file)),
            None => place.open_parent().and_then(|dir| retry_on_intr(|| fs::syncfs(&dir))),
        };
        synced.map_err(|errno| Error::os(place.shown, "cannot sync {}", errno))
    }

    /// Has a target that is unchanged other attributes than the source?
    pub(crate) fn lacks_attributes(&self, existing: &Stat) -> Result<bool, Error> {
        match self.options().updates_attributes() {
            true if self.is_in_tree() && kind(existing) != FileType::Symlink => {
                Ok(self.differ_by_name(existing))
            }
            true => self.with_kept(existing, |transfer, there| !transfer.is_up_to_date(there)),
            false => Ok(false),
        }
    }

    /// Compares without opening a file: the directories are held, and another file that takes one
    /// of the names is not written to.
    fn differ_by_name(&self, existing: &Stat) -> bool {
        let [source, target] = [self.source.place, self.target.place]
            .map(|place| Holder::Named(Path::new(&proc_path(place.dir)).join(place.name)));
        let (options, source_stat, is_link) = (self.options(), self.source.stat, false);
        let sides = Sides { options, source: &source, source_stat, target: &target, is_link };
        !sides.differences(existing).is_none()
    }

    /// Holds the source, and the target that stays, to compare or set attributes.
    pub(crate) fn with_kept<T>(
        &self,
        existing: &Stat,
        act: impl FnOnce(&Transfer<'_>, &Stat) -> T,
    ) -> Result<T, Error> {
        let Entry { place: source, stat: source_stat, .. } = self.source;
        let target = self.target.place;
        let follow = self.options().dereference != Dereference::Never;
        let follows_target = !self.looks_at_link() && kind(existing) != FileType::Symlink;
        let replaced = "{} was replaced while its attributes were compared";
        let (source_fd, _) = pin(source, follow, replaced, |found| same_file(found, source_stat))?;
        let (target_fd, there) =
            pin(target, follows_target, replaced, |found| same_file(found, existing))?;
        let is_link = kind(source_stat) == FileType::Symlink;
        let [source_held, target_held] =
            [&source_fd, &target_fd].map(|fd| Handle::Pinned { fd: fd.as_fd(), is_link });
        let attributes = source_held.holder();
        let transfer = Transfer::between(
            self.options(),
            (&attributes, source_stat, source.shown),
            (target_held, &there, target.shown),
            false,
        );
        Ok(act(&transfer, &there))
    }
}

fn has_capability(needed: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn is_member(group: u32) -> bool {
    process::getegid().as_raw() == group
        || process::getgroups().is_ok_and(|groups| groups.iter().any(|own| own.as_raw() == group))
}

/// Can this process give a file of such an owner the set-group-ID bit?
fn may_set_group_bit(owner: Ownership) -> bool {
    is_member(owner.group) || has_capability(CapabilitySet::FSETID)
}

/// Can this process set or remove such an attribute, as far as privileges decide?
fn may_set(name: &CStr) -> bool {
    match name {
        name if name == xattr::CAPABILITIES => has_capability(CapabilitySet::SETFCAP),
        name if name == xattr::LABEL || !name.to_bytes().starts_with(b"security.") => true,
        _ => has_capability(CapabilitySet::SYS_ADMIN),
    }
}

/// The owner that this process can give a file: another user only with the privilege, another group
/// to its own file if it is a member.
fn attainable(wanted: Ownership, has: Ownership) -> Ownership {
    let is_privileged = || process::geteuid().is_root() || has_capability(CapabilitySet::CHOWN);
    if wanted == has || is_privileged() {
        return wanted;
    }
    match process::geteuid().as_raw() == has.user && is_member(wanted.group) {
        true => Ownership { group: wanted.group, ..has },
        false => has,
    }
}
