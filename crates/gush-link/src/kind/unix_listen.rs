//! `unix-listen:PATH`: a listening Unix socket.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, OWNED, RETRIED, SERVING};
use crate::address::{Opt, Options, UnixName};
use crate::open::{How, OpenError, Opened, listen};

pub(crate) struct UnixListen;

impl Entry for UnixListen {
    type Argument = UnixName;

    const ROW: Row = Row {
        name: "unix-listen",
        grammar: "unix-listen:PATH",
        help: "accepts on a Unix socket, removed at the end",
        keywords: &[
            ("unix-listen", Form::Plain),
            ("unix-l", Form::Plain),
            ("abstract-listen", Form::Abstract),
        ],
        options: &[
            SERVING,
            &[Opt::Backlog, Opt::Unlink, Opt::UnlinkClose],
            OWNED,
            RETRIED,
            BUFFERS,
        ],
        listens: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<UnixName, Fault> {
        argument.unix_name()
    }

    fn show(argument: &UnixName, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix-listen:{argument}")
    }

    async fn open(argument: &UnixName, options: &Options, _: &How) -> Result<Opened, OpenError> {
        listen::unix(argument, options).await.map(Opened::Listener)
    }
}
