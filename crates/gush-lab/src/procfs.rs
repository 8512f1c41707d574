//! Files of `/proc` and `/sys` with one value or a value a line (`VmHWM:     1234 kB`), and open
//! files by `/proc/self/fd`.

use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::str::FromStr;

use gush::Errno;
use rustix::fs::{Mode, OFlags};

/// The only line of a file; none of an empty one.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

/// The number that is all of a file.
pub(crate) fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    line(path)?.parse().ok()
}

/// The value after `name` and a colon, in the file `path`.
pub(crate) fn field(path: impl AsRef<Path>, name: &str) -> Option<String> {
    field_in(&fs::read(path).ok()?, name)
}

/// The same in a text, as bytes: a program's name in it need not be UTF-8.
pub(crate) fn field_in(text: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// The same as a number of bytes: the kernel's kB are KiB (proc_meminfo(5)).
pub(crate) fn bytes(path: impl AsRef<Path>, name: &str) -> Option<u64> {
    field(path, name)?.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Another open file description (open(2)) of the same file or pipe, at position 0, with other
/// flags: those of `fd`, which others may share, stay.
pub(crate) fn reopened(fd: &impl AsFd, flags: OFlags) -> Result<File, Errno> {
    let path = gush_text::fd_path(fd.as_fd().as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reopened_file_is_the_same_file() {
        let file = tempfile::tempfile().unwrap();
        let twin = reopened(&file, OFlags::RDONLY).unwrap();
        let inode = |file: &File| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(&file), inode(&twin));
    }

    #[test]
    fn a_value_is_that_of_its_own_name() {
        let text = b"Name:\t\xffSeccomp:\nSeccomp_filters:\t1\nSeccomp:\t2\nVmHWM:\t  12 kB\n";
        assert_eq!(field_in(text, "Seccomp").as_deref(), Some("2"));
        assert_eq!(field_in(text, "VmHWM").as_deref(), Some("12 kB"));
        assert_eq!(field_in(text, "Vm"), None);
        assert!(bytes("/proc/self/status", "VmHWM") > Some(4096));
    }
}
