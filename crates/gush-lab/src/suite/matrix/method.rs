//! The methods to move bytes: every method of the engine, and a splice without a pipe.

use std::fmt;
use std::str::FromStr;

use gush::MethodName;

use crate::Error;

/// A method to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Engine(MethodName),
    /// Splices as they are, without the engine's care and without a pipe of their own.
    SpliceDirect,
}

impl Method {
    /// Every method: the engine's methods, then the one that only the experiment of 2007 has.
    pub fn all() -> Vec<Self> {
        let engine = MethodName::ALL.iter().copied().map(Self::Engine);
        engine.chain([Self::SpliceDirect]).collect()
    }

    /// The name in `--only` and in the CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(method) => method.as_str(),
            Self::SpliceDirect => "splice-direct",
        }
    }

    /// The description, in a line.
    pub fn what(self) -> &'static str {
        match self {
            Self::Engine(method) => method.summary(),
            Self::SpliceDirect => "Splices from one end to the other, with no pipe between them",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Error::named("method", text, Self::all(), |method| method.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name() {
        for method in Method::all() {
            assert_eq!(method.name().parse::<Method>().expect("known"), method);
        }
    }
}
