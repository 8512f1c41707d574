//! Addresses of several parts: `A!!B` reads one and writes the other, `A|B` is the first that can
//! be opened.

use gush_net::Conduit;

use super::{End, OpenError, OpenOptions, Peer, open_one};
use crate::address::{Address, OptionSet};

pub(crate) async fn joined(parts: &[Address; 2], how: &OpenOptions) -> Result<End, OpenError> {
    let [read, written] = parts;
    let source = match (how.reads(), how.writes()) {
        // The PROXY header goes to the part that gets the client's bytes.
        (true, true) => Some(open_one(read, &how.clone().unintroduced().read_only()).await?),
        (true, false) => Some(open_one(read, how).await?),
        (false, _) => None,
    };
    let mut source = ResetOnDrop(source);
    let target = match how.writes() {
        true => Some(open_one(written, &how.clone().write_only()).await?),
        false => None,
    };
    let (source, target) = match (source.0.take(), target) {
        (Some(source), Some(target)) => (source, target),
        (Some(one), None) | (None, Some(one)) => return Ok(one),
        (None, None) => return Err(OpenError::said("open", "it is neither read nor written")),
    };
    // Shaped separately: each part's options apply to one direction.
    let [source, target] =
        [source, target].map(|end| Box::new(end).shaped(&OptionSet::default(), None));
    let origin = source.origin.and(target.origin);
    let conduit = Conduit::joined(source.conduit, target.conduit);
    let mut end = End::new(conduit, Peer::Other(format!("{}!!{}", source.peer, target.peer)));
    end.keeper = source.keeper.and(target.keeper);
    end.is_introduced = target.is_introduced;
    end.origin = origin;
    Ok(end)
}

/// The first part while the second is not open: its peer sees a reset if the second cannot be
/// opened.
struct ResetOnDrop(Option<End>);

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if let Some(end) = &self.0 {
            end.conduit.reset_on_close();
        }
    }
}

pub(crate) async fn first_of(parts: &[Address], how: &OpenOptions) -> Result<End, OpenError> {
    let mut failures: Vec<OpenError> = Vec::new();
    for address in parts {
        match open_one(address, how).await {
            Ok(mut end) => {
                let texts: Vec<_> = parts.iter().map(ToString::to_string).collect();
                tracing::info!("{address} answers, of {}", texts.join("|"));
                end.rare().chosen.get_or_insert_with(|| address.locator().to_string());
                return Ok(end);
            }
            // Not the address's fault: a link that serves many waits for descriptors, and then
            // tries from the first part.
            Err(error) if error.wants_descriptors() => return Err(error),
            Err(error) => {
                tracing::info!("{error}; the next one is tried");
                failures.push(error);
            }
        }
    }
    Err(OpenError::of_all(failures))
}
