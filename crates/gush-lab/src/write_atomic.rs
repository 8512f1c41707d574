//! A text file written so that readers of its name see the old text or the new one, and no part.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any new file, less the umask.
    builder.prefix(".").suffix(".tmp").permissions(Permissions::from_mode(0o666));
    let mut file = builder.tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

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
    fn a_new_file_has_the_mode_of_any_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
        write_atomic(&own, "text").expect("written");
        fs::write(&other, "text").expect("written");
        let [own, other] = [own, other].map(|path| fs::metadata(path).expect("there").mode());
        assert_eq!(own, other);
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
