//! `udp:HOST:PORT`: a UDP peer.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, RETRIED};
use crate::address::{Opt, Options, Remote};
use crate::open::{How, OpenError, Opened, connect};

pub(crate) struct Udp;

impl Entry for Udp {
    type Argument = Remote;

    const ROW: Row = Row {
        name: "udp",
        grammar: "udp:HOST:PORT",
        help: "sends and receives datagrams",
        keywords: &[
            ("udp", Form::Plain),
            ("udp-connect", Form::Plain),
            ("udp4", Form::V4),
            ("udp4-connect", Form::V4),
            ("udp6", Form::V6),
            ("udp6-connect", Form::V6),
        ],
        options: &[&[Opt::Bind], RETRIED, BUFFERS],
        is_datagrams: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Remote, Fault> {
        argument.remote()
    }

    fn show(argument: &Remote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp{argument}")
    }

    async fn open(argument: &Remote, options: &Options, _: &How) -> Result<Opened, OpenError> {
        connect::udp(argument, options).await.map(Opened::One)
    }
}
