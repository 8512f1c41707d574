//! What the user is told, on standard error: `gush: cat: PATH: what failed: OS error`.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use gush_tree::quote;
use rustix::io::Errno;

/// Speaks to standard error for one command.
#[derive(Debug, Clone)]
pub struct Talker {
    prefix: String,
    familiar: bool,
}

impl Talker {
    /// `as_name` is what the user typed: `gush cat` speaks as `gush: cat: …`, plain `cat` as `cat: …`.
    pub fn new(as_name: &str) -> Self {
        Self { prefix: as_name.replace(' ', ": "), familiar: !as_name.starts_with("gush") }
    }

    /// Says `what` after the command's name and gives the exit status of a failure.
    pub fn fail(&self, what: impl Display) -> ExitCode {
        self.say(what);
        ExitCode::FAILURE
    }

    /// Says `what` after the command's name: a warning, or a failure that is not the end.
    pub fn say(&self, what: impl Display) {
        self.print(format_args!("{}: {what}\n", self.prefix));
    }

    /// Says what went wrong with the file `path`: `PATH: what: OS error`.
    pub fn say_failed(&self, path: impl AsRef<Path>, what: impl Display, error: &io::Error) {
        self.say(format_args!("{}: {what}: {}", quote::if_needed(path.as_ref()), os_text(error)));
    }

    /// Says that `path` could not be opened; called as `cat`, in the words scripts know from it.
    pub fn say_failed_open(&self, path: impl AsRef<Path>, error: &io::Error) {
        if self.familiar {
            self.say(format_args!("{}: {}", quote::if_needed(path.as_ref()), os_text(error)));
        } else {
            self.say_failed(path, "open failed", error);
        }
    }

    /// Writes `text` as it is. Nobody is left to tell when standard error itself fails, so that is ignored.
    pub fn print(&self, text: impl Display) {
        let text = text.to_string();
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// The operating system's words for `error`, without the number that Rust adds.
pub fn os_text(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => match text.strip_suffix(&format!(" (os error {number})")) {
            Some(words) => words.to_owned(),
            None => text,
        },
        None => text,
    }
}

/// The operating system's words for `errno`.
pub fn errno_text(errno: Errno) -> String {
    os_text(&errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_errors_are_told_without_a_number() {
        assert_eq!(errno_text(Errno::NOENT), "No such file or directory");
        assert_eq!(os_text(&io::Error::other("odd")), "odd");
    }

    #[test]
    fn messages_start_with_what_the_user_typed() {
        assert_eq!(Talker::new("gush cat").prefix, "gush: cat");
        assert_eq!(Talker::new("cat").prefix, "cat");
    }
}
