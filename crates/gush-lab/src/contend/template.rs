//! Texts with names in braces: `cp {in} {out}`.

/// `text` with the value of each `{name}` that has one. Other braces stay, as `awk '{print}'` needs them.
///
/// A value is taken literally: braces in a value mean nothing.
///
/// ```
/// use gush_lab::contend::template::filled;
/// let value_of = |name: &str| (name == "in").then(|| "{out}".to_owned());
/// assert_eq!(filled("cp {in} {out} {", value_of), "cp {out} {out} {");
/// ```
#[must_use]
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
///
/// ```
/// use gush_lab::contend::template::names;
/// assert!(names("cp {in} x", "in") && !names("cp in x", "in"));
/// ```
#[must_use]
pub fn names(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}"))
}
