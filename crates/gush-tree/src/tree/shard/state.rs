//! The directory next to the target in which the ranks keep their state.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gush_text::quote;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process;

use super::division::Division;
use super::piece_copier::{self, WalkLock};
use super::{Shard, Share, piece_store};
use crate::error::Error;
use crate::file::Common;
use crate::job::Entry;
use crate::place::{Place, kind, stat_of};
use crate::remedy;
use crate::state_path::state_path;
use crate::tree::journal::{self, Fingerprint, Journal, Tag};

/// The end of the name of the directory of state.
const SUFFIX: &str = ".gush-shards";

/// The symbolic link in the state that says how the tree is divided.
const RULE: &str = "rule";

/// The symbolic link in the state that holds the number of ranks.
const RANKS: &str = "ranks";

/// How often the state is removed, and the pause between two tries: NFS keeps a removed file under
/// another name (`.nfs…`) as long as a process of this machine has the file open.
const REMOVE_TRIES: u32 = 500;
const REMOVE_TRIES_EVERY: Duration = Duration::from_millis(10);

/// The directory in which the ranks of a copy to `target` keep their state; `None` if the path ends
/// in `..`. For a name too long for the directory's, a fingerprint replaces the last bytes.
///
/// ```
/// use std::path::Path;
/// let state = gush_tree::shards_path(Path::new("backup/photos/"));
/// assert_eq!(state.as_deref(), Some(Path::new("backup/.photos.gush-shards")));
/// ```
#[must_use]
pub fn shards_path(target: &Path) -> Option<PathBuf> {
    state_path(target, SUFFIX)
}

/// Refuses a copy by one process that shall go on where ranks have begun: the ranks may still
/// write, and what they have done is in their own journals.
pub(in crate::tree) fn refuse_state_of_ranks(target: &Place<'_>) -> Result<(), Error> {
    let Some(name) = shards_path(target.name) else { return Ok(()) };
    let shown = shards_path(target.shown).unwrap_or_else(|| name.clone());
    let place = Place { name: &name, shown: &shown, ..*target };
    if !place.stat(false).is_ok_and(|stat| kind(&stat) == FileType::Directory) {
        return Ok(());
    }
    let removal = || {
        let state = quote::always(&shown);
        format!("remove {state} to copy by one process, with -T if the target is there")
    };
    let anew = match place.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
        Ok(dir) => anew(dir.as_fd(), None, removal),
        Err(_) => removal(),
    };
    let text = "not copying {}: several ranks have begun this copy, and are not done";
    Err(Error::refusal(target.shown, text)
        .hinting(format!("go on with --shard and --resume, or {anew}")))
}

/// What to do to begin anew: `removal` of the state, unless a rank other than `own` runs.
fn anew(state: BorrowedFd<'_>, own: Option<u32>, removal: impl FnOnce() -> String) -> String {
    let running = |name: &PathBuf| {
        let number = name.to_str()?.strip_prefix("rank-")?.strip_suffix(".journal")?;
        let rank = number.parse().ok().filter(|rank| Some(*rank) != own)?;
        piece_copier::is_locked(&Place::below(state, name, name)).then_some(rank)
    };
    match piece_store::names(state).unwrap_or_default().iter().find_map(running) {
        Some(rank) => format!("end rank {rank}, which still runs, to begin anew"),
        None => removal(),
    }
}

/// The directory of state, which this user made.
pub(super) struct StateDir<'a> {
    shard: Shard,
    target: Place<'a>,
    name: PathBuf,
    pub(super) shown: PathBuf,
    pub(super) dir: OwnedFd,
}

impl<'a> StateDir<'a> {
    pub(super) fn open(shard: Shard, target: Place<'a>) -> Result<Self, Error> {
        let no_name = || {
            Error::refusal(
                target.shown,
                "{} has no name to derive the name of the ranks' state from",
            )
        };
        let name = shards_path(target.name).ok_or_else(no_name)?;
        let shown = shards_path(target.shown).unwrap_or_else(|| name.clone());
        let place = Place { name: &name, shown: &shown, ..target };
        // Before anything is copied.
        remedy::refuse_kept(&place)?;
        match retry_on_intr(|| fs::mkdirat(place.dir, place.name, Mode::RWXU)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(remedy::directory_not_made(&place, errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = place
            .open(flags, Mode::empty())
            .map_err(|errno| Error::os(&shown, "cannot open {}", errno))?;
        let stat = stat_of(&dir, &shown)?;
        if stat.st_uid != process::geteuid().as_raw() {
            return Err(Error::refusal(&shown, "no state of ranks: not a directory of this user"));
        }
        Ok(Self { shard, target, name, shown, dir })
    }

    fn file(&self, rank: u32, what: &str) -> (PathBuf, PathBuf) {
        let name = PathBuf::from(format!("rank-{rank}.{what}"));
        let shown = self.shown.join(&name);
        (name, shown)
    }

    /// Opens this rank's journal, and shows the others that the rank walks through the tree.
    ///
    /// # Errors
    /// Also if an earlier copy left one, and this one shall not go on with it.
    pub(super) fn begin(
        &self,
        common: &Common<'_>,
        source: &Stat,
    ) -> Result<(WalkLock<'_>, Journal), Error> {
        let (name, shown) = self.file(self.shard.rank(), "journal");
        let place = Place::below(self.dir.as_fd(), &name, &shown);
        let existed = place.stat(false).is_ok();
        // Before the journal: a rank that sees a journal and no walk takes the walk for ended.
        let walk_lock = WalkLock::begin(self.dir.as_fd(), self.shard.rank());
        let walk_lock = walk_lock.map_err(|errno| match errno {
            Errno::WOULDBLOCK => journal::is_written(&shown),
            errno => Error::os(&shown, "cannot lock {}", errno),
        })?;
        let own = Some(self.shard.rank());
        let journal =
            Journal::open_at(&place, journal::which_copy(common.options, source), || {
                const REMOVAL: &str =
                    "remove the directory to begin anew, with -T if the target is there";
                anew(self.dir.as_fd(), own, || REMOVAL.to_owned())
            })?;
        // Now that no other process is this rank.
        if existed && !common.options.resume {
            let removal = || "remove the directory to begin anew".to_owned();
            let anew = anew(self.dir.as_fd(), own, removal);
            return Err(Error::refusal(&shown, "an earlier copy by ranks was interrupted")
                .hinting(format!("--resume goes on with it; {anew}")));
        }
        Ok((walk_lock, journal))
    }

    /// The text of a symbolic link in the state: `ours`, or that of the rank that began.
    /// symlinkat(2) replaces nothing, also on network file systems, so one rank decides.
    fn agreed(&self, name: &str, ours: &str) -> Result<String, Error> {
        let shown = self.shown.join(name);
        let failed = |what: &'static str| move |errno| Error::os(&shown, what, errno);
        match fs::symlinkat(ours, &self.dir, name) {
            Ok(()) => Ok(ours.to_owned()),
            Err(Errno::EXIST) => {
                let began = fs::readlinkat(&self.dir, name, Vec::new());
                Ok(began.map_err(failed("cannot read {}"))?.to_string_lossy().into_owned())
            }
            Err(errno) => Err(failed("cannot make {}")(errno)),
        }
    }

    /// Agrees with the ranks that began on their number.
    ///
    /// # Errors
    /// If their number is another one.
    pub(super) fn agree_on_ranks(&self) -> Result<(), Error> {
        let here = self.shard.ranks().to_string();
        let began = self.agreed(RANKS, &here)?;
        if began == here {
            return Ok(());
        }
        let text = format!(
            "not copying {{}}: {began} ranks have begun this copy, and this is one of {here}"
        );
        let anew = anew(self.dir.as_fd(), None, || {
            let state = quote::always(&self.shown);
            format!("remove {state} to begin anew, with -T if the target is there")
        });
        Err(Error::refusal(self.target.shown, text)
            .hinting(format!("go on with {began} ranks and --resume, or {anew}")))
    }

    /// How the tree is divided: as the rank that began has written. `root` is the source, open.
    ///
    /// # Errors
    /// If the ranks divide the tree by inode numbers, and they are others here.
    pub(super) fn division(
        &self,
        source: Entry<'_>,
        root: BorrowedFd<'_>,
    ) -> Result<Division, Error> {
        let shown = source.place.shown;
        let division = Division::suiting(self.shard, root, source.stat, self.dir.as_fd())
            .map_err(|errno| Error::os(shown, "cannot ask for the file system of {}", errno))?;
        let text = division.text(source.stat);
        let agreed = self.agreed(RULE, &text)?;
        division.agreeing(&agreed, &text).ok_or_else(|| {
            let text = "not copying {}: the ranks divide this tree by inode numbers, and these are others here than for the rank that began";
            let anew = anew(self.dir.as_fd(), None, || {
                let state = quote::always(&self.shown);
                format!("remove {state} to begin anew, and start this rank before the others")
            });
            Error::refusal(shown, text).hinting(anew)
        })
    }

    pub(super) fn retract(&self, rank: u32) -> Result<(), Error> {
        let (name, shown) = self.file(rank, "done");
        self.unlink(&name, &shown)
    }

    fn unlink(&self, name: &Path, shown: &Path) -> Result<(), Error> {
        match retry_on_intr(|| fs::unlinkat(&self.dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::os(shown, "cannot remove {}", errno)),
        }
    }

    /// Reports to rank 0 that this share is done. The report has its name only when it is whole.
    pub(super) fn report(&self, share: &Share) -> Result<(), Error> {
        let rank = self.shard.rank();
        let ((new, _), (name, shown)) = (self.file(rank, "new"), self.file(rank, "done"));
        let written = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
            let flags = flags | OFlags::CLOEXEC;
            let file =
                retry_on_intr(|| fs::openat(&self.dir, &new, flags, Mode::RUSR | Mode::WUSR))?;
            let mut file = File::from(file);
            file.write_all(share.text(self.shard).as_bytes())?;
            file.sync_all()?;
            Ok(retry_on_intr(|| fs::renameat(&self.dir, &new, &self.dir, &name))?)
        };
        written().map_err(|error| Error::io(&shown, "cannot write {}", error))
    }

    /// The report of a rank; `None` as long as the rank has written none in this launch.
    pub(super) fn report_of(&self, rank: u32) -> Result<Option<Share>, Error> {
        let Some(mut file) = self.open_file(rank, "done")? else { return Ok(None) };
        let mut bytes = Vec::new();
        let shown = self.file(rank, "done").1;
        file.read_to_end(&mut bytes).map_err(|error| Error::io(&shown, "cannot read {}", error))?;
        Ok(Share::read(&String::from_utf8_lossy(&bytes), self.shard.peer(rank)))
    }

    fn open_file(&self, rank: u32, what: &str) -> Result<Option<File>, Error> {
        let (name, shown) = self.file(rank, what);
        let place = Place::below(self.dir.as_fd(), &name, &shown);
        match place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::os(&shown, "cannot read {}", errno)),
        }
    }

    /// The lines with this word of the journals of all ranks.
    pub(super) fn of_journals(&self, word: Tag) -> Result<HashSet<Fingerprint>, Error> {
        let mut all = HashSet::new();
        for rank in 0..self.shard.ranks() {
            if let Some(journal) = self.open_file(rank, "journal")? {
                let shown = self.file(rank, "journal").1;
                let found = journal::lines_of(word, BufReader::new(journal));
                all.extend(found.map_err(|error| Error::io(&shown, "cannot read {}", error))?);
            }
        }
        Ok(all)
    }

    /// Removes the files of pieces that got no place in the tree, their links and tables.
    fn remove_pieces(&self) -> Result<(), Error> {
        let names = piece_store::names(self.dir.as_fd());
        let names = names.map_err(|errno| Error::os(&self.shown, "cannot access {}", errno))?;
        let prefix = piece_store::PREFIX.as_bytes();
        let is_of_pieces = |name: &&PathBuf| name.as_os_str().as_bytes().starts_with(prefix);
        let mut names = names.iter().filter(is_of_pieces);
        names.try_for_each(|name| self.unlink(name, &self.shown.join(name)))
    }

    pub(super) fn remove(self) -> Result<(), Error> {
        let mut tries_left = REMOVE_TRIES;
        loop {
            self.remove_pieces()?;
            for name in [RULE, RANKS] {
                self.unlink(Path::new(name), &self.shown.join(name))?;
            }
            for rank in 0..self.shard.ranks() {
                for what in ["done", "new", "walks", "journal"] {
                    let (name, shown) = self.file(rank, what);
                    self.unlink(&name, &shown)?;
                }
            }
            let removed =
                retry_on_intr(|| fs::unlinkat(self.target.dir, &self.name, AtFlags::REMOVEDIR));
            match removed {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) if tries_left > 0 => {
                    thread::sleep(REMOVE_TRIES_EVERY);
                }
                removed => {
                    let place = Place { name: &self.name, shown: &self.shown, ..self.target };
                    let cannot = |errno| remedy::not_changed(&place, "cannot remove {}", errno);
                    return removed.map_err(cannot);
                }
            }
            tries_left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_removed_when_nobody_has_a_file_of_it_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let state = StateDir::open(Shard::new(0, 2).unwrap(), Place::here(&target)).unwrap();
        let kept = dir.path().join(".copy.gush-shards/.nfs0001");
        std::fs::write(&kept, "").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // The first attempt comes before, or the test shows nothing.
                thread::sleep(Duration::from_millis(50));
                std::fs::remove_file(&kept).unwrap();
            });
            state.remove().unwrap();
        });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
