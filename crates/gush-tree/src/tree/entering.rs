//! Entering a directory: both sides opened, the target made if missing.

use std::os::fd::AsFd;

use gush_text::quote;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::held::Held;
use super::journal::{Fingerprint, Journal};
use super::mirror;
use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::events::Events;
use crate::new_directory::{self, Entered};
use crate::options::{CopyOptions, Dereference, Make, ModeRule, Update};
use crate::place::{Place, kind, same_file};

/// A directory to be copied.
pub(crate) struct Entrance<'a> {
    pub(crate) options: &'a CopyOptions,
    pub(crate) source: Place<'a>,
    pub(crate) source_stat: &'a Stat,
    pub(crate) target: Place<'a>,
    /// The directory of the target was made by this command: the name is free.
    pub(crate) is_new: bool,
    /// Other ranks make directories, too.
    pub(crate) is_shared: bool,
    /// The journal, and the target in its words.
    pub(crate) made: Option<(&'a Journal, Fingerprint)>,
    /// Removes a file in the place of the directory, in a mirror.
    pub(crate) replace: Option<&'a dyn Fn() -> Result<(), Error>>,
}

/// What a directory's target is.
pub(crate) enum Existing {
    Nothing,
    /// A file that a mirror removes once the source is listed.
    InTheWay,
    /// A directory to copy into; a symbolic link may lead there.
    Directory {
        stat: Stat,
        is_link: bool,
    },
    /// The source, which the options leave as it is.
    Itself,
}

impl Entrance<'_> {
    /// Opens the source, and the target, which is made unless [`existing`](Self::existing) found a
    /// directory.
    pub(crate) fn enter(
        &self,
        existing: &Existing,
        umask: &dyn Fn() -> u32,
        events: &mut dyn Events,
    ) -> Result<(Held, Entered), Error> {
        let follow = self.options.dereference != Dereference::Never;
        let source = Held::find_same(&self.source, self.source_stat, follow)?;
        // Removed only once the source can be listed: nothing good goes for a directory that cannot
        // be read.
        if let (Existing::InTheWay, Some(replace)) = (existing, self.replace) {
            mirror::can_list(source.as_fd())
                .map_err(|errno| Error::os(self.source.shown, "cannot access {}", errno))?;
            replace()?;
        }
        if let Existing::Directory { stat, is_link } = existing {
            let found = Entered::find(&self.target, *is_link)?;
            // Judged by name, entered by descriptor: both must be the same directory.
            if !same_file(&found.stat, stat) {
                let text = "skipping file {}, as it was replaced while being copied to";
                return Err(Error::refusal(self.target.shown, text));
            }
            let restore_bits = self.restore_bits(&found.stat, umask);
            // Another rank may have made it, which is known only to the walk that comes last.
            let is_others = self.is_shared && self.options.preserve.mode == ModeRule::Keep;
            if self.made.is_some() && (restore_bits.is_some() || is_others) {
                found.lend_bits();
            }
            return Ok((source, Entered { restore_bits, ..found }));
        }
        if self.options.dry_run {
            let asks = matches!(existing, Existing::Nothing) && !self.is_new;
            let imagined = Entered::imagine(&self.target, *self.source_stat, asks)?;
            events.starts(self.source.shown, self.target.shown, None);
            return Ok((source, imagined));
        }
        // With a slash at the end of the name, a link would be followed.
        let target = Place { name: strip_trailing_slashes(self.target.name), ..self.target };
        let bits = self.source_stat.st_mode & 0o7777;
        let withheld = new_directory::withheld_bits(&self.options.preserve, bits);
        if let Some((journal, target)) = self.made {
            // Before it is made: after a kill in between the note is harmless, and a missing note
            // is not.
            journal.add_makes(target)?;
        }
        // All ranks need the directory before its attributes are final.
        let bits = if self.is_shared { bits | 0o700 } else { bits };
        let made = match new_directory::make(&target, bits, withheld, umask) {
            Err(error) if self.is_shared && error.is_about_existing() => {
                return self.enter(&self.existing()?, umask, events);
            }
            made => made?,
        };
        events.starts(self.source.shown, self.target.shown, None);
        Ok((source, made))
    }

    /// The final mode of a directory that an earlier copy made, and did not complete.
    fn restore_bits(&self, found: &Stat, umask: impl FnOnce() -> u32) -> Option<u32> {
        let (journal, target) = self.made?;
        if !journal.has_made(target) {
            return None;
        }
        let bits = self.source_stat.st_mode & 0o7777;
        let withheld = new_directory::withheld_bits(&self.options.preserve, bits);
        let lent = 0o700 & !bits;
        let made_bits = found.st_mode & 0o7777 & !lent;
        Some(if withheld == 0 { made_bits } else { made_bits | (withheld & !umask()) })
    }

    /// The directory at the target. Everything else there is an error.
    pub(crate) fn existing(&self) -> Result<Existing, Error> {
        let target = self.target;
        if self.is_new {
            return Ok(Existing::Nothing);
        }
        let Some(found) = target.find(false)? else { return Ok(Existing::Nothing) };
        let (stat, is_link) = match kind(&found) {
            FileType::Symlink if self.options.keep_directory_symlink => match target.stat(true) {
                Ok(end) if kind(&end) == FileType::Directory => (end, true),
                Err(Errno::XDEV) if target.bounds.is_some() => {
                    let text = "not entering {}: a symbolic link out of the target's tree";
                    return Err(
                        Error::refusal(target.shown, text).hinting("--no-confine follows it")
                    );
                }
                _ => (found, false),
            },
            _ => (found, false),
        };
        let (from, to) = (quote::always(self.source.shown), quote::always(target.shown));
        let both = |text: String| Err(Error::about_both(target.shown, text));
        if same_file(&stat, self.source_stat) {
            if self.options.make == Make::HardLink || self.options.update == Update::None {
                return Ok(Existing::Itself);
            }
            return both(format!("{from} and {to} are the same file"));
        }
        if self.replace.is_some() && kind(&stat) != FileType::Directory {
            return Ok(Existing::InTheWay);
        }
        if kind(&stat) != FileType::Directory {
            return both(format!("cannot overwrite non-directory {to} with directory {from}"));
        }
        Ok(Existing::Directory { stat, is_link })
    }
}
