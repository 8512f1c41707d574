//! Names of state beside a target, made of the target's own name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use xxhash_rust::xxh3::xxh3_64;

/// The longest name of a directory entry (NAME_MAX of limits.h).
pub(crate) const NAME_MAX_BYTES: usize = 255;

/// `.NAME` with `suffix` behind. Where that is longer than a directory entry, NAME loses its last bytes, and a fingerprint of all of NAME
/// takes their place: two long names that differ in their last bytes alone have state of their own.
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

/// The start of a name, of at most so many bytes. No UTF-8 character is cut, since file systems with names in UTF-8 refuse a part of one.
pub(crate) fn start_of(name: &[u8], most_bytes: usize) -> &OsStr {
    const LONGEST_CHARACTER_BYTES: usize = 4;
    let is_inside = |at: usize| name.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let most_bytes = most_bytes.min(name.len());
    let least_bytes = (most_bytes + 1).saturating_sub(LONGEST_CHARACTER_BYTES);
    // A name in no UTF-8 may have no boundary there, and is cut anywhere.
    let boundary = (least_bytes..=most_bytes).rev().find(|&at| !is_inside(at));
    OsStr::from_bytes(&name[..boundary.unwrap_or(most_bytes)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        for (name, most_bytes, start_bytes) in [
            ("name", 4, 4),
            ("name", 9, 4),
            ("name", 3, 3),
            ("\u{20ac}\u{20ac}", 6, 6),
            ("\u{20ac}\u{20ac}", 5, 3),
            ("\u{20ac}\u{20ac}", 4, 3),
            ("a\u{1f600}", 4, 1),
            ("\u{1f600}", 3, 0),
        ] {
            assert_eq!(start_of(name.as_bytes(), most_bytes).len(), start_bytes, "{name}");
        }
        assert_eq!(start_of(&[0x80; 9], 7).len(), 7);
    }

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
