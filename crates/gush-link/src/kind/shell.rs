//! `shell:COMMAND`: a command line for `/bin/sh`.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::PROGRAM;
use crate::address::{Command, Options};
use crate::open::{How, OpenError, Opened, child};

pub(crate) struct Shell;

impl Entry for Shell {
    type Argument = Command;

    const ROW: Row = Row {
        name: "shell",
        grammar: "shell:COMMAND",
        help: "a command line for /bin/sh",
        keywords: &[("shell", Form::Plain), ("system", Form::Plain)],
        options: &[PROGRAM],
        is_program: true,
        descriptors: 2,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Command, Fault> {
        argument.command()
    }

    fn show(argument: &Command, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shell:{}", argument.as_written())
    }

    async fn open(argument: &Command, options: &Options, how: &How) -> Result<Opened, OpenError> {
        child::shell(&argument.line(), options, how).map(Opened::One)
    }
}
