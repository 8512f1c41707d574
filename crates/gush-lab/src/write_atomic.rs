//! A text file written so that readers of its name see the old text or the new one, and no part.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

/// Writes `text` to `path`, and waits until it is on the disk. A new file replaces an old one. A
/// device or a FIFO is written to directly; a symbolic link is followed.
///
/// # Errors
/// The operating system's error; an older file is untouched.
pub fn write_atomic(path: &Path, text: &str) -> io::Result<()> {
    // A link to nothing yet has no canonical path: the file is made through the link.
    let is_link = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) if is_link => return fs::write(path, text),
        Err(_) => path.to_owned(),
    };
    if fs::metadata(&target).is_ok_and(|there| !there.is_file()) {
        return fs::write(&target, text);
    }
    let mut temporary = target.clone().into_os_string();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = match unnamed_in(target.parent()) {
        Some(mut file) => write(&mut file, text).and_then(|()| name(&file, &temporary)),
        None => File::create_new(&temporary).and_then(|mut file| write(&mut file, text)),
    };
    let put = written.and_then(|()| fs::rename(&temporary, &target));
    if put.is_err() {
        // The error to report is that of writing.
        let _ = fs::remove_file(&temporary);
    }
    put
}

fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A file without a name in `dir`, which is gone however this program ends; `None` on a file system
/// that has none (NFS).
fn unnamed_in(dir: Option<&Path>) -> Option<File> {
    let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

/// Gives a file that has no name the name `path` (open(2), O_TMPFILE).
fn name(file: &File, path: &Path) -> io::Result<()> {
    let own = gush_text::fd_path(file.as_raw_fd());
    Ok(linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};

    use super::*;

    #[test]
    fn a_device_is_written_to() {
        // A FIFO stands for it: the test may be run by root.
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).expect("read")
        });
        write_atomic(&path, "text").expect("written");
        assert!(fs::metadata(&path).expect("there").file_type().is_fifo(), "the FIFO was replaced");
        assert_eq!(reader.join().expect("no panic"), "text");
    }

    #[test]
    fn a_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        symlink("file", &link).expect("a link");
        for text in ["made", "replaced"] {
            write_atomic(&link, text).expect("written");
            assert_eq!(fs::read_to_string(&file).expect("the file"), text);
            assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "{text}: a file now");
        }
        let names = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(names, 2, "a temporary file remains");
    }
}
