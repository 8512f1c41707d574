//! `listen-fd:N|NAME`: an inherited listening socket.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, SERVING, TCP};
use crate::address::{Inherited, Opt, Options};
use crate::open::{How, OpenError, Opened, listen};

pub(crate) struct ListenFd;

impl Entry for ListenFd {
    type Argument = Inherited;

    const ROW: Row = Row {
        name: "listen-fd",
        grammar: "listen-fd:N|NAME",
        help: "accepts on an inherited listening socket",
        keywords: &[("listen-fd", Form::Plain), ("accept-fd", Form::Plain)],
        options: &[SERVING, &[Opt::Range], TCP, BUFFERS],
        listens: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Inherited, Fault> {
        argument.inherited()
    }

    fn show(argument: &Inherited, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listen-fd:{argument}")
    }

    async fn open(argument: &Inherited, options: &Options, _: &How) -> Result<Opened, OpenError> {
        listen::inherited(argument, options).map(Opened::Listener)
    }
}
