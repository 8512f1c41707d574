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

/// The longest name that GNU cp makes of a number, or of what may get one: a byte less than a
/// directory entry may have on Linux.
const LONGEST_BYTES: usize = 254;

struct Next {
    name: PathBuf,
    /// The name must be new: older backups stay.
    must_be_new: bool,
    /// The number had no room, so that the next name is the same.
    cut: bool,
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
        let (name, cut) = match highest {
            Some(number) => {
                let number = number.checked_add(1).ok_or(Errno::OVERFLOW)?;
                cut(base, with_end(base, format!(".~{number}~").as_ref()))
            }
            None => self.simple(base),
        };
        // A rename onto itself would pass for a backup.
        if name == base {
            return Err(Errno::NAMETOOLONG);
        }
        Ok(Next { name: target.sibling(&name), must_be_new: highest.is_some(), cut })
    }

    /// The name of a backup without a number.
    fn simple(&self, base: &OsStr) -> (OsString, bool) {
        let name = with_end(base, &self.suffix);
        match self.control {
            // As GNU: the suffix that the user chose is never left out, and a name too long for it
            // has no backup.
            BackupControl::Simple => (name, false),
            BackupControl::Numbered | BackupControl::Existing => cut(base, name),
        }
    }

    /// Renames `target` to its backup name; `None` if `target` is gone by now.
    pub(crate) fn set_aside(&self, target: &Place<'_>) -> io::Result<Option<PathBuf>> {
        self.make(target, |next| match next.must_be_new {
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
                Err(Errno::EXIST) if !next.must_be_new => {
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
                Err(Errno::EXIST) if next.must_be_new && !next.cut => {}
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
        let (simple, _) = self.simple(base);
        if self.control == BackupControl::Numbered || source_base != simple {
            return false;
        }
        let name = target.sibling(&simple);
        Place::below(target.dir, &name, &name)
            .stat(true)
            .is_ok_and(|stat| same_file(&stat, source_stat))
    }
}

fn with_end(base: &OsStr, end: &OsStr) -> OsString {
    [base, end].into_iter().collect()
}

/// The backup's name as far as there is room, as GNU: else the name loses its last bytes, and ends
/// in `~`; `true` then.
fn cut(base: &OsStr, name: OsString) -> (OsString, bool) {
    if name.len() <= LONGEST_BYTES {
        return (name, false);
    }
    let kept = &base.as_bytes()[..base.len().min(LONGEST_BYTES - 1)];
    (OsString::from_vec([kept, b"~"].concat()), true)
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
        for (control, must_be_new) in
            [(BackupControl::Numbered, true), (BackupControl::Existing, false)]
        {
            let next = |name: &str| backup(control).next(&Place::here(Path::new(name)));
            for length in [254, 255] {
                let found = next(&"n".repeat(length)).unwrap();
                assert_eq!(found.name, Path::new(&format!("{}~", "n".repeat(253))), "{control:?}");
                assert_eq!(found.must_be_new, must_be_new);
            }
            let own = format!("{}~", "n".repeat(253));
            assert_eq!(next(&own).err(), Some(Errno::NAMETOOLONG), "{control:?}");
        }
        let simple = backup(BackupControl::Simple);
        let long = "n".repeat(255);
        assert_eq!(simple.name_for(&Place::here(Path::new(&long))).unwrap().as_os_str().len(), 256);
    }

    #[test]
    fn a_numbered_backup_whose_name_is_cut_never_replaces_either() {
        type Aside = fn(&Backup, &Place<'_>) -> io::Result<Option<PathBuf>>;
        let ways: [Aside; 2] = [Backup::set_aside, Backup::link_aside];
        // 250 bytes have room for nine numbers.
        for (length, backups) in [(255, 1), (252, 1), (250, 10)] {
            for aside in ways {
                let dir = tempfile::tempdir().unwrap();
                let file = dir.path().join("n".repeat(length));
                let mut kept = Vec::new();
                for version in 0..backups + 2 {
                    let _ = std::fs::remove_file(&file);
                    std::fs::write(&file, version.to_string()).unwrap();
                    match aside(&backup(BackupControl::Numbered), &Place::here(&file)) {
                        Ok(made) => kept.push((made.unwrap(), version.to_string())),
                        Err(errno) => assert_eq!(errno, Errno::EXIST),
                    }
                }
                assert_eq!(kept.len(), backups, "{length}");
                for (made, version) in kept {
                    assert_eq!(std::fs::read_to_string(made).unwrap(), version, "{length}");
                }
            }
        }
    }

    #[test]
    fn a_simple_backup_whose_name_is_cut_to_the_source_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let [file, aside] =
            ["n".repeat(255), format!("{}~", "n".repeat(253))].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::fs::write(&aside, "A").unwrap();
        let (target, source) = (Place::here(&file), Place::here(&aside));
        let stat = source.stat(true).unwrap();
        assert!(backup(BackupControl::Existing).would_destroy(&target, &source, &stat));
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
