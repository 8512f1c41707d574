//! File names in messages, quoted only when a shell would misread them, as GNU tools do: `'a b'`, `"it's"`, `'a'$'\n''b'`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The name as one could paste it into a shell. Control characters and bytes that are no UTF-8 come out escaped.
pub fn quote(name: impl AsRef<OsStr>) -> String {
    let bytes = name.as_ref().as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes) {
        if !text.is_empty() && !needs_quotes(text) {
            return text.to_owned();
        }
        if text.contains('\'')
            && text
                .chars()
                .enumerate()
                .all(|(i, c)| safe_in_double_quotes(i, c))
        {
            return format!("\"{text}\"");
        }
    }
    single_quoted(bytes)
}

fn needs_quotes(text: &str) -> bool {
    const ANYWHERE: &str = " !\"$&'()*:;<=>?[\\^`|";
    text.starts_with(['#', '~'])
        || matches!(text, "{" | "}")
        || text.chars().any(|c| c.is_control() || ANYWHERE.contains(c))
}

fn safe_in_double_quotes(index: usize, c: char) -> bool {
    match c {
        '#' | '~' => index == 0,
        _ => {
            c.is_ascii_alphanumeric()
                || (!c.is_ascii() && !c.is_control())
                || "' %+,-./:]_@".contains(c)
        }
    }
}

fn single_quoted(bytes: &[u8]) -> String {
    let mut quoted = String::from("'");
    let mut escaping = false;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                c.encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|byte| escape(&mut quoted, &mut escaping, byte));
                continue;
            }
            // A quote mark closes the escapes by itself.
            if std::mem::take(&mut escaping) && c != '\'' {
                quoted.push_str("''");
            }
            match c {
                '\'' => quoted.push_str("'\\''"),
                _ => quoted.push(c),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| escape(&mut quoted, &mut escaping, *byte));
    }
    quoted.push('\'');
    quoted
}

fn escape(quoted: &mut String, escaping: &mut bool, byte: u8) {
    if !*escaping {
        quoted.push_str("'$'");
        *escaping = true;
    }
    match byte {
        0x07 => quoted.push_str("\\a"),
        0x08 => quoted.push_str("\\b"),
        b'\t' => quoted.push_str("\\t"),
        b'\n' => quoted.push_str("\\n"),
        0x0b => quoted.push_str("\\v"),
        0x0c => quoted.push_str("\\f"),
        b'\r' => quoted.push_str("\\r"),
        _ => quoted.push_str(&format!("\\{byte:03o}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_plain_and_odd_ones_are_quoted() {
        let pairs: &[(&[u8], &str)] = &[
            (b"plain-1.0_x", "plain-1.0_x"),
            ("é".as_bytes(), "é"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $x", "'it'\\''s $x'"),
            (b"a:b", "'a:b'"),
            (b"#a", "'#a'"),
            (b"a#b", "a#b"),
            (b"{", "'{'"),
            (b"a{b}", "a{b}"),
            (b"a\nb", "'a'$'\\n''b'"),
            (b"a\xffb", "'a'$'\\377''b'"),
            (b"\n", "''$'\\n'"),
            (b"a\xff\nb'", "'a'$'\\377\\n''b'\\'''"),
            (b"\xff'", "''$'\\377'\\'''"),
        ];
        for (name, quoted) in pairs {
            assert_eq!(quote(OsStr::from_bytes(name)), *quoted);
        }
    }
}
