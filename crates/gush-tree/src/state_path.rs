//! Names of state next to a target, derived from the target's name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) use gush_process::start_of_name as start_of;
use xxhash_rust::xxh3::xxh3_64;

use crate::destination::strip_trailing_slashes;

/// The longest name of a directory entry (NAME_MAX of limits.h).
pub(crate) const NAME_MAX_BYTES: usize = 255;

/// The path of the state with this suffix next to a target; `None` if the target's path has no last
/// name.
pub(crate) fn state_path(target: &Path, suffix: &str) -> Option<PathBuf> {
    let target = strip_trailing_slashes(target);
    let of = target.file_name()?;
    // `a/.` has the name `a`, which is no name of `a/.` itself.
    if target.as_os_str().as_bytes().ends_with(b"/.") {
        return None;
    }
    Some(target.with_file_name(hidden_name(of, suffix)))
}

/// `.NAME` and `suffix`. If that is longer than a directory entry, a fingerprint of NAME takes the
/// place of its last bytes: two long names that differ in these alone have different state.
pub(crate) fn hidden_name(of: &OsStr, suffix: &str) -> OsString {
    let of = of.as_bytes();
    let room_bytes = NAME_MAX_BYTES - ".".len() - suffix.len();
    let mut name = OsString::from(".");
    if of.len() <= room_bytes {
        name.push(OsStr::from_bytes(of));
    } else {
        let fingerprint = format!("~{:016x}", xxh3_64(of));
        name.push(start_of(of, room_bytes - fingerprint.len()));
        name.push(fingerprint);
    }
    name.push(suffix);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let suffix = ".gush-journal";
        for len in [1, 241, 242, 255] {
            let [one, other] = ["a", "b"].map(|last| format!("{}{last}", "n".repeat(len - 1)));
            let [hidden, of_other] =
                [&one, &other].map(|name| hidden_name(OsStr::new(name), suffix));
            assert!(hidden.len() <= NAME_MAX_BYTES && hidden != of_other, "{len}");
            let is_whole = hidden.to_str() == Some(&format!(".{one}{suffix}"));
            assert_eq!(is_whole, len <= 241, "{len}");
        }
    }
}
