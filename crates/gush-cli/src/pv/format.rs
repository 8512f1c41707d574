//! The syntax of `-F`: text with sequences.

use clap::ValueEnum;

use super::values::Style;

/// A segment of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Text(String),
    /// The bar in brackets, with the percentage; fills the line without a number of columns.
    Bar(Option<usize>),
    /// The bar alone.
    BareBar(Option<Style>, Option<usize>),
    /// The percentage alone.
    Percent,
    Timer,
    Eta,
    EtaClock,
    Rate,
    Average,
    Amount,
    /// How full the output pipe is.
    Buffer,
    /// The last bytes written.
    LastWritten(usize),
    /// The last line written; fills the line without a number of columns.
    LastLine(Option<usize>),
    Name,
    /// The rates of the last minute as a row of small bars.
    Sparkline,
    /// Bytes that a command has written, their rate, and the ratio of input to output.
    OutAmount,
    OutRate,
    Ratio,
    /// A colour or weight, as the numbers of an SGR sequence.
    Colour(String),
}

/// The letter of a sequence, its names, and its segment with the number that it may have.
type Sequence = (char, &'static [&'static str], fn(Option<usize>) -> Segment);

const SEQUENCES: [Sequence; 17] = [
    ('p', &["progress"], Segment::Bar),
    ('A', &["last-written"], |number| Segment::LastWritten(number.unwrap_or(1))),
    ('L', &["previous-line"], Segment::LastLine),
    ('t', &["timer"], |_| Segment::Timer),
    ('e', &["eta"], |_| Segment::Eta),
    ('I', &["fineta"], |_| Segment::EtaClock),
    ('r', &["rate"], |_| Segment::Rate),
    ('a', &["average-rate"], |_| Segment::Average),
    ('b', &["bytes", "transferred"], |_| Segment::Amount),
    ('T', &["buffer-percent"], |_| Segment::Buffer),
    ('N', &["name"], |_| Segment::Name),
    ('\0', &["progress-bar-only"], |number| Segment::BareBar(None, number)),
    ('\0', &["progress-amount-only"], |_| Segment::Percent),
    ('\0', &["sparkline"], |_| Segment::Sparkline),
    ('\0', &["out-bytes"], |_| Segment::OutAmount),
    ('\0', &["out-rate"], |_| Segment::OutRate),
    ('\0', &["ratio"], |_| Segment::Ratio),
];

/// The maximum number in a sequence.
const MOST: usize = 4096;

/// Parses a format. What is not a sequence is text.
pub fn parse(format: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match sequence(after) {
            Some((segment, length)) => {
                if !text.is_empty() {
                    segments.push(Segment::Text(std::mem::take(&mut text)));
                }
                segments.push(segment);
                rest = &after[length..];
            }
            None => {
                text.push('%');
                rest = after.strip_prefix('%').unwrap_or(after);
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        segments.push(Segment::Text(text));
    }
    segments
}

/// The segment after a percent sign, and the length of its text. A number is the width of the
/// segment if it has one, and is ignored otherwise.
fn sequence(after: &str) -> Option<(Segment, usize)> {
    let digits = after.find(|c: char| !c.is_ascii_digit())?;
    let number = after[..digits].parse().ok().map(|number: usize| number.min(MOST));
    let rest = &after[digits..];
    if let Some(inner) = rest.strip_prefix('{') {
        let end = inner.find('}')?;
        return Some((named(&inner[..end], number)?, digits + end + 2));
    }
    let letter = rest.chars().next()?;
    let (.., segment) = SEQUENCES.iter().find(|(known, ..)| *known == letter)?;
    Some((segment(number), digits + letter.len_utf8()))
}

fn named(name: &str, number: Option<usize>) -> Option<Segment> {
    if let Some(colours) = name.strip_prefix("sgr:") {
        return Some(Segment::Colour(sgr(colours)));
    }
    if let Some(style) = name.strip_prefix("bar-") {
        return Some(Segment::BareBar(Some(Style::from_str(style, false).ok()?), number));
    }
    let (.., segment) = SEQUENCES.iter().find(|(_, names, _)| names.contains(&name))?;
    Some(segment(number))
}

const COLOURS: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const CODES: [(&str, u32); 18] = [
    ("reset", 0),
    ("none", 0),
    ("bold", 1),
    ("dim", 2),
    ("italic", 3),
    ("underscore", 4),
    ("underline", 4),
    ("blink", 5),
    ("reverse", 7),
    ("no-bold", 22),
    ("no-dim", 22),
    ("no-italic", 23),
    ("no-underscore", 24),
    ("no-underline", 24),
    ("no-blink", 25),
    ("no-reverse", 27),
    ("fg-default", 39),
    ("bg-default", 49),
];

/// Colours and weights as numbers: `bold,red` is `1;31`, `bg-blue` is `44`. Unknown words are
/// ignored.
fn sgr(words: &str) -> String {
    let code = |word: &str| {
        let brown = |name: &str| if name == "brown" { 3 } else { COLOURS.len() };
        let colour = |name: &str| {
            let found = COLOURS.iter().position(|known| *known == name).unwrap_or(brown(name));
            (found < COLOURS.len()).then_some(found as u32)
        };
        let weight = CODES.iter().find(|(known, _)| *known == word).map(|(_, code)| *code);
        let foreground = || colour(word.strip_prefix("fg-").unwrap_or(word)).map(|at| 30 + at);
        let background = || word.strip_prefix("bg-").and_then(colour).map(|at| 40 + at);
        word.parse().ok().or(weight).or_else(foreground).or_else(background)
    };
    let codes = words.split([',', ';']).filter_map(code);
    codes.map(|code: u32| code.to_string()).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Segment {
        Segment::Text(text.to_owned())
    }

    #[test]
    fn letters_and_names_are_the_same() {
        for (letters, names) in [
            ("%t %e", "%{timer} %{eta}"),
            ("%I%r%a", "%{fineta}%{rate}%{average-rate}"),
            ("%b%T%N", "%{bytes}%{buffer-percent}%{name}"),
            ("%b%p", "%{transferred}%{progress}"),
            ("%16A%A", "%16{last-written}%{last-written}"),
            ("%8L%L", "%8{previous-line}%{previous-line}"),
            ("%20p%5t", "%20{progress}%{timer}"),
        ] {
            assert_eq!(parse(letters), parse(names), "{letters}");
        }
    }

    #[test]
    fn what_is_no_sequence_is_text() {
        assert_eq!(parse("100%%"), [text("100%")]);
        for odd in ["%x%y%", "%{nope}", "%{timer", "%{5timer}", "%{8last-written}", "%5"] {
            assert_eq!(parse(odd), [text(odd)], "{odd}");
        }
        assert_eq!(parse("a%tb%%"), [text("a"), Segment::Timer, text("b%")]);
    }

    #[test]
    fn colours_have_names_and_numbers() {
        for (words, numbers) in [
            ("red", "31"),
            ("bold,fg-red", "1;31"),
            ("bg-blue;4", "44;4"),
            ("brown,bg-brown", "33;43"),
            ("fg-default,bg-default", "39;49"),
            ("no-italic,odd,no-reverse", "23;27"),
            ("odd", ""),
        ] {
            let format = format!("%{{sgr:{words}}}");
            assert_eq!(parse(&format), [Segment::Colour(numbers.into())], "{words}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_read(format in ".*") {
            let without_signs = format.replace('%', "");
            prop_assert!(parse(&without_signs).len() <= 1);
            parse(&format);
        }
    }
}
