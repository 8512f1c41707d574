//! Lines as shown by `cat -n`, `-s`, `-E`, `-T` and `-v`: bytes in, bytes out, no descriptors.

use memchr::memchr;

use super::glyphs::Glyphs;

/// The lines that get a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Number {
    #[default]
    None,
    All,
    NonBlank,
}

/// The style that the text flags ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    pub number: Number,
    /// `$` before every line end, and `^M` for a carriage return just before the line end.
    pub ends: bool,
    /// Only the first of several blank lines.
    pub squeeze: bool,
    /// `^I` for a tab.
    pub tabs: bool,
    /// `^X` and `M-X` for bytes that do not print, except line ends and tabs.
    pub nonprinting: bool,
}

impl Style {
    pub fn changes_bytes(self) -> bool {
        self != Self::default()
    }

    /// Whether the output depends on more than each single byte.
    fn looks_at_lines(self) -> bool {
        self.number != Number::None || self.squeeze || (self.ends && !self.nonprinting)
    }
}

/// Formats a stream in pieces from several files. As in GNU cat, all state is kept between them.
#[derive(Debug)]
pub struct Formatter {
    style: Style,
    glyphs: Glyphs,
    line: LineNumber,
    at_line_start: bool,
    after_blank_line: bool,
    /// With `ends`: the last byte was a carriage return, shown as `^M` only if a line end follows.
    held_return: bool,
}

impl Formatter {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            glyphs: Glyphs::new(style),
            line: LineNumber::new(),
            at_line_start: true,
            after_blank_line: false,
            held_return: false,
        }
    }

    /// Appends the formatted `input` to `out`, and returns the number of input bytes used.
    ///
    /// Stops early once `out` holds `enough_bytes`. `out` exceeds this size by at most one line,
    /// four bytes a byte.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>, enough_bytes: usize) -> usize {
        if !self.style.looks_at_lines() {
            self.glyphs.append(input, out);
            return input.len();
        }
        let mut at = 0;
        while at < input.len() && out.len() < enough_bytes {
            let rest = &input[at..];
            let content_bytes = memchr(b'\n', rest).unwrap_or(rest.len());
            let line_ends = content_bytes < rest.len();
            if content_bytes == 0 {
                self.line_end(out);
            } else {
                self.line_start(out);
                self.line_content(&rest[..content_bytes], out);
                if line_ends {
                    self.line_end(out);
                }
            }
            at += content_bytes + usize::from(line_ends);
        }
        at
    }

    /// Appends the carriage return held back until the next byte.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.held_return) {
            out.push(b'\r');
        }
    }

    fn line_start(&mut self, out: &mut Vec<u8>) {
        self.finish(out);
        if self.at_line_start {
            self.at_line_start = false;
            self.after_blank_line = false;
            if self.style.number != Number::None {
                self.line.append_next(out);
            }
        }
    }

    fn line_end(&mut self, out: &mut Vec<u8>) {
        if self.at_line_start {
            // The first of several blank lines stays.
            if self.style.squeeze && self.after_blank_line {
                return;
            }
            self.after_blank_line = true;
            if self.style.number == Number::All {
                self.line.append_next(out);
            }
        }
        self.at_line_start = true;
        if std::mem::take(&mut self.held_return) {
            out.extend_from_slice(b"^M");
        }
        out.extend_from_slice(if self.style.ends { b"$\n" } else { b"\n" });
    }

    fn line_content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        if self.style.ends && !self.style.nonprinting && content.last() == Some(&b'\r') {
            self.glyphs.append(&content[..content.len() - 1], out);
            // With -E only a CR before a line feed is shown as ^M, and that may be in the next
            // buffer.
            self.held_return = true;
            return;
        }
        self.glyphs.append(content, out);
    }
}

/// A line number in decimal digits, counted up in place: cheaper than formatting each number.
#[derive(Debug)]
struct LineNumber {
    digits: [u8; 20],
    first: usize,
}

impl LineNumber {
    /// The width to which GNU cat right-aligns numbers.
    const WIDTH: usize = 6;

    fn new() -> Self {
        Self { digits: [b' '; 20], first: 20 }
    }

    fn append_next(&mut self, out: &mut Vec<u8>) {
        self.count_up();
        // Six columns at least, and more where the number needs them.
        let start = self.first.min(self.digits.len() - Self::WIDTH);
        out.extend_from_slice(&self.digits[start..]);
        out.push(b'\t');
    }

    fn count_up(&mut self) {
        for digit in self.digits[self.first..].iter_mut().rev() {
            if *digit != b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        // 20 digits hold any 64-bit count of lines, so there is always room for another digit.
        self.first -= 1;
        self.digits[self.first] = b'1';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// GNU cat's rules, byte by byte.
    fn model(style: Style, input: &[u8]) -> Vec<u8> {
        let (mut out, mut lines, mut blank_run, mut line_start) = (Vec::new(), 0_u64, 0, true);
        for (i, &byte) in input.iter().enumerate() {
            if byte == b'\n' {
                if line_start {
                    blank_run += 1;
                    if style.squeeze && blank_run > 1 {
                        continue;
                    }
                    if style.number == Number::All {
                        lines += 1;
                        out.extend(format!("{lines:6}\t").bytes());
                    }
                }
                if style.ends {
                    out.push(b'$');
                }
                out.push(b'\n');
                line_start = true;
                continue;
            }
            if line_start {
                blank_run = 0;
                line_start = false;
                if style.number != Number::None {
                    lines += 1;
                    out.extend(format!("{lines:6}\t").bytes());
                }
            }
            match byte {
                b'\t' if !style.tabs => out.push(b'\t'),
                b'\t' => out.extend(b"^I"),
                b'\r' if style.ends && input.get(i + 1) == Some(&b'\n') => out.extend(b"^M"),
                _ if !style.nonprinting => out.push(byte),
                _ => {
                    let low = byte & 127;
                    if byte > 127 {
                        out.extend(b"M-");
                    }
                    match low {
                        0..32 => out.extend([b'^', low + 64]),
                        127 => out.extend(b"^?"),
                        _ => out.push(low),
                    }
                }
            }
        }
        out
    }

    fn any_style() -> impl Strategy<Value = Style> {
        (0..3_usize, any::<[bool; 4]>()).prop_map(|(number, [ends, squeeze, tabs, nonprinting])| {
            Style {
                number: [Number::None, Number::All, Number::NonBlank][number],
                ends,
                squeeze,
                tabs,
                nonprinting,
            }
        })
    }

    fn tricky_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![4 => Just(b'\n'), 2 => Just(b'\r'), 1 => Just(b'\t'), 3 => any::<u8>()];
        prop::collection::vec(byte, 0..200)
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_format_as_the_plain_model(
            style in any_style(),
            input in tricky_bytes(),
            piece_bytes in 1_usize..20,
            enough_bytes in 1_usize..100,
        ) {
            let mut formatter = Formatter::new(style);
            let mut shown = Vec::new();
            for piece in input.chunks(piece_bytes) {
                let (mut rest, mut out) = (piece, Vec::new());
                while !rest.is_empty() {
                    let used = formatter.feed(rest, &mut out, enough_bytes);
                    prop_assert!(used > 0);
                    rest = &rest[used..];
                    shown.append(&mut out);
                }
            }
            formatter.finish(&mut shown);
            prop_assert_eq!(shown, model(style, &input));
        }
    }

    #[test]
    fn line_numbers_outgrow_their_width() {
        let mut formatter = Formatter::new(Style { number: Number::All, ..Style::default() });
        let mut out = Vec::new();
        formatter.feed("\n".repeat(1_000_001).as_bytes(), &mut out, usize::MAX);
        assert!(out.starts_with(b"     1\t\n     2\t\n"));
        assert!(out.ends_with(b"\n999999\t\n1000000\t\n1000001\t\n"));
    }
}
