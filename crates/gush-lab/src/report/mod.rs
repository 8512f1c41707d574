//! Runs as one HTML page that opens offline: figures, conclusions, and the samples themselves.
//!
//! Sections (`page.rs`) have figures in HTML and SVG (`bars.rs`); `html/` is the frame.
//! The page makes no request, which its content security policy enforces, and has no script.

mod bars;
pub(crate) mod data;
mod html;
pub(crate) mod number;
pub(crate) mod page;
mod render;
mod scale;
mod section;

use std::path::Path;

use crate::Error;
use crate::model::Run;
use crate::write_atomic;

/// The page for these runs, in any order.
///
/// Figures are those of the machine of the newest run, each suite from the newest run with that
/// suite; older runs appear in the history, other machines among the facts. The same runs give the
/// same page.
pub fn html(runs: &[Run]) -> String {
    html::page(&section::page(&data::Data::of(runs)), &render::policy(), render::STYLE)
        .into_string()
}

/// The conclusions of the runs, a sentence for each suite where a case was clearly faster than the
/// baseline; the same as on the page, without marks.
pub fn conclusions(runs: &[Run]) -> Vec<String> {
    let said = section::conclusions(&data::Data::of(runs));
    said.iter().map(|sentence| unmarked(sentence)).collect()
}

/// What the cases of a suite have gained over their baselines: a sentence for each group, as on the
/// page, without marks.
pub fn findings(run: &Run, suite: &str) -> Vec<String> {
    section::findings(run, suite).iter().map(|sentence| unmarked(sentence)).collect()
}

fn unmarked(sentence: &str) -> String {
    sentence.replace(['`', '*'], "")
}

/// Writes the page for `runs` to `path`; an older file is replaced only by a whole page.
pub fn write(runs: &[Run], path: &Path) -> Result<(), Error> {
    let failed =
        |error| Error::failed(format!("the report cannot be written to {}", path.display()), error);
    // By a new file in the old one's place: a browser that reloads never sees half a page.
    write_atomic(path, &html(runs)).map_err(failed)
}
