//! Lengths of time, as people write them on a command line.

use std::time::Duration;

/// The longest time, 100 years: longer ones are mistakes.
const LONGEST_S: u64 = 100 * 366 * 24 * 3600;

/// Reads a length of time: `2`, `0.5`, `200ms`, `5m` or `1h`. A number without a unit means seconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(gush_process::seconds("0.5"), Some(Duration::from_millis(500)));
/// assert_eq!(gush_process::seconds("soon"), None);
/// ```
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let unit_start = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_start);
    let unit_ns: u128 = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let whole = if whole.is_empty() && digits.len() > 1 { "0" } else { whole };
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let fraction_ns =
        number::<u128>(fraction)? * unit_ns / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let ns = u128::from(number::<u64>(whole)?) * unit_ns + fraction_ns;
    let duration =
        Duration::new(u64::try_from(ns / 1_000_000_000).ok()?, (ns % 1_000_000_000) as u32);
    (duration.as_secs() <= LONGEST_S).then_some(duration)
}

/// Digits only: `parse` alone would take a plus sign.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let cases = [
            ("2", 2000),
            ("0.5", 500),
            (".5", 500),
            ("200ms", 200),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
        ];
        for (text, ms) in cases {
            assert_eq!(seconds(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", ".", "1.", "x", "-1", "+1", "1e3", "1 s", "99999999999999999999", "1.2.3"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
