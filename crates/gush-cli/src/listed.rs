//! Values that completions offer and clap does not check.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, TypedValueParser};

/// A parser that takes any text, and lists values for completions: the command checks the text,
/// with its own messages.
#[derive(Clone)]
pub struct Listed(pub Vec<&'static str>);

impl TypedValueParser for Listed {
    type Value = OsString;

    fn parse_ref(
        &self,
        _: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<OsString, clap::Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}
