//! `tls:HOST:PORT`: a TLS connection to be made, over TCP.

use std::fmt;
use std::sync::Arc;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BUFFERS, CONNECTED, RETRIED, TCP, TLS};
use crate::address::{Opt, Options, Remote};
use crate::open::{How, OpenError, Opened, connect};
use crate::tls;

pub(crate) struct Tls;

impl Entry for Tls {
    type Argument = Remote;

    const ROW: Row = Row {
        name: "tls",
        grammar: "tls:HOST:PORT",
        help: "connects by TLS; the server's certificate must be HOST's",
        keywords: &[
            ("tls", Form::Plain),
            ("tls-connect", Form::Plain),
            ("tls4", Form::V4),
            ("tls6", Form::V6),
            ("openssl", Form::Plain),
            ("openssl-connect", Form::Plain),
            ("ssl", Form::Plain),
            ("ssl-connect", Form::Plain),
        ],
        options: &[TLS, &[Opt::CommonName, Opt::Sni, Opt::NoSni], CONNECTED, RETRIED, TCP, BUFFERS],
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Remote, Fault> {
        argument.remote()
    }

    fn show(argument: &Remote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls{argument}")
    }

    async fn open(argument: &Remote, options: &Options, _: &How) -> Result<Opened, OpenError> {
        let handshake = tls::client(argument, options)?;
        let end = connect::tcp(argument, options).await?;
        Ok(Opened::One(end.after(Arc::new(handshake))))
    }
}
