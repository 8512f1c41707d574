//! `ADDR!!ADDR`: one address is read, the other is written.

use std::fmt;

use gush_net::Conduit;

use super::{Entry, Row};
use crate::address::argument::Argument;
use crate::address::error::{Fault, fault};
use crate::address::{Address, Options};
use crate::open::{End, How, OpenError, Opened, Peer, open_one};

pub(crate) struct Joined;

impl Entry for Joined {
    type Argument = Box<[Address; 2]>;

    const ROW: Row = Row {
        name: "ADDR!!ADDR",
        grammar: "ADDR!!ADDR",
        help: "reads from the first address and writes to the second",
        is_program: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Self::Argument, Fault> {
        fault(argument.piece.clone(), "two addresses are needed")
    }

    fn show(argument: &Self::Argument, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [read, written] = &**argument;
        write!(f, "{read}!!{written}")
    }

    async fn open(argument: &Self::Argument, _: &Options, how: &How) -> Result<Opened, OpenError> {
        let [read, written] = &**argument;
        let source = match (how.reads(), how.writes()) {
            // The client is introduced to whoever gets the client's bytes.
            (true, true) => Some(open_one(read, &how.clone().unintroduced().read_only()).await?),
            (true, false) => Some(open_one(read, how).await?),
            (false, _) => None,
        };
        let mut source = Alone(source);
        let target = match how.writes() {
            true => Some(open_one(written, &how.clone().write_only()).await?),
            false => None,
        };
        let (source, target) = match (source.0.take(), target) {
            (Some(source), Some(target)) => (source, target),
            (Some(one), None) | (None, Some(one)) => return Ok(Opened::One(one)),
            (None, None) => return Err(OpenError::said("open", "it is neither read nor written")),
        };
        // Shaped apart: each option is that of one direction.
        let [source, target] =
            [source, target].map(|end| Box::new(end).shaped(&Options::default()));
        let origin = source.origin.and(target.origin);
        let conduit = Conduit::joined(source.conduit, target.conduit);
        let mut end = End::new(conduit, Peer::Other(format!("{}!!{}", source.peer, target.peer)));
        end.keeper = source.keeper.and(target.keeper);
        end.is_introduced = target.is_introduced;
        end.origin = origin;
        Ok(Opened::One(end))
    }
}

/// The first part while the second is not open: its peer sees a reset if the second is never opened.
struct Alone(Option<End>);

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(end) = &self.0 {
            end.conduit.reset_on_close();
        }
    }
}
