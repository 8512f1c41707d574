//! `tls-listen:[HOST:]PORT`: a TLS listener, over TCP.

use std::fmt;
use std::sync::Arc;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{BOUND, BUFFERS, RETRIED, SERVING, TCP, TLS};
use crate::address::{Local, Opt, Options};
use crate::open::{How, OpenError, Opened, listen};
use crate::tls;

pub(crate) struct TlsListen;

impl Entry for TlsListen {
    type Argument = Local;

    const ROW: Row = Row {
        name: "tls-listen",
        grammar: "tls-listen:[HOST:]PORT",
        help: "accepts TLS connections; needs cert=",
        keywords: &[
            ("tls-listen", Form::Plain),
            ("tls-l", Form::Plain),
            ("tls4-listen", Form::V4),
            ("tls4-l", Form::V4),
            ("tls6-listen", Form::V6),
            ("tls6-l", Form::V6),
            ("openssl-listen", Form::Plain),
            ("openssl-l", Form::Plain),
            ("ssl-listen", Form::Plain),
            ("ssl-l", Form::Plain),
        ],
        options: &[TLS, SERVING, BOUND, &[Opt::Backlog], RETRIED, TCP, BUFFERS],
        listens: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Local, Fault> {
        argument.local()
    }

    fn show(argument: &Local, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls{argument}")
    }

    fn local(argument: &mut Local) -> Option<&mut Local> {
        Some(argument)
    }

    async fn open(argument: &Local, options: &Options, how: &How) -> Result<Opened, OpenError> {
        let handshake = tls::server(options, how)?;
        let listener = listen::tcp(argument, options).await?;
        Ok(Opened::Listener(listener.before(Arc::new(handshake))))
    }
}
