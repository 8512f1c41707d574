//! Texts with names in braces: `cp {in} {out}`.

/// `text` with the value of each `{name}` that has one. Other braces stay, as `awk '{print}'` needs
/// them.
///
/// A value is taken literally: braces in a value mean nothing.
pub fn filled(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        done += &rest[..open];
        let inside = &rest[open + 1..];
        let named = inside
            .find('}')
            .and_then(|close| Some((value_of(&inside[..close])?, &inside[close + 1..])));
        match named {
            Some((value, after)) => {
                done += &value;
                rest = after;
            }
            None => {
                done.push('{');
                rest = inside;
            }
        }
    }
    done + rest
}

/// Does `text` name `{name}`?
pub fn names(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}"))
}

/// Words in braces that are whole programs of awk(1), as in `awk '/x/{print}'`.
const OF_AWK: [&str; 5] = ["exit", "getline", "next", "nextfile", "print"];

/// The first `{name}` that has no value, and is no construct of a shell, of awk, or of another
/// language either: `${HOME}`, `{a,b}`, `{}`, `HEAD^{tree}`, `$seen{key}`, `%{size}` and `\{x}`
/// stay as they are.
pub fn unknown(text: &str, is_known: impl Fn(&str) -> bool) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('{').find_map(|(open, _)| {
        let (name, _) = text[open + 1..].split_once('}')?;
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        // `$`, `$seen` and the like: the braces belong to what stands before them.
        let before = text[..open].trim_end_matches(is_letter);
        let is_of_another = before.ends_with(['$', '%', '@', '#', '^', '\\']);
        let is_meant = is_name && !is_of_another && !OF_AWK.contains(&name);
        (is_meant && !is_known(name)).then_some(name)
    })
}
