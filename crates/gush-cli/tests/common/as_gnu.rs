//! What GNU's tools say beside what gush says of the same: a table of sentences, since every message of gush begins
//! with the path and may end with a remedy.

use std::collections::HashMap;

/// A sentence of GNU's and that of gush for it; `%x` is a name or an error that both tell.
pub type Sentence = (&'static str, &'static str);

/// Do both say the same, line by line?
///
/// # Errors
/// The first two lines that do not.
pub fn agree(table: &[Sentence], gnu: &str, gush: &str) -> Result<(), String> {
    let (gnu, gush): (Vec<_>, Vec<_>) = (gnu.lines().collect(), gush.lines().collect());
    if gnu.len() != gush.len() {
        return Err(format!("{} lines and {}", gnu.len(), gush.len()));
    }
    for (theirs, ours) in gnu.into_iter().zip(gush) {
        let said = |&(theirs_pattern, ours_pattern): &Sentence| {
            let Some(names) = bind(theirs_pattern, theirs, &HashMap::new()) else { return false };
            // A remedy in brackets is gush's own.
            let bare = ours
                .strip_suffix(')')
                .and_then(|line| line.rsplit_once(" ("))
                .map(|(bare, _)| bare);
            [Some(ours), bare]
                .into_iter()
                .flatten()
                .any(|line| bind(ours_pattern, line, &names).is_some())
        };
        if theirs != ours && !table.iter().any(said) {
            return Err(format!("'{theirs}' and '{ours}'"));
        }
    }
    Ok(())
}

/// The names in `line`, if it follows `pattern` and no name is another than in `known`.
fn bind<'l>(
    pattern: &str,
    line: &'l str,
    known: &HashMap<char, &'l str>,
) -> Option<HashMap<char, &'l str>> {
    let mut names = known.clone();
    let mut parts = pattern.split('%');
    let mut rest = line.strip_prefix(parts.next()?)?;
    for part in parts {
        let name = part.chars().next()?;
        let literal = &part[name.len_utf8()..];
        let end = if literal.is_empty() { rest.len() } else { rest.find(literal)? };
        let value = &rest[..end];
        if *names.entry(name).or_insert(value) != value {
            return None;
        }
        rest = &rest[end + literal.len()..];
    }
    rest.is_empty().then_some(names)
}

#[test]
fn sentences_agree_only_about_the_same_names() {
    let table = [("cp: cannot stat '%a': %e", "cp: %a: cannot stat: %e")];
    let theirs = "cp: cannot stat 'x': No such file";
    assert_eq!(agree(&table, theirs, "cp: x: cannot stat: No such file (look for it)"), Ok(()));
    for ours in ["cp: y: cannot stat: No such file", "cp: x: cannot stat: Loop", "", "cp: x: no"] {
        assert!(agree(&table, theirs, ours).is_err(), "{ours}");
    }
}
