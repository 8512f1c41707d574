//! Quoting: where a piece of an address ends, and its text without quotes and backslashes.

use std::mem;
use std::ops::Range;

use super::error::{Fault, fault};

/// Calls `each` for each byte, with its offset and whether it is quoted or escaped.
fn scan(text: &str, mut each: impl FnMut(usize, u8, bool)) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let mut open: Option<(u8, usize)> = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open) {
            (b'\\', None | Some((b'"', _))) => {
                let Some(next) = text[at + 1..].chars().next() else {
                    return fault(
                        at..at + 1,
                        "a backslash at the end protects nothing; write \\\\ for a backslash",
                    );
                };
                for (offset, &byte) in bytes[at..at + 1 + next.len_utf8()].iter().enumerate() {
                    each(at + offset, byte, true);
                }
                at += next.len_utf8();
            }
            (byte @ (b'"' | b'\''), None) => {
                open = Some((byte, at));
                each(at, byte, true);
            }
            (byte, Some((quote, _))) => {
                if byte == quote {
                    open = None;
                }
                each(at, byte, true);
            }
            (byte, None) => each(at, byte, false),
        }
        at += 1;
    }
    match open {
        Some((_, start)) => fault(
            start..start + 1,
            "this quote is never closed; a quote that belongs to the text needs a backslash before it",
        ),
        None => Ok(()),
    }
}

/// The pieces between unprotected commas, at least one.
pub(super) fn pieces(text: &str) -> Result<Vec<Range<usize>>, Fault> {
    let ends = find_all(text, ",")?.into_iter().chain([text.len()]);
    let mut start = 0;
    Ok(ends.map(|end| mem::replace(&mut start, end + 1)..end).collect())
}

/// The offset of the first unprotected `wanted` in a piece of the text.
pub(super) fn find(text: &str, piece: Range<usize>, wanted: &str) -> Option<usize> {
    // The whole text was scanned before, so all quotes are closed.
    let found = find_all(&text[piece.clone()], wanted).ok()?;
    Some(piece.start + found.first()?)
}

/// The offsets of `wanted` that are neither quoted nor escaped.
pub(super) fn find_all(text: &str, wanted: &str) -> Result<Vec<usize>, Fault> {
    let mut found = Vec::new();
    let mut free_from = 0;
    scan(text, |at, _, protected| {
        if !protected && at >= free_from && text.as_bytes()[at..].starts_with(wanted.as_bytes()) {
            found.push(at);
            free_from = at + wanted.len();
        }
    })?;
    Ok(found)
}

/// The text of a piece: without quotes, `\c` as `c`, `\xHH` as the byte with this number.
pub(super) fn unquoted(text: &str, piece: Range<usize>) -> Result<Vec<u8>, Fault> {
    let bytes = &text.as_bytes()[piece.clone()];
    let mut plain = Vec::with_capacity(bytes.len());
    let mut open = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open) {
            (b'\\', None | Some(b'"')) if bytes.get(at + 1) == Some(&b'x') => {
                let digits =
                    bytes.get(at + 2..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
                let Some(byte) = digits.and_then(hexadecimal) else {
                    let start = piece.start + at;
                    return fault(
                        start..start + 2,
                        "\\x needs two hexadecimal digits, such as \\x0a",
                    );
                };
                plain.push(byte);
                at += 3;
            }
            // The other bytes of a longer character follow unchanged.
            (b'\\', None | Some(b'"')) => {
                plain.extend(bytes.get(at + 1));
                at += 1;
            }
            (quote @ (b'"' | b'\''), None) => open = Some(quote),
            (byte, Some(quote)) if byte == quote => open = None,
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    Ok(plain)
}

fn hexadecimal(digits: &str) -> Option<u8> {
    digits
        .bytes()
        .all(|digit| digit.is_ascii_hexdigit())
        .then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The text that [`unquoted`] reads as `bytes`.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ',' | '\\' | '\'' | '"' | '|' | '!' => text.extend(['\\', c]),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    c.encode_utf8(&mut buffer)
                        .bytes()
                        .for_each(|byte| text.push_str(&escaped(byte)));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| text.push_str(&escaped(byte)));
    }
    text
}

/// Escapes each byte that is not UTF-8. Single quotes are closed around the escape, since a
/// backslash is literal there, and a backslash before the byte is replaced.
pub(super) fn readable(text: &[u8]) -> String {
    let mut readable = String::with_capacity(text.len());
    let (mut open, mut is_escaped) = (None, false);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match (c, open) {
                _ if is_escaped => is_escaped = false,
                ('\\', None | Some('"')) => is_escaped = true,
                ('"' | '\'', None) => open = Some(c),
                (_, Some(quote)) if c == quote => open = None,
                _ => {}
            }
            readable.push(c);
        }
        for &byte in chunk.invalid() {
            if mem::take(&mut is_escaped) {
                readable.pop();
            }
            let quote = if open == Some('\'') { "'" } else { "" };
            readable += &format!("{quote}{}{quote}", escaped(byte));
        }
    }
    readable
}

/// The escape of a byte.
pub(super) fn escaped(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commas_within_quotes_or_after_a_backslash_separate_nothing() {
        let text = r#"a\,b,'c,d',"e\",f",g"#;
        let found = pieces(text).unwrap().into_iter().map(|piece| unquoted(text, piece).unwrap());
        let expected: [&[u8]; 4] = [b"a,b", b"c,d", b"e\",f", b"g"];
        assert!(found.eq(expected));
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_place_within_quotes_and_after_a_backslash() {
        for (text, plain) in [
            (&b"a\xffb"[..], &b"a\xffb"[..]),
            (b"'a\xff\\b'", b"a\xff\\b"),
            (b"\"a'\xff\"'\xfe'", b"a'\xff\xfe"),
            (b"a\\\xff\\\\\xfe", b"a\xff\\\xfe"),
            (b"'\xff\xfe'", b"\xff\xfe"),
        ] {
            let readable = readable(text);
            assert_eq!(unquoted(&readable, 0..readable.len()).unwrap(), plain, "{readable}");
        }
    }

    proptest! {
        #[test]
        fn quoting_is_undone_by_unquoting(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = quoted(&bytes);
            prop_assert_eq!(pieces(&text).unwrap().len(), 1);
            prop_assert_eq!(unquoted(&text, 0..text.len()).unwrap(), bytes);
        }
    }
}
