//! Directories on each file system that is mounted here.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::tempfile_in;

use super::Kind;
use crate::mount::{self, Mount};
use crate::procfs::reopened;

/// Where files of a kind lie, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPlace {
    /// The kind of file.
    pub kind: Kind,
    /// The directory; none where there is none.
    pub dir: Option<PathBuf>,
    /// Where that is, or why there is none.
    pub how: String,
}

/// The kinds that are file systems, by whose names the kernel mounts them.
const FILE_SYSTEMS: &[Kind] = &[Kind::Ext4, Kind::Tmpfs, Kind::Xfs, Kind::Btrfs, Kind::Overlay];

/// A place for each of `wanted`; kinds that need no directory are passed over.
pub(super) fn find(wanted: &[Kind]) -> Vec<KindPlace> {
    let mut found = mounted();
    for &kind in FILE_SYSTEMS {
        if found.iter().all(|place| place.kind != kind) {
            let how = "none is mounted where this user may write".into();
            found.push(KindPlace { kind, dir: None, how });
        }
    }
    // The flags are tried where the user's own temporary files lie, if that takes them.
    let own: Vec<KindPlace> = found.iter().filter(|place| place.dir.is_some()).cloned().collect();
    let first_that = |takes: fn(&Path) -> bool| {
        own.iter().find(|place| place.dir.as_deref().is_some_and(takes)).cloned()
    };
    for (kind, place) in [
        (Kind::Append, first_that(|_| true)),
        (Kind::Direct, first_that(takes_direct)),
        (Kind::Fifo, first_that(takes_fifo)),
    ] {
        found.push(match place {
            Some(place) => {
                KindPlace { kind, how: format!("on {}: {}", place.kind, place.how), ..place }
            }
            None => KindPlace { kind, dir: None, how: "no file system here takes it".into() },
        });
    }
    found.retain(|place| wanted.contains(&place.kind));
    found.sort_by_key(|place| place.kind);
    found
}

fn known(mount: &Mount) -> Option<Kind> {
    FILE_SYSTEMS.iter().copied().find(|kind| kind.name() == mount.kind)
}

/// The kind of the files in `dir`.
pub(in crate::suite) fn kind_in(dir: &Path) -> Kind {
    Mount::of(dir).as_ref().and_then(known).unwrap_or(Kind::File)
}

/// Room for verifying: a source of each flag, a target, and the file system's own structures.
const ROOM_BYTES: u64 = 2 << 20;

/// The first writable directory on each file system, preferably with room.
fn mounted() -> Vec<KindPlace> {
    let mut places: Vec<KindPlace> = Vec::new();
    for (at, dir) in candidates().into_iter().enumerate() {
        let Some(mount) = Mount::of(&dir) else { continue };
        let kind = match known(&mount) {
            Some(kind) => kind,
            // Of the others only the one where temporary files lie says something about its user.
            None if at == 0 => Kind::File,
            None => continue,
        };
        let known = places.iter().position(|place| place.kind == kind);
        // A mounted file system may be read-only, or another user's.
        if known.is_some_and(|at| places[at].dir.is_some()) || tempfile_in(&dir).is_err() {
            continue;
        }
        let path = dir.display();
        match (has_room(&dir), known) {
            (true, known) => {
                // A place of the kind that was full gives way to one that has room.
                known.map(|at| places.remove(at));
                places.push(KindPlace { kind, how: path.to_string(), dir: Some(dir) });
            }
            (false, None) => {
                let how = format!("{path} is full (TMPDIR names another place)");
                places.push(KindPlace { kind, how, dir: None });
            }
            (false, Some(_)) => {}
        }
    }
    places
}

fn candidates() -> Vec<PathBuf> {
    let mut dirs = vec![std::env::temp_dir()];
    dirs.extend(std::env::current_dir());
    dirs.extend(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from));
    dirs.extend(["HOME", "XDG_RUNTIME_DIR"].iter().filter_map(std::env::var_os).map(PathBuf::from));
    dirs.extend(mount::points());
    dirs
}

/// A file system that reports no free space counts as large enough.
fn has_room(dir: &Path) -> bool {
    let about = rustix::fs::statvfs(dir).ok().filter(|about| about.f_blocks > 0);
    about.is_none_or(|about| about.f_bavail.saturating_mul(about.f_frsize) >= ROOM_BYTES)
}

fn takes_fifo(dir: &Path) -> bool {
    super::ends::fifo(dir).is_ok()
}

fn takes_direct(dir: &Path) -> bool {
    tempfile_in(dir).is_ok_and(|file| reopened(&file, OFlags::RDWR | OFlags::DIRECT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temporary_directory_is_a_place() {
        let places = mounted();
        assert!(!places.is_empty());
        assert!(places.iter().all(|place| place.dir.is_some()));
    }
}
