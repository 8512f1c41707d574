//! Numbers of bytes in binary units, as people and names have them.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// In the largest unit that leaves no rest.
fn whole(bytes: u64) -> (u64, &'static str) {
    let divides = |power: &usize| bytes > 0 && bytes.is_multiple_of(1 << (10 * power));
    let power = (1..UNITS.len()).rev().find(divides).unwrap_or(0);
    (bytes >> (10 * power), UNITS[power])
}

/// `4 KiB`, `512 MiB`, `4100 B`: never rounded.
pub(crate) fn exact(bytes: u64) -> String {
    let (number, unit) = whole(bytes);
    format!("{number} {unit}")
}

/// The same as in the names of cases, which people type: `4K`, `512M`, `4100`.
pub(crate) fn typed(bytes: u64) -> String {
    let (number, unit) = whole(bytes);
    format!("{number}{}", unit.trim_end_matches("iB").trim_end_matches('B'))
}

/// In the largest unit that leaves a whole part; with a decimal below 100 unless that is zero.
pub(crate) fn rounded(bytes: u64) -> String {
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(value < 99.95);
    let number = format!("{value:.decimals$}");
    format!("{} {}", number.strip_suffix(".0").unwrap_or(&number), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_rounded() {
        for (bytes, exactly, name, about) in [
            (0, "0 B", "0", "0 B"),
            (512, "512 B", "512", "512 B"),
            (1536, "1536 B", "1536", "1.5 KiB"),
            (1 << 20, "1 MiB", "1M", "1 MiB"),
            (3 << 29, "1536 MiB", "1536M", "1.5 GiB"),
            (64 << 20, "64 MiB", "64M", "64 MiB"),
            (197 << 16, "12608 KiB", "12608K", "12.3 MiB"),
            (u64::MAX, "18446744073709551615 B", "18446744073709551615", "16777216 TiB"),
        ] {
            assert_eq!([exact(bytes), typed(bytes), rounded(bytes)], [exactly, name, about]);
        }
    }
}
