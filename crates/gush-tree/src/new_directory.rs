//! A directory of the target of a copy. One that is made is closed to others until complete, and
//! writable for this process meanwhile.

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

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

    /// Lets the owner list and change a directory that was there, until it is complete: an earlier
    /// copy may have completed it, or was killed before it had lent the bits.
    pub(crate) fn lend_bits(mut self, place: &Place<'_>) -> Result<Self, Error> {
        let bits = self.stat.st_mode & 0o7777;
        lend_bits(&self.held, bits, place)?;
        if bits & 0o700 != 0o700 && self.restore_bits.is_none() {
            self.restore_bits = Some(bits);
        }
        Ok(self)
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
    let asked = Mode::from_bits_retain(bits & !withheld);
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
    lend_bits(&held, made_bits, place)?;
    let wanted = if withheld == 0 { made_bits } else { made_bits | (withheld & !umask()) };
    let restore_bits = (wanted != made_bits || made_bits & 0o700 != 0o700).then_some(wanted);
    Ok(Entered { is_new: true, restore_bits, ..Entered::found(held, stat, false) })
}

fn lend_bits(held: &Held, bits: u32, place: &Place<'_>) -> Result<(), Error> {
    if bits & 0o700 == 0o700 {
        return Ok(());
    }
    held.handle()
        .set_mode(bits | 0o700)
        .map_err(|errno| Error::os(place.shown, "setting permissions for {}", errno))
}

/// Gives a directory its final mode, [`Entered::restore_bits`], unless its mode is preserved.
pub(crate) fn restore(
    target: Handle<'_>,
    mode: ModeRule,
    bits: Option<u32>,
) -> rustix::io::Result<()> {
    match bits.filter(|_| mode != ModeRule::Keep) {
        Some(bits) => target.set_mode(bits),
        None => Ok(()),
    }
}
