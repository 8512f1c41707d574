//! `udp-listen:[HOST:]PORT`: a UDP port that the first sender gets, or each sender a part of.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BOUND, BUFFERS, RETRIED, SERVING};
use crate::address::{Local, Options};
use crate::open::{How, OpenError, Opened, listen};

pub(crate) struct UdpListen;

impl Entry for UdpListen {
    type Argument = Local;

    const ROW: Row = Row {
        name: "udp-listen",
        grammar: "udp-listen:[HOST:]PORT",
        help: "the first sender becomes the peer; with fork each is one",
        keywords: &[
            ("udp-listen", Form::Plain),
            ("udp-l", Form::Plain),
            ("udp4-listen", Form::V4),
            ("udp4-l", Form::V4),
            ("udp6-listen", Form::V6),
            ("udp6-l", Form::V6),
        ],
        options: &[SERVING, BOUND, RETRIED, BUFFERS],
        listens: true,
        is_datagrams: true,
        descriptors: 2,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Local, Fault> {
        argument.local()
    }

    fn show(argument: &Local, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp{argument}")
    }

    fn local(argument: &mut Local) -> Option<&mut Local> {
        Some(argument)
    }

    async fn open(argument: &Local, options: &Options, _: &How) -> Result<Opened, OpenError> {
        listen::udp(argument, options).await.map(Opened::Listener)
    }
}
