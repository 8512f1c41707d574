//! Opens a path below a directory, one component after the other: openat2(2) with RESOLVE_BENEATH,
//! for kernels and sandboxes that have no such call.
//!
//! Each directory on the way is held by a descriptor, and `..` goes back to the one held before:
//! renames meanwhile lead nowhere else. An absolute link, and a `..` above the root, answer EXDEV,
//! as the kernel does.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::{self, Errno, retry_on_intr};

/// The most links of one path, as of the kernel (MAXSYMLINKS, path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Opens `path`, whose links are followed as long as none leads out of `root`.
///
/// # Errors
/// EXDEV where a link leads out, ELOOP after 40 links, and those of openat(2).
pub(crate) fn open(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    // Invariant: the last of `held`, or the root, is where the first of `left` is looked up.
    let mut held: Vec<OwnedFd> = Vec::new();
    let mut left = components(path.as_os_str())?;
    let mut links = 0;
    loop {
        let dir = held.last().map_or(root, AsFd::as_fd);
        let Some(name) = left.pop_front() else {
            // `..` or a slash ended the path: the directory itself is opened once more, with the
            // flags asked for.
            return open_at(dir, OsStr::new("."), flags, mode);
        };
        if name == "." {
            continue;
        }
        if name == ".." {
            // Back by the descriptor that led here: `..` of the kernel could lead elsewhere after a
            // rename.
            held.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        match retry_on_intr(|| fs::readlinkat(dir, name.as_os_str(), Vec::new())) {
            Ok(target) => {
                links += 1;
                // The kernel's own limit (path_resolution(7)), so that a circle ends in the same
                // error.
                if links > MOST_LINKS {
                    return Err(Errno::LOOP);
                }
                let mut ahead = components(&OsString::from_vec(target.into_bytes()))?;
                ahead.append(&mut left);
                left = ahead;
                continue;
            }
            // No link; or nothing, which the flags may ask to make.
            Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let is_last = left.is_empty();
        let wanted =
            if is_last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
        // Links are resolved here, by name and in bounds, and never by the kernel.
        let opened = match open_at(dir, &name, wanted | OFlags::NOFOLLOW, mode) {
            // A link has taken the name meanwhile.
            Err(Errno::LOOP) => None,
            Err(Errno::NOTDIR) if is_link_at(dir, &name) => None,
            // O_PATH with O_NOFOLLOW opens a link itself.
            Ok(fd) if wanted.contains(OFlags::PATH) && is_link(&fd)? => None,
            opened => Some(opened?),
        };
        match opened {
            None if links == MOST_LINKS => return Err(Errno::LOOP),
            None => {
                links += 1;
                // Looked at anew as a link; counted, so that somebody who swaps names for ever is
                // not followed for ever.
                left.push_front(name);
            }
            Some(fd) if is_last => return Ok(fd),
            Some(fd) => held.push(fd),
        }
    }
}

/// The components of a path. One that ends in a slash has `.` at its end: only a directory may
/// stand there.
fn components(path: &OsStr) -> io::Result<VecDeque<OsString>> {
    let bytes = path.as_bytes();
    match bytes.first() {
        None => return Err(Errno::NOENT),
        // An absolute link leaves the tree, and so RESOLVE_BENEATH refuses it.
        Some(b'/') => return Err(Errno::XDEV),
        Some(_) => {}
    }
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut components: VecDeque<_> = names.map(|name| OsString::from_vec(name.to_vec())).collect();
    if bytes.ends_with(b"/") {
        // A slash at the end demands a directory.
        components.push_back(".".into());
    }
    Ok(components)
}

fn open_at(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    retry_on_intr(|| fs::openat(dir, name, flags, mode))
}

fn is_link(fd: &OwnedFd) -> io::Result<bool> {
    let stat = retry_on_intr(|| fs::fstat(fd))?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn is_link_at(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    fs::readlinkat(dir, name, Vec::new()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs as std_fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use rustix::fs::ResolveFlags;

    use super::*;

    const FLAGS: [OFlags; 4] = [
        OFlags::PATH,
        OFlags::RDONLY,
        OFlags::PATH.union(OFlags::DIRECTORY),
        OFlags::WRONLY.union(OFlags::CREATE),
    ];

    /// A tree with links of every sort, and a file outside that no link may reach.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std_fs::create_dir_all(at("root/sub/deep")).expect("directories");
        std_fs::write(at("outside"), "guarded").expect("a file");
        std_fs::write(at("root/file"), "1").expect("a file");
        std_fs::write(at("root/sub/deep/file"), "2").expect("a file");
        let links = [
            ("root/to-file", "file"),
            ("root/to-sub", "sub/"),
            ("root/sub/up", "../file"),
            ("root/sub/deep/to-top", "../../to-sub/up"),
            ("root/sub/here", "./././deep/../deep"),
            ("root/out", "../outside"),
            ("root/sub/out", "../../outside"),
            ("root/through", "sub/../../outside"),
            ("root/absolute", "/etc/passwd"),
            ("root/dangling", "sub/made"),
            ("root/file-as-directory", "file/"),
            ("root/loop", "loop"),
            ("root/two", "three"),
            ("root/three", "two"),
        ];
        for (name, target) in links {
            symlink(target, at(name)).expect("a link");
        }
        dir
    }

    const PATHS: [&str; 22] = [
        "file",
        "sub",
        "sub/",
        ".",
        "..",
        "sub/..",
        "to-file",
        "to-sub",
        "to-sub/deep/file",
        "sub/up",
        "sub/deep/to-top",
        "sub/here/file",
        "out",
        "sub/out",
        "through",
        "absolute",
        "file-as-directory",
        "loop",
        "two",
        "missing/file",
        "file/below",
        "dangling",
    ];

    #[test]
    fn every_path_leads_where_openat2_leads() {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for flags in FLAGS {
            for path in PATHS {
                // One tree for each of the two, because a call may make a file.
                let [ours, kernels] = [tree(), tree()].map(|dir| {
                    let root = std_fs::File::open(dir.path().join("root")).expect("the root");
                    (dir, root)
                });
                // openat2 refuses a mode where nothing is to be made.
                let makes = flags.contains(OFlags::CREATE);
                let mode = if makes { Mode::from_raw_mode(0o600) } else { Mode::empty() };
                // A file to be made whose name ends in a slash: EISDIR by the kernel, ENOTDIR here.
                if makes && path == "file-as-directory" {
                    continue;
                }
                let path = Path::new(path);
                let got = open(ours.1.as_fd(), path, flags | OFlags::CLOEXEC, mode);
                let want = fs::openat2(&kernels.1, path, flags | OFlags::CLOEXEC, mode, resolve);
                if want.as_ref().err() == Some(&Errno::NOSYS) {
                    return gush_test::skipped("openat2 is not to be had");
                }
                let name = |opened: io::Result<OwnedFd>, dir: &tempfile::TempDir| {
                    opened.map(|fd| {
                        let named = std_fs::read_link(gush_text::fd_path(
                            std::os::fd::AsRawFd::as_raw_fd(&fd),
                        ));
                        let base = dir.path().canonicalize().expect("the directory");
                        let named = named.expect("a name");
                        named.strip_prefix(base).expect("inside").to_owned()
                    })
                };
                assert_eq!(name(got, &ours.0), name(want, &kernels.0), "{path:?} {flags:?}");
                assert_eq!(
                    std_fs::metadata(ours.0.path().join("outside")).expect("stat").size(),
                    7
                );
            }
        }
    }
}
