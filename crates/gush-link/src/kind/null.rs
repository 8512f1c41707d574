//! `null:`: nothing to read, and room for everything.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::{Nothing, Options};
use crate::open::{How, OpenError, Opened, file};

pub(crate) struct Null;

impl Entry for Null {
    type Argument = Nothing;

    const ROW: Row = Row {
        name: "null",
        grammar: "null:",
        help: "nothing to read; takes everything written",
        keywords: &[("null", Form::Plain)],
        stands_alone: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Nothing, Fault> {
        argument.nothing()
    }

    fn show(_: &Nothing, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null:")
    }

    async fn open(_: &Nothing, _: &Options, how: &How) -> Result<Opened, OpenError> {
        file::device("/dev/null", how).map(Opened::One)
    }
}
