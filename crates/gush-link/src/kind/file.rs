//! `file:PATH`: a file or device.

use std::fmt;
use std::path::PathBuf;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{ACCESS, CONTENT, OWNED, RETRIED, TERMINAL};
use crate::address::{Options, quoted_path};
use crate::open::{How, OpenError, Opened, file};

pub(crate) struct File;

impl Entry for File {
    type Argument = PathBuf;

    const ROW: Row = Row {
        name: "file",
        grammar: "file:PATH",
        help: "a file or device, written from its start unless told otherwise",
        keywords: &[
            ("file", Form::Plain),
            ("open", Form::Plain),
            ("create", Form::Create),
            ("creat", Form::Create),
        ],
        options: &[RETRIED, CONTENT, ACCESS, OWNED, TERMINAL],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<PathBuf, Fault> {
        argument.path()
    }

    fn show(argument: &PathBuf, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", quoted_path(argument))
    }

    async fn open(argument: &PathBuf, options: &Options, how: &How) -> Result<Opened, OpenError> {
        file::file(argument, options, how).await.map(Opened::One)
    }
}
