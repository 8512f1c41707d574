//! Times on the command line.

use std::time::Duration;

use gush_process::seconds;

/// A time of more than zero: seconds, or a number with a unit.
pub fn time(text: &str) -> Result<Duration, &'static str> {
    match seconds(text) {
        Some(Duration::ZERO) => Err("must be more than zero"),
        Some(time) => Ok(time),
        None => Err("not a time: write seconds, such as 2 or 0.5, or 200ms, 5m, 1h"),
    }
}
