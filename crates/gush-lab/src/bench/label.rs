//! The names of contenders: one short line each.

use super::Entry;
use super::parameter::Values;
use super::template::{filled, names};

/// The longest name of a case in an export.
const LONGEST_LABEL: usize = 120;

/// The label of an entry with these values: its name, or its own environment and its command.
pub(super) fn of(entry: &Entry, values: &Values) -> String {
    let value_of =
        |name: &str| values.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let env = entry.env.as_ref().filter(|env| entry.name.is_none() && !env.is_empty());
    let name = entry.name.as_ref().unwrap_or(&entry.command);
    let name = &env.map_or_else(|| name.clone(), |env| format!("{env} {name}"));
    let mut label = filled(name, value_of);
    for (parameter, value) in values.iter().filter(|(parameter, _)| !names(name, parameter)) {
        label += &format!(", {parameter}={value}");
    }
    plain(&label)
}

/// One line without control characters, shortened in the middle.
pub(super) fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let letters: Vec<char> = line.chars().collect();
    if letters.len() <= LONGEST_LABEL {
        return line;
    }
    let kept = LONGEST_LABEL / 2 - 1;
    let [start, end] = [&letters[..kept], &letters[letters.len() - kept..]];
    start.iter().chain(['…'].iter()).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(command: &str, name: Option<&str>) -> Entry {
        Entry { command: command.into(), name: name.map(Into::into), ..Entry::default() }
    }

    #[test]
    fn labels_have_the_values() {
        let values: Values = vec![("n".into(), "4".into()), ("m".into(), "x".into())];
        assert_eq!(of(&entry("a {n} {in}", None), &values), "a 4 {in}, m=x", "m is the setup's");
        assert_eq!(of(&entry("a {n}", Some("it")), &values), "it, n=4, m=x");
        assert_eq!(of(&entry("a {n}", Some("it {n}")), &values), "it 4, m=x");
        let env = Entry { env: Some("A={n} B={m}".into()), ..entry("a", None) };
        assert_eq!(of(&env, &values), "A=4 B=x a");
    }

    #[test]
    fn labels_are_one_short_line() {
        assert_eq!(plain("a\n  b\x1b[31m\tc"), "a b [31m c");
        let long = plain(&"é".repeat(1000));
        assert!(long.chars().count() < LONGEST_LABEL && long.contains('…'));
    }
}
