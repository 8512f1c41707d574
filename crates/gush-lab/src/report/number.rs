//! Figures as people read them.

use gush_text::{exact_bytes, three_digits};

use crate::stats::{Estimate, Interval};

/// Three significant digits, with spaces between thousands.
pub fn figure(value: f64) -> String {
    match value.abs() {
        999.5..1e6 => count(value.round() as u64),
        _ => three_digits(value),
    }
}

/// From the lower to the upper, as [`figure`] has them.
pub fn range(low: f64, high: f64) -> String {
    format!("{}\u{a0}…\u{a0}{}", figure(low), figure(high))
}

/// The interval as text; nothing where there is none.
pub fn around(estimate: Estimate) -> String {
    estimate.interval.map_or_else(String::new, |Interval { low, high }| range(low, high))
}

/// How many times: `1.04×`, `12×`.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 1e6 => format!("{r:.1e}×"),
        r if r >= 9.95 => format!("{}×", count(r.round() as u64)),
        r if r >= 2.0 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

/// How many times, and how sure that is: `24.0 times (22.1 … 26.0)`.
pub fn times_between(Estimate { value, interval }: Estimate) -> String {
    let around = |Interval { low, high }| format!(" ({})", range(low, high));
    format!("{}\u{a0}times{}", figure(value), interval.map_or_else(String::new, around))
}

/// With narrow spaces between thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break: a comma is a decimal sign in many countries.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// In the largest unit that divides the value: `4 KiB`, `512 MiB`, `4100 B`.
pub fn bytes(value: u64) -> String {
    exact_bytes(value).replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(999), "999");
        assert_eq!(count(131_074), "131\u{202f}074");
        assert_eq!([999.6, 1234.0, 2e6].map(figure), ["1\u{202f}000", "1\u{202f}234", "2.00e6"]);
    }
}
