//! Directories on each file system: those mounted here, or made for the purpose by root.
//!
//! New file systems are made inside a mount namespace of this process: images in a tmpfs, over a directory
//! that only this process sees covered. The kernel removes the namespace with the process, also after SIGKILL.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount as mount_at};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use tempfile::tempfile_in;

use super::Kind;
use crate::mount::{self, Mount};

/// Where files of a kind lie, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// How a file system can be made: the program, with the words before the image's name.
const MAKERS: &[(Kind, &[&str])] = &[
    (Kind::Ext4, &["mkfs.ext4", "-q", "-F"]),
    (Kind::Xfs, &["mkfs.xfs", "-q", "-f"]),
    (Kind::Btrfs, &["mkfs.btrfs", "-q", "-f"]),
];

/// A place for each of `wanted` (kinds that need no directory are passed over); a file system that is not mounted is
/// made if `makes`, and files will take `space_bytes` there at most.
pub(super) fn find(wanted: &[Kind], makes: bool, space_bytes: u64) -> Vec<KindPlace> {
    let mut found = mounted();
    let has = |found: &[KindPlace], kind| {
        found.iter().any(|place| place.kind == kind && place.dir.is_some())
    };
    let mut workshop = None;
    for &kind in FILE_SYSTEMS {
        if makes && wanted.contains(&kind) && !has(&found, kind) {
            let place = match make(kind, &mut workshop, space_bytes) {
                Ok(dir) => {
                    KindPlace { kind, dir: Some(dir), how: "made for this, in memory".into() }
                }
                Err(why) => KindPlace { kind, dir: None, how: why },
            };
            // That what is mounted has no room says more than why none could be made.
            if place.dir.is_some() || !found.iter().any(|other| other.kind == kind) {
                found.retain(|other| other.kind != kind);
                found.push(place);
            }
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

/// Room for verifying: a source of each flag, a target, and the file system's own structures.
const ROOM_BYTES: u64 = 2 << 20;

/// The first writable directory with room on each file system, the likeliest first; or, without one, the
/// first that has none.
fn mounted() -> Vec<KindPlace> {
    let mut places: Vec<KindPlace> = Vec::new();
    for (at, dir) in candidates().into_iter().enumerate() {
        let Some(mount) = Mount::of(&dir) else { continue };
        let kind = match FILE_SYSTEMS.iter().find(|kind| kind.name() == mount.kind) {
            Some(kind) => *kind,
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

/// A file system that does not tell its free space counts as large enough.
fn has_room(dir: &Path) -> bool {
    let about = rustix::fs::statvfs(dir).ok().filter(|about| about.f_blocks > 0);
    about.is_none_or(|about| about.f_bavail.saturating_mul(about.f_frsize) >= ROOM_BYTES)
}

fn takes_fifo(dir: &Path) -> bool {
    super::ends::fifo(dir).is_ok()
}

fn takes_direct(dir: &Path) -> bool {
    tempfile_in(dir).is_ok_and(|file| reopen(&file, OFlags::RDWR | OFlags::DIRECT).is_ok())
}

/// Another description of the same file, at position 0, with other flags.
pub(super) fn reopen(file: &File, flags: OFlags) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let fd = rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
    Ok(fd.into())
}

/// Makes a file system of a kind, or tells the reason why not.
fn make(kind: Kind, workshop: &mut Option<PathBuf>, space_bytes: u64) -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("none is mounted where this user may write, and making one needs root".into());
    }
    let not_made = |why: String| format!("none is mounted, and none could be made: {why}");
    let shop = match workshop {
        Some(shop) => shop.clone(),
        None => workshop.insert(open_workshop().map_err(not_made)?).clone(),
    };
    let point = shop.join(kind.name());
    fs::create_dir(&point).map_err(|error| not_made(error.to_string()))?;
    match MAKERS.iter().find(|(made, _)| *made == kind) {
        Some((_, maker)) => {
            mount_image(kind, maker, &shop, &point, space_bytes).map_err(not_made)?
        }
        None if kind == Kind::Overlay => mount_overlay(&shop, &point).map_err(not_made)?,
        None => return Err(not_made("gush has no recipe for it".into())),
    }
    tempfile_in(&point).map_err(|error| not_made(format!("it takes no file: {error}")))?;
    Ok(point)
}

/// A tmpfs that only this process sees, over a directory that is there.
fn open_workshop() -> Result<PathBuf, String> {
    const COVERED: [&str; 4] = ["/mnt", "/media", "/srv", "/opt"];
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| format!("no mount namespace: {errno}"))?;
    let nothing = None::<&str>;
    mount_at(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .map_err(|errno| format!("the mount namespace stays shared: {errno}"))?;
    let dir = COVERED.iter().find(|dir| Path::new(dir).is_dir());
    let dir = dir.ok_or("none of /mnt, /media, /srv and /opt exists")?;
    mount_at(Some("none"), *dir, Some("tmpfs"), MsFlags::empty(), nothing)
        .map_err(|errno| format!("no tmpfs for its image: {errno}"))?;
    Ok(PathBuf::from(dir))
}

fn mount_image(
    kind: Kind,
    maker: &[&str],
    shop: &Path,
    point: &Path,
    space_bytes: u64,
) -> Result<(), String> {
    // What mkfs.xfs wants at least is 300 MiB; an image is sparse.
    let image_bytes = (512 << 20) + space_bytes.saturating_mul(4);
    let image = shop.join(format!("{kind}.image"));
    File::create(&image)
        .and_then(|file| file.set_len(image_bytes))
        .map_err(|error| format!("no image: {error}"))?;
    run(Command::new(maker[0]).args(&maker[1..]).arg(&image))?;
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(point))
}

fn mount_overlay(shop: &Path, point: &Path) -> Result<(), String> {
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| shop.join(name));
    for dir in [&lower, &upper, &work] {
        fs::create_dir(dir).map_err(|error| error.to_string())?;
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount_at(Some("overlay"), point, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(|errno| format!("mount: {errno}"))
}

/// Runs a program to its end; the messages of a program that failed.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{name} is not installed"),
        _ => format!("{name}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}", said.lines().next().unwrap_or("it failed without a word")))
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

    #[test]
    fn a_reopened_file_is_the_same_file() {
        let file = tempfile_in(std::env::temp_dir()).unwrap();
        let twin = reopen(&file, OFlags::RDONLY).unwrap();
        let inode = |file: &File| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(&file), inode(&twin));
    }
}
