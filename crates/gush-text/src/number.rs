//! Numbers as people read them: three digits that matter, sizes, counts.

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `value` divided by `base` until it is smaller, and how often; `most` times at most.
#[must_use]
pub fn scaled(mut value: f64, base: f64, most: usize) -> (f64, usize) {
    let mut power = 0;
    while value >= base && power < most {
        value /= base;
        power += 1;
    }
    (value, power)
}

/// Three digits that matter: `0.79`, `4.50`, `13.0`, `557`; all digits before the point up to a
/// million.
#[must_use]
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{value:.2e}"),
        // Bounds at half of the last digit shown: 99.96 is 100, and never 100.0.
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.0005 => format!("{value:.3}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.1e}"),
    }
}

/// A size in the largest unit that leaves no rest: `4 KiB`, `512 MiB`, `4100 B`.
#[must_use]
pub fn exact_bytes(bytes: u64) -> String {
    let (number, unit) = whole(bytes);
    format!("{number} {unit}")
}

/// The same as people type it: `4K`, `512M`, `4100`.
#[must_use]
pub fn typed_bytes(bytes: u64) -> String {
    let (number, unit) = whole(bytes);
    format!("{number}{}", unit.trim_end_matches("iB").trim_end_matches('B'))
}

fn whole(bytes: u64) -> (u64, &'static str) {
    let divides = |power: &usize| bytes > 0 && bytes.is_multiple_of(1 << (10 * power));
    let power = (1..UNITS.len()).rev().find(divides).unwrap_or(0);
    (bytes >> (10 * power), UNITS[power])
}

/// A number in three digits with a prefix of thousands: `512`, `1.50 k`, `23.4 M`.
#[must_use]
pub fn rounded(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", " k", " M", " G", " T"];
    let (value, power) = scaled_to_be_rounded(value, 1000.0, PREFIXES.len() - 1);
    format!("{}{}", three_digits(value), PREFIXES[power])
}

/// As [`scaled`], for a number that is then rounded: 999.9 is 1 of the next.
fn scaled_to_be_rounded(value: f64, base: f64, most: usize) -> (f64, usize) {
    match scaled(value, base, most) {
        (value, power) if value.round() >= base && power < most => (value / base, power + 1),
        scaled => scaled,
    }
}

/// A size in three digits, in the largest unit that leaves a whole part: `512 B`, `1.50 KiB`,
/// `4 TiB`.
#[must_use]
pub fn rounded_bytes(bytes: u64) -> String {
    let (value, power) = scaled_to_be_rounded(bytes as f64, 1024.0, UNITS.len() - 1);
    let number = if value.fract() == 0.0 { value.to_string() } else { three_digits(value) };
    format!("{number} {}", UNITS[power])
}

/// A count and its noun: `1 sample`, `2 samples`.
#[must_use]
pub fn plural(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.00001, "1.0e-5"),
            (0.0123, "0.012"),
            (0.794, "0.79"),
            (4.5, "4.50"),
            (9.999, "10.0"),
            (13.04, "13.0"),
            (99.96, "100"),
            (557.3, "557"),
            (1234.0, "1234"),
            (1e300, "1.00e300"),
        ] {
            assert_eq!(three_digits(value), text);
        }
    }

    #[test]
    fn large_numbers_have_a_prefix() {
        for (value, text) in [
            (0.0, "0"),
            (512.0, "512"),
            (999.7, "1.00 k"),
            (1500.0, "1.50 k"),
            (23.4e6, "23.4 M"),
            (999.9e6, "1.00 G"),
            (2.5e15, "2500 T"),
        ] {
            assert_eq!(rounded(value), text);
        }
    }

    #[test]
    fn sizes_are_exact_or_rounded() {
        for (bytes, exact, typed, rounded) in [
            (0, "0 B", "0", "0 B"),
            (512, "512 B", "512", "512 B"),
            (1536, "1536 B", "1536", "1.50 KiB"),
            (1 << 20, "1 MiB", "1M", "1 MiB"),
            (3 << 29, "1536 MiB", "1536M", "1.50 GiB"),
            (64 << 20, "64 MiB", "64M", "64 MiB"),
            (197 << 16, "12608 KiB", "12608K", "12.3 MiB"),
            ((1 << 20) - 1, "1048575 B", "1048575", "1.00 MiB"),
            (u64::MAX, "18446744073709551615 B", "18446744073709551615", "16 EiB"),
        ] {
            let written = [exact_bytes(bytes), typed_bytes(bytes), rounded_bytes(bytes)];
            assert_eq!(written, [exact, typed, rounded]);
        }
    }
}
