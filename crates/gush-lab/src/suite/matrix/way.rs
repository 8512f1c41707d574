//! The ways to move bytes: every method of the engine, and the raw ones of the older text.

use std::fmt;
use std::str::FromStr;

use gush::MethodName;
use serde::{Deserialize, Serialize};

use crate::Error;

/// One way to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Way {
    /// A method of the engine; vmsplice without `SPLICE_F_GIFT`.
    Engine(MethodName),
    /// The engine's vmsplice with that flag.
    VmspliceGift,
    /// Splices as they are, without the engine's care and without a pipe of their own.
    SpliceDirect,
    /// The same through a pipe.
    SplicePipe,
}

impl Way {
    /// Every way: the engine's methods, then those that only the older text has.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let engine = MethodName::ALL.iter().copied().map(Self::Engine);
        engine.chain([Self::VmspliceGift, Self::SpliceDirect, Self::SplicePipe]).collect()
    }

    /// The name in `--only` and in the CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(method) => method.as_str(),
            Self::VmspliceGift => "vmsplice-gift",
            Self::SpliceDirect => "splice-direct",
            Self::SplicePipe => "splice-pipe",
        }
    }

    /// The description, in a line.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Engine(method) => method.summary(),
            Self::VmspliceGift => {
                "As vmsplice, with SPLICE_F_GIFT: whole pages, the surplus of the last one drained"
            }
            Self::SpliceDirect => "Splices from one end to the other, with no pipe between them",
            Self::SplicePipe => "Splices into a pipe of its own, and out of it",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = Self::all();
        let named = all.iter().copied().find(|way| way.name() == text);
        named.ok_or_else(|| Error::unknown("method", text, all.iter().map(|way| way.name())))
    }
}

impl TryFrom<String> for Way {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Way> for String {
    fn from(way: Way) -> String {
        way.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_found_by_its_name() {
        for way in Way::all() {
            assert_eq!(way.name().parse::<Way>().expect("known"), way);
        }
    }
}
