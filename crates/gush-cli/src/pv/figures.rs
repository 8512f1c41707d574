//! Amounts with a unit, rates and times as text.

use std::time::Duration;

/// The unit of counting, and the prefixes of large numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Lines instead of bytes.
    pub lines: bool,
    /// Bits instead of bytes.
    pub bits: bool,
    /// Multiples of 1000 instead of 1024.
    pub decimal: bool,
}

impl Unit {
    /// `amount` in three digits with a unit, as pv prints it: `1.00KiB`, ` 100KiB`, `1.00k` lines.
    pub fn amount(self, amount: f64) -> String {
        // Two blanks in place of `Ki`, so that an amount keeps its width.
        let (base, prefixes) = match self.lines || self.decimal {
            true => (1000.0, [" ", "k", "M", "G", "T", "P", "E", "Z"]),
            false => (1024.0, ["  ", "K", "M", "G", "T", "P", "E", "Z"]),
        };
        let value = if self.bits && !self.lines { amount * 8.0 } else { amount };
        let (value, power) = gush_text::scaled(value, base, prefixes.len() - 1);
        let prefix = prefixes[power];
        let binary = if power > 0 && base > 1000.0 { "i" } else { "" };
        let unit = if self.lines { "" } else { self.name() };
        format!("{}{prefix}{binary}{unit}", three_digits(value))
    }

    /// A rate per second, such as `[1.00MiB/s]`.
    pub fn rate(self, per_second: f64) -> String {
        format!("[{}/s]", self.amount(per_second))
    }

    /// An average rate per second, such as `(1.00MiB/s)`.
    pub fn average(self, per_second: f64) -> String {
        format!("({}/s)", self.amount(per_second))
    }

    /// The unit's symbol.
    pub fn name(self) -> &'static str {
        match (self.lines, self.bits) {
            (true, _) => "l",
            (false, true) => "b",
            (false, false) => "B",
        }
    }
}

/// Three significant digits in four columns; whole numbers, not rounded, from 100 on.
fn three_digits(value: f64) -> String {
    match value {
        _ if value > 99.9 => format!("{:4}", value as u64),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ if value >= 0.9995 || value <= 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `0:01:02`, or with days `1:00:01:02`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}:{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_have_three_digits_and_a_unit() {
        let bytes = Unit::default();
        for (amount, text) in [
            (0.0, "0.00  B"),
            (1.0, "1.00  B"),
            (99.0, "99.0  B"),
            (100.0, " 100  B"),
            (1023.0, "1023  B"),
            (1024.0, "1.00KiB"),
            (9999.0, "9.76KiB"),
            (10235.0, "10.0KiB"),
            (102_248.0, "99.9KiB"),
            (102_300.0, "  99KiB"),
            (102_400.0, " 100KiB"),
            (1_048_575.0, "1023KiB"),
            (18_446_744_073_709_551_615.0, "16.0EiB"),
            (0.5, "0.500  B"),
        ] {
            assert_eq!(bytes.amount(amount), text, "{amount}");
        }
        let lines = Unit { lines: true, ..Unit::default() };
        for (amount, text) in [
            (2.0, "2.00 "),
            (999.0, " 999 "),
            (1000.0, "1.00k"),
            (99_999.0, "  99k"),
            (1e6, "1.00M"),
        ] {
            assert_eq!(lines.amount(amount), text, "{amount}");
        }
        let decimal = Unit { decimal: true, ..Unit::default() };
        assert_eq!(
            (decimal.amount(1000.0), decimal.amount(5.0)),
            ("1.00kB".into(), "5.00 B".into())
        );
        let bits = Unit { bits: true, ..Unit::default() };
        assert_eq!(bits.amount(128.0), "1.00Kib");
        assert_eq!(bytes.rate(1024.0), "[1.00KiB/s]");
    }

    #[test]
    fn times_have_days_once_there_is_one() {
        for (seconds, text) in
            [(0, "0:00:00"), (3661, "1:01:01"), (86_399, "23:59:59"), (86_400, "1:00:00:00")]
        {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }

    proptest! {
        #[test]
        fn an_amount_never_changes_its_width(amount in 1_u64..) {
            let text = Unit::default().amount(amount as f64);
            prop_assert_eq!(text.len(), 7, "{}", text);
        }
    }
}
