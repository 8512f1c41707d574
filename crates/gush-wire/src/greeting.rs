//! What either side says first.

use crate::error::Error;
use crate::frame::Input;
use crate::record::{Hello, MAGIC, VERSION};

/// Checks the other side's first record.
pub(crate) fn meet(input: &mut Input) -> Result<(), Error> {
    let hello: Hello =
        input.expect_greeting().and_then(|()| input.record()).map_err(|error| match error {
            Error::Ended if input.is_empty() => Error::Silent,
            error => error,
        })?;
    match hello {
        Hello { magic: MAGIC, version: VERSION } => Ok(()),
        Hello { magic: MAGIC, version } => Err(Error::Version { theirs: version, ours: VERSION }),
        _ => Err(Error::Protocol("it is no gush".into())),
    }
}
