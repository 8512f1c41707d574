//! Where a contender's standard output goes, and whether its output is the right one.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::template::names;
use super::super::{Content, Output};
use super::Contender;
use super::stderr::{copy_of, stderr_file};
use crate::Error;

impl Contender {
    /// Gives `command` its standard descriptors; answers the file that takes its messages.
    pub(super) fn wire(&self, command: &mut Command) -> Result<File, Error> {
        let said = stderr_file(self.said.take())?;
        let input = self.shared.workplace.input.as_ref();
        match input.filter(|_| self.rules().is_input_piped) {
            Some(path) => command.stdin(opened(path)?),
            // Opened for each run: flags that a program sets would be those of the next one's.
            None => command.stdin(Stdio::null()),
        };
        match self.output() {
            Output::Inherit => return Ok(said),
            Output::Null => command.stdout(Stdio::null()),
            Output::Pipe => command.stdout(Stdio::piped()),
            Output::Check => command.stdout(made(&self.shared.workplace.printed())?),
            Output::File(path) => command.stdout(made(&path)?),
        };
        command.stderr(copy_of(&said)?);
        Ok(said)
    }

    /// Where standard output goes: into a file where figures are read from it.
    pub(super) fn output(&self) -> Output {
        match &self.output {
            Output::Null if !self.rules().figures.is_empty() => Output::Check,
            output => output.clone(),
        }
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

    /// Whether the output of each run is compared.
    pub(in super::super) fn is_compared(&self) -> bool {
        self.answer_path().is_some()
    }

    /// Whether the output is shown to the user.
    pub(in super::super) fn is_shown(&self) -> bool {
        self.output == Output::Inherit
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

    /// Whether all other outputs have to equal the output of this contender. Fixed before the
    /// rounds: they are in random order, and a wrong output that came first would be the right one.
    pub(super) fn sets_the_expected(&self) -> bool {
        self.answer_path().is_some() && self.shared.expected.borrow().is_none()
    }
}

/// Opens the input for standard input. Opening a FIFO without a writer would block uninterruptibly.
fn opened(path: &Path) -> Result<File, Error> {
    let cannot = |error| Error::failed("cannot open the input", error);
    if std::fs::metadata(path).map_err(cannot)?.file_type().is_fifo() {
        return Err(Error::refused(
            "the input is a FIFO, and opening it blocks: let the commands open {in} themselves",
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
