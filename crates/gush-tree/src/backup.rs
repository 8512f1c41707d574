//! Backups of existing targets: `FILE~`, `FILE.~1~`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir};
use rustix::io::{self, Errno, retry_on_intr};

use crate::atomic;
use crate::place::{Place, same_file};

/// How the backup of an existing target is named.
///
/// ```
/// use gush_tree::{Backup, BackupControl};
/// let backup = Backup { control: BackupControl::Existing, suffix: ".orig".into() };
/// assert_eq!(backup.control, BackupControl::Existing);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The kind of backup name.
    pub control: BackupControl,
    /// The suffix of a simple backup.
    pub suffix: OsString,
}

/// The kind of backup name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupControl {
    /// `FILE.~N~`, never overwriting an older backup.
    Numbered,
    /// Numbered if the file has numbered backups already, otherwise simple.
    Existing,
    /// The name with the suffix.
    Simple,
}

/// The longest name of a directory entry on Linux.
const NAME_MAX_BYTES: usize = 255;

struct Next {
    name: PathBuf,
    /// The name is numbered, and must be new: older backups stay.
    numbered: bool,
}

impl Backup {
    /// The name of the next backup of `target`, in the same directory.
    ///
    /// # Errors
    /// The OS error of opening or reading the directory.
    ///
    /// ```
    /// use gush_tree::{Backup, BackupControl, Place};
    ///
    /// let dir = tempfile::tempdir()?;
    /// std::fs::write(dir.path().join("a.~3~"), "")?;
    /// let backup = Backup { control: BackupControl::Existing, suffix: "~".into() };
    /// let name = |file: &str| backup.name_for(&Place::here(&dir.path().join(file)));
    /// assert_eq!(name("a")?, dir.path().join("a.~4~"));
    /// assert_eq!(name("b")?, dir.path().join("b~"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn name_for(&self, target: &Place<'_>) -> Result<PathBuf, Errno> {
        self.next(target).map(|next| next.name)
    }

    fn next(&self, target: &Place<'_>) -> io::Result<Next> {
        let base = target.name.file_name().ok_or(Errno::INVAL)?;
        let highest = match self.control {
            BackupControl::Simple => None,
            BackupControl::Numbered => Some(highest_number(target, base)?),
            // Numbered only where numbered ones are there already (GNU's `existing`).
            BackupControl::Existing => Some(highest_number(target, base)?).filter(|&n| n > 0),
        };
        let mut name = base.to_os_string();
        match highest {
            Some(number) => name.push(format!(".~{}~", number + 1)),
            None => name.push(&self.suffix),
        }
        let cut = name.len() > NAME_MAX_BYTES;
        if cut {
            // As with GNU, a long name loses its last bytes, and neither number nor suffix has room.
            let kept = &base.as_bytes()[..base.len().min(NAME_MAX_BYTES - 1)];
            name = OsString::from_vec([kept, b"~"].concat());
            // A rename onto itself would pass for a backup.
            if name == base {
                return Err(Errno::NAMETOOLONG);
            }
        }
        Ok(Next { name: target.sibling(&name), numbered: highest.is_some() && !cut })
    }

    /// Renames `target` to its backup name; `None` if `target` is gone by now.
    pub(crate) fn set_aside(&self, target: &Place<'_>) -> io::Result<Option<PathBuf>> {
        self.make(target, |next| match next.numbered {
            true => target.rename_to_new(&next.name),
            false => target.rename_to(&next.name),
        })
    }

    /// Links `target` to its backup name, so that the target's own name is never missing.
    pub(crate) fn link_aside(&self, target: &Place<'_>) -> io::Result<Option<PathBuf>> {
        self.make(target, |next| {
            let link = |name: &Path| {
                retry_on_intr(|| {
                    fs::linkat(target.dir, target.name, target.dir, name, AtFlags::empty())
                })
            };
            match link(&next.name) {
                Err(Errno::EXIST) if !next.numbered => {
                    atomic::replace(target, &next.name, |temporary| link(temporary.name))
                }
                other => other,
            }
        })
    }

    /// Takes the next free name, and the one after it if another process was faster.
    fn make(
        &self,
        target: &Place<'_>,
        mut take: impl FnMut(&Next) -> io::Result<()>,
    ) -> io::Result<Option<PathBuf>> {
        loop {
            let next = self.next(target)?;
            match take(&next) {
                Ok(()) => return Ok(Some(next.name)),
                // Gone since the look: there is nothing to keep.
                Err(Errno::NOENT) => return Ok(None),
                // Another program took the number in between: the next one.
                Err(Errno::EXIST) if next.numbered => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Would a backup of `target` overwrite `source` (`cp a~ a` with simple backups)?
    pub(crate) fn would_destroy(
        &self,
        target: &Place<'_>,
        source: &Place<'_>,
        source_stat: &fs::Stat,
    ) -> bool {
        let (Some(base), Some(source_base)) = (target.name.file_name(), source.name.file_name())
        else {
            return false;
        };
        let mut simple = base.to_os_string();
        simple.push(&self.suffix);
        if self.control == BackupControl::Numbered || source_base != simple {
            return false;
        }
        let name = target.sibling(&simple);
        Place::below(target.dir, &name, &name)
            .stat(true)
            .is_ok_and(|stat| same_file(&stat, source_stat))
    }
}

fn highest_number(target: &Place<'_>, base: &OsStr) -> io::Result<u64> {
    let mut highest = 0;
    for entry in Dir::new(target.open_parent()?)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        highest = highest.max(number_of(&name, base).unwrap_or(0));
    }
    Ok(highest)
}

/// The N of `BASE.~N~`.
fn number_of(name: &OsStr, base: &OsStr) -> Option<u64> {
    let digits = name
        .as_bytes()
        .strip_prefix(base.as_bytes())?
        .strip_prefix(b".~")?
        .strip_suffix(b"~")
        // As GNU: `.~01~` is no backup of a number.
        .filter(|digits| digits.first().is_some_and(|&first| first != b'0'))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(control: BackupControl) -> Backup {
        Backup { control, suffix: "~".into() }
    }

    #[test]
    fn only_whole_numbers_between_tildes_count() {
        let number = |name: &str| number_of(name.as_ref(), "a".as_ref());
        assert_eq!(number("a.~12~"), Some(12));
        for name in ["a.~~", "a.~1", "a~", "b.~1~", "a.~x~", "a.~01~", "ab.~1~"] {
            assert_eq!(number(name), None, "{name}");
        }
    }

    #[test]
    fn numbered_backups_never_replace_and_simple_ones_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        for (control, names) in [
            (BackupControl::Numbered, ["a.~1~", "a.~2~"]),
            (BackupControl::Existing, ["a.~3~", "a.~4~"]),
            (BackupControl::Simple, ["a~", "a~"]),
        ] {
            for name in names {
                for link in [false, true] {
                    let _ = std::fs::remove_file(&file);
                    std::fs::write(&file, name).unwrap();
                    let place = Place::here(&file);
                    if link && control != BackupControl::Simple {
                        continue;
                    }
                    let made = match link {
                        true => backup(control).link_aside(&place),
                        false => backup(control).set_aside(&place),
                    };
                    let made = made.unwrap().unwrap();
                    assert_eq!(made, dir.path().join(name));
                    assert_eq!(std::fs::read_to_string(made).unwrap(), name);
                    assert_eq!(file.exists(), link);
                }
            }
        }
    }

    #[test]
    fn a_name_too_long_for_its_backup_is_cut() {
        for control in [BackupControl::Numbered, BackupControl::Existing, BackupControl::Simple] {
            let next = |name: &str| backup(control).next(&Place::here(Path::new(name)));
            let long = "n".repeat(255);
            let found = next(&long).unwrap();
            assert_eq!(found.name, Path::new(&format!("{}~", "n".repeat(254))), "{control:?}");
            assert!(!found.numbered);
            let own = format!("{}~", "n".repeat(254));
            assert_eq!(next(&own).err(), Some(Errno::NAMETOOLONG), "{control:?}");
        }
    }

    #[test]
    fn a_simple_backup_that_is_the_source_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let [file, aside] = ["a", "a~"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::fs::write(&aside, "A").unwrap();
        let (target, source) = (Place::here(&file), Place::here(&aside));
        let stat = source.stat(true).unwrap();
        assert!(backup(BackupControl::Simple).would_destroy(&target, &source, &stat));
        assert!(!backup(BackupControl::Numbered).would_destroy(&target, &source, &stat));
        let other = Place::here(Path::new("/dev/null"));
        assert!(!backup(BackupControl::Simple).would_destroy(&target, &other, &stat));
    }
}
