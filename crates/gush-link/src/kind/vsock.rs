//! `vsock:CID:PORT`: a connection between a virtual machine and its host.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::RETRIED;
use crate::address::{Opt, Options, Vsock as Place};
use crate::open::{How, OpenError, Opened, vsock};

pub(crate) struct Vsock;

impl Entry for Vsock {
    type Argument = Place;

    const ROW: Row = Row {
        name: "vsock",
        grammar: "vsock:CID:PORT",
        help: "connects from a virtual machine to its host (CID 2), or to a guest",
        keywords: &[("vsock", Form::Plain), ("vsock-connect", Form::Plain)],
        options: &[&[Opt::ConnectTimeout], RETRIED],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Place, Fault> {
        argument.vsock(None)
    }

    fn show(argument: &Place, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vsock:{}:{}", argument.cid, argument.port)
    }

    async fn open(argument: &Place, options: &Options, _: &How) -> Result<Opened, OpenError> {
        vsock::connect(*argument, options).await.map(Opened::One)
    }
}
