//! `fd:N`: an inherited descriptor.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::Options;
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{ACCESS, TERMINAL};
use crate::open::{How, OpenError, Opened, inherit};

pub(crate) struct Fd;

impl Entry for Fd {
    type Argument = i32;

    const ROW: Row = Row {
        name: "fd",
        grammar: "fd:N",
        help: "an inherited descriptor",
        keywords: &[("fd", Form::Plain)],
        options: &[ACCESS, TERMINAL],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<i32, Fault> {
        argument.descriptor()
    }

    fn show(argument: &i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd:{argument}")
    }

    async fn open(argument: &i32, options: &Options, how: &How) -> Result<Opened, OpenError> {
        inherit::numbered(*argument, options, how).map(Opened::One)
    }
}
