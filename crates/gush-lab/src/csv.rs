//! Figures as comma-separated values (RFC 4180).

use serde_json::Value;

use crate::model::Sample;

/// `text` as one field: quoted where a comma, a quote or a line's end would break the row.
///
/// ```
/// use gush_lab::csv::field;
/// assert_eq!(field("write-read"), "write-read");
/// assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
/// ```
#[must_use]
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A figure with six decimals; nothing for one that was not taken.
///
/// ```
/// use gush_lab::csv::figure;
/// assert_eq!((figure(Some(4.5)), figure(None)), ("4.500000".to_owned(), String::new()));
/// ```
#[must_use]
pub fn figure(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.6}")).unwrap_or_default()
}

/// A sample in these columns, without the line's end: `case`, `round`, `bytes`, the figures by
/// their names, or facts.
///
/// ```
/// use gush_lab::csv::row;
/// use gush_lab::model::{Measured, Sample};
/// let measured = Measured { gib_per_s: Some(4.5), bytes: 4096, ..Measured::default() }
///     .with("method", "splice")
///     .with("cost", 0.25)
///     .with("syscalls", serde_json::json!({"read": 2, "write": 1}));
/// let sample = Sample { suite: "copy".into(), case: "splice@4K".into(), round: 1, measured };
/// let columns = ["case", "method", "round", "gib_per_s", "wall_s", "bytes", "cost", "syscalls", "absent"];
/// assert_eq!(row(&columns, &sample), "splice@4K,splice,1,4.500000,,4096,0.250000,read=2;write=1,");
/// ```
#[must_use]
pub fn row(columns: &[&str], sample: &Sample) -> String {
    let Sample { case, round, measured, .. } = sample;
    let cell = |column: &&str| match *column {
        "case" => field(case),
        "round" => round.to_string(),
        "bytes" => measured.bytes.to_string(),
        "gib_per_s" => figure(measured.gib_per_s),
        "wall_s" => figure(measured.wall_s),
        "user_s" => figure(measured.user_s),
        "system_s" => figure(measured.system_s),
        fact => measured.facts.get(fact).map(value).unwrap_or_default(),
    };
    columns.iter().map(cell).collect::<Vec<String>>().join(",")
}

/// A fact as one field; numbers by name as `read=2;write=1`.
fn value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => field(text),
        Value::Number(number) if number.is_f64() => figure(number.as_f64()),
        Value::Object(named) => {
            let each: Vec<String> =
                named.iter().map(|(name, value)| format!("{name}={value}")).collect();
            field(&each.join(";"))
        }
        other => field(&other.to_string()),
    }
}
