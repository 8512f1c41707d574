//! Figures as comma-separated values (RFC 4180).

use serde_json::Value;

use crate::model::Measured;

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

/// The fact called `name` as one field; nothing for one that is absent.
///
/// ```
/// use gush_lab::{csv::fact, model::Measured};
/// let measured = Measured::default().with("method", "splice").with("buffer_bytes", 4096);
/// assert_eq!(fact(&measured, "method"), "splice");
/// assert_eq!(fact(&measured, "buffer_bytes"), "4096");
/// assert_eq!(fact(&measured, "pipe_bytes"), "");
/// ```
#[must_use]
pub fn fact(measured: &Measured, name: &str) -> String {
    match measured.facts.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => field(text),
        Some(value) => field(&value.to_string()),
    }
}
