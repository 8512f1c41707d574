//! The abilities of one path: the file system, room, shared blocks, O_DIRECT, holes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use gush::{Errno, Pages};
use gush_text::os_text;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, OFlags, SeekFrom, StatVfs, StatVfsMountFlags, StatxFlags,
};

use super::PathFindings;
use super::asked_path::{AskedPath, Found, Sort};
use super::finding::{Finding, words};
use super::pairs;
use super::sharing;
use crate::mount::Mount;
use crate::procfs::reopened;
use gush_text::rounded_bytes as size;

/// Facts about a file system, by the name in /proc/self/mountinfo.
const FILE_SYSTEMS: &[(&str, &str)] = &[
    ("ext4", "copies are made inside the kernel; blocks cannot be shared"),
    ("xfs", "copies can share blocks, if it was made with reflink=1"),
    ("btrfs", "copies can share blocks"),
    ("tmpfs", "it is memory: what is written stays there, and counts as used"),
    ("overlay", "a container's layers: the first write to a file of a lower one copies all of it"),
    ("nfs", "the server may copy by itself; splices into it copy"),
    ("nfs4", "the server may copy by itself; splices into it copy"),
    ("cifs", "the server may copy by itself"),
    ("zfs", "copies can share blocks from version 2.2 on; its cache is not the page cache"),
    ("virtiofs", "its report of holes is not believed: sparse files are read to find their zeros"),
    ("9p", "each call goes to the host: large buffers pay"),
    ("proc", "made up while it is read: sizes say nothing, and only reading works everywhere"),
    ("sysfs", "made up while it is read: sizes say nothing"),
];

/// All that is to be said of a path.
pub(super) fn examine(asked: &AskedPath) -> PathFindings {
    let findings = match &asked.found {
        Ok(found) => of_found(&asked.path, found),
        Err(error) => vec![missing(error)],
    };
    PathFindings { path: asked.path.display().to_string(), usable: asked.is_usable(), findings }
}

fn missing(error: &io::Error) -> Finding {
    let finding = Finding::absent(
        "access",
        format!("it cannot be looked at: {}", os_text(error)),
        "nothing can be moved from or to it",
    );
    match error.kind() {
        io::ErrorKind::NotFound => {
            finding.remedy("check the name; to copy to a new name, ask for its directory")
        }
        io::ErrorKind::PermissionDenied => {
            finding.remedy("a directory on the way may not be entered: chmod +x, or another user")
        }
        _ => finding,
    }
}

fn of_found(path: &Path, found: &Found) -> Vec<Finding> {
    let mut findings = vec![access(found)];
    if let Sort::Other(name) = found.sort {
        findings.push(Finding::limited(
            "file-system",
            format!("it is {name}, no file"),
            "'gush lab matrix' shows what works on such",
        ));
        return findings;
    }
    findings.push(file_system(path));
    findings.push(space(path));
    if !found.is_usable() {
        // Whatever would be tried now, the answer is the one above.
        return findings;
    }
    findings.extend(pairs::within(path, found));
    findings.push(sharing::of_files(found));
    findings.push(direct(path, found));
    findings.push(holes(found));
    findings
}

/// May the path be read, may the path be written, and can files be made there?
fn access(found: &Found) -> Finding {
    const TOPIC: &str = "access";
    let scratch = match found.sort {
        Sort::Directory => found.scratch().map(drop),
        _ => Ok(()),
    };
    match (found.readable, found.writable, scratch) {
        (true, true, Ok(())) => Finding::fine(TOPIC, "it can be read and written", "it serves as source and as target"),
        (true, true, Err(error)) => Finding::limited(
            TOPIC,
            format!("it can be read; making a file in it fails: {}", os_text(&error)),
            "it serves as source only",
        )
        .remedy(
            Errno::from_io_error(&error)
                .and_then(|errno| {
                    gush_text::remedy_at(CWD, found.dir.join("new"), gush_text::Doing::Making, errno)
                })
                .unwrap_or("as target choose another directory"),
        ),
        (true, false, _) => Finding::limited(TOPIC, "it can be read, and not written", "it serves as source only")
            .remedy("as target choose another, or change its owner, its mode, or the mount (mount -o remount,rw)"),
        (false, true, _) => Finding::limited(TOPIC, "it can be written, and not read", "it serves as target only"),
        (false, false, _) => Finding::absent(TOPIC, "it can neither be read nor written by this user", "nothing can be moved from or to it")
            .remedy("ask its owner (chmod, setfacl), or be another user"),
    }
}

fn file_system(path: &Path) -> Finding {
    const TOPIC: &str = "file-system";
    let Some(mount) = Mount::of(path) else {
        return Finding::unknown(TOPIC, "its mount is unknown", "nothing special is known of it");
    };
    let known = FILE_SYSTEMS.iter().find(|(name, _)| *name == mount.kind);
    let consequence = match known {
        Some((_, consequence)) => consequence,
        None if mount.kind.starts_with("fuse") => {
            "a program serves it: its report of holes is not believed, and sharing is up to it"
        }
        None => "nothing special is known of it",
    };
    Finding::fine(
        TOPIC,
        format!("{} on {}, mounted at {}", mount.kind, mount.source, mount.point.display()),
        consequence,
    )
}

fn space(path: &Path) -> Finding {
    match rustix::fs::statvfs(path) {
        Err(errno) => Finding::unknown(
            "space",
            format!("its free space is unknown: {}", words(errno)),
            "a full disk shows when it is full",
        ),
        Ok(about) => room(&about),
    }
}

fn room(about: &StatVfs) -> Finding {
    const TOPIC: &str = "space";
    const LITTLE_BYTES: u64 = 1 << 30;
    if about.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Finding::limited(TOPIC, "it is mounted read-only", "nothing can be written there")
            .remedy("mount -o remount,rw, or choose another");
    }
    if about.f_blocks == 0 {
        return Finding::fine(TOPIC, "it has no size", "nothing there takes space");
    }
    let free = about.f_bavail * about.f_frsize;
    let fact = format!("{} of {} are free", size(free), size(about.f_blocks * about.f_frsize));
    // A file system that makes inodes as needed reports 0 of them (statvfs(3)).
    if about.f_files > 0 && about.f_favail == 0 {
        return Finding::limited(
            TOPIC,
            format!("{fact}, and no inodes"),
            "no file can be made there",
        )
        .remedy("remove files (`df -i` counts them), or choose another");
    }
    let consequence = "cp --preallocate checks before the copy whether all will fit";
    if free >= LITTLE_BYTES {
        Finding::fine(TOPIC, fact, consequence)
    } else {
        Finding::limited(TOPIC, fact, consequence).remedy("make room, or choose another")
    }
}

/// Tries O_DIRECT with the alignment from statx(2) (`STATX_DIOALIGN`, since Linux 6.1).
fn direct(path: &Path, found: &Found) -> Finding {
    const TOPIC: &str = "direct";
    let without = "--method direct is refused here; auto does not need it";
    let file = match found.source(path) {
        Ok(file) => file,
        Err(why) => {
            return Finding::unknown(
                TOPIC,
                format!("O_DIRECT cannot be tried: {why}"),
                "it is tried when it is asked for (--method direct)",
            );
        }
    };
    let reported = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .ok()
        .filter(|about| StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::DIOALIGN))
        .map(|about| (about.stx_dio_mem_align, about.stx_dio_offset_align));
    let alignment = match reported {
        Some((0, _) | (_, 0)) => "statx reports none".to_owned(),
        Some((memory, offset)) => format!("memory aligned to {memory}, offsets to {offset} bytes"),
        None => "its alignment is unknown, and gush uses 4096 bytes".to_owned(),
    };
    match read_directly(&file) {
        Ok(_) => Finding::fine(
            TOPIC,
            format!("a read with O_DIRECT works: {alignment}"),
            "large files can bypass the page cache: --method direct",
        ),
        Err(errno) => {
            Finding::absent(TOPIC, format!("O_DIRECT is refused: {}", words(errno)), without)
        }
    }
}

fn read_directly(file: &File) -> Result<usize, Errno> {
    let direct = reopened(&file, OFlags::RDONLY | OFlags::DIRECT | OFlags::NONBLOCK)?;
    let mut pages = Pages::new(4096)?;
    rustix::io::pread(&direct, pages.as_mut_slice(), 0)
}

/// Makes a hole, and looks whether lseek(2) finds the hole.
fn holes(found: &Found) -> Finding {
    const TOPIC: &str = "holes";
    let filled = "holes become zeros that take space";
    let file = match found.filled_scratch() {
        Ok(file) => file,
        Err(error) => {
            return Finding::unknown(
                TOPIC,
                format!("holes cannot be tried: no file can be made there: {}", os_text(&error)),
                "whether sparse files stay sparse shows when they are copied",
            );
        }
    };
    let len = file.metadata().map_or(0, |about| about.len());
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punched = rustix::fs::fallocate(file.as_fd(), flags, 0, len);
    match punched.and_then(|()| rustix::fs::seek(&file, SeekFrom::Hole(0))) {
        Ok(0) => Finding::fine(
            TOPIC,
            "holes can be made, and are found again",
            "sparse files stay sparse, and zeros can become holes (--sparse)",
        ),
        Ok(_) => Finding::limited(
            TOPIC,
            "holes can be made, and are not reported",
            "sparse files are read to find their zeros",
        ),
        Err(errno) => {
            Finding::limited(TOPIC, format!("no hole can be made: {}", words(errno)), filled)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Condition;
    use super::*;

    #[test]
    fn a_missing_path_is_a_sentence_with_a_remedy() {
        let findings = examine(&AskedPath::of(Path::new("/no/such/path")));
        assert!(!findings.usable);
        assert_eq!(findings.findings[0].fact, "it cannot be looked at: No such file or directory");
        assert!(findings.findings[0].remedy.is_some());
    }

    #[test]
    fn space_without_inodes_is_no_room_for_files() {
        let mut about = rustix::fs::statvfs("/").unwrap();
        about.f_flag = StatVfsMountFlags::empty();
        (about.f_blocks, about.f_bavail, about.f_frsize) = (1 << 30, 1 << 30, 4096);
        (about.f_files, about.f_favail) = (0, 0);
        assert_eq!(room(&about).state, Condition::Fine);
        about.f_files = 9;
        let found = room(&about);
        assert_eq!(found.state, Condition::Limited);
        assert_eq!(found.fact, "4 TiB of 4 TiB are free, and no inodes");
        about.f_favail = 1;
        assert_eq!(room(&about).state, Condition::Fine);
    }
}
