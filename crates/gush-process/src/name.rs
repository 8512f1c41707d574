//! Names of directory entries, cut to the length that is left for them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The start of a name, of at most so many bytes. No UTF-8 character is cut, since file systems
/// with names in UTF-8 refuse a part of one.
///
/// ```
/// use gush_process::start_of_name;
/// assert_eq!(start_of_name("10 €.txt".as_bytes(), 5), "10 ");
/// assert_eq!(start_of_name("10 €.txt".as_bytes(), 6), "10 €");
/// ```
#[must_use]
pub fn start_of_name(name: &[u8], most_bytes: usize) -> &OsStr {
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
            assert_eq!(start_of_name(name.as_bytes(), most_bytes).len(), start_bytes, "{name}");
        }
        assert_eq!(start_of_name(&[0x80; 9], 7).len(), 7);
    }
}
