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

    /// Is the command called by the name of the GNU tool?
    pub fn is_familiar(&self) -> bool {
        self.familiar
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

    /// Says each line of `text` about the file `path`.
    pub fn say_lines(&self, path: impl AsRef<Path>, text: impl Display) {
        let name = quote::if_needed(path.as_ref()).to_string();
        for line in text.to_string().lines() {
            self.say(format_args!("{name}: {line}"));
        }
    }

    /// Says that `path` could not be opened; called as `cat`, in the words scripts know from it.
    pub fn say_failed_open(&self, path: impl AsRef<Path>, error: &io::Error) {
        if self.familiar {
            self.say(format_args!("{}: {}", quote::if_needed(path.as_ref()), os_text(error)));
        } else {
            self.say_failed(path, "open failed", error);
        }
    }

    /// Writes a page that was asked for, such as a help text, to standard output.
    pub fn page(&self, page: &[u8]) -> ExitCode {
        match write_out(page) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => self.fail(format_args!("write error: {}", os_text(&error))),
        }
    }

    /// Writes `text` as it is. Nobody is left to tell when standard error itself fails, so that is ignored.
    pub fn print(&self, text: impl Display) {
        let text = text.to_string();
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// How wide the terminal at standard error is; 80 columns where it does not say.
pub fn columns() -> usize {
    match rustix::termios::tcgetwinsize(rustix::stdio::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// `text` in at most `columns` characters: where it is longer, its middle gives way.
pub fn shortened(text: &str, columns: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let (start, end) = (kept / 2, letters.len() - (kept - kept / 2));
    letters[..start].iter().chain(['…'].iter()).chain(&letters[end..]).collect()
}

/// Writes a line to standard output.
///
/// # Errors
/// As [`write_out`].
pub fn write_line(line: &str) -> io::Result<()> {
    write_out(format!("{line}\n").as_bytes())
}

/// Writes to standard output, and says so where that was closed: then Rust has put /dev/null there.
///
/// # Errors
/// What write(2) answers; `EBADF` where standard output was closed.
pub fn write_out(bytes: &[u8]) -> io::Result<()> {
    if gush_process::was_closed(1) {
        return Err(Errno::BADF.into());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
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
    fn a_long_text_keeps_its_start_and_its_end() {
        assert_eq!(shortened("file", 4), "file");
        assert_eq!(shortened("holiday.mkv", 7), "hol…mkv");
        assert_eq!(shortened("abc", 1), "…");
    }

    #[test]
    fn messages_start_with_what_the_user_typed() {
        assert_eq!(Talker::new("gush cat").prefix, "gush: cat");
        assert_eq!(Talker::new("cat").prefix, "cat");
    }
}
