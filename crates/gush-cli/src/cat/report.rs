//! `--explain` and `--json`, on standard error.

use std::ffi::OsStr;
use std::io::ErrorKind;

use gush_text::os_text;
use serde_json::{Value, json};

use super::options::CatArgs;
use super::show::{Moved, Trouble};
use crate::console::Console;
use crate::json::{Methods, bytes_if_odd};

/// Reports the operand `name` as `options` request.
pub fn print(options: &CatArgs, name: &OsStr, outcome: &Result<Moved, Trouble>, console: &Console) {
    if let (true, Ok(shown)) = (options.explain, outcome) {
        console.say_lines(name, explained(shown));
    }
    if options.json {
        console.print(format_args!("{}\n", record(name, outcome)));
    }
}

fn explained(shown: &Moved) -> String {
    match &shown.report {
        Some(report) => report.explain().to_string(),
        None => {
            format!(
                "formatted as text, {} bytes in {:.6} s",
                shown.bytes,
                shown.elapsed.as_secs_f64()
            )
        }
    }
}

/// The field names are those of `gush cp --json`. Scripts rely on them.
fn record(name: &OsStr, outcome: &Result<Moved, Trouble>) -> Value {
    let mut record = json!({ "source": name.to_string_lossy(), "bytes": 0, "error": null });
    if let Some(bytes) = bytes_if_odd(name) {
        record["source_bytes"] = bytes.into();
    }
    match outcome {
        Ok(shown) => {
            record["bytes"] = shown.bytes.into();
            record["seconds"] = shown.elapsed.as_secs_f64().into();
            if let Some(report) = &shown.report {
                record["hole_bytes"] = report.hole_bytes.into();
                if let (Some(record), Value::Object(methods)) =
                    (record.as_object_mut(), json!(Methods::of(report)))
                {
                    record.extend(methods);
                }
            }
        }
        Err(trouble) => {
            let (what, error, hint) = match trouble {
                Trouble::Unopened(error) => {
                    // A directory can be opened.
                    let was_opened = name == "-" || error.kind() == ErrorKind::IsADirectory;
                    let what = if was_opened { "read failed" } else { "open failed" };
                    (what.to_owned(), Some(error), None)
                }
                Trouble::Source { what, error, hint } => (what.clone(), Some(error), *hint),
                Trouble::Refused(why) => (why.clone(), None, None),
                Trouble::IsOutput => (super::IS_OUTPUT.to_owned(), None, None),
                Trouble::Target { delivered_bytes, error, hint, .. } => {
                    record["bytes"] = (*delivered_bytes).into();
                    ("write error".to_owned(), Some(error), *hint)
                }
            };
            let path = match trouble {
                Trouble::Target { .. } => "standard output".into(),
                _ => name.to_string_lossy(),
            };
            record["error"] = json!({
                "path": path,
                "what": what,
                "message": error.map(os_text),
                "errno": error.and_then(std::io::Error::raw_os_error),
                "hint": hint,
            });
        }
    }
    record
}
