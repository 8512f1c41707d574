//! The journal of a tree's copy, next to the target: what is done, should the copy be killed.
//!
//! A line is added when a file is whole and has its metadata, and before a directory is made. Lines
//! of files wait for some others, and for a tenth of a second at most: one write(2) takes many, and
//! a kill costs the copy of these few files again. A line names neither path nor content: it is a
//! fingerprint of where the file is and what both sides look like, so that a file that changed
//! since, on either side, is copied again. Each line has a checksum; one that a kill has torn
//! counts for nothing. The first word of the journal is a number of the format: another build of
//! gush goes on with a journal only if both mean the same by each fingerprint.

mod fingerprint;
mod line;

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use rustix::fs::{OFlags, Stat};
use rustix::process;

pub(crate) use fingerprint::{
    Fingerprint, Promises, divided, done, entry, fingerprint, lasting_device, marked, piece,
    which_copy,
};
use line::{FORMAT, format_of, line, read_line};
pub(crate) use line::{Tag, lines_of};

use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::exclusive;
use crate::options::CopyOptions;
use crate::place::Place;
use crate::remedy;
use crate::state_path::state_path;

/// The end of the journal's name, after the target's name.
const SUFFIX: &str = ".gush-journal";

/// The most lines that wait to be written together, and the longest time after the last write.
const WAITING_LINES: usize = 32;
const WAITING_TIME: Duration = Duration::from_millis(100);

/// Why a file in the journal's place cannot be used, and what to do before anything else.
struct Foreign(&'static str, &'static str);

impl Foreign {
    const OF_ANOTHER_COPY: Self = Self("the journal of another copy", "");
    const NO_JOURNAL: Self = Self("no journal of gush, or one whose first line is damaged", "");

    fn of_format(format: u32) -> Self {
        let text = match format < FORMAT {
            true => "a journal in the format of an earlier version of gush",
            false => "a journal in the format of a later version of gush",
        };
        Self(text, "go on with the version that wrote it, or ")
    }
}

/// The journal that [`CopyOptions::resume`](crate::CopyOptions::resume) keeps of a copy to
/// `target`; `None` if the path ends in `..`. For a name too long for a journal's, a fingerprint
/// replaces the last bytes.
///
/// ```
/// use std::path::Path;
/// let journal = gush_tree::journal_path(Path::new("backup/photos/"));
/// assert_eq!(journal.as_deref(), Some(Path::new("backup/.photos.gush-journal")));
/// ```
#[must_use]
pub fn journal_path(target: &Path) -> Option<PathBuf> {
    state_path(target, SUFFIX)
}

/// A journal that this copy alone writes.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    shown: PathBuf,
    name: PathBuf,
    done: HashSet<Fingerprint>,
    makes: HashSet<Fingerprint>,
    /// The directories that other processes have made for the same copy.
    made_by_others: OnceLock<HashSet<Fingerprint>>,
    is_resumed: bool,
    /// Of the copy that this one goes on with.
    earlier_mark: Option<Fingerprint>,
    /// The file systems that the copy so far was on.
    earlier_systems: Option<Fingerprint>,
    /// Written before the first temporary name is made; `None` where that failed.
    mark: OnceLock<Option<Fingerprint>>,
    unwritten: Mutex<Unwritten>,
}

/// Lines that are not written yet.
#[derive(Debug)]
struct Unwritten {
    text: String,
    lines: usize,
    /// When the last ones were written.
    written: Instant,
}

impl Journal {
    /// Opens the journal of a copy to `target`, or begins one.
    ///
    /// # Errors
    /// If the journal is of another copy or of another user, or if another copy writes to it.
    pub(crate) fn open(
        options: &CopyOptions,
        source: &Stat,
        target: &Place<'_>,
    ) -> Result<Self, Error> {
        let target = Place { name: strip_trailing_slashes(target.name), ..*target };
        let Some(name) = journal_path(target.name) else {
            let error =
                Error::refusal(target.shown, "{} has no name to derive a journal's name from");
            return Err(error.hinting("name the target itself, with -T"));
        };
        let shown = journal_path(target.shown).unwrap_or_else(|| name.clone());
        let place = Place { name: &name, shown: &shown, ..target };
        // Without -T a copy to a directory that is there goes below it.
        let anew = "remove it to copy from the beginning, with -T if the target is there";
        Self::open_at(&place, which_copy(options, source), || anew.to_owned())
    }

    /// Opens the journal `place`, or begins one. `anew` returns what to do where it is of no use.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_at(
        place: &Place<'_>,
        this: Fingerprint,
        anew: impl FnOnce() -> String,
    ) -> Result<Self, Error> {
        // Before anything is copied.
        remedy::refuse_kept(place)?;
        let (name, shown) = (place.name.to_path_buf(), place.shown.to_path_buf());
        let is_foreign = "no journal: not a file of this user";
        let flags = OFlags::CREATE | OFlags::APPEND;
        let (file, _) = exclusive::open(place, flags, || is_written(&shown), is_foreign)?;
        let unwritten = Unwritten { text: String::new(), lines: 0, written: Instant::now() };
        let mut journal = Self {
            file,
            shown,
            name,
            done: HashSet::new(),
            makes: HashSet::new(),
            made_by_others: OnceLock::new(),
            is_resumed: false,
            earlier_mark: None,
            earlier_systems: None,
            mark: OnceLock::new(),
            unwritten: Mutex::new(unwritten),
        };
        match journal.read(this) {
            Ok(None) => {
                journal.is_resumed = !(journal.done.is_empty() && journal.makes.is_empty());
                Ok(journal)
            }
            Ok(Some(foreign)) => {
                let Foreign(text, before) = foreign;
                Err(Error::refusal(&journal.shown, text).hinting(format!("{before}{}", anew())))
            }
            Err(error) => Err(Error::io(&journal.shown, "cannot read or write {}", error)),
        }
    }

    /// Reads what is done, or begins the journal. Answers whose it is, if not this copy's.
    fn read(&mut self, this: Fingerprint) -> io::Result<Option<Foreign>> {
        let mut reader = BufReader::new(&self.file);
        let (mut valid_bytes, mut read_bytes, mut is_known) = (0, 0, false);
        let (mut text, mut begun) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut text)? > 0 {
            read_bytes += text.len() as u64;
            let line = std::str::from_utf8(&text).ok().and_then(read_line);
            match line {
                Some((Tag::Copy, of)) if of != this => return Ok(Some(Foreign::OF_ANOTHER_COPY)),
                Some((Tag::Copy, _)) => is_known = true,
                Some((Tag::Done, of)) => drop(self.done.insert(of)),
                Some((Tag::Makes, of)) => drop(self.makes.insert(of)),
                Some((Tag::Mark, of)) => self.earlier_mark = Some(of),
                Some((Tag::On, of)) => self.earlier_systems = Some(of),
                // Torn or foreign: its file is copied again, which is always right.
                None => {}
            }
            if line.is_some() {
                valid_bytes = read_bytes;
            }
            if read_bytes == text.len() as u64 {
                match format_of(&text) {
                    Some(format) if format != FORMAT => {
                        return Ok(Some(Foreign::of_format(format)));
                    }
                    _ => begun.clone_from(&text),
                }
            }
            text.clear();
        }
        // The line that a kill has torn.
        if is_known {
            if read_bytes > valid_bytes {
                // The next line would be appended to the torn one, and be lost with it.
                self.file.set_len(valid_bytes)?;
            }
            return Ok(None);
        }
        let first = line(Tag::Copy, this);
        if !first.as_bytes().starts_with(&begun) {
            return Ok(Some(Foreign::NO_JOURNAL));
        }
        // Empty, or torn at its first write.
        self.file.set_len(0)?;
        (&self.file).write_all(first.as_bytes())?;
        Ok(None)
    }

    /// Does the copy go on with an earlier one?
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The mark of the temporary names that the copy so far may have left.
    pub(crate) fn earlier_mark(&self) -> Option<Fingerprint> {
        self.earlier_mark
    }

    /// The mark of this copy's temporary names, by which a copy that goes on knows them. Nobody
    /// else does: the journal is this user's alone.
    pub(crate) fn mark(&self) -> Option<Fingerprint> {
        *self.mark.get_or_init(|| {
            if self.earlier_mark.is_some() {
                return self.earlier_mark;
            }
            let random = || u128::from(RandomState::new().hash_one(process::getpid()));
            let mark = random() << 64 | random();
            let mut unwritten = self.unwritten.lock().unpoisoned();
            unwritten.add(Tag::Mark, mark);
            // Without the line the names are of no use: others are taken, and the journal's
            // failures are reported for its other lines.
            self.write(&mut unwritten).is_ok().then_some(mark)
        })
    }

    /// Notes the file systems of source and target. Returns `false` if the copy so far was on
    /// others: then none of its files counts.
    pub(crate) fn is_on_same(&self, devices: [u64; 2]) -> Result<bool, Error> {
        let systems = fingerprint::systems(devices);
        if self.earlier_systems == Some(systems) {
            return Ok(true);
        }
        let mut unwritten = self.unwritten.lock().unpoisoned();
        unwritten.add(Tag::On, systems);
        self.write(&mut unwritten)?;
        Ok(self.earlier_systems.is_none())
    }

    /// Adds the directories that other processes have made for the same copy, once.
    pub(crate) fn add_made_by_others(&self, made: HashSet<Fingerprint>) {
        let _ = self.made_by_others.set(made);
    }

    pub(crate) fn is_done(&self, file: Fingerprint) -> bool {
        self.done.contains(&file)
    }

    /// Was this directory made, or about to be made, by the earlier copy?
    pub(crate) fn has_made(&self, directory: Fingerprint) -> bool {
        let others = self.made_by_others.get();
        self.makes.contains(&directory) || others.is_some_and(|made| made.contains(&directory))
    }

    /// Adds a file that is done. Its line may wait for others.
    pub(crate) fn add_done(&self, file: Fingerprint) -> Result<(), Error> {
        let mut unwritten = self.unwritten.lock().unpoisoned();
        unwritten.add(Tag::Done, file);
        match unwritten.lines >= WAITING_LINES || unwritten.written.elapsed() >= WAITING_TIME {
            true => self.write(&mut unwritten),
            false => Ok(()),
        }
    }

    /// Adds a directory before it is made, and writes all that waits.
    pub(crate) fn add_makes(&self, directory: Fingerprint) -> Result<(), Error> {
        let mut unwritten = self.unwritten.lock().unpoisoned();
        unwritten.add(Tag::Makes, directory);
        // At once: a directory that was made and not noted would keep the mode it was lent.
        self.write(&mut unwritten)
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.write(&mut self.unwritten.lock().unpoisoned())
    }

    /// Lines that cannot be written are dropped: each failure is reported once.
    fn write(&self, unwritten: &mut Unwritten) -> Result<(), Error> {
        if unwritten.text.is_empty() {
            return Ok(());
        }
        let written = (&self.file).write_all(unwritten.text.as_bytes());
        unwritten.text.clear();
        // Also after a failure: the lines are given up, and cost the copy of their files again.
        (unwritten.lines, unwritten.written) = (0, Instant::now());
        written.map_err(|error| Error::io(&self.shown, "cannot write {}", error))
    }

    pub(crate) fn remove(&self, target: &Place<'_>) -> Result<(), Error> {
        let place = Place { name: Path::new(&self.name), shown: &self.shown, ..*target };
        place.unlink().map_err(|errno| remedy::not_changed(&place, "cannot remove {}", errno))
    }
}

impl Unwritten {
    fn add(&mut self, word: Tag, of: Fingerprint) {
        self.text.push_str(&line(word, of));
        self.lines += 1;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A caller that must know of a failure has called `flush`.
        let _ = self.flush();
    }
}

/// The error of a journal that another process writes.
pub(super) fn is_written(shown: &Path) -> Error {
    Error::refusal(shown, "another copy writes this journal").hinting("wait until it ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_wait_until_a_directory_is_made_there_are_many_or_the_journal_ends() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let source = Place::here(dir.path()).stat(false).unwrap();
        let open =
            || Journal::open(&CopyOptions::default(), &source, &Place::here(&target)).unwrap();
        let written = || BufReader::new(File::open(journal_path(&target).unwrap()).unwrap());
        let done = || lines_of(Tag::Done, written()).unwrap();
        let journal = open();
        // Nothing is late while the test runs.
        journal.unwritten.lock().unpoisoned().written = Instant::now() + Duration::from_secs(3600);
        journal.add_done(1).unwrap();
        assert_eq!(done().len(), 0);
        journal.add_makes(2).unwrap();
        assert_eq!(done(), HashSet::from([1]));
        assert_eq!(lines_of(Tag::Makes, written()).unwrap(), HashSet::from([2]));
        journal.unwritten.lock().unpoisoned().written = Instant::now() + Duration::from_secs(3600);
        (10..9 + WAITING_LINES as u128).for_each(|file| journal.add_done(file).unwrap());
        assert_eq!(done().len(), 1);
        journal.add_done(99).unwrap();
        assert_eq!(done().len(), 1 + WAITING_LINES);
        journal.unwritten.lock().unpoisoned().written =
            Instant::now().checked_sub(WAITING_TIME).unwrap();
        journal.add_done(100).unwrap();
        assert_eq!(done().len(), 2 + WAITING_LINES);
        journal.add_done(101).unwrap();
        drop(journal);
        let again = open();
        assert!(again.is_resumed() && [1, 99, 100, 101].iter().all(|file| again.is_done(*file)));
    }

    /// As a build of 2026-11 wrote it: the format, its checksums included, is that of all journals
    /// there are.
    const RECORDED: &str = "\
gush-journal-3 0123456789abcdeffedcba9876543210 56e596ad
makes 000000000000000000000000000000a1 38f545aa
done fedcba98765432100123456789abcdef 42fc8d2e
done 00000000000000000000000000000000 acd1c4bf
";

    #[test]
    fn a_journal_that_an_earlier_build_wrote_is_read_and_gone_on_with() {
        let (copy, file) =
            (0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 0xfedc_ba98_7654_3210_0123_4567_89ab_cdef);
        let lines = [(Tag::Copy, copy), (Tag::Makes, 0xa1), (Tag::Done, file), (Tag::Done, 0)];
        assert_eq!(lines.map(|(word, of)| line(word, of)).concat(), RECORDED);
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("journal");
        let read = || std::fs::read_to_string(&name).unwrap();
        std::fs::write(&name, RECORDED).unwrap();
        let journal = Journal::open_at(&Place::here(&name), copy, String::new).unwrap();
        assert!(journal.is_resumed() && journal.has_made(0xa1));
        assert!(journal.is_done(file) && journal.is_done(0) && !journal.is_done(0xa1));
        assert_eq!(read(), RECORDED);
        journal.add_makes(0xb2).unwrap();
        assert_eq!(read(), format!("{RECORDED}makes 000000000000000000000000000000b2 61555683\n"));
        drop(journal);
        assert!(Journal::open_at(&Place::here(&name), copy + 1, String::new).is_err());
        // A line that a kill has torn must not take the next one with it.
        std::fs::write(&name, &RECORDED[..RECORDED.len() - 5]).unwrap();
        let torn = Journal::open_at(&Place::here(&name), copy, String::new).unwrap();
        assert!(torn.is_done(file) && !torn.is_done(0));
        torn.add_makes(0xb2).unwrap();
        drop(torn);
        let again = Journal::open_at(&Place::here(&name), copy, String::new).unwrap();
        assert!(again.is_done(file) && again.has_made(0xb2));
    }
}
