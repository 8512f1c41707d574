//! A directory of the target of a copy. One that is made is closed to others until complete, and
//! writable for this process meanwhile.

use std::os::fd::AsFd;

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::metadata::Handle;
use crate::options::{ModeRule, Preserve};
use crate::place::{Place, stat_of};
use crate::tree::held::Held;
use crate::{rehearsal, remedy};

/// The open flags for a directory: with O_PATH a directory may be held without the right to read.
pub(crate) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory of the target, open.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) held: Held,
    pub(crate) stat: Stat,
    /// It was made, or would be.
    pub(crate) is_new: bool,
    /// A symbolic link led there.
    pub(crate) is_link: bool,
    /// A dry run made nothing.
    pub(crate) is_imagined: bool,
    /// The final mode, if the directory was made with another one.
    pub(crate) restore_bits: Option<u32>,
}

impl Entered {
    /// A directory that is there.
    pub(crate) fn find(place: &Place<'_>, follow: bool) -> Result<Self, Error> {
        let (held, stat) = Held::find(place, follow)?;
        Ok(Self::found(held, stat, follow))
    }

    fn found(held: Held, stat: Stat, is_link: bool) -> Self {
        Self { held, stat, is_new: false, is_link, is_imagined: false, restore_bits: None }
    }

    /// Lets its owner list and change a directory that was there, if no other right does. The copy
    /// sets the mode at the end. Where the mode cannot be changed, what is lacking shows below.
    pub(crate) fn lend_bits(&self) {
        if lacks_owner_bits(&self.stat) && !rehearsal::may_change(self.held.as_fd()) {
            let _ = lend_bits(&self.held, self.stat.st_mode & 0o7777);
        }
    }

    /// A directory that a dry run does not make, and in the place of whose attributes are those of
    /// another one. `asks` whether it could be made.
    pub(crate) fn imagine(place: &Place<'_>, stat: Stat, asks: bool) -> Result<Self, Error> {
        if asks {
            rehearsal::may_be_made(place)
                .map_err(|errno| remedy::directory_not_made(place, errno))?;
        }
        let held =
            Held::nowhere().map_err(|errno| Error::os(place.shown, "cannot look at {}", errno))?;
        Ok(Self { is_new: true, is_imagined: true, ..Self::found(held, stat, false) })
    }
}

/// The permissions of `source_bits` that others get only when the directory is complete.
pub(crate) fn withheld_bits(preserve: &Preserve, source_bits: u32) -> u32 {
    source_bits & if preserve.owner { 0o077 } else { 0o022 }
}

/// Makes one directory with `bits` less `withheld`.
pub(crate) fn make(
    place: &Place<'_>,
    bits: u32,
    withheld: u32,
    umask: impl FnOnce() -> u32,
) -> Result<Entered, Error> {
    // With the owner's bits at once: after a kill nothing shows that they are still to come.
    let lent = 0o700 & !bits;
    let asked = Mode::from_bits_retain((bits | lent) & !withheld);
    retry_on_intr(|| fs::mkdirat(place.dir, place.name, asked))
        .map_err(|errno| remedy::directory_not_made(place, errno))?;
    // Do not follow a link that took the directory's name.
    let held = Held::open(place, false).map_err(|errno| {
        // A caller that can spare a descriptor tries again.
        if let Errno::MFILE | Errno::NFILE = errno {
            let _ = fs::unlinkat(place.dir, place.name, AtFlags::REMOVEDIR);
        }
        Error::os(place.shown, "cannot open the new directory {}", errno)
    })?;
    let stat = stat_of(&held, place.shown)?;
    let made_bits = stat.st_mode & 0o7777;
    // A umask or a default access control list may deny them.
    lend_bits(&held, made_bits)
        .map_err(|errno| Error::os(place.shown, "setting permissions for {}", errno))?;
    let own_bits = made_bits & !lent;
    let wanted = if withheld == 0 { own_bits } else { own_bits | (withheld & !umask()) };
    let restore_bits = (wanted != made_bits || made_bits & 0o700 != 0o700).then_some(wanted);
    Ok(Entered { is_new: true, restore_bits, ..Entered::found(held, stat, false) })
}

/// Is it a directory of this user in which the user lacks a permission?
pub(crate) fn lacks_owner_bits(stat: &Stat) -> bool {
    stat.st_mode & 0o700 != 0o700 && stat.st_uid == process::geteuid().as_raw()
}

fn lend_bits(held: &Held, bits: u32) -> io::Result<()> {
    match bits & 0o700 {
        0o700 => Ok(()),
        _ => held.handle().set_mode(bits | 0o700),
    }
}

/// Gives a directory its final mode, [`Entered::restore_bits`], unless its mode is preserved.
pub(crate) fn restore(target: Handle<'_>, mode: ModeRule, bits: Option<u32>) -> io::Result<()> {
    match bits.filter(|_| mode != ModeRule::Keep) {
        Some(bits) => target.set_mode(bits),
        None => Ok(()),
    }
}
