//! `pipe:[PATH]`: a FIFO, or a private pipe.

use std::fmt;
use std::path::PathBuf;

use super::{Entry, Form, Row};
use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::{ACCESS, OWNED, RETRIED};
use crate::address::{Opt, Options, quoted_path};
use crate::open::{How, OpenError, Opened, file};

pub(crate) struct Pipe;

impl Entry for Pipe {
    type Argument = Option<PathBuf>;

    const ROW: Row = Row {
        name: "pipe",
        grammar: "pipe:[PATH]",
        help: "a FIFO, made if it is missing and then removed; without PATH an echo",
        keywords: &[("pipe", Form::Plain), ("fifo", Form::Plain), ("echo", Form::Plain)],
        options: &[RETRIED, ACCESS, OWNED, &[Opt::UnlinkClose]],
        stands_alone: true,
        descriptors: 2,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Option<PathBuf>, Fault> {
        if argument.is_empty() { Ok(None) } else { argument.path().map(Some) }
    }

    fn show(argument: &Option<PathBuf>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipe:{}", argument.as_deref().map(quoted_path).unwrap_or_default())
    }

    async fn open(
        argument: &Option<PathBuf>,
        options: &Options,
        how: &How,
    ) -> Result<Opened, OpenError> {
        file::pipe(argument.as_deref(), options, how).await.map(Opened::One)
    }
}
