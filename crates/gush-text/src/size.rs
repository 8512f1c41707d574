//! Sizes as GNU tools read them: `64`, `4K` and `4KiB` (4096), `4KB` (4000), `K` (1024), up to the
//! largest 64-bit number. Beyond GNU, a number with a unit may have a fraction: `1.5M`.

use std::fmt;

use gush::{Kernel, Tuning};

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeError {
    /// No digits, or an unknown unit after the number.
    NotASize,
    /// A fraction of a number of bytes.
    Fraction,
    /// The number times its unit does not fit 64 bits (or this machine's memory).
    TooLarge,
    /// Zero, which is not allowed here.
    Zero,
    /// Out of range: of what, the least and the most bytes.
    OutOfRange(&'static str, usize, usize),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange(of, least_bytes, most_bytes) => {
                return write!(f, "{of} has {least_bytes} to {most_bytes} bytes here");
            }
            Self::NotASize => "not a size: write digits and at most one unit, such as 512, 1.5M, 64K, 64KiB (1024) or 64KB (1000)",
            Self::Fraction => "a number of bytes has no fraction: write a whole number, or a unit after it, such as 1.5M",
            Self::TooLarge => "value too large: sizes end at 18446744073709551615 bytes",
            Self::Zero => "must be more than zero",
        })
    }
}

impl std::error::Error for SizeError {}

/// Reads a size in bytes; a fraction of a byte is dropped.
///
/// # Errors
/// [`SizeError::NotASize`] for a text that GNU tools refuse and that is no fraction,
/// [`SizeError::Fraction`] for a fraction without a unit, [`SizeError::TooLarge`] past 64 bits.
pub fn size_bytes(text: &str) -> Result<u64, SizeError> {
    // strtoumax, used by GNU tools, skips white space and takes a plus sign.
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let text = match text.strip_prefix('+') {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => digits,
        Some(_) => return Err(SizeError::NotASize),
        None => text,
    };
    let unit_start = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(unit_start);
    if text.is_empty() {
        return Err(SizeError::NotASize);
    }
    let (fraction, unit) = fraction(digits, rest)?;
    let factor = unit_bytes(unit)?;
    let number = match digits {
        "" => 1,
        _ => digits.parse::<u64>().map_err(|_| SizeError::TooLarge)?,
    };
    let factor_bytes = match factor {
        _ if number == 0 && fraction.is_empty() => 0,
        Some(1) if !fraction.is_empty() => return Err(SizeError::Fraction),
        Some(factor_bytes) => factor_bytes,
        None => return Err(SizeError::TooLarge),
    };
    let whole_bytes = number.checked_mul(factor_bytes).ok_or(SizeError::TooLarge)?;
    whole_bytes.checked_add(part_of(factor_bytes, fraction)).ok_or(SizeError::TooLarge)
}

/// The digits after a point that follows `digits`, and the rest.
fn fraction<'a>(digits: &str, rest: &'a str) -> Result<(&'a str, &'a str), SizeError> {
    let Some(after) = rest.strip_prefix('.') else { return Ok(("", rest)) };
    let unit_start = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    match after.split_at(unit_start) {
        ("", _) => Err(SizeError::NotASize),
        _ if digits.is_empty() => Err(SizeError::NotASize),
        parts => Ok(parts),
    }
}

/// The whole bytes in `factor_bytes` times the decimal fraction with these digits.
fn part_of(factor_bytes: u64, fraction: &str) -> u64 {
    // Eighteen digits are exact to two bytes in an exbibyte, and keep the product within 128 bits.
    let digits = &fraction[..fraction.len().min(18)];
    let Ok(numerator) = digits.parse::<u128>() else { return 0 };
    let part_bytes = numerator * u128::from(factor_bytes) / 10_u128.pow(digits.len() as u32);
    u64::try_from(part_bytes).unwrap_or(u64::MAX)
}

/// Reads the size in bytes of a buffer or a pipe. Never zero.
///
/// # Errors
/// As [`size_bytes`], and [`SizeError::Zero`].
pub fn memory_bytes(text: &str) -> Result<usize, SizeError> {
    match usize::try_from(size_bytes(text)?) {
        Ok(0) => Err(SizeError::Zero),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(SizeError::TooLarge),
    }
}

/// The size that the kernel gives a new pipe (pipe(7), "Pipe capacity").
const PIPE_BYTES_AT_BIRTH: usize = 64 << 10;

/// Reads the size of a buffer.
///
/// # Errors
/// As [`memory_bytes`], and [`SizeError::OutOfRange`].
pub fn buffer_bytes(text: &str) -> Result<usize, SizeError> {
    within(memory_bytes(text)?, "a buffer", 1, Tuning::MOST_BUFFER_BYTES)
}

/// Reads the size of a pipe, at least the size of a new pipe.
///
/// # Errors
/// As [`buffer_bytes`].
pub fn pipe_bytes(text: &str) -> Result<usize, SizeError> {
    let most_bytes = Kernel::get().pipe_max_bytes().max(PIPE_BYTES_AT_BIRTH);
    within(memory_bytes(text)?, "a pipe", PIPE_BYTES_AT_BIRTH, most_bytes)
}

fn within(
    bytes: usize,
    of: &'static str,
    least_bytes: usize,
    most_bytes: usize,
) -> Result<usize, SizeError> {
    match (least_bytes..=most_bytes).contains(&bytes) {
        true => Ok(bytes),
        false => Err(SizeError::OutOfRange(of, least_bytes, most_bytes)),
    }
}

/// Reads a number of bytes to move or measure. Never zero.
///
/// # Errors
/// As [`memory_bytes`].
pub fn some_bytes(text: &str) -> Result<u64, SizeError> {
    match size_bytes(text)? {
        0 => Err(SizeError::Zero),
        bytes => Ok(bytes),
    }
}

/// Reads a rate in bytes per second: a size, optionally followed by `/s`. Never zero.
///
/// # Errors
/// As [`memory_bytes`].
pub fn rate_bytes_per_second(text: &str) -> Result<u64, SizeError> {
    some_bytes(text.strip_suffix("/s").unwrap_or(text))
}

/// The bytes in one `unit`, or `None` for a unit that 64 bits cannot hold.
fn unit_bytes(unit: &str) -> Result<Option<u64>, SizeError> {
    let (letter, kind) = match unit.split_at_checked(1) {
        None if unit.is_empty() => return Ok(Some(1)),
        None => return Err(SizeError::NotASize),
        Some(parts) => parts,
    };
    let power = match letter {
        "c" | "B" if kind.is_empty() => return Ok(Some(1)),
        "w" if kind.is_empty() => return Ok(Some(2)),
        "b" if kind.is_empty() => return Ok(Some(512)),
        "K" | "k" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        "T" | "t" => 4,
        "P" => 5,
        "E" => 6,
        "Z" => 7,
        "Y" => 8,
        "R" => 9,
        "Q" => 10,
        _ => return Err(SizeError::NotASize),
    };
    let base: u64 = match kind {
        "" | "iB" => 1024,
        "B" | "D" => 1000,
        _ => return Err(SizeError::NotASize),
    };
    Ok(base.checked_pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_gnu_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("010", 10),
            ("+5", 5),
            (" 5", 5),
            ("K", 1024),
            ("KB", 1000),
            ("1k", 1024),
            ("1kB", 1000),
            ("1KiB", 1024),
            ("2M", 2 << 20),
            ("3G", 3 << 30),
            ("1b", 512),
            ("7c", 7),
            ("7w", 14),
            ("7B", 7),
            ("15E", 15 << 60),
            ("0Q", 0),
            ("18446744073709551615", u64::MAX),
            ("1.5M", 3 << 19),
            ("0.5KiB", 512),
            ("1.25kB", 1250),
            ("1.0001K", 1024),
            ("15.5E", 31 << 59),
            ("0.0009765625K", 1),
            ("0.999999999999999999999999E", (1 << 60) - 2),
        ] {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_past_64_bits_are_refused() {
        for text in
            ["16E", "1Z", "1QiB", "1YB", "18446744073709551616", "99999999999999999999999999999"]
        {
            assert_eq!(size_bytes(text), Err(SizeError::TooLarge), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "", " ", "+", "-5", "1.M", ".5M", "1.5.5M", "1,5M", "0x10", "1KK", "1bB", "1Ki", "1 K",
            "1é", "é", "1e", "1p", "+K", "--1",
        ] {
            assert_eq!(size_bytes(text), Err(SizeError::NotASize), "{text}");
        }
    }

    #[test]
    fn bytes_have_no_fraction() {
        for text in ["1.5", "0.5c", "1.5B"] {
            assert_eq!(size_bytes(text), Err(SizeError::Fraction), "{text}");
        }
    }

    #[test]
    fn rates_may_say_per_second() {
        assert_eq!(rate_bytes_per_second("10M/s"), Ok(10 << 20));
        assert_eq!(rate_bytes_per_second("10MB"), Ok(10_000_000));
        assert_eq!(rate_bytes_per_second("0"), Err(SizeError::Zero));
        assert_eq!(rate_bytes_per_second("/s"), Err(SizeError::NotASize));
    }

    #[test]
    fn a_buffer_is_never_empty() {
        assert_eq!(memory_bytes("0"), Err(SizeError::Zero));
        assert_eq!(memory_bytes("64K"), Ok(65536));
    }

    proptest! {
        #[test]
        fn every_number_and_unit_follow_the_plain_model(number in any::<u64>(), shift in 0_u32..64, unit in 0_usize..31) {
            let number = number >> shift;
            let (letters, kinds) = (["K", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"], [("", 1024_u32), ("iB", 1024), ("B", 1000)]);
            let (text, factor) = match unit.checked_sub(1) {
                None => (number.to_string(), Some(1_u128)),
                Some(unit) => {
                    let (kind, base) = kinds[unit / 10];
                    let power = unit as u32 % 10 + 1;
                    (format!("{number}{}{kind}", letters[unit % 10]), u128::from(base).checked_pow(power))
                }
            };
            let expected = factor
                .and_then(|factor| factor.checked_mul(u128::from(number)))
                .and_then(|bytes| u64::try_from(bytes).ok())
                .or((number == 0).then_some(0));
            prop_assert_eq!(size_bytes(&text).ok(), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = size_bytes(&text);
            let _ = rate_bytes_per_second(&text);
        }
    }
}
