//! Figures that a command prints: the last line of standard output that is a JSON object has them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::{Map, Value};

use crate::Error;
use crate::model::Printed;

/// Where the line is looked for: so many bytes at the end of the output.
const TAIL_BYTES: u64 = 64 << 10;

/// The values of `figures` in the output at `path`, in their order.
///
/// # Errors
/// [`Error::Refused`] where there is no such line, or the line lacks a figure: a command that did
/// not measure has no sample.
pub(super) fn read(path: &Path, figures: &[Printed]) -> Result<Vec<f64>, Error> {
    let tail = File::open(path).and_then(|file| tail(&file, TAIL_BYTES));
    let tail = tail.map_err(|error| Error::failed("cannot read what it printed", error))?;
    let object = |line: &str| serde_json::from_str::<Map<String, Value>>(line).ok();
    let printed = tail.lines().rev().find_map(object);
    let printed = printed.ok_or_else(|| {
        Error::refused(format!(
            "it printed no line such as {{\"{}\": 1.5}} on standard output",
            figures[0].name
        ))
    })?;
    let value = |figure: &Printed| {
        let value = printed.get(&figure.name).and_then(Value::as_f64);
        value.ok_or_else(|| Error::refused(format!("it printed no number '{}'", figure.name)))
    };
    figures.iter().map(value).collect()
}

/// The last `most_bytes` of a file.
pub(super) fn tail(mut file: &File, most_bytes: u64) -> std::io::Result<String> {
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(most_bytes)))?;
    let mut tail = Vec::new();
    file.take(most_bytes).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}
