//! OS errors as text.

use std::io;

use rustix::io::Errno;

/// The text of an OS error without the number that Rust appends: the words of C programs.
///
/// ```
/// let missing = std::io::Error::from_raw_os_error(2);
/// assert_eq!(gush_text::os_text(&missing), "No such file or directory");
/// assert_eq!(gush_text::os_text(&std::io::Error::other("odd")), "odd");
/// ```
#[must_use]
pub fn os_text(error: &io::Error) -> String {
    let mut text = error.to_string();
    // tempfile wraps an error and adds a path after the number.
    if let Some(end) = text.rfind(" (os error ") {
        text.truncate(end);
    }
    text
}

/// As [`os_text`], of an error number.
#[must_use]
pub fn errno_text(errno: Errno) -> String {
    os_text(&errno.into())
}

/// What is known of a failure beyond GNU's sentence, as ` (note; remedy)`.
#[must_use]
pub fn noted(note: &str, remedy: Option<&str>) -> String {
    let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!(" ({note}{remedy})")
}

/// The remedy as ` (remedy)`, or nothing.
#[must_use]
pub fn in_brackets(remedy: Option<&str>) -> String {
    remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default()
}
