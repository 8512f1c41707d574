//! Files of `/proc` with a value a line: `VmHWM:     1234 kB`.

use std::fs;
use std::path::Path;

/// The value after `name` and a colon, in the file `path`.
pub(crate) fn field(path: impl AsRef<Path>, name: &str) -> Option<String> {
    field_in(&fs::read(path).ok()?, name)
}

/// The same in a text, as bytes: a program's name in it need not be UTF-8.
pub(crate) fn field_in(text: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)
}

/// The same as a number of bytes: the kernel's kB are KiB (proc_meminfo(5)).
pub(crate) fn bytes(path: impl AsRef<Path>, name: &str) -> Option<u64> {
    field(path, name)?.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_own_name() {
        let text = b"Name:\t\xffSeccomp:\nSeccomp_filters:\t1\nSeccomp:\t2\nVmHWM:\t  12 kB\n";
        assert_eq!(field_in(text, "Seccomp").as_deref(), Some("2"));
        assert_eq!(field_in(text, "VmHWM").as_deref(), Some("12 kB"));
        assert_eq!(field_in(text, "Vm"), None);
        assert!(bytes("/proc/self/status", "VmHWM") > Some(4096));
    }
}
