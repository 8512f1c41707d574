//! Where a contender's standard output goes, and whether its output is the right one.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::template::names;
use super::super::{Content, Entry, Output};
use super::Contender;
use super::stderr::{copy_of, stderr_file};
use crate::Error;

/// The use of a standard output that the timed runs throw away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printing {
    /// Nobody looks.
    Dropped,
    /// Looked at once, untimed; a difference is told.
    Told,
    /// Looked at once, untimed: it has to equal the outputs of the contenders that write `{out}`.
    Judged,
}

impl Contender {
    /// Gives `command` its standard descriptors; answers the file that takes its messages.
    pub(super) fn wire(&self, command: &mut Command) -> Result<File, Error> {
        let said = stderr_file()?;
        let input = self.shared.workplace.input().filter(|_| self.rules().is_input_piped);
        match input {
            Some(path) => command.stdin(opened(path)?),
            None => command.stdin(Stdio::null()),
        };
        let output = if self.is_looked_at.get() { Output::Check } else { self.output() };
        match output {
            Output::Inherit => return Ok(said),
            Output::Null => command.stdout(Stdio::null()),
            Output::Pipe => command.stdout(Stdio::piped()),
            Output::Check => command.stdout(made(&self.shared.workplace.printed())?),
            Output::File(path) => command.stdout(made(&path)?),
        };
        command.stderr(copy_of(&said)?);
        Ok(said)
    }

    /// Where standard output goes. Beside contenders that write `{out}`, a file gets it in every run: to write into /dev/null is
    /// less work, and tar(1) and grep(1) see the device and do not even read.
    pub(super) fn output(&self) -> Output {
        let is_read = !self.rules().figures.is_empty();
        match self.requested_output() {
            Output::Null if is_read || self.others_write_out() => Output::Check,
            output => output.clone(),
        }
    }

    /// Where standard output goes as far as the user has said.
    pub(in super::super) fn requested_output(&self) -> &Output {
        &self.output
    }

    /// Is the standard output of another command compared, and not that of this one?
    fn is_beside_compared(&self) -> bool {
        let rules = self.rules();
        let is_compared = |entry: &Entry| *rules.output_of(entry) == Output::Check;
        *self.requested_output() != Output::Check && rules.entries.iter().any(is_compared)
    }

    /// Does this command name no `{out}`, and another one does?
    pub(in super::super) fn others_write_out(&self) -> bool {
        let writes = |entry: &Entry| names(&entry.command, "out");
        !names(&self.command, "out") && self.rules().entries.iter().any(writes)
    }

    /// The path of the output that is compared.
    fn answer_path(&self) -> Option<PathBuf> {
        if self.rules().ignores_output {
            None
        } else if names(&self.command, "out") {
            Some(self.shared.workplace.output())
        } else {
            let is_compared = self.output() == Output::Check && self.rules().figures.is_empty();
            is_compared.then(|| self.shared.workplace.printed())
        }
    }

    fn printing(&self) -> Printing {
        let is_dropped = self.output() != Output::Check && !self.rules().ignores_output;
        let is_shown = self.output() == Output::Inherit;
        if !is_dropped || names(&self.command, "out") {
            Printing::Dropped
        } else if self.is_beside_compared() {
            Printing::Judged
        } else if is_shown {
            Printing::Dropped
        } else if self.shared.expected.borrow().is_some() || self.others_write_out() {
            Printing::Judged
        } else if self.shared.workplace.input().is_some() {
            Printing::Told
        } else {
            Printing::Dropped
        }
    }

    /// Looks at the standard output of one untimed run, where the timed runs throw it away and others write the same bytes.
    pub(super) fn look_at_printed(&self) -> Result<(), Error> {
        let printing = self.printing();
        if printing == Printing::Dropped {
            return Ok(());
        }
        self.freshen()?;
        self.is_looked_at.set(true);
        let done = self.once(None);
        self.is_looked_at.set(false);
        done?;
        let content = Content::of(&self.shared.workplace.printed())?;
        self.side("conclude", self.hooks.conclude.as_ref())?;
        if printing == Printing::Judged {
            self.shared.seen_once.borrow_mut().push(self.label.clone());
            return self.shared.judge(&self.label, content).map(drop);
        }
        self.shared.printed.borrow_mut().push((self.label.clone(), content));
        Ok(())
    }

    /// The output, if it equals the expected output.
    pub(super) fn answer(&self) -> Result<Option<Content>, Error> {
        let Some(path) = self.answer_path() else { return Ok(None) };
        let is_link = std::fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink());
        let what = if is_link {
            "a symbolic link"
        } else if self.shared.workplace.is_input(&path) {
            "the input itself, by another name"
        } else {
            return self.shared.judge(&self.label, Content::of(&path)?).map(Some);
        };
        Err(Error::refused(format!(
            "its {{out}} is {what}: nothing was written (--no-compare measures it nevertheless)"
        )))
    }

    /// Will this contender's output be the one that all others have to equal? The answer is fixed before the rounds, whose order changes:
    /// else a wrong output that happens to come first would be the right one.
    pub(super) fn sets_the_expected(&self) -> bool {
        self.answer_path().is_some() && self.shared.expected.borrow().is_none()
    }
}

/// The input for standard input. A FIFO without a writer would hold this process, which nobody could interrupt.
fn opened(path: &Path) -> Result<File, Error> {
    let cannot = |error| Error::failed("cannot open the input", error);
    if std::fs::metadata(path).map_err(cannot)?.file_type().is_fifo() {
        return Err(Error::refused(
            "the input is a FIFO, which holds whoever opens it: let the commands open {in} themselves",
        ));
    }
    File::open(path).map_err(cannot)
}

/// The file for standard output, empty.
fn made(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(|error| {
        Error::failed(format!("cannot make '{}' for standard output", path.display()), error)
    })
}
