//! Which rank owns an entry of a tree, if possible by the listing alone.
//!
//! There are two rules. By inodes, the owner is a hash of the inode number, which a listing returns
//! with each name, so all names of a file have the same owner; this needs the same numbers on all
//! ranks. By paths, it is a hash of the path. If links are kept, each rank then looks at each file,
//! because a file with several names goes by its inode all the same. The rank that begins writes
//! the rule into the ranks' state.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use gush::Unpoisoned;
use rustix::fs::{self, FileType, Stat};
use rustix::io::{Errno, retry_on_intr};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Shard;
use crate::options::{CopyOptions, Dereference};
use crate::tree::dir::Dir;
use crate::tree::partition::{DirEntry, Owner};

/// Where the ranks may be that share a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// On the machine that has mounted the file system.
    Machine,
    /// On any machine that mounts it.
    Cluster,
}

struct FileSystem {
    /// statfs(2), `f_type`.
    magic: u64,
    reach: Reach,
    /// Every rank sees the same inode number in a listing (`d_ino`), and all names of a file have
    /// the same one.
    has_lasting_inodes: bool,
    /// A directory with two names (`.` and its own) has no subdirectories, each of which adds `..`.
    counts_subdirectories: bool,
}

const fn known(magic: u64, reach: Reach, has_lasting_inodes: bool) -> FileSystem {
    FileSystem { magic, reach, has_lasting_inodes, counts_subdirectories: false }
}

const fn counting(of: FileSystem) -> FileSystem {
    FileSystem { counts_subdirectories: true, ..of }
}

/// The numbers are those of linux/magic.h and of the file systems' sources. What is not here (FUSE,
/// FAT, SMB) may number inodes anew at each look.
const FILE_SYSTEMS: [FileSystem; 11] = [
    counting(known(0xef53, Reach::Machine, true)), // ext2, ext3, ext4
    counting(known(0x5846_5342, Reach::Machine, true)), // xfs
    known(0x9123_683e, Reach::Machine, true),      // btrfs
    counting(known(0xf2f5_2010, Reach::Machine, true)), // f2fs
    counting(known(0x0102_1994, Reach::Machine, true)), // tmpfs
    known(0x2fc1_2fc1, Reach::Machine, true),      // zfs
    known(0x794c_7630, Reach::Machine, false), // overlay: the listing may have the number of a layer
    known(0x6969, Reach::Cluster, true),       // NFS
    known(0x0bd0_0bd0, Reach::Cluster, true),  // Lustre
    known(0x4750_4653, Reach::Cluster, true),  // GPFS
    known(0x00c3_6400, Reach::Cluster, true),  // CephFS
];

fn file_system(of: BorrowedFd<'_>) -> Result<Option<&'static FileSystem>, Errno> {
    let magic = retry_on_intr(|| fs::fstatfs(of))?.f_type as u64 & 0xffff_ffff;
    Ok(FILE_SYSTEMS.iter().find(|known| known.magic == magic))
}

/// What determines the rank of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Inodes,
    Paths,
}

impl Rule {
    /// `source` is where an entry is listed.
    fn of(source: Option<&FileSystem>, is_one_machine: bool) -> Self {
        match source {
            // Ranks on several machines may each have another source, on a local disk.
            Some(FileSystem { has_lasting_inodes: true, reach, .. })
                if is_one_machine || *reach == Reach::Cluster =>
            {
                Self::Inodes
            }
            _ => Self::Paths,
        }
    }
}

/// Are all ranks on one machine, as shown by the file system where they meet?
fn is_one_machine(state: Option<&FileSystem>) -> bool {
    state.is_some_and(|state| state.reach == Reach::Machine)
}

fn mine_if(is_own: bool) -> Owner {
    if is_own { Owner::Mine } else { Owner::Theirs }
}

/// How a tree is divided.
#[derive(Debug)]
pub(super) struct Division {
    pub(super) shard: Shard,
    /// Of the tree's root, on this device.
    rule: Rule,
    device: u64,
    /// Of the other devices in the tree, as far as known.
    other_rules: Mutex<Vec<(u64, Rule)>>,
    is_one_machine: bool,
    /// The directories of the root's file system do.
    counts_subdirectories: bool,
}

impl Division {
    /// The division that suits this source and the directory of the ranks' state.
    pub(super) fn suiting(
        shard: Shard,
        source: BorrowedFd<'_>,
        root: &Stat,
        state: BorrowedFd<'_>,
    ) -> Result<Self, Errno> {
        let (source, state) = (file_system(source)?, file_system(state)?);
        let is_one_machine = is_one_machine(state);
        Ok(Self {
            shard,
            rule: Rule::of(source, is_one_machine),
            device: root.st_dev,
            other_rules: Mutex::default(),
            is_one_machine,
            counts_subdirectories: source.is_some_and(|source| source.counts_subdirectories),
        })
    }

    /// Has this directory of the source no subdirectories, by its link count?
    pub(super) fn is_leaf(&self, source: &Stat) -> bool {
        self.counts_subdirectories && source.st_dev == self.device && source.st_nlink == 2
    }

    /// The division as it is written to the ranks' state.
    pub(super) fn text(&self, root: &Stat) -> String {
        match self.rule {
            Rule::Inodes => format!("inodes-{}", root.st_ino),
            Rule::Paths => "paths".to_owned(),
        }
    }

    /// This division by the rule that was agreed on; `None` if this rank cannot keep it. `text` is
    /// the division's own.
    pub(super) fn agreeing(self, agreed: &str, text: &str) -> Option<Self> {
        match agreed {
            agreed if agreed == text => Some(self),
            "paths" => Some(Self { rule: Rule::Paths, ..self }),
            _ => None,
        }
    }

    /// The rule for the entries of a directory. Another file system may have another rule.
    pub(super) fn rule_in(&self, dir: &Dir) -> Rule {
        let device = dir.source_stat.st_dev;
        if self.rule == Rule::Paths || device == self.device {
            return self.rule;
        }
        let mut known = self.other_rules.lock().unpoisoned();
        if let Some((_, rule)) = known.iter().find(|(other, _)| *other == device) {
            return *rule;
        }
        let Ok(found) = dir.pair().and_then(|pair| file_system(pair.source())) else {
            return Rule::Paths;
        };
        let rule = Rule::of(found, self.is_one_machine);
        known.push((device, rule));
        rule
    }

    /// The owner of an entry that is no directory, by its listing; `None` if a look at it decides.
    /// `path` is the entry's, below the root.
    pub(super) fn owner(
        &self,
        rule: Rule,
        entry: DirEntry<'_>,
        options: &CopyOptions,
        path: &Path,
    ) -> Option<Owner> {
        match rule {
            // Perhaps a directory.
            _ if entry.kind == FileType::Unknown => None,
            _ if entry.kind == FileType::Symlink && options.dereference == Dereference::Always => {
                None
            }
            Rule::Inodes => Some(mine_if(self.shard.takes_inode(entry.inode))),
            // Perhaps one of several names.
            Rule::Paths if options.preserve.links => None,
            Rule::Paths => Some(mine_if(self.shard.takes(path))),
        }
    }

    /// The owner of an entry after a look at it. `device` is the directory's.
    pub(super) fn owner_of_seen(
        &self,
        rule: Rule,
        source: &Stat,
        device: u64,
        options: &CopyOptions,
        path: &Path,
    ) -> Owner {
        let is_one_of_names = options.preserve.links && source.st_nlink > 1;
        let goes_by_inode = rule == Rule::Inodes && source.st_dev == device;
        mine_if(match goes_by_inode || is_one_of_names {
            true => self.shard.takes_inode(source.st_ino),
            false => self.shard.takes(path),
        })
    }
}

/// The files seen by a rank, and the files of its share: sums of a hash of each path. If all ranks
/// saw the same files, and each file was taken once, the sums of the shares add up to the sum of
/// all files seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) all: u64,
    pub(crate) own: u64,
}

impl Seen {
    pub(super) fn add_all(&mut self, other: Self) {
        self.all = self.all.wrapping_add(other.all);
        self.own = self.own.wrapping_add(other.own);
    }

    /// Adds a file of the directory with this hash.
    pub(super) fn add(&mut self, directory: u64, name: &OsStr, owner: Owner) {
        let mark = xxh3_64_with_seed(name.as_bytes(), directory);
        self.all = self.all.wrapping_add(mark);
        if owner == Owner::Mine {
            self.own = self.own.wrapping_add(mark);
        }
    }
}

/// The hash of a directory's path below the root.
pub(super) fn hash_of_directory(path: &Path) -> u64 {
    xxh3_64(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_magic(magic: u64) -> Option<&'static FileSystem> {
        FILE_SYSTEMS.iter().find(|known| known.magic == magic)
    }

    #[test]
    fn inodes_name_the_rank_only_where_all_ranks_see_the_same_numbers() {
        let [ext4, nfs, overlay, fuse] = [0xef53, 0x6969, 0x794c_7630, 0x6573_5546].map(by_magic);
        assert!(fuse.is_none());
        for (source, state, rule) in [
            (ext4, ext4, Rule::Inodes),
            (ext4, overlay, Rule::Inodes),
            (nfs, nfs, Rule::Inodes),
            (nfs, ext4, Rule::Inodes),
            (nfs, fuse, Rule::Inodes),
            // Each machine may have a different source.
            (ext4, nfs, Rule::Paths),
            (ext4, fuse, Rule::Paths),
            (overlay, ext4, Rule::Paths),
            (fuse, ext4, Rule::Paths),
            (fuse, nfs, Rule::Paths),
        ] {
            let magics = [source, state].map(|of| of.map(|of| of.magic));
            assert_eq!(Rule::of(source, is_one_machine(state)), rule, "{magics:x?}");
        }
    }

    fn division() -> Division {
        let (shard, rule) = (Shard::new(0, 2).unwrap(), Rule::Inodes);
        let other_rules = Mutex::default();
        let counts_subdirectories = true;
        Division {
            shard,
            rule,
            device: 1,
            other_rules,
            is_one_machine: true,
            counts_subdirectories,
        }
    }

    #[test]
    fn a_look_is_needed_only_where_the_listing_does_not_show_the_rank() {
        let mut options = CopyOptions::default();
        let mut looks = |rule, kind, links, dereference| {
            options.preserve.links = links;
            options.dereference = dereference;
            let entry = DirEntry { name: OsStr::new("n"), kind, inode: 7 };
            division().owner(rule, entry, &options, Path::new("d/n")).is_none()
        };
        let (never, always) = (Dereference::Never, Dereference::Always);
        use FileType::{Fifo, RegularFile, Symlink, Unknown};
        for kind in [RegularFile, Symlink, Fifo, Unknown] {
            assert_eq!(looks(Rule::Inodes, kind, true, never), kind == Unknown, "{kind:?}");
            assert!(looks(Rule::Paths, kind, true, never), "{kind:?}");
            assert_eq!(looks(Rule::Paths, kind, false, never), kind == Unknown, "{kind:?}");
            let may_be_a_link = matches!(kind, Symlink | Unknown);
            assert_eq!(looks(Rule::Inodes, kind, true, always), may_be_a_link, "{kind:?}");
        }
    }

    #[test]
    fn a_leaf_is_known_by_its_link_count_only_where_directories_are_counted() {
        let mut stat = crate::place::Place::here(Path::new("/")).stat(false).unwrap();
        for (device, names, is_leaf) in [(1, 2, true), (1, 1, false), (1, 3, false), (2, 2, false)]
        {
            (stat.st_dev, stat.st_nlink) = (device, names);
            assert_eq!(division().is_leaf(&stat), is_leaf, "{device} {names}");
        }
        // btrfs counts one link for each directory, NFS reports the server's count.
        let counts = |magic| by_magic(magic).is_some_and(|known| known.counts_subdirectories);
        assert!(counts(0xef53) && counts(0x0102_1994));
        assert!(!counts(0x9123_683e) && !counts(0x6969) && !counts(0x794c_7630));
    }

    #[test]
    fn names_of_one_inode_and_links_to_it_have_one_owner() {
        let mut options = CopyOptions::default();
        options.preserve.links = true;
        options.dereference = Dereference::Always;
        let mut stat = crate::place::Place::here(Path::new("/")).stat(false).unwrap();
        (stat.st_dev, stat.st_nlink) = (1, 1);
        for inode in 0..100 {
            stat.st_ino = inode;
            let owner = |name: &str| {
                let name = OsStr::new(name);
                let entry = DirEntry { name, kind: FileType::RegularFile, inode };
                division().owner(Rule::Inodes, entry, &options, Path::new(name)).unwrap()
            };
            let seen = |name: &str| {
                division().owner_of_seen(Rule::Inodes, &stat, 1, &options, Path::new(name))
            };
            assert_eq!([owner("a"), owner("b"), seen("a"), seen("c")], [owner("a"); 4]);
        }
    }

    #[test]
    fn sums_show_a_file_that_nobody_or_two_took() {
        use Owner::{Mine, Theirs};
        let sum = |files: &[(&str, &str, Owner)]| {
            let mut seen = Seen::default();
            for (directory, name, owner) in files {
                seen.add(hash_of_directory(Path::new(directory)), OsStr::new(name), *owner);
            }
            seen
        };
        let all = [
            sum(&[("", "a", Mine), ("d", "a", Theirs)]),
            sum(&[("", "a", Theirs), ("d", "a", Mine)]),
        ];
        assert_eq!(all[0].all, all[1].all);
        assert_eq!(all[0].own.wrapping_add(all[1].own), all[0].all);
        // As many files as there are, but one of them twice and one not at all.
        let twice = sum(&[("", "a", Mine), ("d", "a", Theirs)]).own;
        assert_ne!(twice.wrapping_add(twice), all[0].all);
        assert_ne!(sum(&[("d", "a", Mine)]).all, sum(&[("e", "a", Mine)]).all);
    }
}
