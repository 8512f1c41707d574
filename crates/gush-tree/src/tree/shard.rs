//! One tree copied by several ranks: who copies which file, and how rank 0 learns that the others are done.
//!
//! Ranks send no messages. A hash of its inode number or path says who copies a file, so each rank decides alone and no list is shared
//! (`division.rs`). Of a large file all ranks take pieces (`parts.rs`, `taking.rs`). Every rank lists the whole tree and makes the directories that it finds missing. Beside the target is a directory of
//! state: of each rank a journal, as a resumed copy has one, and a report once its share is done. Rank 0 waits for all
//! reports; then it copies the files that come last, gives the directories their attributes, and removes the state.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process;
use xxhash_rust::xxh3::xxh3_64;

use super::division::{Division, Seen};
use super::journal::{self, Fingerprint, Journal};
use super::parts::{self, AfterShares, Parts};
use super::taking::{Taker, Walkers, Walking};
use super::{Extent, Operands, Walked, below_operand, dir, walk_tree};
use crate::beside::hidden_name;
use crate::destination::strip_trailing_slashes;
use crate::error::Error;
use crate::events::Events;
use crate::file::{Action, Common, Done};
use crate::options::Dereference;
use crate::place::{Place, kind};
use crate::{quote, remedy};

/// The end of the name of the directory of state.
const SUFFIX: &str = ".gush-shards";

/// The symbolic link in the state that tells how the tree is divided.
const RULE: &str = "rule";

/// The symbolic link in the state that tells the number of ranks.
const RANKS: &str = "ranks";

/// The pause between the first looks: ranks of one small tree end within milliseconds of each other.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause of a rank that waits while its looks are short.
const LONGEST_PAUSE_OF_SHORT_LOOKS: Duration = Duration::from_millis(20);
/// The longest pause of all, which rank 0 makes once it has told for whom it waits.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A pause is so many times as long as the look before: a look lists the state, which has three names for each announced file.
const PAUSE_PER_LOOK: u32 = 4;

/// How often the state is removed, and the pause between two tries: NFS keeps a removed file under another
/// name (`.nfs…`) as long as a process of this machine has the file open.
const REMOVE_TRIES: u32 = 500;
const REMOVE_TRIES_EVERY: Duration = Duration::from_millis(10);

/// From then on the user is told for whom rank 0 waits.
const TELLS_AFTER: Duration = Duration::from_secs(5);

/// The place of this process among those that copy one tree together.
///
/// ```
/// use std::path::Path;
/// use gush_tree::Shard;
///
/// let ranks: Vec<_> = (0..4).filter_map(|rank| Shard::new(rank, 4)).collect();
/// let takers = ranks.iter().filter(|shard| shard.takes(Path::new("src/main.rs")));
/// assert_eq!(takers.count(), 1);
/// assert!(Shard::new(4, 4).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    rank: u32,
    ranks: u32,
    /// A hash of the launcher's name for this launch, if the launcher has one.
    launch: Option<u64>,
}

impl Shard {
    /// Rank `rank` of `ranks`, which count from 0; `None` if there is no such rank.
    #[must_use]
    pub fn new(rank: u32, ranks: u32) -> Option<Self> {
        (rank < ranks).then_some(Self { rank, ranks, launch: None })
    }

    /// This rank, started by the launch with this name, which is the same for all ranks of the launch and for no other launch.
    ///
    /// Rank 0 waits for reports of its own launch, and so not for those that a launch left which was killed. A report
    /// counts also where rank 0 or the reporting rank knows of no launch.
    ///
    /// ```
    /// use gush_tree::Shard;
    /// let rank = Shard::new(0, 4).map(|shard| shard.launched_as(b"job 7, step 0"));
    /// # assert_ne!(rank, Shard::new(0, 4));
    /// ```
    #[must_use]
    pub fn launched_as(self, name: &[u8]) -> Self {
        Self { launch: Some(xxh3_64(name)), ..self }
    }

    /// Does this rank copy the file with this path from the tree's root? Exactly one does.
    #[must_use]
    pub fn takes(self, path: &Path) -> bool {
        self.owns(path.as_os_str().as_bytes())
    }

    /// Does this rank copy the file with this inode number? All names of one file are of one rank, which links them.
    pub(crate) fn takes_inode(self, inode: u64) -> bool {
        self.owns(&inode.to_le_bytes())
    }

    /// Which rank this is, from 0.
    #[must_use]
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// The number of all ranks.
    #[must_use]
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// The other ranks.
    pub(crate) fn others(self) -> impl Iterator<Item = u32> {
        (0..self.ranks).filter(move |rank| *rank != self.rank)
    }

    /// Does this rank copy the piece of a large file with this number, unless another one has come first?
    pub(crate) fn takes_piece(self, path: &Path, number: u64) -> bool {
        // A path has no zero byte, so that path and number cannot run into each other.
        let key = [path.as_os_str().as_bytes(), &[0], &number.to_le_bytes()].concat();
        self.owns(&key)
    }

    /// With which of so many things this rank begins, so that ranks are at different ones.
    pub(super) fn begins_at(self, things: usize) -> usize {
        // Apart from each other: ranks that begin at the same place would make the same directories at once.
        (things as u128 * u128::from(self.rank) / u128::from(self.ranks)) as usize
    }

    fn owns(self, key: &[u8]) -> bool {
        // Each rank asks this of every file, so a hash of few nanoseconds: nobody gains by names that make one rank slow.
        let bits = u128::from(xxh3_64(key));
        // A product instead of a remainder, which would favour the first ranks.
        (bits * u128::from(self.ranks)) >> 64 == u128::from(self.rank)
    }
}

/// What one rank did of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The files that were this rank's to copy.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Nothing failed.
    pub is_complete: bool,
    /// All files seen, and the files of this share.
    pub(crate) seen: Seen,
    /// The files announced by this rank.
    pub(crate) divided_files: u64,
}

impl Share {
    fn text(&self, shard: Shard) -> String {
        let Self { files, bytes, seen: Seen { all, own }, divided_files, is_complete } = self;
        let complete = u8::from(*is_complete);
        let launch = shard.launch.map_or_else(String::new, |launch| format!(" {launch}"));
        format!(
            "share {} {} {all} {own} {divided_files} {files} {bytes} {complete}{launch} end\n",
            shard.rank, shard.ranks
        )
    }

    /// Reads the report of `shard`; `None` for anything else, a report of another launch included.
    fn read(text: &str, shard: Shard) -> Option<Self> {
        // A report that is read while it is being written has no end yet.
        let text = text.strip_prefix("share ")?.strip_suffix(" end\n")?;
        let numbers: Option<Vec<u64>> = text.split(' ').map(|word| word.parse().ok()).collect();
        let numbers = numbers?;
        let [rank, ranks, all, own, divided_files, files, bytes, complete, ref launch @ ..] =
            *numbers.as_slice()
        else {
            return None;
        };
        let is_of_this_launch = match (launch, shard.launch) {
            ([launch], Some(ours)) => *launch == ours,
            // A rank started by hand stands in for one that was lost.
            ([], _) | ([_], None) => true,
            _ => return None,
        };
        let is_of_rank = (rank, ranks) == (shard.rank.into(), shard.ranks.into());
        (is_of_rank && is_of_this_launch).then_some(Self {
            files,
            bytes,
            is_complete: complete == 1,
            seen: Seen { all, own },
            divided_files,
        })
    }
}

/// The directory in which the ranks of a copy to `target` keep their state; `None` if the path ends in `..`. Of a name too long for a
/// directory beside it, the last bytes give way to a fingerprint.
///
/// ```
/// use std::path::Path;
/// let state = gush_tree::shards_beside(Path::new("backup/photos/"));
/// assert_eq!(state.as_deref(), Some(Path::new("backup/.photos.gush-shards")));
/// ```
#[must_use]
pub fn shards_beside(target: &Path) -> Option<PathBuf> {
    let target = strip_trailing_slashes(target);
    let of = target.file_name()?;
    if target.as_os_str().as_bytes().ends_with(b"/.") {
        return None;
    }
    Some(target.with_file_name(hidden_name(of, SUFFIX)))
}

/// Refuses a copy by one process that shall go on where ranks have begun: the ranks may still write, and what they have done stands in their own journals.
pub(super) fn refuse_state_of_ranks(target: &Place<'_>) -> Result<(), Error> {
    let Some(name) = shards_beside(target.name) else { return Ok(()) };
    let shown = shards_beside(target.shown).unwrap_or_else(|| name.clone());
    let place = Place { name: &name, shown: &shown, ..*target };
    if !place.stat(false).is_ok_and(|stat| kind(&stat) == FileType::Directory) {
        return Ok(());
    }
    let text = "not copied: several ranks have begun this copy, and are not done";
    Err(Error::refusal(target.shown, text).hinting(format!(
        "go on with --shard and --resume, or remove {} to copy by one process, with -T if the target is there",
        quote::always(&shown)
    )))
}

/// The directory of state, which this user made.
struct State<'a> {
    shard: Shard,
    target: Place<'a>,
    name: PathBuf,
    shown: PathBuf,
    dir: OwnedFd,
}

impl<'a> State<'a> {
    fn open(shard: Shard, target: Place<'a>) -> Result<Self, Error> {
        let no_name =
            || Error::refusal(target.shown, "has no name for the ranks' state to be beside");
        let name = shards_beside(target.name).ok_or_else(no_name)?;
        let shown = shards_beside(target.shown).unwrap_or_else(|| name.clone());
        let place = Place { name: &name, shown: &shown, ..target };
        let failed = |what: &'static str| {
            let shown = shown.clone();
            move |errno| Error::os(&shown, what, errno)
        };
        // Before anything is copied.
        remedy::refuse_kept(&place)?;
        match retry_on_intr(|| fs::mkdirat(place.dir, place.name, Mode::RWXU)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(remedy::directory_not_made(&place, errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = place.open(flags, Mode::empty()).map_err(failed("cannot open"))?;
        let stat = retry_on_intr(|| fs::fstat(&dir)).map_err(failed("cannot stat"))?;
        if stat.st_uid != process::geteuid().as_raw() {
            return Err(Error::refusal(&shown, "no state of ranks: not a directory of this user"));
        }
        Ok(Self { shard, target, name, shown, dir })
    }

    fn of(&self, rank: u32) -> Shard {
        Shard { rank, ..self.shard }
    }

    fn file(&self, rank: u32, what: &str) -> (PathBuf, PathBuf) {
        let name = PathBuf::from(format!("rank-{rank}.{what}"));
        let shown = self.shown.join(&name);
        (name, shown)
    }

    /// Opens this rank's journal, and tells the others that the rank walks through the tree.
    ///
    /// # Errors
    /// Also if an earlier copy left one, and this one shall not go on with it.
    fn begin(&self, common: &Common<'_>, source: &Stat) -> Result<(Walking<'_>, Journal), Error> {
        let (name, shown) = self.file(self.shard.rank, "journal");
        let place = Place::below(self.dir.as_fd(), &name, &shown);
        let existed = place.stat(false).is_ok();
        if existed && !common.options.resume {
            let text = "an earlier copy by ranks was interrupted";
            return Err(Error::refusal(&shown, text)
                .hinting("--resume goes on with it; remove the directory to begin anew"));
        }
        // Before the journal: whoever sees a journal and no walk takes the walk for ended.
        let walking = Walking::begin(self.dir.as_fd(), self.shard.rank);
        let walking = walking.map_err(|errno| match errno {
            Errno::WOULDBLOCK => journal::is_written(&shown),
            errno => Error::os(&shown, "cannot lock", errno),
        })?;
        let anew = "remove the directory to begin anew, with -T if the target is there";
        let journal = Journal::open_at(&place, journal::which_copy(common.options, source), anew)?;
        Ok((walking, journal))
    }

    /// The text of a symbolic link in the state: `ours`, or that of the rank that began. symlinkat(2) replaces nothing, also on network
    /// file systems, so one rank decides.
    fn agreed(&self, name: &str, ours: &str) -> Result<String, Error> {
        let shown = self.shown.join(name);
        let failed = |what: &'static str| move |errno| Error::os(&shown, what, errno);
        match fs::symlinkat(ours, &self.dir, name) {
            Ok(()) => Ok(ours.to_owned()),
            Err(Errno::EXIST) => {
                let began = fs::readlinkat(&self.dir, name, Vec::new());
                Ok(began.map_err(failed("cannot read"))?.to_string_lossy().into_owned())
            }
            Err(errno) => Err(failed("cannot make")(errno)),
        }
    }

    /// Agrees with the ranks that began on their number.
    ///
    /// # Errors
    /// If their number is another one.
    fn agree_on_ranks(&self) -> Result<(), Error> {
        let here = self.shard.ranks.to_string();
        let began = self.agreed(RANKS, &here)?;
        if began == here {
            return Ok(());
        }
        let text =
            format!("not copied: {began} ranks have begun this copy, and this is one of {here}");
        Err(Error::refusal(self.target.shown, text).hinting(format!(
            "go on with {began} ranks and --resume, or remove {} to begin anew, with -T if the target is there",
            quote::always(&self.shown)
        )))
    }

    /// How the tree is divided: as the rank that began has written. `root` is the source, open.
    ///
    /// # Errors
    /// If the ranks divide the tree by inode numbers, and they are others here.
    fn division(
        &self,
        (source, source_stat): (&Place<'_>, &Stat),
        root: BorrowedFd<'_>,
    ) -> Result<Division, Error> {
        let division = Division::suiting(self.shard, (root, source_stat), self.dir.as_fd())
            .map_err(|errno| Error::os(source.shown, "cannot ask for the file system", errno))?;
        let text = division.text(source_stat);
        let agreed = self.agreed(RULE, &text)?;
        division.agreeing(&agreed, &text).ok_or_else(|| {
            let text = "not copied: the ranks divide this tree by inode numbers, and these are others here than for the rank that began";
            let state = quote::always(&self.shown);
            Error::refusal(source.shown, text).hinting(format!(
                "remove {state} to begin anew, and start this rank before the others"
            ))
        })
    }

    fn retract(&self, rank: u32) -> Result<(), Error> {
        let (name, shown) = self.file(rank, "done");
        self.unlink(&name, &shown)
    }

    fn unlink(&self, name: &Path, shown: &Path) -> Result<(), Error> {
        match retry_on_intr(|| fs::unlinkat(&self.dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::os(shown, "cannot remove", errno)),
        }
    }

    /// Tells rank 0 that this share is done. The report has its name only when it is whole.
    fn report(&self, share: &Share) -> Result<(), Error> {
        let rank = self.shard.rank;
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
        written().map_err(|error| Error::io(&shown, "cannot write", error))
    }

    fn read(&self, rank: u32, what: &str) -> Result<Option<String>, Error> {
        let Some(mut file) = self.open_file(rank, what)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let shown = self.file(rank, what).1;
        file.read_to_end(&mut bytes).map_err(|error| Error::io(&shown, "cannot read", error))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn open_file(&self, rank: u32, what: &str) -> Result<Option<File>, Error> {
        let (name, shown) = self.file(rank, what);
        let place = Place::below(self.dir.as_fd(), &name, &shown);
        match place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::os(&shown, "cannot read", errno)),
        }
    }

    /// Waits until all ranks have reported, and takes pieces meanwhile that ranks announce late.
    fn wait(&self, taker: &mut Taker<'_>, events: &mut dyn Events) -> Result<Vec<Share>, Error> {
        let began = Instant::now();
        let mut has_told = false;
        loop {
            let (mut shares, mut missing) = (Vec::new(), Vec::new());
            for rank in 0..self.shard.ranks {
                let text = self.read(rank, "done")?;
                match text.and_then(|text| Share::read(&text, self.of(rank))) {
                    Some(share) => shares.push(share),
                    None => missing.push(rank),
                }
            }
            if missing.is_empty() {
                return Ok(shares);
            }
            let look = taker.take(events)?;
            let is_late = began.elapsed() >= TELLS_AFTER;
            if is_late && !has_told {
                events.waits_for_ranks(&missing);
                has_told = true;
            }
            let pause = until_next_look(began.elapsed(), look);
            thread::sleep(if is_late { LONGEST_PAUSE } else { pause });
        }
    }

    /// The directories that any rank made.
    fn made(&self) -> Result<HashSet<Fingerprint>, Error> {
        self.of_journals(journal::made_directories)
    }

    /// The pieces of large files that any rank has copied.
    fn pieces(&self) -> Result<HashSet<Fingerprint>, Error> {
        self.of_journals(journal::done_files)
    }

    fn of_journals(
        &self,
        read: fn(BufReader<File>) -> io::Result<HashSet<Fingerprint>>,
    ) -> Result<HashSet<Fingerprint>, Error> {
        let mut all = HashSet::new();
        for rank in 0..self.shard.ranks {
            if let Some(journal) = self.open_file(rank, "journal")? {
                let shown = self.file(rank, "journal").1;
                let found = read(BufReader::new(journal));
                all.extend(found.map_err(|error| Error::io(&shown, "cannot read", error))?);
            }
        }
        Ok(all)
    }

    /// The names of the files of pieces, of their links and tables.
    fn files_of_pieces(&self) -> Result<Vec<PathBuf>, Error> {
        let names = parts::names(self.dir.as_fd());
        let mut names = names.map_err(|errno| Error::os(&self.shown, "cannot list", errno))?;
        names.retain(|name| name.as_os_str().as_bytes().starts_with(parts::PREFIX.as_bytes()));
        Ok(names)
    }

    /// Removes the files of pieces that got no place in the tree.
    fn remove_pieces(&self) -> Result<(), Error> {
        for name in self.files_of_pieces()? {
            self.unlink(&name, &self.shown.join(&name))?;
        }
        Ok(())
    }

    fn remove(self) -> Result<(), Error> {
        let mut tries_left = REMOVE_TRIES;
        loop {
            self.remove_pieces()?;
            for name in [RULE, RANKS] {
                self.unlink(Path::new(name), &self.shown.join(name))?;
            }
            for rank in 0..self.shard.ranks {
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
                    let cannot = |errno| remedy::not_changed(&place, "cannot remove", errno);
                    return removed.map_err(cannot);
                }
            }
            tries_left -= 1;
        }
    }
}

/// Copies this rank's share, and, as rank 0, all that comes after the shares.
pub(super) fn copy(
    common: &Common<'_>,
    operands: &mut Operands,
    (source, source_stat): (Place<'_>, &Stat),
    target: Place<'_>,
    shard: Shard,
    events: &mut dyn Events,
) -> Result<Done, Error> {
    let state = State::open(shard, target)?;
    let follow = common.options.dereference != Dereference::Never;
    let (root, _) = dir::open_same(&source, source_stat, follow)?;
    let division = state.division((&source, source_stat), root.as_fd())?;
    state.agree_on_ranks()?;
    let (walking, mut journal) = state.begin(common, source_stat)?;
    state.retract(shard.rank)?;
    let there = (state.dir.as_fd(), &*state.shown);
    let parts = Parts::new(division, there, &journal, AfterShares::default());
    let of_share = Common { journal: Some(&journal), extent: Extent::Share(&parts), ..*common };
    let mut walkers = Walkers::of(state.dir.as_fd(), shard);
    let walked = walk_tree(&of_share, operands, (source, source_stat), (target, false), events);
    // No file is announced any more.
    drop(walking);
    let mut share = match &walked {
        Ok(Some(Walked { complete, share })) => Share { is_complete: *complete, ..*share },
        Ok(None) | Err(_) => Share {
            files: 0,
            bytes: 0,
            is_complete: false,
            seen: Seen::default(),
            divided_files: 0,
        },
    };
    let below = below_operand(common.options);
    let of_pieces = Common { options: &below, ..of_share };
    let shown = (source.shown, target.shown);
    let mut taker = Taker::new(&of_pieces, &parts, root, shown, share.is_complete);
    let taken = match &walked {
        // Rank 0 takes more while it waits.
        Ok(Some(_)) if shard.rank == 0 => taker.take(events).map(drop),
        Ok(Some(_)) => take_all(&mut taker, &mut walkers, events),
        _ => Ok(()),
    };
    let own_bytes = share.bytes;
    share.is_complete &= taken.is_ok();
    // Rank 0 reads which pieces are done.
    let report = |taker: &Taker<'_>| {
        journal.flush()?;
        let is_complete = share.is_complete && taker.is_complete;
        let share = Share { bytes: own_bytes + taker.bytes, is_complete, ..share };
        state.report(&share).map(|()| share)
    };
    let reported = report(&taker)?;
    walked?;
    taken?;
    let ended = |complete| Done { complete, ..Done::new(Action::Directory) };
    if shard.rank != 0 {
        return Ok(ended(reported.is_complete));
    }
    let mut shares = state.wait(&mut taker, events)?;
    shares[0] = report(&taker)?;
    let root = taker.into_root();
    journal.learn_made(state.made()?);
    let is_each_complete = shares.iter().all(|share| share.is_complete);
    // Ranks that saw different trees may have left a file to each other.
    let owned = shares.iter().fold(0_u64, |sum, share| sum.wrapping_add(share.seen.own));
    let saw_the_same = shares.iter().all(|share| share.seen.all == owned);
    if is_each_complete && !saw_the_same {
        let text = "changed while being copied: the ranks saw different files, and may have left some to each other";
        events.warns(&Error::refusal(source.shown, text).hinting("copy again, with --resume"));
    }
    let others_failed = !(is_each_complete && saw_the_same);
    let announced = Parts::new(division, there, &journal, AfterShares::default()).announced();
    let announced = announced.map_err(|errno| Error::os(&state.shown, "cannot list", errno))?;
    // A report tells of a divided file also where somebody has removed the file of pieces.
    let divided_files: u64 = shares.iter().map(|share| share.divided_files).sum();
    let may_miss_files = announced.files < divided_files;
    // A line a file: nobody reads so many where no file is divided.
    let done = if announced.files > 0 { state.pieces()? } else { HashSet::new() };
    let announced_files = announced.files;
    let after = AfterShares { done, announced, may_miss_files };
    let parts = Parts::new(division, there, &journal, after);
    let extent = Extent::Rest { others_failed, parts: &parts };
    let of_rest = Common { journal: Some(&journal), extent, ..*common };
    let walked = walk_tree(&of_rest, operands, (source, source_stat), (target, false), events)?;
    let found_all = walked.as_ref().is_some_and(|walked| walked.share.files >= announced_files);
    let complete = walked.is_some_and(|walked| walked.complete);
    if complete && !found_all {
        let text = "changed while being copied: directories of large files are gone, which have no place in the copy";
        events.warns(&Error::refusal(source.shown, text).hinting("copy again, with --resume"));
    }
    let complete = complete && found_all;
    events.ranks_ended(&shares);
    match complete {
        true => {
            // NFS removes no file, and so no directory, that this process has open.
            drop(journal);
            state.remove()?;
        }
        false => {
            let common = Common { options: &below, ..of_rest };
            Taker::new(&common, &parts, root, shown, false).forget_void()?;
            // Whoever goes on reports anew.
            (0..shard.ranks).try_for_each(|rank| state.retract(rank))?;
        }
    }
    Ok(ended(complete))
}

/// A part of the wait so far: nobody waits much longer than needed, and few looks are made. Long looks are made more seldom, since they keep the
/// directory of state from ranks that announce files.
fn until_next_look(waited: Duration, look: Duration) -> Duration {
    (waited / 64)
        .clamp(FIRST_PAUSE, LONGEST_PAUSE_OF_SHORT_LOOKS)
        .max(look * PAUSE_PER_LOOK)
        .min(LONGEST_PAUSE)
}

/// Takes pieces until none is free and none can come, as any rank but rank 0 does.
fn take_all(
    taker: &mut Taker<'_>,
    walkers: &mut Walkers<'_>,
    events: &mut dyn Events,
) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        // Asked first: the look behind sees all announcements made before the last walk ended.
        let may_come = walkers.any();
        let look = taker.take(events)?;
        if !may_come || taker.is_stopped() {
            return Ok(());
        }
        thread::sleep(until_next_look(began.elapsed(), look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_written_and_no_other() {
        let shard = Shard::new(2, 3).unwrap();
        let (is_complete, bytes) = (true, u64::MAX);
        let seen = Seen { all: u64::MAX - 1, own: 9 };
        let share = Share { files: 4, bytes, is_complete, seen, divided_files: 1 };
        let text = share.text(shard);
        assert_eq!(Share::read(&text, shard), Some(share));
        assert_eq!(Share::read(&text[..text.len() - 1], shard), None);
        assert_eq!(Share::read(&text, Shard::new(1, 3).unwrap()), None);
        assert_eq!(Share::read(&text, Shard::new(2, 4).unwrap()), None);
        let failed = Share { is_complete: false, ..share };
        assert_eq!(Share::read(&failed.text(shard), shard), Some(failed));
        let (one, other) = (shard.launched_as(b"one"), shard.launched_as(b"other"));
        for (writer, reader, counts) in
            [(one, one, true), (one, other, false), (one, shard, true), (shard, one, true)]
        {
            let text = share.text(writer);
            assert_eq!(Share::read(&text, reader), Some(share).filter(|_| counts), "{text}");
        }
        let longer = share.text(one).replace(" end", " 1 end");
        assert_eq!(Share::read(&longer, one), None);
    }

    #[test]
    fn long_looks_are_made_more_seldom() {
        let ms = Duration::from_millis;
        for (waited, look, pause) in [
            (0, 0, 1),
            (640, 0, 10),
            (60_000, 0, 20),
            (640, 2, 10),
            (640, 50, 200),
            (0, 3_000, 500),
        ] {
            assert_eq!(until_next_look(ms(waited), ms(look)), ms(pause), "{waited}, {look}");
        }
    }

    #[test]
    fn the_state_is_removed_when_nobody_has_a_file_of_it_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let state = State::open(Shard::new(0, 2).unwrap(), Place::here(&target)).unwrap();
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

    #[test]
    fn each_piece_of_a_large_file_has_one_rank_and_shares_are_alike() {
        // Pieces of 16 MiB of 10 GiB.
        const PIECES: u64 = 640;
        for ranks in [2, 4, 16] {
            let shards: Vec<_> = (0..ranks).filter_map(|rank| Shard::new(rank, ranks)).collect();
            let path = Path::new("checkpoints/step-9000.bin");
            let mut counts = vec![0_u64; shards.len()];
            for number in 0..PIECES {
                let takers: Vec<_> =
                    shards.iter().filter(|shard| shard.takes_piece(path, number)).collect();
                assert_eq!(takers.len(), 1);
                counts[takers[0].rank as usize] += 1;
            }
            let mean = PIECES as f64 / f64::from(ranks);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            let spread = 4.0 * mean.sqrt();
            assert!(*least as f64 > mean - spread && (*most as f64) < mean + spread, "{counts:?}");
        }
    }

    #[test]
    fn each_file_has_one_rank_and_shares_of_many_files_are_alike() {
        const FILES: u32 = 20_000;
        for ranks in [2, 3, 16] {
            let shards: Vec<_> = (0..ranks).filter_map(|rank| Shard::new(rank, ranks)).collect();
            let mut files = vec![0_u32; ranks as usize];
            for file in 0..FILES {
                let path = PathBuf::from(format!("d{}/f{file}", file % 97));
                let takers: Vec<_> = shards.iter().filter(|shard| shard.takes(&path)).collect();
                assert_eq!(takers.len(), 1);
                files[takers[0].rank as usize] += 1;
            }
            let mean = f64::from(FILES) / f64::from(ranks);
            let largest = f64::from(*files.iter().max().unwrap());
            // Five standard deviations.
            assert!(largest < mean + 5.0 * mean.sqrt(), "{ranks}: {files:?}");
        }
    }
}
