//! Mistyped words: the nearest known one, and the one sentence about an unknown one.

/// The nearest of `known` to a mistyped `word`, if any is near; the first of several equally near.
///
/// ```
/// use gush_text::nearest;
/// assert_eq!(nearest("sotr", ["sort", "sum"]), Some("sort"));
/// assert_eq!(nearest("Dry_Run", ["dry-run"]), Some("dry-run"));
/// assert_eq!(nearest("x", ["y"]), None);
/// assert_eq!(nearest("ksh", ["bash", "zsh"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_lowercase().replace('_', "-");
    let distances = known.into_iter().map(|name| (strsim::damerau_levenshtein(&plain, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    // A word of one or two letters shares too little with any name, and a short one with another
    // beginning is another word: ksh is not zsh.
    let is_near = distance <= 1.max(name.len() / 4) && distance + 1 < word.len();
    let begins_alike = word.len() > 3 || plain.chars().next() == name.chars().next();
    (is_near && begins_alike).then_some(name)
}

/// As the end of a sentence about a mistyped `word`: the nearest of `known`, or all of them.
///
/// ```
/// use gush_text::suggestion;
/// assert_eq!(suggestion("raed", ["read", "copy"]), "; did you mean 'read'?");
/// assert_eq!(suggestion("x", ["read", "copy"]), "; choose from read, copy");
/// ```
#[must_use]
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean '{near}'?"),
        None if known.is_empty() => String::new(),
        None => format!("; choose from {}", known.join(", ")),
    }
}

/// The sentence about a `word` that names nothing of this `kind`.
///
/// ```
/// use gush_text::unknown;
/// assert_eq!(unknown("suite", "pip", ["pipe"]), "unknown suite 'pip'; did you mean 'pipe'?");
/// assert_eq!(unknown("suite", "x", ["pipe"]), "unknown suite 'x'; choose from pipe");
/// ```
#[must_use]
pub fn unknown<'a>(kind: &str, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    format!("unknown {kind} '{word}'{}", suggestion(word, known))
}
