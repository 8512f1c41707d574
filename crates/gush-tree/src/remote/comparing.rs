//! What becomes of an entry of the source, as the file that has its name in the target decides.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::folder::Folder;
use super::metadata::EntryMetadata;
use crate::error::Error;
use crate::events::Events;
use crate::file::pin;
use crate::metadata::kept::Updated;
use crate::metadata::{Handle, Transfer};
use crate::options::CopyOptions;
use crate::overwriting::{OverwriteDecision, overwrite_decision};
use crate::place::{Place, kind, stat_of};
use crate::{links, open};

impl Folder {
    /// Decides about an entry that is no directory by the rules of a copy within one machine. A
    /// symbolic link in the target is not followed.
    ///
    /// # Errors
    /// When the name cannot be looked at, the options refuse what is there
    /// ([`Update::NoneFail`](crate::Update::NoneFail)), or it cannot be replaced.
    pub fn compare(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
    ) -> Result<OverwriteDecision, Error> {
        if self.is_new() {
            return Ok(OverwriteDecision::Copy);
        }
        self.with(name, |place| {
            let Some(there) = place.find(false)? else { return Ok(OverwriteDecision::Copy) };
            if self.makes_way(&there, metadata, options) {
                return Ok(OverwriteDecision::Copy);
            }
            let decided = match overwrite_decision(
                options,
                place.shown,
                &there,
                &metadata.stat(&options.preserve, &there),
            )? {
                OverwriteDecision::Compare if metadata.kind() == FileType::Symlink => {
                    match links::text(place)?.as_bytes() == metadata.link_text {
                        true => OverwriteDecision::Keep,
                        false => OverwriteDecision::Copy,
                    }
                }
                decided => decided,
            };
            if decided == OverwriteDecision::Copy {
                refuse_irreplaceable(place, &there, metadata.kind())?;
            }
            Ok(decided)
        })
    }

    /// As [`compare`](Self::compare), and copies what has several names, all of which would show
    /// the attributes that it lacks.
    ///
    /// # Errors
    /// As [`compare`](Self::compare), and when the file cannot be looked at.
    pub fn decide(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
    ) -> Result<OverwriteDecision, Error> {
        let standing = self.compare(name, metadata, options)?;
        let stays = matches!(standing, OverwriteDecision::Keep | OverwriteDecision::Compare);
        if !stays || !options.updates_attributes() {
            return Ok(standing);
        }
        match self.with_kept(name, metadata, options, lacks_for_other_names)? {
            true => Ok(OverwriteDecision::Copy),
            false => Ok(standing),
        }
    }

    /// Gives what stays with a name the attributes of the source, where they differ. A dry run only
    /// compares. `None` where other names would show them: the file is to be copied.
    ///
    /// # Errors
    /// When the file cannot be looked at, or another kind of file has the name by now.
    pub fn update(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
        events: &mut dyn Events,
    ) -> Result<Option<Updated>, Error> {
        self.with_kept(name, metadata, options, |transfer, there| {
            if lacks_for_other_names(transfer, there) {
                return None;
            }
            Some(match options.dry_run {
                true => Updated { is_complete: true, has_changed: !transfer.is_up_to_date(there) },
                false => transfer.bring_up_to_date(there, events),
            })
        })
    }

    fn with_kept<T>(
        &self,
        name: &OsStr,
        metadata: &EntryMetadata,
        options: &CopyOptions,
        act: impl FnOnce(&Transfer<'_>, &Stat) -> T,
    ) -> Result<T, Error> {
        self.with(name, |place| {
            let replaced = "{} was replaced while its attributes were compared";
            let (fd, there) = pin(*place, false, replaced, |found| kind(found) == metadata.kind())?;
            let is_link = metadata.kind() == FileType::Symlink;
            let source_stat = metadata.stat(&options.preserve, &there);
            let transfer = Transfer::between(
                options,
                (metadata, &source_stat, place.shown),
                (Handle::Pinned { fd: fd.as_fd(), is_link }, &there, place.shown),
                false,
            );
            Ok(act(&transfer, &there))
        })
    }

    /// Hashes the regular file with a name, which is no link.
    ///
    /// # Errors
    /// When it cannot be opened or read, or is not a regular file.
    pub fn digest(&self, name: &OsStr) -> Result<gush::Digest, Error> {
        self.with(name, |place| {
            let fd = place
                .open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| open::not_opened(place, "cannot open {} for comparison", errno))?;
            if kind(&stat_of(&fd, place.shown)?) != FileType::RegularFile {
                return Err(Error::refusal(place.shown, "cannot compare {}: not a regular file"));
            }
            gush::digest_of(&File::from(fd)).map_err(|error| Error::engine(place.shown, &error))
        })
    }
}

/// Would attributes that the file lacks be those of its other names, too?
fn lacks_for_other_names(transfer: &Transfer<'_>, there: &Stat) -> bool {
    there.st_nlink > 1 && !transfer.is_up_to_date(there)
}

/// Refuses a target that a rename cannot, or must not, replace.
pub(super) fn refuse_irreplaceable(
    place: &Place<'_>,
    there: &Stat,
    wanted: FileType,
) -> Result<(), Error> {
    match (kind(there), wanted) {
        (FileType::Directory, _) => {
            Err(Error::refusal(place.shown, "cannot overwrite directory {} with non-directory"))
        }
        (FileType::RegularFile | FileType::Symlink, _) => Ok(()),
        (_, FileType::RegularFile) => {
            Err(Error::refusal(place.shown, "cannot replace {}: a special file has the name"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs;

    use super::*;
    use crate::options::{Preserve, Update};

    fn metadata_of(path: &Path) -> EntryMetadata {
        let place = Place::here(path);
        let (stat, fd) = (place.stat(false).unwrap(), place.pin(false).unwrap());
        EntryMetadata::of(fd.as_fd(), &stat, &Preserve::default(), path, &mut |warning| {
            panic!("{warning}")
        })
        .unwrap()
    }

    /// The local copy's own answers are those of `tests/cp/only_changed.rs` and its siblings.
    #[test]
    fn each_rule_of_update_decides_by_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str, seconds: i64| {
            std::fs::write(at(name), text).unwrap();
            let times = crate::metadata::times_of(&{
                let mut stat = Place::here(&at(name)).stat(false).unwrap();
                (stat.st_mtime, stat.st_mtime_nsec) = (seconds, 5);
                stat
            });
            fs::utimensat(fs::CWD, at(name), &times, fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
        };
        write("source", "text", 100);
        for (name, text, seconds) in [
            ("same", "text", 100),
            ("older", "text", 99),
            ("newer", "text", 101),
            ("longer", "longer", 100),
            ("other", "test", 100),
        ] {
            write(name, text, seconds);
        }
        symlink("source", at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let metadata = metadata_of(&at("source"));
        let folder = Folder::base(dir.path()).unwrap();
        use OverwriteDecision::{Compare, Copy, Keep, Skip};
        let names = ["absent", "same", "older", "newer", "longer", "other", "link"];
        for (update, expected) in [
            (Update::All, [Copy; 7]),
            (Update::None, [Copy, Skip, Skip, Skip, Skip, Skip, Skip]),
            (Update::Older, [Copy, Keep, Copy, Keep, Keep, Keep, Keep]),
            (Update::Changed, [Copy, Keep, Copy, Copy, Copy, Keep, Copy]),
            (Update::Different, [Copy, Compare, Compare, Compare, Copy, Compare, Copy]),
        ] {
            let options = CopyOptions { update, ..CopyOptions::default() };
            let compare = |name| folder.compare(OsStr::new(name), &metadata, &options).unwrap();
            assert_eq!(names.map(compare), expected, "{update:?}");
            // As in a copy within one machine, the rule comes before the refusal.
            let in_the_way = folder.compare(OsStr::new("directory"), &metadata, &options);
            match update {
                Update::None => assert_eq!(in_the_way.unwrap(), Skip),
                Update::Older => assert_eq!(in_the_way.unwrap(), Keep),
                _ => assert!(in_the_way.unwrap_err().to_string().contains("directory")),
            }
        }
        let options = CopyOptions { update: Update::NoneFail, ..CopyOptions::default() };
        let refused = folder.compare(OsStr::new("same"), &metadata, &options).unwrap_err();
        assert!(refused.to_string().starts_with("not replacing"), "{refused}");
        let absent = folder.compare(OsStr::new("absent"), &metadata, &options);
        assert_eq!(absent.unwrap(), Copy);
    }

    #[test]
    fn links_are_compared_by_their_text_and_files_by_their_hash() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let folder = Folder::base(dir.path()).unwrap();
        for name in ["here", "there"] {
            symlink(name, at(name)).unwrap();
        }
        let options = CopyOptions { update: Update::Different, ..CopyOptions::default() };
        let metadata = metadata_of(&at("here"));
        let [same, other] = ["here", "there"]
            .map(|name| folder.compare(OsStr::new(name), &metadata, &options).unwrap());
        assert_eq!((same, other), (OverwriteDecision::Keep, OverwriteDecision::Copy));

        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        let found = folder.digest(OsStr::new("file")).unwrap();
        assert_eq!(found, gush::digest_of(&File::open(at("file")).unwrap()).unwrap());
        for name in ["link", ".", "absent"] {
            folder.digest(OsStr::new(name)).unwrap_err();
        }
    }
}
