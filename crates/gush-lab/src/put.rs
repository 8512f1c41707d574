//! Text under a name, whole: who reads the name meanwhile sees the old text or the new one.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Puts `text` at `path`, and on the disk. A new file takes the place of an old one. A device or a FIFO is written to; a
/// symbolic link is followed.
///
/// # Errors
/// The operating system's error; an older file is untouched.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("text");
/// gush_lab::put::whole(&path, "old")?;
/// gush_lab::put::whole(&path, "new")?;
/// assert_eq!(std::fs::read_to_string(path)?, "new");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn whole(path: &Path, text: &str) -> io::Result<()> {
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
    let mut beside = target.clone().into_os_string();
    beside.push(format!(".{}.tmp", std::process::id()));
    let mut file = fs::File::create_new(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, &target));
    if written.is_err() {
        // The error to tell is that of writing, not that of tidying up.
        let _ = fs::remove_file(&beside);
    }
    written
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
        whole(&path, "text").expect("written");
        assert!(fs::metadata(&path).expect("there").file_type().is_fifo(), "the FIFO was replaced");
        assert_eq!(reader.join().expect("no panic"), "text");
    }

    #[test]
    fn a_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        symlink("file", &link).expect("a link");
        for text in ["made", "replaced"] {
            whole(&link, text).expect("written");
            assert_eq!(fs::read_to_string(&file).expect("the file"), text);
            assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "{text}: a file now");
        }
        let names = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(names, 2, "something is left behind");
    }
}
