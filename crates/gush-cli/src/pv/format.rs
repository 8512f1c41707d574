//! The language of `-F`: text, and sequences that stand for figures.

use super::options::Style;

/// One piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// The bar with the percentage; either may be left out.
    Bar {
        bar: bool,
        number: bool,
        style: Option<Style>,
    },
    Timer,
    Eta,
    EtaClock,
    Rate,
    Average,
    Amount,
    /// How full the pipe at the output is.
    Buffer,
    /// The last bytes written, as many as here.
    LastWritten(usize),
    /// The last line written, in as many columns; all that is left without a number.
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

/// Letters and names of the sequences without a number.
const PLAIN: [(char, &[&str], Part); 12] = [
    ('t', &["timer"], Part::Timer),
    ('e', &["eta"], Part::Eta),
    ('I', &["fineta"], Part::EtaClock),
    ('r', &["rate"], Part::Rate),
    ('a', &["average-rate"], Part::Average),
    ('b', &["bytes", "transferred"], Part::Amount),
    ('T', &["buffer-percent"], Part::Buffer),
    ('N', &["name"], Part::Name),
    ('\0', &["sparkline"], Part::Sparkline),
    ('\0', &["out-bytes"], Part::OutAmount),
    ('\0', &["out-rate"], Part::OutRate),
    ('\0', &["ratio"], Part::Ratio),
];

const BARS: [(&str, Part); 7] = [
    ("progress", Part::Bar { bar: true, number: true, style: None }),
    ("progress-bar-only", Part::Bar { bar: true, number: false, style: None }),
    ("progress-amount-only", Part::Bar { bar: false, number: true, style: None }),
    ("bar-plain", Part::Bar { bar: true, number: false, style: Some(Style::Plain) }),
    ("bar-block", Part::Bar { bar: true, number: false, style: Some(Style::Block) }),
    ("bar-granular", Part::Bar { bar: true, number: false, style: Some(Style::Granular) }),
    ("bar-shaded", Part::Bar { bar: true, number: false, style: Some(Style::Shaded) }),
];

/// The most bytes or columns that a sequence may ask for.
const MOST: usize = 4096;

/// Reads a format. Characters that are no sequence are text.
pub fn parse(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match sequence(after) {
            Some((part, length)) => {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(part);
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
        parts.push(Part::Text(text));
    }
    parts
}

/// The part behind a percent sign, and the length of the part's text.
fn sequence(after: &str) -> Option<(Part, usize)> {
    if let Some(inner) = after.strip_prefix('{') {
        let end = inner.find('}')?;
        return Some((named(&inner[..end])?, end + 2));
    }
    let digits = after.find(|c: char| !c.is_ascii_digit())?;
    let number = after[..digits].parse().ok().map(|number: usize| number.min(MOST));
    let letter = after[digits..].chars().next()?;
    let part = match (letter, number) {
        ('p', None) => BARS[0].1.clone(),
        ('A', number) => Part::LastWritten(number.unwrap_or(1)),
        ('L', number) => Part::LastLine(number),
        (_, None) => PLAIN.into_iter().find(|(known, ..)| *known == letter)?.2,
        _ => return None,
    };
    Some((part, digits + letter.len_utf8()))
}

fn named(name: &str) -> Option<Part> {
    if let Some(colours) = name.strip_prefix("sgr:") {
        return sgr(colours).map(Part::Colour);
    }
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let (number, word) = name.split_at(digits);
    let number = number.parse().ok().map(|number: usize| number.min(MOST));
    match (word, number) {
        ("last-written", number) => Some(Part::LastWritten(number.unwrap_or(1))),
        ("previous-line", number) => Some(Part::LastLine(number)),
        (_, Some(_)) => None,
        _ => {
            let plain = PLAIN.into_iter().find(|(_, names, _)| names.contains(&word));
            let bar = || BARS.into_iter().find(|(known, _)| *known == word).map(|(_, part)| part);
            plain.map(|(.., part)| part).or_else(bar)
        }
    }
}

const COLOURS: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const WEIGHTS: [(&str, u32); 12] = [
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
    ("no-underline", 24),
];

/// Names of colours and weights as numbers: `bold,red` is `1;31`, `bg-blue` is `44`.
fn sgr(words: &str) -> Option<String> {
    let code = |word: &str| {
        let colour = |name: &str| COLOURS.iter().position(|known| *known == name);
        let weight = WEIGHTS.iter().find(|(known, _)| *known == word).map(|(_, code)| *code);
        let foreground =
            || colour(word.strip_prefix("fg-").unwrap_or(word)).map(|at| 30 + at as u32);
        let background = || word.strip_prefix("bg-").and_then(colour).map(|at| 40 + at as u32);
        word.parse().ok().or(weight).or_else(foreground).or_else(background)
    };
    let codes: Option<Vec<u32>> = words.split([',', ';']).map(code).collect();
    Some(codes?.iter().map(u32::to_string).collect::<Vec<_>>().join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn letters_and_names_are_the_same() {
        for (letters, names) in [
            ("%t %e", "%{timer} %{eta}"),
            ("%I%r%a", "%{fineta}%{rate}%{average-rate}"),
            ("%b%T%N", "%{bytes}%{buffer-percent}%{name}"),
            ("%b%p", "%{transferred}%{progress}"),
            ("%16A%A", "%{16last-written}%{last-written}"),
            ("%8L%L", "%{8previous-line}%{previous-line}"),
        ] {
            assert_eq!(parse(letters), parse(names), "{letters}");
        }
    }

    #[test]
    fn what_is_no_sequence_is_text() {
        assert_eq!(parse("100%%"), [text("100%")]);
        for odd in ["%x%y%", "%{nope}", "%{timer", "%5t", "%{5timer}", "%{sgr:odd}", "%5"] {
            assert_eq!(parse(odd), [text(odd)], "{odd}");
        }
        assert_eq!(parse("a%tb%%"), [text("a"), Part::Timer, text("b%")]);
    }

    #[test]
    fn colours_have_names_and_numbers() {
        for (words, numbers) in [("red", "31"), ("bold,fg-red", "1;31"), ("bg-blue;4", "44;4")] {
            let format = format!("%{{sgr:{words}}}");
            assert_eq!(parse(&format), [Part::Colour(numbers.into())], "{words}");
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
