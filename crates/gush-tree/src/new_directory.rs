//! A directory made for a copy: closed to others until complete, and writable for this process
//! meanwhile.

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::error::Error;
use crate::metadata::Handle;
use crate::options::{ModeRule, Preserve};
use crate::place::{Place, stat_of};
use crate::remedy;
use crate::tree::held::Held;

/// The open flags for a directory: with O_PATH a directory may be held without the right to read.
pub(crate) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory just made.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    pub(crate) held: Held,
    pub(crate) stat: Stat,
    /// The final mode, if the directory was made with another one.
    pub(crate) restore_bits: Option<u32>,
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
) -> Result<NewDirectory, Error> {
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
    if made_bits & 0o700 != 0o700 {
        held.handle()
            .set_mode(made_bits | 0o700)
            .map_err(|errno| Error::os(place.shown, "setting permissions for {}", errno))?;
    }
    let wanted = if withheld == 0 { made_bits } else { made_bits | (withheld & !umask()) };
    let restore_bits = (wanted != made_bits || made_bits & 0o700 != 0o700).then_some(wanted);
    Ok(NewDirectory { held, stat, restore_bits })
}

/// Gives a directory its final mode, [`NewDirectory::restore_bits`], unless its mode is preserved.
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
