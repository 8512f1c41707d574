//! Exported runs: one JSON document.
//!
//! An export may come from anybody: size, depth, names and versions are checked before
//! any content is used.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use gush_text::os_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use crate::model::Run;

const FORMAT: &str = "gush-lab-runs";
/// The newest form of them; a later gush may add fields without a new one.
const VERSION: u32 = 1;
/// About a million samples.
const LARGEST_BYTES: u64 = 512 << 20;
const LONGEST_NAME: usize = 200;

/// Why an export is refused, as a sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    #[error("cannot read: {}", os_text(.0))]
    Unreadable(#[source] io::Error),
    /// The file is not an export.
    #[error("is not an export of gush lab, as gush lab export --json writes it: {0}")]
    Garbled(String),
    /// The file is an export of a newer gush.
    #[error(
        "is an export of a newer gush (version {found}, this gush knows {VERSION}): update gush"
    )]
    Newer { found: u64 },
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    runs: &'a [Run],
}

/// What an export and the file of a stored run begin with.
#[derive(Deserialize)]
pub(crate) struct Header {
    pub format: String,
    pub version: u64,
}

#[derive(Deserialize)]
struct Content {
    runs: Vec<Run>,
}

/// Runs as one JSON document.
pub fn json(runs: &[Run]) -> String {
    let document = Document { format: FORMAT, version: VERSION, runs };
    let mut text = serde_json::to_string_pretty(&document).expect("its keys are strings");
    text.push('\n');
    text
}

/// Reads the export in the file `path`.
pub fn read(path: &Path) -> Result<Vec<Run>, TransferError> {
    parse_from(File::open(path).map_err(TransferError::Unreadable)?)
}

/// Reads an export to the end of `source`, or up to 512 MiB.
pub fn parse_from(source: impl Read) -> Result<Vec<Run>, TransferError> {
    let mut text = Vec::new();
    // One byte more, to distinguish a document of the largest size from a longer one.
    source.take(LARGEST_BYTES + 1).read_to_end(&mut text).map_err(TransferError::Unreadable)?;
    if text.len() as u64 > LARGEST_BYTES {
        return Err(garbled("larger than 512 MiB"));
    }
    parse(&text)
}

/// Reads an export.
pub fn parse(text: &[u8]) -> Result<Vec<Run>, TransferError> {
    let header: Header = serde_json::from_slice(text).map_err(unfit)?;
    if header.format != FORMAT {
        return Err(garbled(format_args!("it calls itself '{}'", header.format.escape_debug())));
    }
    // Before the content is read: a newer one need not even have the same fields.
    if header.version > u64::from(VERSION) {
        return Err(TransferError::Newer { found: header.version });
    }
    let Content { runs } = serde_json::from_slice(text).map_err(unfit)?;
    for run in &runs {
        check(run).map_err(garbled)?;
    }
    Ok(runs)
}

/// The reader's words are about its own types: the line is what a person can look at.
fn unfit(error: serde_json::Error) -> TransferError {
    let line = error.line();
    garbled(match error.classify() {
        Category::Syntax => format!("line {line} is not JSON"),
        Category::Eof => format!("it ends in the middle of line {line}"),
        Category::Data | Category::Io => {
            format!(
                "the JSON that ends in line {line} lacks a field of an export, or has one of another kind"
            )
        }
    })
}

fn garbled(why: impl std::fmt::Display) -> TransferError {
    TransferError::Garbled(why.to_string())
}

/// Can this be a run's id? Ids are typed, printed, and names of files.
pub(crate) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // `last` and `last~1` are words for runs on the command line.
    !text.is_empty()
        && text.len() <= LONGEST_NAME
        && text.bytes().all(is_plain)
        && !text.starts_with("last")
}

/// Ids are typed and printed, names too, and every text may reach a terminal.
fn check(run: &Run) -> Result<(), String> {
    if !is_id(&run.id) {
        return Err(format!("'{}' cannot be a run's id", run.id.escape_debug()));
    }
    if run.others.is_some_and(|others| !(0.0..=1.0).contains(&others)) {
        return Err(format!("run {}: 'others' is not a share from 0 to 1", run.id));
    }
    for sample in &run.samples {
        for name in [&sample.suite, &sample.case] {
            if name.is_empty()
                || name.chars().count() > LONGEST_NAME
                || name.contains(char::is_control)
            {
                return Err(format!("run {}: '{}' cannot be a name", run.id, name.escape_debug()));
            }
        }
        let figures = &sample.measured;
        let all = [figures.gib_per_s, figures.wall_s, figures.user_s, figures.system_s];
        if all.into_iter().flatten().any(|figure| figure < 0.0)
            || i64::try_from(figures.bytes).is_err()
        {
            let (case, round) = (&sample.case, sample.round);
            return Err(format!(
                "run {}: {case} in round {round} has an impossible figure",
                run.id
            ));
        }
    }
    // Every text in it, also facts that this version does not know: they reach a terminal.
    let whole = serde_json::to_value(run).map_err(|error| error.to_string())?;
    match control_character(&whole) {
        None => Ok(()),
        Some(text) => {
            Err(format!("run {}: '{}' holds control characters", run.id, text.escape_debug()))
        }
    }
}

/// A text that would move a terminal's cursor, or worse; pictures have line ends and tabs.
fn control_character(value: &Value) -> Option<String> {
    let is_odd = |text: &str| text.contains(|c: char| c.is_control() && !"\n\r\t".contains(c));
    let shortened = |text: &str| text.chars().take(40).collect();
    match value {
        Value::String(text) => is_odd(text).then(|| shortened(text)),
        Value::Array(values) => values.iter().find_map(control_character),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if is_odd(name) { Some(shortened(name)) } else { control_character(value) }
        }),
        _ => None,
    }
}
