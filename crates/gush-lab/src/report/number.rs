//! Figures as people read them.

use crate::sizes;
use crate::stats::{Estimate, Interval};

/// Three digits that matter: `0.79`, `4.50`, `13.0`, `557`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{value:.2e}"),
        // Bounds at half of the last digit shown: 99.96 is 100, and never 100.0.
        v if v >= 99.95 => count(value.round() as u64),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.0005 => format!("{value:.3}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.1e}"),
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
    sizes::exact(value).replace(' ', "\u{a0}")
}

/// `1 sample`, `2 samples`.
pub fn plural(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let said: Vec<String> =
            [0.0, 0.00001, 0.0123, 0.794, 4.5, 9.999, 13.04, 99.96, 557.3, 1234.0, 1e300]
                .map(figure)
                .into();
        assert_eq!(
            said,
            [
                "0",
                "1.0e-5",
                "0.012",
                "0.79",
                "4.50",
                "10.0",
                "13.0",
                "100",
                "557",
                "1\u{202f}234",
                "1.00e300"
            ]
        );
    }

    #[test]
    fn bytes_are_never_rounded() {
        assert_eq!(bytes(0), "0\u{a0}B");
        assert_eq!(bytes(4100), "4100\u{a0}B");
        assert_eq!(bytes(131_072), "128\u{a0}KiB");
        assert_eq!(bytes(3 << 29), "1536\u{a0}MiB");
        assert_eq!(bytes(u64::MAX), "18446744073709551615\u{a0}B");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(999), "999");
        assert_eq!(count(131_074), "131\u{202f}074");
    }
}
