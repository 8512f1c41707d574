//! `-`: standard input and output.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::TERMINAL;
use crate::address::{Options, Standard};
use crate::open::{How, OpenError, Opened, inherit};

pub(crate) struct Stdio;

impl Entry for Stdio {
    type Argument = Standard;

    const ROW: Row = Row {
        name: "-",
        grammar: "-",
        help: "standard input and output",
        keywords: &[
            ("-", Form::Plain),
            ("stdio", Form::Plain),
            ("stdin", Form::Input),
            ("stdout", Form::Output),
        ],
        options: &[TERMINAL],
        stands_alone: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Standard, Fault> {
        argument.nothing()?;
        Ok(match argument.form {
            Form::Input => Standard::Input,
            Form::Output => Standard::Output,
            _ => Standard::Both,
        })
    }

    fn show(argument: &Standard, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match argument {
            Standard::Both => "-",
            Standard::Input => "stdin",
            Standard::Output => "stdout",
        })
    }

    async fn open(argument: &Standard, options: &Options, how: &How) -> Result<Opened, OpenError> {
        inherit::stdio(*argument, options, how).map(Opened::One)
    }
}
