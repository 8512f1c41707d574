//! The journal of a tree's copy, beside the target: what is done already, should the copy be killed.
//!
//! A line is added when a file is whole and has its metadata, and before a directory is made. Lines of files wait for some others, and for a
//! tenth of a second at most: one write(2) takes many, and a kill costs the copy of these few files again. A line names neither path
//! nor content: it is a fingerprint of where the file is and what both sides look like, so that a file that changed since,
//! on either side, is copied again. Each line has a checksum; one that a kill has torn counts for nothing. The first word of the journal
//! is a number of the format: another build of gush goes on with a journal only if both mean the same by each fingerprint.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{self, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process;
use xxhash_rust::xxh3::xxh3_64;

use crate::beside::state_beside;
use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::options::Options;
use crate::place::{Place, kind, same_file};
use crate::remedy;

/// The end of the journal's name, behind the target's name.
const SUFFIX: &str = ".gush-journal";

/// The most lines that wait to be written together, and the longest time after the last write.
const WAITING_LINES: usize = 32;
const WAITING_TIME: Duration = Duration::from_millis(100);

/// Enough for the numbers and the name of most files, without an allocation for each.
const SHORT_BYTES: usize = 512;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The first line: the format, and which copy this is.
    Copy,
    /// A file is done.
    Done,
    /// A directory is about to be made.
    Makes,
    /// The mark of this copy's temporary names.
    Mark,
    /// The file systems of source and target.
    On,
}

impl Word {
    fn text(self) -> &'static str {
        WORDS.iter().find(|(_, known)| *known == self).map_or("", |(text, _)| *text)
    }
}

/// The first word without the number of the format.
const HEADING: &str = "gush-journal-";
/// To be raised with each change of a line or of a fingerprint; the test `fingerprints_are_those_of_the_format` notices. Format 1 began
/// with the word `copy`, and format 2 had device numbers in the place of the ids of file systems.
const FORMAT: u32 = 3;
const WORDS: [(&str, Word); 5] = [
    ("gush-journal-3", Word::Copy),
    ("done", Word::Done),
    ("makes", Word::Makes),
    ("mark", Word::Mark),
    ("on", Word::On),
];

/// A file in the journal's place that this copy cannot go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    OfAnotherCopy,
    /// Of a build with another format.
    OfFormat(u32),
    /// Something else, or a journal of which the first line is damaged.
    NoJournal,
}

impl Foreign {
    /// What the file is, and what the user can do before anything else.
    fn told(self) -> (&'static str, &'static str) {
        const GO_ON: &str = "go on with the version that wrote it, or ";
        match self {
            Self::OfAnotherCopy => ("the journal of another copy", ""),
            Self::OfFormat(..FORMAT) => {
                ("the journal of an earlier version of gush, in a format of its own", GO_ON)
            }
            Self::OfFormat(_) => {
                ("the journal of a later version of gush, in a format of its own", GO_ON)
            }
            Self::NoJournal => ("no journal of gush, or one whose first line is damaged", ""),
        }
    }
}

/// The format of a journal that begins with this line; `None` if the line is no whole first line of any.
fn format_of(first: &[u8]) -> Option<u32> {
    let mut words = std::str::from_utf8(first).ok()?.strip_suffix('\n')?.split(' ');
    let word = words.next()?;
    let format = match word.strip_prefix(HEADING) {
        Some(number) => number.parse().ok()?,
        None if word == "copy" => 1,
        None => return None,
    };
    let is_number = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_whole = words.next().is_some_and(|of| is_number(of, 32))
        && words.next().is_some_and(|check| is_number(check, 8))
        && words.next().is_none();
    // What a later format has behind its number is unknown here.
    (is_whole || format > FORMAT).then_some(format)
}

/// The journal that [`Options::resume`](crate::Options::resume) keeps of a copy to `target`; `None` if the path ends in `..`. Of a name too
/// long for a journal beside it, the last bytes give way to a fingerprint.
///
/// ```
/// use std::path::Path;
/// let journal = gush_tree::journal_beside(Path::new("backup/photos/"));
/// assert_eq!(journal.as_deref(), Some(Path::new("backup/.photos.gush-journal")));
/// ```
#[must_use]
pub fn journal_beside(target: &Path) -> Option<PathBuf> {
    state_beside(target, SUFFIX)
}

/// Some 128 bits of blake3: no two things have the same by chance.
pub(crate) type Fingerprint = u128;

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
    goes_on: bool,
    /// Of the copy that this one goes on with.
    earlier_mark: Option<Fingerprint>,
    /// The file systems that the copy so far was on.
    earlier_systems: Option<Fingerprint>,
    /// Written before the first temporary name is made; `None` where that failed.
    mark: OnceLock<Option<Fingerprint>>,
    waiting: Mutex<Waiting>,
}

/// Lines that are not written yet.
#[derive(Debug)]
struct Waiting {
    text: String,
    lines: usize,
    /// When the last ones were written.
    written: Instant,
}

/// An entry of a directory of the target.
pub(crate) fn entry(above: &Stat, name: &OsStr) -> Fingerprint {
    // The same file system has other device numbers on other machines.
    fingerprint(&[&numbers(&[above.st_ino]), name.as_bytes()])
}

/// What is promised of a file that is done, beside its content and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promises {
    /// It is on stable storage.
    pub(crate) is_synced: bool,
    /// It was read again and compared.
    pub(crate) is_verified: bool,
}

impl Promises {
    pub(crate) fn of(options: &Options) -> Self {
        Self { is_synced: options.sync, is_verified: options.verify }
    }

    /// All that keep these.
    pub(crate) fn kept_by(self) -> impl Iterator<Item = Self> {
        let both = [false, true];
        let all = both
            .into_iter()
            .flat_map(move |is_synced| both.map(|is_verified| Self { is_synced, is_verified }));
        all.filter(move |kept| {
            kept.is_synced >= self.is_synced && kept.is_verified >= self.is_verified
        })
    }
}

/// A file done: the entry of a directory of the target, and the looks of source and target. Each file of a copy has one, so that all is hashed in
/// one piece.
pub(crate) fn done(
    promises: Promises,
    (above, name): (&Stat, &OsStr),
    source: &Stat,
    target: &Stat,
) -> Fingerprint {
    // No other fingerprint begins with a part so long. The lowest bits are the promises.
    let kind = u64::MAX - u64::from(promises.is_synced) - 2 * u64::from(promises.is_verified);
    // A further name of the target changes its ctime, and is made by this copy itself.
    let changed_there = match source.st_nlink {
        1 => [target.st_ctime as u64, target.st_ctime_nsec],
        _ => [0, 0],
    };
    // The source's change time, because a program can put the modification time back.
    let changed = [source.st_ctime as u64, source.st_ctime_nsec];
    let of_whom: [u64; 3] = [target.st_mode.into(), target.st_uid.into(), target.st_gid.into()];
    let parts: [&[u64]; 6] =
        [&[kind, above.st_ino], &state(source), &changed, &state(target), &of_whom, &changed_there];
    let (mut short, mut long) = ([0; SHORT_BYTES], Vec::new());
    // The numbers are always as many, so that none of them passes for a part of the name.
    let count = parts.iter().map(|part| part.len()).sum::<usize>();
    let all_bytes = count * size_of::<u64>() + name.len();
    let bytes = match short.get_mut(..all_bytes) {
        Some(bytes) => bytes,
        None => {
            long.resize(all_bytes, 0);
            &mut long[..]
        }
    };
    let (of_numbers, of_name) = bytes.split_at_mut(count * size_of::<u64>());
    let (places, _) = of_numbers.as_chunks_mut();
    for (place, number) in places.iter_mut().zip(parts.into_iter().flatten()) {
        *place = number.to_le_bytes();
    }
    of_name.copy_from_slice(name.as_bytes());
    hash(bytes)
}

/// What a fingerprint contains instead of a device number, which the next mount may not keep: the
/// id of the file system of an open file, or the number where there is no id.
pub(crate) fn lasting_device(file: BorrowedFd<'_>, number: u64) -> u64 {
    match gush::file_system_id(&file) {
        Ok(Some(id)) => xxh3_64(&id.to_ne_bytes()),
        _ => number,
    }
}

/// Device, inode, kind, size and modification time.
fn state(stat: &Stat) -> [u64; 6] {
    let kind = u64::from(kind(stat).as_raw_mode());
    [stat.st_dev, stat.st_ino, kind, stat.st_size as u64, stat.st_mtime as u64, stat.st_mtime_nsec]
}

/// A file that ranks copy together. Ranks on other machines may know the same file by another device number.
pub(crate) fn divided(path: &Path, source: &Stat) -> Fingerprint {
    let of_source = numbers(&[
        source.st_size as u64,
        source.st_mtime as u64,
        source.st_mtime_nsec,
        source.st_ctime as u64,
        source.st_ctime_nsec,
    ]);
    fingerprint(&[b"divided", path.as_os_str().as_bytes(), &of_source])
}

/// One piece in the file of pieces with this name.
pub(crate) fn piece(name: &Path, number: u64) -> Fingerprint {
    fingerprint(&[b"piece", name.as_os_str().as_bytes(), &number.to_le_bytes()])
}

/// What marks one of the temporary names for a file.
pub(crate) fn marked(mark: Fingerprint, name: &OsStr, number: u8) -> Fingerprint {
    fingerprint(&[b"mark", &mark.to_le_bytes(), name.as_bytes(), &[number]])
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn fingerprint(parts: &[&[u8]]) -> Fingerprint {
    // In one piece: a hasher for several has room for far more than these bytes, and is cleared for each file.
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| 8 + part.len()).sum());
    for part in parts {
        // Lengths go in, so that two parts cannot be cut elsewhere to give the same bytes.
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(*part);
    }
    hash(&bytes)
}

fn hash(bytes: &[u8]) -> Fingerprint {
    let mut bits = [0; 16];
    // 128 bits: with 10^9 files two equal ones are less likely than a fault of the memory.
    bits.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    Fingerprint::from_le_bytes(bits)
}

fn line(word: Word, of: Fingerprint) -> String {
    let mut text = String::new();
    add_line(&mut text, word, of);
    text
}

fn add_line(text: &mut String, word: Word, of: Fingerprint) {
    let from = text.len();
    text.push_str(word.text());
    text.push(' ');
    add_hex(text, of.to_be_bytes());
    // Against a line that is torn; nobody else may write to the file.
    let check = xxh3_64(&text.as_bytes()[from..]) as u32;
    text.push(' ');
    add_hex(text, check.to_be_bytes());
    text.push('\n');
}

/// Without `format!`, whose adjustments cost more than the digits, once a file.
fn add_hex<const BYTES: usize>(text: &mut String, number: [u8; BYTES]) {
    let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
    text.extend(number.into_iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]));
}

fn read_line(text: &str) -> Option<(Word, Fingerprint)> {
    let (word, rest) = text.split_once(' ')?;
    let (_, word) = WORDS.iter().find(|(known, _)| *known == word)?;
    let of = Fingerprint::from_str_radix(rest.split_once(' ')?.0, 16).ok()?;
    // Written anew and compared, so that writing and reading cannot disagree about a checksum.
    (line(*word, of) == text).then_some((*word, of))
}

/// The directories that the copy with this journal made, or was about to make.
pub(crate) fn made_directories(journal: impl BufRead) -> io::Result<HashSet<Fingerprint>> {
    lines_of(Word::Makes, journal)
}

/// The files, and pieces of files, that the copy with this journal has done.
pub(crate) fn done_files(journal: impl BufRead) -> io::Result<HashSet<Fingerprint>> {
    lines_of(Word::Done, journal)
}

/// The lines with this word. The others, most of them perhaps, are not looked into.
fn lines_of(word: Word, mut journal: impl BufRead) -> io::Result<HashSet<Fingerprint>> {
    let (mut found, mut text) = (HashSet::new(), Vec::new());
    while journal.read_until(b'\n', &mut text)? > 0 {
        if text.starts_with(word.text().as_bytes()) {
            let line = std::str::from_utf8(&text).ok().and_then(read_line);
            found.extend(line.filter(|(known, _)| *known == word).map(|(_, of)| of));
        }
        text.clear();
    }
    Ok(found)
}

impl Journal {
    /// Opens the journal beside `target`, or begins one.
    ///
    /// # Errors
    /// If the journal is of another copy or of another user, or if another copy writes to it.
    pub(crate) fn open(
        options: &Options,
        source: &Stat,
        target: &Place<'_>,
    ) -> Result<Self, Error> {
        let target = Place { name: strip_trailing_slashes(target.name), ..*target };
        let Some(name) = journal_beside(target.name) else {
            let error = Error::refusal(target.shown, "has no name for a journal to be beside");
            return Err(error.hinting("name the target itself, with -T"));
        };
        let shown = journal_beside(target.shown).unwrap_or_else(|| name.clone());
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
        let os = |what: &'static str| move |errno| (what, errno);
        let opened = (|| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
            let mode = Mode::RUSR | Mode::WUSR;
            let fd = place.open_regular(flags, mode).map_err(os("cannot open"))?;
            let stat = retry_on_intr(|| fs::fstat(&fd)).map_err(os("cannot stat"))?;
            // flock(2) ends with the process, also by SIGKILL: no stale lock is left.
            retry_on_intr(|| fs::flock(&fd, FlockOperation::NonBlockingLockExclusive))
                .map_err(os("cannot lock"))?;
            // Whoever held the lock may have ended its copy and removed the journal meanwhile.
            let named = place.stat(false).map_err(os("cannot stat"))?;
            if !same_file(&named, &stat) {
                return Err(os("cannot lock")(Errno::WOULDBLOCK));
            }
            Ok((File::from(fd), stat))
        })();
        let (file, stat) = match opened {
            Ok(opened) => opened,
            Err((_, Errno::WOULDBLOCK)) => {
                return Err(is_written(&shown));
            }
            // Of a link in the place of the journal, which is not followed.
            Err((what, errno @ Errno::LOOP)) => return Err(Error::os(&shown, what, errno)),
            Err((what, errno)) => return Err(remedy::not_made(place, what, errno)),
        };
        let is_file = kind(&stat) == rustix::fs::FileType::RegularFile;
        // Another user's journal could say that files are done which are not.
        if !is_file || stat.st_uid != process::geteuid().as_raw() {
            return Err(Error::refusal(&shown, "no journal: not a file of this user"));
        }
        let waiting = Waiting { text: String::new(), lines: 0, written: Instant::now() };
        let mut journal = Self {
            file,
            shown,
            name,
            done: HashSet::new(),
            makes: HashSet::new(),
            made_by_others: OnceLock::new(),
            goes_on: false,
            earlier_mark: None,
            earlier_systems: None,
            mark: OnceLock::new(),
            waiting: Mutex::new(waiting),
        };
        match journal.read(this) {
            Ok(None) => {
                journal.goes_on = !(journal.done.is_empty() && journal.makes.is_empty());
                Ok(journal)
            }
            Ok(Some(foreign)) => {
                let (text, before) = foreign.told();
                Err(Error::refusal(&journal.shown, text).hinting(format!("{before}{}", anew())))
            }
            Err(error) => Err(Error::io(&journal.shown, "cannot read or write", error)),
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
                Some((Word::Copy, of)) if of != this => return Ok(Some(Foreign::OfAnotherCopy)),
                Some((Word::Copy, _)) => is_known = true,
                Some((Word::Done, of)) => drop(self.done.insert(of)),
                Some((Word::Makes, of)) => drop(self.makes.insert(of)),
                Some((Word::Mark, of)) => self.earlier_mark = Some(of),
                Some((Word::On, of)) => self.earlier_systems = Some(of),
                // Torn or foreign: its file is copied again, which is always right.
                None => {}
            }
            if line.is_some() {
                valid_bytes = read_bytes;
            }
            if read_bytes == text.len() as u64 {
                match format_of(&text) {
                    Some(format) if format != FORMAT => {
                        return Ok(Some(Foreign::OfFormat(format)));
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
        let first = line(Word::Copy, this);
        if !first.as_bytes().starts_with(&begun) {
            return Ok(Some(Foreign::NoJournal));
        }
        // Empty, or torn at its first write.
        self.file.set_len(0)?;
        (&self.file).write_all(first.as_bytes())?;
        Ok(None)
    }

    /// Does the copy go on with an earlier one?
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The mark of the temporary names that the copy so far may have left.
    pub(crate) fn earlier_mark(&self) -> Option<Fingerprint> {
        self.earlier_mark
    }

    /// The mark of this copy's temporary names, by which a copy that goes on knows them. Nobody else does: the journal is this user's alone.
    pub(crate) fn mark(&self) -> Option<Fingerprint> {
        *self.mark.get_or_init(|| {
            if self.earlier_mark.is_some() {
                return self.earlier_mark;
            }
            let random = || u128::from(RandomState::new().hash_one(process::getpid()));
            let mark = random() << 64 | random();
            let mut waiting = self.waiting();
            waiting.add(Word::Mark, mark);
            // Without the line the names are of no use: others are taken, and the journal's failures are told by its other lines.
            self.write(&mut waiting).is_ok().then_some(mark)
        })
    }

    /// Notes the file systems of source and target. Returns `false` if the copy so far was on
    /// others: then none of its files counts.
    pub(crate) fn is_on_same(&self, devices: [u64; 2]) -> Result<bool, Error> {
        let systems = fingerprint(&[b"on", &numbers(&devices)]);
        if self.earlier_systems == Some(systems) {
            return Ok(true);
        }
        let mut waiting = self.waiting();
        waiting.add(Word::On, systems);
        self.write(&mut waiting)?;
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
        let mut waiting = self.waiting();
        waiting.add(Word::Done, file);
        match waiting.lines >= WAITING_LINES || waiting.written.elapsed() >= WAITING_TIME {
            true => self.write(&mut waiting),
            false => Ok(()),
        }
    }

    /// Adds a directory before it is made, and writes all that waits.
    pub(crate) fn add_makes(&self, directory: Fingerprint) -> Result<(), Error> {
        let mut waiting = self.waiting();
        waiting.add(Word::Makes, directory);
        // At once: a directory that was made and not noted would keep the mode it was lent.
        self.write(&mut waiting)
    }

    /// Writes the lines that wait.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.write(&mut self.waiting())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines that cannot be written are forgotten: each failure is told once, and later lines do not suffer.
    fn write(&self, waiting: &mut Waiting) -> Result<(), Error> {
        if waiting.text.is_empty() {
            return Ok(());
        }
        let written = (&self.file).write_all(waiting.text.as_bytes());
        waiting.text.clear();
        // Also after a failure: the lines are given up, and cost the copy of their files again.
        (waiting.lines, waiting.written) = (0, Instant::now());
        written.map_err(|error| Error::io(&self.shown, "cannot write", error))
    }

    /// The whole copy is done: nobody needs the journal any more.
    pub(crate) fn remove(&self, target: &Place<'_>) -> Result<(), Error> {
        let place = Place { name: Path::new(&self.name), shown: &self.shown, ..*target };
        place.unlink().map_err(|errno| remedy::not_changed(&place, "cannot remove", errno))
    }
}

impl Waiting {
    fn add(&mut self, word: Word, of: Fingerprint) {
        add_line(&mut self.text, word, of);
        self.lines += 1;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever must know of a failure has called `flush`.
        let _ = self.flush();
    }
}

/// The error of a journal that another process writes.
pub(super) fn is_written(shown: &Path) -> Error {
    Error::refusal(shown, "another copy writes this journal").hinting("wait until it ends")
}

/// The copy of this source with these options. Others, such as the number of threads, may change.
pub(crate) fn which_copy(options: &Options, source: &Stat) -> Fingerprint {
    let Options { make, data, dereference, specials, preserve, shard, .. } = options;
    // Another launch goes on with the journal.
    let rank = shard.map_or_else(
        || "None".to_owned(),
        |shard| format!("Some(Shard {{ rank: {}, ranks: {} }})", shard.rank(), shard.ranks()),
    );
    let text = format!("{make:?} {data} {dereference:?} {specials:?} {preserve:?} {rank}");
    // A rank may go on on another machine, where devices have other numbers.
    let device = if shard.is_some() { 0 } else { source.st_dev };
    fingerprint(&[text.as_bytes(), &numbers(&[device, source.st_ino])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Label, ModeRule, Preserve, Xattrs};
    use crate::tree::shard::Shard;

    #[test]
    fn lines_of_files_wait_until_a_directory_is_made_there_are_many_or_the_journal_ends() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let source = Place::here(dir.path()).stat(false).unwrap();
        let open = || Journal::open(&Options::default(), &source, &Place::here(&target)).unwrap();
        let written = || BufReader::new(File::open(journal_beside(&target).unwrap()).unwrap());
        let done = || done_files(written()).unwrap();
        let journal = open();
        // Nothing is late while the test runs.
        journal.waiting().written = Instant::now() + Duration::from_secs(3600);
        journal.add_done(1).unwrap();
        assert_eq!(done().len(), 0);
        journal.add_makes(2).unwrap();
        assert_eq!(done(), HashSet::from([1]));
        assert_eq!(made_directories(written()).unwrap(), HashSet::from([2]));
        journal.waiting().written = Instant::now() + Duration::from_secs(3600);
        (10..9 + WAITING_LINES as u128).for_each(|file| journal.add_done(file).unwrap());
        assert_eq!(done().len(), 1);
        journal.add_done(99).unwrap();
        assert_eq!(done().len(), 1 + WAITING_LINES);
        journal.waiting().written = Instant::now().checked_sub(WAITING_TIME).unwrap();
        journal.add_done(100).unwrap();
        assert_eq!(done().len(), 2 + WAITING_LINES);
        journal.add_done(101).unwrap();
        drop(journal);
        let again = open();
        assert!(again.goes_on() && [1, 99, 100, 101].iter().all(|file| again.is_done(*file)));
    }

    /// Another build may write what this one reads: whoever changes a fingerprint, or how options are told, raises the number.
    #[test]
    fn fingerprints_are_those_of_the_format() {
        // Of numbers alone, which are the same on every machine.
        let mut stat = Place::here(Path::new("/")).stat(false).unwrap();
        (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_nlink) = (1, 2, 0o100_644, 1);
        (stat.st_uid, stat.st_gid, stat.st_size) = (3, 4, 5);
        (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec) = (6, 7, 8, 9);
        let mut of_two_names = stat;
        of_two_names.st_nlink = 2;
        let name = OsStr::new("name");
        let preserve = Preserve {
            mode: ModeRule::Keep,
            owner: true,
            times: true,
            links: true,
            xattrs: Xattrs::Try,
            label: Label::Try,
            required: true,
        };
        let options = Options { preserve, ..Options::default() };
        let none = Promises::of(&options);
        let fingerprints = [
            entry(&stat, name),
            done(none, (&stat, name), &stat, &stat),
            done(none, (&stat, name), &of_two_names, &stat),
            divided(Path::new("name"), &stat),
            piece(Path::new("name"), 10),
            which_copy(&Options::default(), &stat),
            which_copy(&options, &stat),
            which_copy(&Options { shard: Shard::new(1, 2), ..options.clone() }, &stat),
        ];
        let shard = Shard::new(1, 2).map(|shard| shard.launched_as(b"any"));
        assert_eq!(Some(&which_copy(&Options { shard, ..options }, &stat)), fingerprints.last());
        let text = fingerprints.map(|of| line(Word::Done, of)).concat();
        assert_eq!(format!("{:032x}", hash(text.as_bytes())), "1057b98c63d48877c0ddf6c5ca7c7edb");
        assert_eq!(Word::Copy.text(), format!("{HEADING}{FORMAT}"));
    }

    /// As a build of 2026-11 wrote it: the format, its checksums included, is that of all journals there are.
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
        let lines = [(Word::Copy, copy), (Word::Makes, 0xa1), (Word::Done, file), (Word::Done, 0)];
        assert_eq!(lines.map(|(word, of)| line(word, of)).concat(), RECORDED);
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("journal");
        let read = || std::fs::read_to_string(&name).unwrap();
        std::fs::write(&name, RECORDED).unwrap();
        let journal = Journal::open_at(&Place::here(&name), copy, String::new).unwrap();
        assert!(journal.goes_on() && journal.has_made(0xa1));
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

    #[test]
    fn the_first_line_tells_the_format() {
        let (of, check) = ("0123456789abcdef0123456789abcdef", "89abcdef");
        assert_eq!(format_of(line(Word::Copy, 7).as_bytes()), Some(FORMAT));
        for (text, format) in [
            (format!("copy {of} {check}\n"), Some(1)),
            (format!("gush-journal-1 {of} {check}\n"), Some(1)),
            (format!("gush-journal-2 {of} {check}\n"), Some(2)),
            (format!("gush-journal-3 {of} {check}\n"), Some(3)),
            ("gush-journal-4 in other words\n".to_owned(), Some(4)),
            ("gush-journal-10\n".to_owned(), Some(10)),
            ("gush-journal-1".to_owned(), None),
            ("gush-journal-3 no number\n".to_owned(), None),
            ("gush-journal-x y\n".to_owned(), None),
            (format!("copy {of} {check}"), None),
            (format!("copy {of} {check} more\n"), None),
            ("copy the photos\n".to_owned(), None),
            ("done 1\n".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(format_of(text.as_bytes()), format, "{text}");
        }
    }

    #[test]
    fn a_line_is_read_as_written_and_no_other() {
        for (word, of) in [(Word::Copy, 0), (Word::Done, u128::MAX), (Word::Makes, 7)] {
            let text = line(word, of);
            assert_eq!(read_line(&text), Some((word, of)));
            assert_eq!(read_line(&text[..text.len() - 1]), None);
            assert_eq!(read_line(&text[1..]), None);
            let last = if text.ends_with("0\n") { "1\n" } else { "0\n" };
            let scribbled = [&text[..text.len() - 2], last].concat();
            assert_eq!(read_line(&scribbled), None);
        }
    }
}
