//! What the lines of a journal mean, as hashes.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::Stat;
use xxhash_rust::xxh3::xxh3_64;

use crate::options::{CopyOptions, Preserve};
use crate::place::kind;

/// Some 128 bits of blake3: no two things have the same by chance.
pub(crate) type Fingerprint = u128;

/// The copy of this source with these options. Others, such as the number of threads, may change.
pub(crate) fn which_copy(options: &CopyOptions, source: &Stat) -> Fingerprint {
    let CopyOptions { make, data, dereference, specials, preserve, shard, .. } = options;
    // Another launch goes on with the journal.
    let rank = shard.map_or_else(
        || "None".to_owned(),
        |shard| format!("Some(Shard {{ rank: {}, ranks: {} }})", shard.rank(), shard.ranks()),
    );
    // By name, so that an option that concerns no copy with a journal leaves the fingerprint.
    let Preserve { mode, owner, times, links, xattrs, label, required, numeric_ids: _ } = preserve;
    let preserve = format!(
        "Preserve {{ mode: {mode:?}, owner: {owner}, times: {times}, links: {links}, \
         xattrs: {xattrs:?}, label: {label:?}, required: {required} }}"
    );
    let text = format!("{make:?} {data} {dereference:?} {specials:?} {preserve} {rank}");
    // A rank may go on on another machine, where devices have other numbers.
    let device = if shard.is_some() { 0 } else { source.st_dev };
    fingerprint(&[text.as_bytes(), &numbers(&[device, source.st_ino])])
}

/// An entry of a directory of the target.
pub(crate) fn entry(above: &Stat, name: &OsStr) -> Fingerprint {
    // The same file system has other device numbers on other machines.
    fingerprint(&[&numbers(&[above.st_ino]), name.as_bytes()])
}

/// What is promised of a file that is done, besides its content and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promises {
    /// It is on stable storage.
    pub(crate) is_synced: bool,
    /// It was read again and compared.
    pub(crate) is_verified: bool,
}

impl Promises {
    pub(crate) fn of(options: &CopyOptions) -> Self {
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

/// A file done: the entry of a directory of the target, and the looks of source and target. Each
/// file of a copy has one, so that all is hashed in one piece.
pub(crate) fn done(
    promises: Promises,
    above: &Stat,
    name: &OsStr,
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
    // The numbers are always as many, so that none of them passes for a part of the name.
    let mut bytes: Vec<u8> =
        parts.into_iter().flatten().flat_map(|part| part.to_le_bytes()).collect();
    bytes.extend(name.as_bytes());
    hash(&bytes)
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

/// A file that ranks copy together. Ranks on other machines may know the same file by another
/// device number.
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

/// The file systems of source and target.
pub(super) fn systems(devices: [u64; 2]) -> Fingerprint {
    fingerprint(&[b"on", &numbers(&devices)])
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Of parts that differ in their order only.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> Fingerprint {
    // In one piece: a hasher for several has room for far more than these bytes, and is cleared for
    // each file.
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

#[cfg(test)]
mod tests {
    use super::super::line::{FORMAT, HEADING, Tag, line};
    use super::*;
    use crate::options::{Label, ModeRule, Xattrs};
    use crate::place::Place;
    use crate::tree::shard::Shard;

    /// Another build may write what this one reads: a change of a fingerprint raises the number.
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
            numeric_ids: true,
        };
        let options = CopyOptions { preserve, ..CopyOptions::default() };
        let none = Promises::of(&options);
        let fingerprints = [
            entry(&stat, name),
            done(none, &stat, name, &stat, &stat),
            done(none, &stat, name, &of_two_names, &stat),
            divided(Path::new("name"), &stat),
            piece(Path::new("name"), 10),
            which_copy(&CopyOptions::default(), &stat),
            which_copy(&options, &stat),
            which_copy(&CopyOptions { shard: Shard::new(1, 2), ..options.clone() }, &stat),
        ];
        let shard = Shard::new(1, 2).map(|shard| shard.launched_as(b"any"));
        assert_eq!(
            Some(&which_copy(&CopyOptions { shard, ..options }, &stat)),
            fingerprints.last()
        );
        let text = fingerprints.map(|of| line(Tag::Done, of)).concat();
        assert_eq!(format!("{:032x}", hash(text.as_bytes())), "1057b98c63d48877c0ddf6c5ca7c7edb");
        assert_eq!(Tag::Copy.text(), format!("{HEADING}{FORMAT}"));
    }
}
