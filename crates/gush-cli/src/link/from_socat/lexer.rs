//! How socat reads an address: the text that quotes, brackets and backslashes protect (socat(1), "ADDRESS SPECIFICATIONS").

/// The pieces of `text` between `separators` that nothing protects, quotes and all. There is always one.
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

/// The pieces before and behind the first separator; nothing is behind where there is none.
pub fn split_once<'a>(text: &'a str, separator: &str) -> (&'a str, &'a str) {
    let first = split(text, separator)[0];
    (first, text.get(first.len() + separator.len()..).unwrap_or_default())
}

/// The text of a piece: quotes and backslashes removed, brackets kept.
pub fn plain(piece: &str) -> String {
    let mut text = String::with_capacity(piece.len());
    scan(piece, |_, letter, _| text.extend(letter));
    text
}

/// Is every quote closed? A bracket need not be.
pub fn is_closed(text: &str) -> bool {
    scan(text, |_, _, _| {}).iter().all(|&closer| closer != '"' && closer != '\'')
}

/// Each different `$NAME`, `${NAME}`, `$(COMMAND)` and command between backquotes that a shell would replace in a command line:
/// none within single quotes or behind a backslash.
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
        let behind = at + 1;
        let end = match (byte, bytes.get(behind)) {
            (b'\\', _) => {
                skip_to = at + 2;
                continue;
            }
            (b'\'', _) if !is_double => {
                skip_to = upto(behind, b'\'');
                continue;
            }
            (b'"', _) => {
                is_double = !is_double;
                continue;
            }
            (b'`', _) => upto(behind, b'`'),
            (b'$', Some(b'{')) => upto(behind, b'}'),
            (b'$', Some(b'(')) => upto(behind, b')'),
            (b'$', Some(next)) if next.is_ascii_alphabetic() || *next == b'_' => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let name_bytes = bytes[behind..].iter().take_while(|byte| is_name(byte)).count();
                behind + name_bytes
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

/// Calls `each` with the place of every letter, the letter meant (none for a quote or a backslash), and
/// whether the letter is protected. The answer are the closers that were missing at the end.
///
/// Brackets and quotes may stand within one another, also within double quotes; within single quotes everything is
/// literal (nestlex in socat's source).
fn scan(text: &str, mut each: impl FnMut(usize, Option<char>, bool)) -> Vec<char> {
    let mut closers = Vec::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        let innermost = closers.last().copied();
        let is_literal = innermost == Some('\'');
        match letter {
            _ if innermost == Some(letter) => {
                closers.pop();
                each(at, Some(letter).filter(|&letter| letter != '"' && letter != '\''), true);
            }
            _ if is_literal => each(at, Some(letter), true),
            '\\' => {
                each(at, None, true);
                if let Some((at, letter)) = letters.next() {
                    each(at, Some(escaped(letter)), true);
                }
            }
            '"' | '\'' => {
                closers.push(letter);
                each(at, None, true);
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

/// Behind a backslash, as in C.
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
        assert_eq!(plain(r#"["a,  'b'"]"#), "[a,  b]");
        assert_eq!(
            expansions(r#"`tty` "$A'$B'" '$C' \$D ${E}x $(f) $1 $A é$_g '`h`' $"#),
            ["`tty`", "$A", "$B", "${E}", "$(f)", "$_g"]
        );
        assert!(is_closed("a[b 'c'") && !is_closed("\"it's\"") && !is_closed("\"a[b\""));
    }
}
