//! The file of a run: lines of JSON, each of which counts once its newline is there.
//!
//! ```text
//! {"format":"gush-lab-run","version":1,"run":{"id":"20261121-144355-a3f2","started":…,"machine":{…},…}}
//! {"sample":{"suite":"pipe","case":"write-read",…}}
//! {"ended":{"id":"20261121-144355-a3f2",…,"finished":…}}
//! ```
//!
//! The line that ends a run has all that is known of it then. A run without this line goes on, or
//! was killed; so was the writer of a last line without a newline, which is left out.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::model::{Run, Sample};
use crate::transfer::Header;

/// What the first line begins with, up to the run; a later gush may add fields without a new
/// version.
const BEGINNING: &str = r#"{"format":"gush-lab-run","version":1,"run":"#;
const FORMAT: &str = "gush-lab-run";
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct First {
    run: Run,
}

/// A line below the first one: borrowed to be written, owned when read.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line<S, R> {
    Sample(S),
    Ended(R),
}

pub(super) fn begun(run: &Run) -> String {
    format!("{BEGINNING}{}}}\n", json(&without_samples(run)))
}

pub(super) fn sample(sample: &Sample) -> String {
    json(&Line::<_, ()>::Sample(sample)) + "\n"
}

pub(super) fn ended(run: &Run) -> String {
    json(&Line::<(), _>::Ended(without_samples(run))) + "\n"
}

/// The lines of a run that was made elsewhere.
pub(super) fn whole(run: &Run) -> String {
    let samples = run.samples.iter().map(sample);
    let end = run.finished.map(|_| ended(run));
    [begun(run)].into_iter().chain(samples).chain(end).collect()
}

/// JSON writes a newline within a text as `\n`, so a line has no other than its own.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("its keys are strings")
}

fn without_samples(run: &Run) -> Run {
    Run { samples: Vec::new(), ..run.clone() }
}

/// The run in the file `path`; `None` if its writer was killed before the first line was whole.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Option<Run>, StoreError> {
    let damaged = |line: u64| {
        move |error: serde_json::Error| {
            let why = error.to_string();
            StoreError::Damaged { path: path.to_owned(), line, why }
        }
    };
    let beginning = &BEGINNING.as_bytes()[..BEGINNING.len().min(text.len())];
    if !text.contains(&b'\n') && text.starts_with(beginning) {
        return Ok(None);
    }
    let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let mut lines = whole.zip(1..);
    let first = lines.next().map_or(text, |(first, _)| first);
    let header: Header = serde_json::from_slice(first).map_err(damaged(1))?;
    let foreign = |why: String| Err(StoreError::Foreign { path: path.to_owned(), why });
    if header.format != FORMAT {
        return foreign("is not a run of gush lab".to_owned());
    }
    // Before the rest is read: a newer file may hold lines that an older gush takes for damage.
    if header.version > VERSION {
        return foreign(format!(
            "was written by a newer gush (version {} of the file, this gush knows {VERSION}): update gush",
            header.version
        ));
    }
    let First { mut run } = serde_json::from_slice(first).map_err(damaged(1))?;
    for (line, number) in lines {
        match serde_json::from_slice::<Line<Sample, Box<Run>>>(line).map_err(damaged(number))? {
            Line::Sample(sample) => run.samples.push(sample),
            Line::Ended(ended) => run = Run { samples: run.samples, ..*ended },
        }
    }
    Ok(Some(run))
}
