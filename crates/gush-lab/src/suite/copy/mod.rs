//! Copying a file by every way there is: the published nine and the engine's, at sizes from 4 KiB to
//! 1 GiB, in the page cache and out of it, with their system calls counted.
//!
//! | room | holds |
//! |---|---|
//! | `ways` | the ways, as a table; `textbook` the loops whose calls the published tables count |
//! | `plan` | which of them are measured at which sizes, with which advice |
//! | `case` | one of them as a case: its own process, counted once, verified once |
//! | `once` | the copy under its clock, in that process |
//! | `files`, `cold` | sources and the target; in the page cache, or out of it |
//! | `published` | what the published table counted |
//! | `view` | CSV and tables |

pub mod cache_sizes;
mod case;
mod cold;
mod files;
mod once;
mod plan;
mod published;
mod textbook;
mod view;
mod ways;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::rc::Rc;

pub use case::What;
pub use once::{ADVICE, Once, SPACE};
pub use plan::{ALL_SIZES_BYTES, Choice, SIZES_BYTES, plan};
pub use published::published;
pub use view::Copies;
pub use ways::{Buffer, By, Textbook, WAYS, Way};

use crate::case::Case;
use crate::{Error, count};
use case::Copying;
use files::Files;

const SUITE: &str = "copy";

/// Cases, and why some are left out.
#[derive(Default)]
pub struct Cases {
    /// What can be measured.
    pub cases: Vec<Box<dyn Case>>,
    /// What cannot be, here, a sentence each.
    pub notes: Vec<String>,
}

/// The cases for `whats`, whose files go into a new directory in `dir`; `program` is this program.
///
/// A way that this machine or this directory refuses is left out with a sentence, once for all sizes:
/// it is tried on a small file first; so are sizes that the disk has no room for. What somebody asked for by name (`named`) is not tried: it is
/// measured, or fails.
///
/// # Errors
/// When no files can be made in `dir`, or none of the sizes fits there.
pub fn cases(
    program: &Path,
    dir: &Path,
    whats: &[What],
    named: bool,
    counts: bool,
) -> Result<Cases, Error> {
    let files = Rc::new(Files::new(dir)?);
    files.room_for(TRIAL_BYTES)?;
    let mut all = Cases::default();
    let traced = if counts { try_counting(program, &files) } else { Ok(()) };
    if let Err(why) = &traced {
        all.notes.push(format!("system calls are not counted: {}", why.told()));
    }
    let counts = counts && traced.is_ok();
    let mut refused: BTreeMap<(&str, bool), bool> = BTreeMap::new();
    let mut too_large: BTreeMap<u64, Option<Error>> = BTreeMap::new();
    for &what in whats {
        let size_bytes = what.size_bytes;
        let no_room =
            || files.room_for(size_bytes).err().inspect(|error| all.notes.push(error.told()));
        if too_large.entry(size_bytes).or_insert_with(no_room).is_some() {
            continue;
        }
        let is_refused = !named
            && *refused.entry((what.way.name, what.cold)).or_insert_with(|| {
                let Err(why) = try_out(&files, what) else { return false };
                let cold = if what.cold { "+cold" } else { "" };
                all.notes.push(format!("{}{cold} is left out: {}", what.way, why.told()));
                true
            });
        if !is_refused {
            let case = Copying::new(what, program.to_owned(), Rc::clone(&files), counts);
            all.cases.push(Box::new(case));
        }
    }
    match too_large.into_values().flatten().next() {
        Some(error) if all.cases.is_empty() => Err(error),
        _ => Ok(all),
    }
}

const TRIAL_BYTES: u64 = 64 << 10;

/// Counts the calls of a small copy, which shows whether processes may be traced here.
fn try_counting(program: &Path, files: &Files) -> Result<(), Error> {
    let source = files.source(TRIAL_BYTES)?.path;
    let target = files.target();
    let way = "read-write-64K";
    let words =
        [SUITE.as_ref(), "--way".as_ref(), way.as_ref(), source.as_os_str(), target.as_os_str()];
    let words = words.map(OsStr::to_owned);
    let counted = count::of(program, &words, &source, &target, None);
    files.remove_target();
    counted.map(drop)
}

/// Copies a small file in this process.
fn try_out(files: &Files, what: What) -> Result<(), Error> {
    let source = files.source(TRIAL_BYTES)?.path;
    let What { way, advice, space, cold, .. } = what;
    let tried = Once { way, advice, space, cold, source, target: files.target() }.run();
    files.remove_target();
    tried.map(drop)
}
