//! `PATH`, a name without a keyword: for any kind of file.

use std::fmt;
use std::path::PathBuf;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{ACCESS, CONTENT, OWNED, RETRIED, TERMINAL};
use crate::address::{Options, is_path, quoted_path};
use crate::open::{How, OpenError, Opened, file};

pub(crate) struct Path;

impl Entry for Path {
    type Argument = PathBuf;

    const ROW: Row = Row {
        name: "PATH",
        grammar: "PATH",
        help: "whatever is there: a file (written at its end), FIFO, device or Unix socket",
        keywords: &[("gopen", Form::Plain)],
        options: &[RETRIED, CONTENT, ACCESS, OWNED, TERMINAL],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<PathBuf, Fault> {
        argument.path()
    }

    fn show(argument: &PathBuf, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = quoted_path(argument);
        let keyword = if is_path(&text) { "" } else { "gopen:" };
        write!(f, "{keyword}{text}")
    }

    async fn open(argument: &PathBuf, options: &Options, how: &How) -> Result<Opened, OpenError> {
        file::path(argument, options, how).await.map(Opened::One)
    }
}
