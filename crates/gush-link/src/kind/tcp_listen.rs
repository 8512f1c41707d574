//! `tcp-listen:[HOST:]PORT`: a TCP listener.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BOUND, BUFFERS, RETRIED, SERVING, TCP};
use crate::address::{Local, Opt, Options};
use crate::open::{How, OpenError, Opened, listen};

pub(crate) struct TcpListen;

impl Entry for TcpListen {
    type Argument = Local;

    const ROW: Row = Row {
        name: "tcp-listen",
        grammar: "tcp-listen:[HOST:]PORT",
        help: "accepts TCP connections",
        keywords: &[
            ("tcp-listen", Form::Plain),
            ("tcp-l", Form::Plain),
            ("tcp4-listen", Form::V4),
            ("tcp4-l", Form::V4),
            ("tcp6-listen", Form::V6),
            ("tcp6-l", Form::V6),
        ],
        options: &[SERVING, BOUND, &[Opt::Backlog], RETRIED, TCP, BUFFERS],
        listens: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Local, Fault> {
        argument.local()
    }

    fn show(argument: &Local, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp{argument}")
    }

    fn local(argument: &mut Local) -> Option<&mut Local> {
        Some(argument)
    }

    async fn open(argument: &Local, options: &Options, _: &How) -> Result<Opened, OpenError> {
        listen::tcp(argument, options).await.map(Opened::Listener)
    }
}
