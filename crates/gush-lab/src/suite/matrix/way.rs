//! The ways to move bytes: every method of the engine, and the raw ones of the older text.

use std::fmt;
use std::str::FromStr;

use gush::{MethodName, Tuning};
use serde::{Deserialize, Serialize};

use super::raw::Raw;
use crate::Error;

/// One way to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Way(pub(super) Technique);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Technique {
    /// A method of the engine; `gift` is for vmsplice only.
    Engine { method: MethodName, gift: bool },
    /// System calls as they are, without the engine's care.
    Raw(Raw),
}

impl Way {
    const SPLICE_DIRECT: Way = Way(Technique::Raw(Raw::SpliceDirect));
    const SPLICE_PIPE: Way = Way(Technique::Raw(Raw::SplicePipe));
    const VMSPLICE_GIFT: Way = Way(Technique::Engine { method: MethodName::Vmsplice, gift: true });

    /// Every way: the engine's methods, then those that only the older text has.
    #[must_use]
    pub fn all() -> Vec<Way> {
        let engine = MethodName::ALL.iter().map(|&method| Self::of(method));
        engine.chain([Self::VMSPLICE_GIFT, Self::SPLICE_DIRECT, Self::SPLICE_PIPE]).collect()
    }

    /// A method of the engine; vmsplice without `SPLICE_F_GIFT`, which is a way of its own here.
    #[must_use]
    pub fn of(method: MethodName) -> Way {
        Way(Technique::Engine { method, gift: false })
    }

    /// The name in `--only` and in the CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Technique::Engine { method: MethodName::Vmsplice, gift: true } => "vmsplice-gift",
            Technique::Engine { method, .. } => method.as_str(),
            Technique::Raw(raw) => raw.name(),
        }
    }

    /// The description, in a line.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self.0 {
            Technique::Engine { method: MethodName::Vmsplice, gift: true } => {
                "As vmsplice, with SPLICE_F_GIFT: whole pages, the surplus of the last one drained"
            }
            Technique::Engine { method, .. } => method.summary(),
            Technique::Raw(raw) => raw.what(),
        }
    }

    pub(super) fn tuning(self, message_bytes: Option<usize>) -> Tuning {
        let tuning = match self.0 {
            Technique::Engine { gift, .. } => Tuning::default().gift(gift),
            Technique::Raw(_) => Tuning::default(),
        };
        match message_bytes {
            Some(bytes) => tuning.buffer_bytes(bytes),
            None => tuning,
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
