//! Lengths of time, as people write them on a command line and read them in messages.

use std::time::Duration;

/// The longest time, 100 years: longer ones are mistakes.
const LONGEST_S: u64 = 100 * 366 * 24 * 3600;

/// Reads a length of time: `2`, `0.5`, `200ms`, `5m` or `1h`. A number without a unit means
/// seconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(gush_text::seconds("0.5"), Some(Duration::from_millis(500)));
/// assert_eq!(gush_text::seconds("soon"), None);
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

/// Reads a length of time of more than zero.
///
/// # Errors
/// A hint about the right form.
pub fn some_time(text: &str) -> Result<Duration, &'static str> {
    match seconds(text) {
        Some(Duration::ZERO) => Err("must be more than zero"),
        Some(time) => Ok(time),
        None => Err("not a time: write seconds, such as 2 or 0.5, or 200ms, 5m, 1h"),
    }
}

/// A length of time for a message: a number, a space and a unit. Exact, in the largest unit that
/// leaves no fraction from minutes on, and else in the largest that leaves a whole part.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(gush_text::with_unit(Duration::from_millis(1500)), "1.5 s");
/// assert_eq!(gush_text::with_unit(Duration::from_secs(120)), "2 min");
/// ```
#[must_use]
pub fn with_unit(time: Duration) -> String {
    let whole_s = time.as_secs();
    if time.subsec_nanos() == 0 {
        for (unit_s, unit) in [(3600, "h"), (60, "min")] {
            if whole_s > 0 && whole_s.is_multiple_of(unit_s) {
                return format!("{} {unit}", whole_s / unit_s);
            }
        }
    }
    let (unit_ns, digits, unit) = match time.as_nanos() {
        0 | 1_000_000_000.. => (1_000_000_000, 9, "s"),
        1_000_000.. => (1_000_000, 6, "ms"),
        1_000.. => (1_000, 3, "µs"),
        _ => (1, 0, "ns"),
    };
    let (whole, rest) = (time.as_nanos() / unit_ns, time.as_nanos() % unit_ns);
    match rest {
        0 => format!("{whole} {unit}"),
        _ => {
            let rest = format!("{rest:0digits$}");
            format!("{whole}.{} {unit}", rest.trim_end_matches('0'))
        }
    }
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

    #[test]
    fn times_are_written_with_a_number_a_space_and_a_unit() {
        for (ns, text) in [
            (0, "0 s"),
            (1, "1 ns"),
            (1_500, "1.5 µs"),
            (250_000_000, "250 ms"),
            (999_999_999, "999.999999 ms"),
            (1_000_000_000, "1 s"),
            (1_000_000_001, "1.000000001 s"),
            (1_500_000_000, "1.5 s"),
            (59_000_000_000, "59 s"),
            (60_000_000_000, "1 min"),
            (60_500_000_000, "60.5 s"),
            (90_000_000_000, "90 s"),
            (600_000_000_000, "10 min"),
            (5_400_000_000_000, "90 min"),
            (7_200_000_000_000, "2 h"),
        ] {
            assert_eq!(with_unit(Duration::from_nanos(ns)), text);
        }
        assert_eq!(with_unit(Duration::MAX), "18446744073709551615.999999999 s");
    }
}
