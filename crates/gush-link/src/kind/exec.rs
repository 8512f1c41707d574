//! `exec:COMMAND`: a program.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::PROGRAM;
use crate::address::{Command, Options};
use crate::open::{How, OpenError, Opened, child};

pub(crate) struct Exec;

impl Entry for Exec {
    type Argument = Command;

    const ROW: Row = Row {
        name: "exec",
        grammar: "exec:COMMAND",
        help: "a program, its words split as a shell does",
        keywords: &[("exec", Form::Plain)],
        options: &[PROGRAM],
        is_program: true,
        descriptors: 2,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Command, Fault> {
        argument.command()
    }

    fn show(argument: &Command, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exec:{}", argument.as_written())
    }

    async fn open(argument: &Command, options: &Options, how: &How) -> Result<Opened, OpenError> {
        child::exec(&argument.words(), options, how).map(Opened::One)
    }
}
