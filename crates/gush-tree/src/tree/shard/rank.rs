//! Which rank a process is, and which files and pieces are this rank's to copy.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

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

    /// This rank, started by the launch with this name, which is the same for all ranks of the
    /// launch and for no other launch.
    ///
    /// Rank 0 waits for reports of its launch, and so not for those that a launch left which
    /// was killed. A report counts also where rank 0 or the reporting rank knows of no launch.
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

    /// Does this rank copy the file with this inode number? All names of one file are of one rank,
    /// which links them.
    pub(super) fn takes_inode(self, inode: u64) -> bool {
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

    /// The launch of this rank, if the launcher has a name for the launch.
    pub(super) fn launch(self) -> Option<u64> {
        self.launch
    }

    /// The rank with this number, of the same launch.
    pub(super) fn peer(self, rank: u32) -> Self {
        Self { rank, ..self }
    }

    /// The other ranks.
    pub(super) fn others(self) -> impl Iterator<Item = u32> {
        (0..self.ranks).filter(move |rank| *rank != self.rank)
    }

    /// Does this rank copy the piece of a large file with this number, unless another one has come
    /// first?
    pub(super) fn takes_piece(self, path: &Path, number: u64) -> bool {
        // A path has no zero byte, so that path and number cannot run into each other.
        let key = [path.as_os_str().as_bytes(), &[0], &number.to_le_bytes()].concat();
        self.owns(&key)
    }

    /// With which of so many things this rank begins, so that ranks are at different ones.
    pub(super) fn begins_at(self, things: usize) -> usize {
        // Apart from each other: ranks that begin at the same place would make the same directories
        // at once.
        (things as u128 * u128::from(self.rank) / u128::from(self.ranks)) as usize
    }

    fn owns(self, key: &[u8]) -> bool {
        // Each rank asks this of every file, so a hash of few nanoseconds: nobody gains by names
        // that make one rank slow.
        let bits = u128::from(xxh3_64(key));
        // A product instead of a remainder, which would favour the first ranks.
        (bits * u128::from(self.ranks)) >> 64 == u128::from(self.rank)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

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
    fn ranks_begin_at_different_places() {
        let begins = |rank, things| Shard::new(rank, 4).unwrap().begins_at(things);
        assert_eq!([0, 1, 2, 3].map(|rank| begins(rank, 10)), [0, 2, 5, 7]);
        assert_eq!(begins(3, 0), 0);
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
