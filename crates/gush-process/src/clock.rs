//! The time of the wall, in the time zone of the process.

use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time of the wall, as a calendar and a clock show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalTime {
    /// The year of the calendar, such as 2026.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60, since a leap second is the 60th.
    pub second: u8,
}

/// The time `at` in the time zone of the process (the variable `TZ`, or /etc/localtime), by
/// localtime_r(3).
///
/// None for a time whose year is out of range for the C library.
///
/// ```
/// use std::time::SystemTime;
///
/// let now = gush_process::local_time(SystemTime::now()).unwrap();
/// assert!(now.year >= 2026 && now.hour < 24);
/// ```
#[must_use]
pub fn local_time(at: SystemTime) -> Option<LocalTime> {
    let seconds = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).ok()?,
        // A part of a second before 1970 belongs to the second before.
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).ok()?;
            -whole - i64::from(before.subsec_nanos() > 0)
        }
    };
    // C's time has 32 bits on some processors. Its name in the crate libc is deprecated for musl.
    #[allow(clippy::useless_conversion)]
    let seconds = seconds.try_into().ok()?;
    let mut parts = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: localtime_r reads one time and writes one `tm`, both of which live until the call is
    // over. The variable TZ is read by the call, and nothing of gush changes the environment of its
    // own process.
    let parts = unsafe {
        if libc::localtime_r(&raw const seconds, parts.as_mut_ptr()).is_null() {
            return None;
        }
        parts.assume_init()
    };
    let part = |part: libc::c_int| u8::try_from(part).ok();
    Some(LocalTime {
        // C counts years from 1900 and months from 0.
        year: i64::from(parts.tm_year) + 1900,
        month: part(parts.tm_mon + 1)?,
        day: part(parts.tm_mday)?,
        hour: part(parts.tm_hour)?,
        minute: part(parts.tm_min)?,
        second: part(parts.tm_sec)?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use crate::{LocalTime, local_time};

    /// gush-test sets the time zone to UTC before main.
    #[test]
    fn every_part_of_a_time_has_its_place() {
        let leap_day = UNIX_EPOCH + Duration::from_millis(1_709_251_199_999);
        let expected =
            LocalTime { year: 2024, month: 2, day: 29, hour: 23, minute: 59, second: 59 };
        assert_eq!(local_time(leap_day), Some(expected));
    }

    #[test]
    fn a_part_of_a_second_before_1970_is_of_the_second_before() {
        let before = LocalTime { year: 1969, month: 12, day: 31, hour: 23, minute: 59, second: 59 };
        assert_eq!(local_time(UNIX_EPOCH - Duration::from_millis(1)), Some(before));
        assert_eq!(local_time(UNIX_EPOCH - Duration::from_secs(1)), Some(before));
    }

    #[test]
    fn a_year_out_of_range_for_the_c_library_is_no_time() {
        let late = UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64));
        assert_eq!(late.and_then(local_time), None);
    }
}
