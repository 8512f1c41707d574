//! Parameters: the values that take the place of `{name}` in a command.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::check::NAMES;
use crate::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name between the braces.
    pub name: String,
    pub values: Vec<String>,
}

/// More contenders than this come of a mistake.
const MOST_VALUES: usize = 1000;

impl Parameter {
    /// The values of a text, with commas in between; `\,` is a comma, and `\\` a backslash.
    pub fn list(name: &str, text: &str) -> Result<Self, Error> {
        let mut values = vec![String::new()];
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let last = values.last_mut().expect("never empty");
            match letter {
                ',' => values.push(String::new()),
                '\\' if matches!(letters.peek(), Some(',' | '\\')) => last.extend(letters.next()),
                letter => last.push(letter),
            }
        }
        Self::of(name, values)
    }

    /// The values from `least` to `most`, both included, in steps of `step`.
    pub fn scan(name: &str, least: &str, most: &str, step: &str) -> Result<Self, Error> {
        let number = |text: &str| {
            text.parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| Error::refused(format!("{name}: '{text}' is not a number")))
        };
        let (from, to, by) = (number(least)?, number(most)?, number(step)?);
        if by == 0.0 || (to - from) / by < 0.0 {
            return Err(Error::refused(format!(
                "{name}: steps of {step} do not lead from {least} to {most}"
            )));
        }
        // A step that misses the end by the last binary digit has reached it.
        let steps = ((to - from) / by + 1e-9).floor();
        if steps >= MOST_VALUES as f64 {
            return Err(Error::refused(format!(
                "{name}: more than {MOST_VALUES} values: take a larger step than {step}"
            )));
        }
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let digits = [least, most, step].into_iter().map(decimals).max().unwrap_or(0);
        let value = |place: u32| format!("{:.digits$}", from + by * f64::from(place));
        Self::of(name, (0..=steps as u32).map(value).collect())
    }

    /// These values.
    pub fn of(name: &str, values: Vec<String>) -> Result<Self, Error> {
        if name.is_empty() || name.contains(['{', '}']) {
            return Err(Error::refused(format!("'{name}' cannot be the name of a parameter")));
        }
        if NAMES.iter().any(|(taken, _)| *taken == name) {
            return Err(Error::refused(format!(
                "{{{name}}} has a meaning already: choose another name for the parameter"
            )));
        }
        Ok(Self { name: name.to_owned(), values })
    }
}

/// The parameters of a file: values by name.
pub(super) fn of_map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Parameter>, D::Error> {
    let all = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
    let all = all.into_iter().map(|(name, values)| Parameter::of(&name, values));
    all.collect::<Result<_, _>>().map_err(|error| D::Error::custom(error.to_string()))
}

/// One value for each of some parameters.
pub(super) type Values = Vec<(String, String)>;

/// Every choice of one value for each of `parameters`; the last one changes fastest.
pub(super) fn choices(parameters: &[&Parameter]) -> Vec<Values> {
    parameters.iter().fold(vec![Values::new()], |choices, parameter| {
        let extended = |choice: &Values| {
            let pair = |value: &String| (parameter.name.clone(), value.clone());
            let with = |value| choice.iter().cloned().chain([pair(value)]).collect();
            parameter.values.iter().map(with).collect::<Vec<Values>>()
        };
        choices.iter().flat_map(extended).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_once() {
        let x = Parameter::list("x", "1,2").unwrap();
        let y = Parameter::list("y", "a,b,c").unwrap();
        let all: Vec<String> = choices(&[&x, &y])
            .iter()
            .map(|choice| choice.iter().map(|(_, value)| value.as_str()).collect())
            .collect();
        assert_eq!(all, ["1a", "1b", "1c", "2a", "2b", "2c"]);
        assert_eq!(choices(&[]), [Values::new()]);
    }

    #[test]
    fn scans_that_lead_nowhere_are_refused() {
        for [least, most, step] in [["1", "9", "0"], ["1", "9", "-1"], ["9", "1", "1"]] {
            let said = Parameter::scan("n", least, most, step).unwrap_err().to_string();
            assert!(said.contains("do not lead"), "{said}");
        }
        assert_eq!(Parameter::scan("n", "9", "7", "-1").unwrap().values, ["9", "8", "7"]);
        assert_eq!(Parameter::scan("n", "0", "0.3", "0.1").unwrap().values.len(), 4);
        assert!(Parameter::scan("n", "0", "1000", "1").is_err());
        assert!(Parameter::scan("n", "0", "nan", "1").is_err());
        assert!(Parameter::list("out", "1").is_err());
    }
}
