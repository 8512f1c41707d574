//! The value of `--method`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gush::{Choice, MethodName};

/// A parser of `auto` and of the names of `methods`, which help and completions can list.
pub fn parser(methods: &[MethodName]) -> impl TypedValueParser<Value = Choice> {
    let names = methods.iter().map(|name| PossibleValue::new(name.as_str()));
    let auto = PossibleValue::new("auto");
    PossibleValuesParser::new(std::iter::once(auto).chain(names)).try_map(|name| name.parse())
}
