//! `udp-recvfrom:[HOST:]PORT`: one datagram is received, and the answers go to its sender.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BOUND, BUFFERS, RETRIED, SERVING};
use crate::address::{Local, Options};
use crate::open::{How, OpenError, Opened, listen};

pub(crate) struct UdpRecvfrom;

impl Entry for UdpRecvfrom {
    type Argument = Local;

    const ROW: Row = Row {
        name: "udp-recvfrom",
        grammar: "udp-recvfrom:[HOST:]PORT",
        help: "receives one datagram, and answers its sender; with fork each datagram is a connection",
        keywords: &[
            ("udp-recvfrom", Form::Plain),
            ("udp4-recvfrom", Form::V4),
            ("udp6-recvfrom", Form::V6),
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
        f.write_str(&format!("udp{argument}").replacen("-listen:", "-recvfrom:", 1))
    }

    fn local(argument: &mut Local) -> Option<&mut Local> {
        Some(argument)
    }

    async fn open(argument: &Local, options: &Options, _: &How) -> Result<Opened, OpenError> {
        let listener = listen::udp(argument, options).await?;
        Ok(Opened::Listener(listener.of_datagrams()))
    }
}
