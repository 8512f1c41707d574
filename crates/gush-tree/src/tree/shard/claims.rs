//! Which rank copies which piece of a large file: a table in the ranks' state, a file for each
//! large file.
//!
//! The table begins with the size and the path of the file, so it also announces the file to the
//! other ranks. Then come four bytes a piece: 0, or one more than the rank that copies the piece.
//! They are changed under flock(2), and a network file system reads a file anew once it is locked.
//! A claim is permanent: a lost rank finds its claims when started again, and no other rank takes
//! them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use gush::Unpoisoned;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::place::Place;

/// The end of the name of a table; before it is the name of the file of pieces.
pub(super) const SUFFIX: &str = ".claims";

const ENTRY_BYTES: usize = 4;

/// The first and the longest pause between two tries for the lock, which a rank holds for a few
/// calls.
const FIRST_LOCK_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The table of one large file.
#[derive(Debug)]
pub(super) struct Claims {
    file: File,
    /// The lock on the file is all threads' of this process.
    turn: Mutex<()>,
    head_bytes: usize,
    /// The file below the tree's root.
    pub(super) path: PathBuf,
    pub(super) file_bytes: u64,
}

fn head(path: &Path, file_bytes: u64) -> Vec<u8> {
    // A path has no zero byte.
    [format!("{file_bytes} ").as_bytes(), path.as_os_str().as_bytes(), &[0]].concat()
}

fn read_head(bytes: &[u8]) -> Option<(PathBuf, u64, usize)> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let space = bytes[..end].iter().position(|byte| *byte == b' ')?;
    let file_bytes = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let path = OsString::from_vec(bytes[space + 1..end].to_vec());
    Some((PathBuf::from(path), file_bytes, end + 1))
}

/// Holds the lock on a table until it is dropped.
struct Locked<'t>(&'t File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

impl Claims {
    /// Makes the table of a file with so many pieces, none of which is claimed.
    pub(super) fn create(
        place: &Place<'_>,
        path: &Path,
        file_bytes: u64,
        pieces: usize,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(place.open(flags, Mode::RUSR | Mode::WUSR)?);
        let mut bytes = head(path, file_bytes);
        bytes.resize(bytes.len() + pieces * ENTRY_BYTES, 0);
        file.write_all_at(&bytes, 0)
    }

    /// Opens a table; `None` where there is none, or one that was never written to its end.
    pub(super) fn open(
        place: &Place<'_>,
        pieces: impl Fn(u64) -> usize,
    ) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW;
        let mut file = match place.open_regular(flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let Some((path, file_bytes, head_bytes)) = read_head(&bytes) else { return Ok(None) };
        let is_whole = bytes.len() == head_bytes + pieces(file_bytes) * ENTRY_BYTES;
        Ok(is_whole.then_some(Self { file, turn: Mutex::default(), head_bytes, path, file_bytes }))
    }

    fn entries(&self) -> io::Result<Vec<u32>> {
        let mut bytes = Vec::new();
        let mut at = self.head_bytes as u64;
        loop {
            let mut part = [0; 4096];
            match self.file.read_at(&mut part, at)? {
                0 => break,
                read => bytes.extend(&part[..read]),
            }
            at = (self.head_bytes + bytes.len()) as u64;
        }
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        Ok(entries.iter().map(|entry| u32::from_le_bytes(*entry)).collect())
    }

    /// The lock on the table; `None` if the user has stopped the copy meanwhile. A rank that was
    /// stopped, or a server that is gone, keeps the lock for any time, and a wait in the kernel
    /// would go on after each signal.
    fn lock(&self, is_stopped: impl Fn() -> bool) -> io::Result<Option<Locked<'_>>> {
        let mut pause = FIRST_LOCK_PAUSE;
        loop {
            match retry_on_intr(|| flock(&self.file, FlockOperation::NonBlockingLockExclusive)) {
                Err(Errno::WOULDBLOCK) if is_stopped() => return Ok(None),
                Err(Errno::WOULDBLOCK) => thread::sleep(pause),
                locked => return Ok(locked.map(|()| Some(Locked(&self.file)))?),
            }
            pause = LONGEST_LOCK_PAUSE.min(pause * 2);
        }
    }

    /// Claims a free piece for this rank: the first that `prefers` names, or else the last of all.
    /// `None` where no piece is free, or `is_stopped` says so before the table can be locked.
    pub(super) fn claim(
        &self,
        rank: u32,
        prefers: impl Fn(u64) -> bool,
        is_stopped: impl Fn() -> bool,
    ) -> io::Result<Option<u64>> {
        let _turn = self.turn.lock().unpoisoned();
        let Some(_locked) = self.lock(is_stopped)? else { return Ok(None) };
        let entries = self.entries()?;
        let free = (0..).zip(&entries).filter(|(_, entry)| **entry == 0).map(|(piece, _)| piece);
        let Some(piece) = free.clone().find(|piece| prefers(*piece)).or_else(|| free.last()) else {
            return Ok(None);
        };
        let at = self.head_bytes as u64 + piece * ENTRY_BYTES as u64;
        self.file.write_all_at(&(rank + 1).to_le_bytes(), at)?;
        Ok(Some(piece))
    }

    /// The pieces claimed by this rank, now or before a new start.
    pub(super) fn of(&self, rank: u32) -> io::Result<Vec<u64>> {
        let entries = (0..).zip(self.entries()?);
        Ok(entries.filter(|(_, entry)| *entry == rank + 1).map(|(piece, _)| piece).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;
    use crate::tree::shard::Shard;

    const PIECES: usize = 3000;

    fn table(dir: &Path, path: &str) -> PathBuf {
        let name = dir.join("table");
        Claims::create(&Place::here(&name), Path::new(path), 1 << 40, PIECES).unwrap();
        name
    }

    fn open(name: &Path) -> Option<Claims> {
        Claims::open(&Place::here(name), |_| PIECES).unwrap()
    }

    #[test]
    fn each_piece_is_claimed_once_by_any_rank() {
        let dir = tempfile::tempdir().unwrap();
        let name = table(dir.path(), "a dir/with 7 spaces");
        thread::scope(|scope| {
            for rank in 0..4 {
                let name = &name;
                scope.spawn(move || {
                    let claims = open(name).unwrap();
                    assert_eq!(claims.path, Path::new("a dir/with 7 spaces"));
                    assert_eq!(claims.file_bytes, 1 << 40);
                    let prefers = |piece| piece % 4 == u64::from(rank);
                    let claim = || {
                        std::iter::from_fn(|| claims.claim(rank, prefers, || false).unwrap())
                            .count()
                    };
                    // Two threads of one rank share the table.
                    let all = thread::scope(|scope| {
                        let one = scope.spawn(claim);
                        claim() + one.join().unwrap()
                    });
                    assert_eq!(claims.of(rank).unwrap().len(), all);
                });
            }
        });
        let claims = open(&name).unwrap();
        let all: Vec<u64> = (0..4).flat_map(|rank| claims.of(rank).unwrap()).collect();
        assert_eq!(all.len(), PIECES);
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), PIECES);
    }

    #[test]
    fn who_waits_for_the_lock_ends_when_stopped_and_claims_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let name = table(dir.path(), "f");
        let held = open(&name).unwrap();
        flock(&held.file, FlockOperation::LockExclusive).unwrap();
        let claims = open(&name).unwrap();
        let asked = Cell::new(0);
        let is_stopped = || asked.replace(asked.get() + 1) == 3;
        assert_eq!(claims.claim(1, |_| true, is_stopped).unwrap(), None);
        assert_eq!(claims.of(1).unwrap(), [0; 0]);
        flock(&held.file, FlockOperation::Unlock).unwrap();
        // The lock of the one that was stopped is nobody's.
        assert_eq!(held.claim(1, |_| true, || false).unwrap(), Some(0));
    }

    #[test]
    fn a_rank_takes_its_own_pieces_first_and_then_those_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let name = table(dir.path(), "f");
        let claims = open(&name).unwrap();
        let prefers = |piece| piece == 5 || piece == 9;
        let taken: Vec<_> =
            (0..4).map(|_| claims.claim(1, prefers, || false).unwrap().unwrap()).collect();
        assert_eq!(taken, [5, 9, 2999, 2998]);
        // As a rank that is started again.
        assert_eq!(open(&name).unwrap().of(1).unwrap(), [5, 9, 2998, 2999]);
        assert_eq!(claims.of(0).unwrap(), [0; 0]);
    }

    /// Ranks take as many pieces as they have time for, and all end within the time of one piece.
    #[test]
    fn shares_are_as_large_as_ranks_are_fast() {
        let path = Path::new("checkpoints/step-9000.bin");
        for times in [&[1_u64, 1][..], &[1, 1, 1, 1], &[2, 1], &[1, 4, 2, 1]] {
            let dir = tempfile::tempdir().unwrap();
            let name = table(dir.path(), "checkpoints/step-9000.bin");
            let claims = open(&name).unwrap();
            let ranks = u32::try_from(times.len()).unwrap();
            let mut free_at = vec![0; times.len()];
            loop {
                // The rank that is free first asks first.
                let rank = (0..times.len()).min_by_key(|rank| free_at[*rank]).unwrap();
                let shard = Shard::new(rank as u32, ranks).unwrap();
                let prefers = |piece| shard.takes_piece(path, piece);
                match claims.claim(shard.rank(), prefers, || false).unwrap() {
                    Some(_) => free_at[rank] += times[rank],
                    None => break,
                }
            }
            let (first, last) = (free_at.iter().min().unwrap(), free_at.iter().max().unwrap());
            assert!(last - first <= *times.iter().max().unwrap(), "{times:?}: {free_at:?}");
        }
    }

    #[test]
    fn a_table_that_was_not_written_to_its_end_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let name = table(dir.path(), "f");
        let whole = std::fs::read(&name).unwrap();
        for length in [0, 3, 20, whole.len() - 1] {
            std::fs::write(&name, &whole[..length]).unwrap();
            assert!(open(&name).is_none(), "{length}");
        }
        std::fs::write(&name, &whole).unwrap();
        assert!(open(&name).is_some());
        std::fs::remove_file(&name).unwrap();
        assert!(open(&name).is_none());
    }
}
