//! Messages to the user on standard error: `gush: cat: PATH: operation: OS error`.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use gush_text::{
    Doing, errno_text, in_brackets, missing_directory, os_text, quote, without_controls,
};
use rustix::event::PollFlags;
use rustix::io::Errno;

/// Writes the messages of one command to standard error.
#[derive(Debug, Clone)]
pub struct Console {
    prefix: String,
    /// Makes a line of a message, in the place of the prefix.
    stamp: Option<fn(&str) -> String>,
    familiar: bool,
    /// Cleans up before EPIPE on standard error ends the program; without it, EPIPE is ignored.
    ends_unread: Option<fn()>,
    sink: Option<Arc<dyn MessageSink>>,
}

/// Receives messages instead of standard error.
pub trait MessageSink: Debug + Send + Sync {
    /// Receives one or more lines, with the line feed.
    fn say(&self, line: &[u8]);
}

impl Console {
    /// `as_name` is the command as typed: the messages of `gush cat` start with `gush: cat:`, those
    /// of plain `cat` with `cat:`.
    pub fn new(as_name: &str) -> Self {
        Self {
            prefix: as_name.replace(' ', ": "),
            stamp: None,
            familiar: !as_name.starts_with("gush"),
            ends_unread: None,
            sink: None,
        }
    }

    /// From now on EPIPE on stderr runs `tidy`, then exits as if by SIGPIPE. For a command that
    /// ignores the signal because a failed write to standard output means something else there.
    pub fn ending_unread(self, tidy: fn()) -> Self {
        Self { ends_unread: Some(tidy), ..self }
    }

    /// Makes the lines of messages by `stamp`, if there is one.
    pub fn stamped(self, stamp: Option<fn(&str) -> String>) -> Self {
        Self { stamp, ..self }
    }

    /// Sends messages to `sink` from now on.
    pub fn through(self, sink: impl MessageSink + 'static) -> Self {
        Self { sink: Some(Arc::new(sink)), ..self }
    }

    /// Does the prefix of messages already name the command `name`?
    pub fn speaks_for(&self, name: &str) -> bool {
        self.prefix.rsplit(": ").next() == Some(name)
    }

    /// Is the command called by the name of the GNU tool?
    pub fn is_gnu_name(&self) -> bool {
        self.familiar
    }

    /// Writes the message `what` and returns the exit status for failure.
    pub fn fail(&self, what: impl Display) -> ExitCode {
        self.say(what);
        ExitCode::FAILURE
    }

    /// Makes a write beyond the limit on file size (ulimit -f) fail with EFBIG, which is reported,
    /// instead of killing the program silently.
    ///
    /// # Errors
    /// The exit status for failure, after the message is written.
    pub fn outlives_file_size_limit(&self) -> Result<(), ExitCode> {
        let blocked = gush_process::fail_beyond_file_size_limit();
        blocked
            .map_err(|errno| self.fail(format_args!("cannot block SIGXFSZ: {}", errno_text(errno))))
    }

    /// Writes the message `what`: a warning, or a failure after which the command goes on.
    ///
    /// Control characters in names never reach the terminal.
    pub fn say(&self, what: impl Display) {
        self.print(self.line(&what.to_string()));
    }

    fn line(&self, what: &str) -> String {
        let what = without_controls(what);
        match self.stamp {
            Some(stamp) => stamp(&what) + "\n",
            None => format!("{}: {what}\n", self.prefix),
        }
    }

    /// As [`Console::say`], for the thread that ends the program on a signal: drops the message if
    /// standard error is full, and waits for no lock.
    pub fn say_at_once(&self, what: impl Display) {
        let text = self.line(&what.to_string());
        let stderr = rustix::stdio::stderr();
        if gush::poll_now(&stderr, PollFlags::OUT).is_ok_and(|now| now.contains(PollFlags::OUT)) {
            // Nowhere is left to report a failure.
            let _ = rustix::io::write(stderr, text.as_bytes());
        }
    }

    /// Writes each line of `text` as a message about the file `path`.
    pub fn say_lines(&self, path: impl AsRef<Path>, text: impl Display) {
        let name = quote::if_needed(path.as_ref()).to_string();
        for line in text.to_string().lines() {
            self.say(format_args!("{name}: {line}"));
        }
    }

    /// Writes that `path` could not be opened: `PATH: OS error`, under GNU's name as GNU does.
    pub fn say_unopened(&self, path: impl AsRef<Path>, error: &io::Error, remedy: Option<&str>) {
        let (name, why) = (quote::if_needed(path.as_ref()), os_text(error));
        let remedy = in_brackets(remedy.filter(|_| !self.familiar));
        self.say(format_args!("{name}: {why}{remedy}"));
    }

    /// Writes a requested page, such as a help text, to standard output.
    pub fn page(&self, page: &[u8]) -> ExitCode {
        match write_out(page) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => self.fail_output(&error),
        }
    }

    /// Reports that standard output cannot be written to, and returns the exit status for failure.
    pub fn fail_output(&self, error: &io::Error) -> ExitCode {
        self.fail(format_args!("write error: {}", os_text(error)))
    }

    /// Writes `text` to standard error without a prefix. Failures are ignored, except for EPIPE
    /// after [`Console::ending_unread`]: there is nowhere left to report them.
    pub fn print(&self, text: impl Display) {
        let text = text.to_string();
        if let Some(sink) = &self.sink {
            return sink.say(text.as_bytes());
        }
        // One write per message, so that lines of several programs do not interleave.
        let written = io::stderr().lock().write_all(text.as_bytes());
        if let (Err(error), Some(tidy)) = (written, self.ends_unread)
            && error.kind() == io::ErrorKind::BrokenPipe
            // Started with SIGPIPE ignored, GNU tools continue as well.
            && !gush_process::sigpipe_was_ignored()
        {
            tidy();
            gush_process::die_of_sigpipe();
        }
    }
}

/// The width of the terminal at standard error; 80 columns if unknown.
pub fn columns() -> usize {
    match rustix::termios::tcgetwinsize(rustix::stdio::stderr()) {
        // Serial lines and some containers report 0 columns.
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// Dies of SIGPIPE on EPIPE, as GNU tools do. Returns on any other error, and if the signal was
/// ignored when the program started.
///
/// The signal itself comes too early: splice(2) raises it before looking for anything to move.
pub fn die_if_nobody_reads(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        gush_process::die_of_sigpipe();
    }
}

/// Writes to standard output. A closed standard output, which Rust replaces by /dev/null, is an
/// error here. On EPIPE the program dies of SIGPIPE, even if it ignores SIGPIPE by now.
///
/// # Errors
/// The OS error of write(2); `EBADF` if standard output was closed.
pub fn write_out(bytes: &[u8]) -> io::Result<()> {
    try_write_out(bytes).inspect_err(die_if_nobody_reads)
}

/// As [`write_out`], for a command that has to clean up: if the program ignores SIGPIPE, EPIPE is
/// returned.
///
/// # Errors
/// As [`write_out`], and `EPIPE`.
pub fn try_write_out(bytes: &[u8]) -> io::Result<()> {
    // /dev/null is in its place by now and would swallow the page.
    if gush_process::was_closed(1) {
        return Err(Errno::BADF.into());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// The remedy for a path that the user may not use, whether by its own mode or on the way to it.
pub const DENIED: &str = "`namei -l PATH` shows the owner and mode of each part of a path";

/// The remedy for a failed call on `path`, if there is one.
pub fn remedy(path: &Path, doing: Doing, error: &io::Error) -> Option<&'static str> {
    let errno = Errno::from_io_error(error)?;
    let denied = (errno == Errno::ACCESS).then_some(DENIED);
    gush_text::remedy_at(rustix::fs::CWD, path, doing, errno).or(denied)
}

/// The remedy for an output that cannot be opened or created.
pub fn remedy_to_store(path: &Path, error: &io::Error) -> Option<Cow<'static, str>> {
    if error.kind() == io::ErrorKind::NotFound
        && let Some(remedy) = missing_directory(path)
    {
        return Some(remedy.into());
    }
    let doing = if path.exists() { Doing::Opening } else { Doing::Making };
    remedy(path, doing, error).map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_start_with_what_the_user_typed() {
        assert_eq!(Console::new("gush cat").prefix, "gush: cat");
        assert_eq!(Console::new("cat").prefix, "cat");
    }
}
