//! Figures as comma-separated values (RFC 4180).

use serde_json::Value;

use crate::model::Sample;

/// `text` as one field: quoted where a comma, a quote or a line's end would break the row.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A figure with six decimals; nothing for one that was not taken.
pub fn figure(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.6}")).unwrap_or_default()
}

/// A sample in these columns, without the line's end: `case`, `round`, `bytes`, the figures by
/// their names, or facts.
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
