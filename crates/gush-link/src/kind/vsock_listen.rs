//! `vsock-listen:[CID:]PORT`: a listener for virtual machines, or for their host.

use std::fmt;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{RETRIED, SERVING};
use crate::address::{Opt, Options, Vsock as Place};
use crate::open::{How, OpenError, Opened, vsock};

/// VMADDR_CID_ANY (vsock(7)).
const ANY: u32 = u32::MAX;

pub(crate) struct VsockListen;

impl Entry for VsockListen {
    type Argument = Place;

    const ROW: Row = Row {
        name: "vsock-listen",
        grammar: "vsock-listen:[CID:]PORT",
        help: "accepts connections between a virtual machine and its host",
        keywords: &[("vsock-listen", Form::Plain), ("vsock-l", Form::Plain)],
        options: &[SERVING, &[Opt::Backlog], RETRIED],
        listens: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Place, Fault> {
        argument.vsock(Some(ANY))
    }

    fn show(argument: &Place, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match argument.cid {
            ANY => write!(f, "vsock-listen:{}", argument.port),
            cid => write!(f, "vsock-listen:{cid}:{}", argument.port),
        }
    }

    async fn open(argument: &Place, options: &Options, _: &How) -> Result<Opened, OpenError> {
        vsock::listen(*argument, options).map(Opened::Listener)
    }
}
