//! `tcp:HOST:PORT`: a TCP connection to be made.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, CONNECTED, RETRIED, TCP};
use crate::address::{Options, Remote};
use crate::open::{How, OpenError, Opened, connect};

pub(crate) struct Tcp;

impl Entry for Tcp {
    type Argument = Remote;

    const ROW: Row = Row {
        name: "tcp",
        grammar: "tcp:HOST:PORT",
        help: "connects; an IPv6 address stands in brackets",
        keywords: &[
            ("tcp", Form::Plain),
            ("tcp-connect", Form::Plain),
            ("tcp4", Form::V4),
            ("tcp4-connect", Form::V4),
            ("tcp6", Form::V6),
            ("tcp6-connect", Form::V6),
        ],
        options: &[CONNECTED, RETRIED, TCP, BUFFERS],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Remote, Fault> {
        argument.remote()
    }

    fn show(argument: &Remote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp{argument}")
    }

    async fn open(argument: &Remote, options: &Options, _: &How) -> Result<Opened, OpenError> {
        connect::tcp(argument, options).await.map(Opened::One)
    }
}
