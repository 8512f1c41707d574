//! Quotes, brackets and backslashes in socat's addresses (socat(1), "ADDRESS SPECIFICATIONS").

/// The pieces of `text` between unprotected separators, quotes included; at least one.
pub fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let (mut start, mut free_from) = (0, 0);
    scan(text, |at, _, protected| {
        if !protected && at >= free_from && text[at..].starts_with(separator) {
            pieces.push(&text[start..at]);
            start = at + separator.len();
            free_from = start;
        }
    });
    pieces.push(&text[start..]);
    pieces
}

/// The pieces before and after the first separator, if there is one.
pub fn split_once<'a>(text: &'a str, separator: &str) -> (&'a str, &'a str) {
    let first = split(text, separator)[0];
    (first, text.get(first.len() + separator.len()..).unwrap_or_default())
}

/// The words of a command of EXEC: socat separates them by spaces alone, and a space at the end
/// begins an empty one (xio-exec.c in socat's source).
pub fn words(command: &str) -> Vec<String> {
    let pieces = split(command, " ");
    let last = pieces.len() - 1;
    let is_word = |at: usize, piece: &str| at == 0 || at == last || !piece.is_empty();
    let words = pieces.iter().enumerate().filter(|&(at, piece)| is_word(at, piece));
    words.map(|(_, piece)| plain(piece)).collect()
}

/// The text of a piece: backslashes and the outermost quotes removed. Brackets, and quotes within
/// other quotes or brackets, are kept.
pub fn plain(piece: &str) -> String {
    let mut text = String::with_capacity(piece.len());
    scan(piece, |_, letter, _| text.extend(letter));
    text
}

/// Is every quote closed? A bracket need not be.
pub fn is_closed(text: &str) -> bool {
    scan(text, |_, _, _| {}).iter().all(|&closer| !is_quote(closer))
}

/// Each distinct `$NAME`, `${NAME}`, `$(COMMAND)` and backquoted command that a shell would expand:
/// none within single quotes or after a backslash.
pub fn expansions(line: &str) -> Vec<&str> {
    let (mut found, mut is_double, mut skip_to) = (Vec::new(), false, 0);
    let bytes = line.as_bytes();
    let upto = |from: usize, end: u8| {
        let length = bytes[from..].iter().position(|&byte| byte == end);
        length.map_or(bytes.len(), |length| from + length + 1)
    };
    for (at, &byte) in bytes.iter().enumerate() {
        if at < skip_to {
            continue;
        }
        let after = at + 1;
        let end = match (byte, bytes.get(after)) {
            (b'\\', _) => {
                skip_to = at + 2;
                continue;
            }
            (b'\'', _) if !is_double => {
                skip_to = upto(after, b'\'');
                continue;
            }
            (b'"', _) => {
                is_double = !is_double;
                continue;
            }
            (b'`', _) => upto(after, b'`'),
            (b'$', Some(b'{')) => upto(after, b'}'),
            (b'$', Some(b'(')) => upto(after, b')'),
            (b'$', Some(next)) if next.is_ascii_alphabetic() || *next == b'_' => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let name_bytes = bytes[after..].iter().take_while(|byte| is_name(byte)).count();
                after + name_bytes
            }
            _ => continue,
        };
        if !found.contains(&&line[at..end]) {
            found.push(&line[at..end]);
        }
        skip_to = end;
    }
    found
}

/// Calls `each` with the offset of every character, the character meant (`None` for a backslash and
/// an outermost quote), and whether it is protected. Returns the closers that are missing at the
/// end.
///
/// Brackets and quotes nest, also within double quotes; within single quotes there are only
/// backslashes (nestlex.c in socat's source).
fn scan(text: &str, mut each: impl FnMut(usize, Option<char>, bool)) -> Vec<char> {
    let mut closers = Vec::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        let innermost = closers.last().copied();
        let is_literal = innermost == Some('\'');
        match letter {
            _ if innermost == Some(letter) => {
                closers.pop();
                let is_dropped = closers.is_empty() && is_quote(letter);
                each(at, Some(letter).filter(|_| !is_dropped), true);
            }
            '\\' => {
                each(at, None, true);
                if let Some((at, letter)) = letters.next() {
                    each(at, Some(escaped(letter)), true);
                }
            }
            _ if is_literal => each(at, Some(letter), true),
            _ if is_quote(letter) => {
                each(at, Some(letter).filter(|_| !closers.is_empty()), true);
                closers.push(letter);
            }
            _ => {
                each(at, Some(letter), innermost.is_some());
                let brackets = [('(', ')'), ('[', ']'), ('{', '}')];
                closers.extend(
                    brackets.iter().find(|(open, _)| *open == letter).map(|&(_, closer)| closer),
                );
            }
        }
    }
    closers
}

fn is_quote(letter: char) -> bool {
    letter == '"' || letter == '\''
}

/// After a backslash, as in C.
fn escaped(letter: char) -> char {
    match letter {
        '0' => '\0',
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_brackets_and_backslashes_protect_separators() {
        assert_eq!(split("a,b", ","), ["a", "b"]);
        assert_eq!(split(r"a\,b,'c,d',[e,{f,}],g", ","), [r"a\,b", "'c,d'", "[e,{f,}]", "g"]);
        assert_eq!(split("TCP6:[::1]:80", ":"), ["TCP6", "[::1]", "80"]);
        assert_eq!(split("a!!b!c", "!!"), ["a", "b!c"]);
        assert_eq!(plain(r#"'a"b'"c\"d"\,\n[e]"#), "a\"bc\"d,\n[e]");
        assert_eq!(plain(r#"["a,  'b'"]"x'y'"'\t\''"#), "[\"a,  'b'\"]x'y'\t'");
        assert_eq!(plain(r#"if [ "a b" = 'a b' ]"#), r#"if [ "a b" = 'a b' ]"#);
        assert_eq!(words(r#"a  #b "c  d"'e' [f g] h\ i"#), ["a", "#b", "c  de", "[f g]", "h i"]);
        assert_eq!(words(" a\tb  "), ["", "a\tb", ""]);
        assert_eq!(words(""), [""]);
        assert_eq!(
            expansions(r#"`tty` "$A'$B'" '$C' \$D ${E}x $(f) $1 $A é$_g '`h`' $"#),
            ["`tty`", "$A", "$B", "${E}", "$(f)", "$_g"]
        );
        assert!(is_closed("a[b 'c'") && !is_closed("\"it's\"") && !is_closed("\"a[b\""));
    }
}
