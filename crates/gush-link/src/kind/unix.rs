//! `unix:PATH`: a connection to a Unix socket.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, RETRIED};
use crate::address::{Opt, Options, UnixName};
use crate::open::{How, OpenError, Opened, connect};

pub(crate) struct Unix;

impl Entry for Unix {
    type Argument = UnixName;

    const ROW: Row = Row {
        name: "unix",
        grammar: "unix:PATH",
        help: "connects to a Unix socket; unix:@NAME is an abstract one",
        keywords: &[
            ("unix", Form::Plain),
            ("unix-connect", Form::Plain),
            ("unix-client", Form::Plain),
            ("local", Form::Plain),
            ("abstract", Form::Abstract),
            ("abstract-connect", Form::Abstract),
            ("abstract-client", Form::Abstract),
        ],
        options: &[&[Opt::ConnectTimeout], RETRIED, BUFFERS],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<UnixName, Fault> {
        argument.unix_name()
    }

    fn show(argument: &UnixName, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{argument}")
    }

    async fn open(argument: &UnixName, options: &Options, _: &How) -> Result<Opened, OpenError> {
        connect::unix(argument, options).await.map(Opened::One)
    }
}
