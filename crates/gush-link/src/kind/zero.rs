//! `zero:`: endless zeros.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::{Nothing, Options};
use crate::open::{How, OpenError, Opened, file};

pub(crate) struct Zero;

impl Entry for Zero {
    type Argument = Nothing;

    const ROW: Row = Row {
        name: "zero",
        grammar: "zero:",
        help: "endless zeros; takes everything written",
        keywords: &[("zero", Form::Plain)],
        stands_alone: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Nothing, Fault> {
        argument.nothing()
    }

    fn show(_: &Nothing, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("zero:")
    }

    async fn open(_: &Nothing, _: &Options, how: &How) -> Result<Opened, OpenError> {
        file::device("/dev/zero", how).map(Opened::One)
    }
}
