//! `--json`: each reading as a line for programs.

use serde::Serialize;

use super::figures::Unit;
use super::meter::Reading;

/// The fields of a line. Times are in seconds, rates in bytes or lines a second.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    elapsed_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    expected: Option<u64>,
    percent: Option<f64>,
    rate: f64,
    average_rate: f64,
    left_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_bytes: Option<u64>,
    ended: bool,
}

/// The line of `reading`, with the bytes that a command has written, if one runs.
pub fn line(name: Option<&str>, reading: &Reading, unit: Unit, out_bytes: Option<u64>) -> String {
    let count = |lines| (unit.lines == lines).then_some(reading.count);
    let line = Line {
        name,
        elapsed_seconds: reading.elapsed.as_secs_f64(),
        bytes: count(false),
        lines: count(true),
        expected: reading.expected,
        percent: reading.percent(),
        rate: reading.rate,
        average_rate: reading.average,
        left_seconds: reading.left().map(|left| left.as_secs_f64()),
        out_bytes,
        ended: reading.ended,
    };
    // Numbers and a name always serialize.
    serde_json::to_string(&line).unwrap_or_default()
}

/// The line of a command that left part of its input unread, after the last reading.
pub fn unread(read_bytes: u64, all_bytes: Option<u64>) -> String {
    serde_json::json!({ "read_bytes": read_bytes, "of_bytes": all_bytes }).to_string()
}

/// The line of a checksum, after the last reading.
pub fn checksum(algorithm: &str, digest: &str) -> String {
    serde_json::json!({ "checksum": algorithm, "digest": digest }).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::meter::Meter;
    use super::*;

    #[test]
    fn a_line_has_the_rates_a_second_and_the_times_in_seconds() {
        let mut meter = Meter::new(Duration::from_secs(30), 0);
        let bytes = Unit::default();
        meter.read(100, Duration::from_secs(2), Some(1000));
        let reading = meter.read(400, Duration::from_secs(4), Some(1000));
        assert_eq!(
            line(Some("name"), &reading, bytes, Some(7)),
            r#"{"name":"name","elapsed_seconds":4.0,"bytes":400,"expected":1000,"percent":40.0,"rate":150.0,"average_rate":100.0,"left_seconds":6.0,"out_bytes":7,"ended":false}"#
        );
        let end = meter.end(500, Duration::from_secs(8), None);
        assert_eq!(
            line(None, &end, Unit { lines: true, ..bytes }, None),
            r#"{"elapsed_seconds":8.0,"lines":500,"expected":null,"percent":null,"rate":62.5,"average_rate":62.5,"left_seconds":null,"ended":true}"#
        );
    }
}
