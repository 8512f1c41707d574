//! `ADDR|ADDR...`: the first of several addresses that can be opened, tried in their order for each client.

use std::fmt;

use super::{Entry, Row};
use crate::address::argument::Argument;
use crate::address::error::{Fault, fault};
use crate::address::{Address, Options};
use crate::open::{How, OpenError, Opened, open_one};

pub(crate) struct FirstOf;

impl Entry for FirstOf {
    type Argument = Vec<Address>;

    const ROW: Row = Row {
        name: "ADDR|ADDR...",
        grammar: "ADDR|ADDR...",
        help: "the first of these that can be opened, tried in this order for each client",
        is_program: true,
        ..Row::STREAM
    };

    fn read(argument: &Argument<'_>) -> Result<Self::Argument, Fault> {
        fault(argument.piece.clone(), "several addresses are needed")
    }

    fn show(argument: &Self::Argument, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = argument.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("|"))
    }

    async fn open(argument: &Self::Argument, _: &Options, how: &How) -> Result<Opened, OpenError> {
        let mut failures: Vec<OpenError> = Vec::new();
        for address in argument {
            match open_one(address, how).await {
                Ok(mut end) => {
                    tracing::info!("{address} answers, of {}", Shown(argument));
                    end.chosen.get_or_insert_with(|| address.target().to_string());
                    return Ok(Opened::One(end));
                }
                // The address is not to blame: whoever serves many waits for descriptors, and begins with the first again.
                Err(error) if error.wants_descriptors() => return Err(error),
                Err(error) => {
                    tracing::info!("{error}; the next one is tried");
                    failures.push(error);
                }
            }
        }
        Err(OpenError::of_all(failures))
    }
}

struct Shown<'a>(&'a Vec<Address>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FirstOf::show(self.0, f)
    }
}
