//! The lines of the file, each a JSON value that ends in a newline.
//!
//! ```text
//! {"format":"gush-lab-store","version":1}
//! {"begun":{"id":"20261121-144355-a3f2","started":…,"machine":{…},…}}
//! {"taken":{"run":"20261121-144355-a3f2","sample":{"suite":"pipe","case":"write-read",…}}}
//! {"ended":{"id":"20261121-144355-a3f2",…,"finished":…}}
//! {"whole":{"run":{"id":…},"samples":[{…},…]}}
//! {"forgotten":"20261121-144355-a3f2"}
//! ```

use serde::{Deserialize, Serialize};

use crate::model::{Run, Sample};
use crate::transfer::Header;

pub(super) const HEADER: &[u8] = b"{\"format\":\"gush-lab-store\",\"version\":1}\n";
/// The newest form of the file; a later gush may add fields without a new one.
pub(super) const VERSION: u64 = 1;
const FORMAT: &str = "gush-lab-store";

/// A line below the header. `R` is a run without samples and `S` a sample: borrowed to be written,
/// owned when read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line<R, S> {
    /// A run begins: all that is known so far.
    Begun(R),
    /// A sample of a run that has begun.
    Taken { run: String, sample: S },
    /// A run has ended: all that is known.
    Ended(R),
    /// A run that was made elsewhere; this state takes the place of an earlier state.
    Whole { run: R, samples: Vec<S> },
    /// A run with this id is no longer in the store.
    Forgotten(String),
}

pub(super) type Written<'a> = Line<&'a Run, &'a Sample>;
pub(super) type Read = Line<Box<Run>, Sample>;

/// The line as bytes, with the newline. JSON writes a newline within a text as `\n`, so there is no
/// other.
pub(super) fn bytes(line: &Written<'_>) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The version that the first line of a file names, if that line is the header of a store.
pub(super) fn version(header: &[u8]) -> Option<u64> {
    let header: Header = serde_json::from_slice(header).ok()?;
    (header.format == FORMAT).then_some(header.version)
}
