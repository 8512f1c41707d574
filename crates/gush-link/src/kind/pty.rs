//! `pty`: a new pseudo-terminal.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{OWNED, TERMINAL};
use crate::address::{Nothing, Opt, Options};
use crate::open::{How, OpenError, Opened, pty};

pub(crate) struct Pty;

impl Entry for Pty {
    type Argument = Nothing;

    const ROW: Row = Row {
        name: "pty",
        grammar: "pty",
        help: "a new pseudo-terminal, for programs that open its other side, one after the other",
        descriptors: 2,
        keywords: &[("pty", Form::Plain)],
        options: &[&[Opt::Link, Opt::Unlink, Opt::UnlinkClose, Opt::WaitSlave], TERMINAL, OWNED],
        stands_alone: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Nothing, Fault> {
        argument.nothing()
    }

    fn show(_: &Nothing, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pty")
    }

    async fn open(_: &Nothing, options: &Options, _: &How) -> Result<Opened, OpenError> {
        pty::open(options).await.map(Opened::One)
    }
}
