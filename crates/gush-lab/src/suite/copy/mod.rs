//! Copying a file by every way there is: the published nine and the engine's, at sizes from 4 KiB
//! to 1 GiB, cached and cold, with their system calls counted.
//!
//! Facts of a sample: `method`, `buffer_bytes`, `size_bytes`, `cache` (`cached`, `cold`), `advice`,
//! `space`, `syscalls` and `syscalls_published` (name → count), `syscalls_printed` (where the
//! published table has a slip).
//!
//! | room | holds |
//! |---|---|
//! | `ways` | the ways, as a table; `textbook` the loops whose calls the published tables count |
//! | `plan` | which of them are measured at which sizes, with which advice |
//! | `case` | one of them as a case: its own process, counted once, verified once |
//! | `once` | the copy under its clock, in that process |
//! | `files`, `cold` | sources and the target; cached, or cold |
//! | `published` | the counts of the published table |

pub mod cache_sizes;
mod case;
mod cold;
mod files;
mod once;
mod plan;
mod published;
mod textbook;
mod ways;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

pub use case::What;
pub use once::{ADVICE, Once, SPACE};
pub use plan::{ALL_SIZES_BYTES, Choice, SIZES_BYTES, plan};
pub use published::{printed, published};
pub use ways::{Buffer, By, Textbook, WAYS, Way};

use super::asked::{dir, flag, memory, one_of, path, several, text};
use super::{Asked, Axis, Cases, Suite, THROUGHPUT, Tour, WORK};
use crate::{Error, count};
use case::{BASELINE, Copying};
use clap::Arg;
use files::Files;

pub static SUITE: Suite = Suite {
    name: "copy",
    title: "Copying files",
    about: "Copy files in every way, cached and uncached, and count the system calls",
    more: "--only takes cases, ways (read-write-4096) and methods (read-write).\n\n\
           Examples:\n  \
           gush lab copy --size 512M --dir /data\n  \
           gush lab copy --only read-write,uring --sizes 1M,64M \\\n      \
               --space as-written,reserve",
    options: || {
        vec![
            several(memory("size", "Copy files of these sizes, instead of 4K,64K,1M,16M,256M"))
                .value_name("SIZE,…")
                .visible_alias("sizes"),
            dir("Make the files in DIR, on the file system to be measured"),
            flag("cold", "Also measure everything with the source dropped from the cache"),
            several(advice("ADVICE,…", "Give this advice before reading (posix_fadvise)")),
            several(space("SPACE,…", "Reserve the target's space first (fallocate), or not")),
            flag("no-count", "Do not count system calls"),
            flag(
                "all",
                "All sizes from 4K to 1G, and everything out of the cache, too: takes an hour or so",
            ),
        ]
    },
    only: ("NAME,…", "Only these cases"),
    rounds: "6",
    quantities: &[THROUGHPUT, WORK],
    axis: Some(Axis { fact: "size_bytes", label: "File size" }),
    notes: &[
        "The clock runs from before both files are opened until both are closed. Every way's copy was compared with its \
         source once. `reflink` clones: no bytes move.",
    ],
    section: None,
    tour: Tour::Repeated(&[], &["--size", "16M"]),
    once: Some(super::Once {
        about: "Copy SOURCE to TARGET, which is overwritten",
        options: || {
            vec![
                text("way", "NAME", "Copy this way"),
                advice("ADVICE", "Give this advice before reading"),
                space("SPACE", "Reserve the target's space first, or not"),
                flag("cold", "Drop SOURCE from the cache first"),
                path("source", "The file to copy"),
                path("target", "The copy"),
            ]
        },
        run: |asked| {
            let way = asked.way(WAYS, |way| way.name)?;
            let [source, target] = ["source", "target"].map(|path| asked.path(path).to_owned());
            let advice = values(ADVICE, asked, "advice").first().copied().unwrap_or_default();
            let space = values(SPACE, asked, "space").first().copied().unwrap_or_default();
            let cold = asked.is("cold");
            Once { what: What { advice, space, cold, ..What::plain(way, 0) }, source, target }.run()
        },
    }),
    make,
};

fn advice(value_name: &'static str, help: &'static str) -> Arg {
    one_of(text("advice", value_name, help), ADVICE.iter().map(|(name, _)| *name))
}

fn space(value_name: &'static str, help: &'static str) -> Arg {
    one_of(text("space", value_name, help), SPACE.iter().map(|(name, _)| *name))
}

fn values<T: Copy>(table: &[(&str, T)], asked: &Asked, option: &str) -> Vec<T> {
    let words = asked.all::<String>(option);
    let value = |word| table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    words.into_iter().filter_map(value).collect()
}

fn make(asked: &Asked) -> Result<Cases, Error> {
    let mut whats = plan(&Choice {
        sizes_bytes: asked.all("size"),
        advice: values(ADVICE, asked, "advice"),
        space: values(SPACE, asked, "space"),
        cold: asked.is("cold"),
        all: asked.is("all"),
    });
    let names = &asked.only;
    if let Some(unknown) = names.iter().find(|name| !whats.iter().any(|what| what.is_called(name)))
    {
        let ways = WAYS.iter().map(|way| way.name).chain(["each of them with @SIZE"]);
        return Err(Error::unknown("case, way or method", unknown, ways));
    }
    whats.retain(|what| names.is_empty() || names.iter().any(|name| what.is_called(name)));
    cases(asked, &whats)
}

/// The cases for `whats`, whose files go into a new directory in `--dir`.
///
/// A small file is tried first: a way that is refused here is left out with a note, once for all
/// sizes. Sizes without room on the disk are left out too. A case asked for by name is not tried
/// first; it is measured, or fails.
fn cases(asked: &Asked, whats: &[What]) -> Result<Cases, Error> {
    let program = asked.program.as_path();
    let files = Rc::new(Files::new(asked.path("dir"))?);
    files.scratch.room_for(TRIAL_BYTES)?;
    let mut all = Cases::default();
    let counts = !asked.is("no-count");
    // Tried once: in a container without ptrace every case would fail for the same reason.
    let traced = if counts { try_counting(program, &files) } else { Ok(()) };
    if let Err(why) = &traced {
        all.notes.push(format!("system calls are not counted: {}", why));
    }
    let counts = counts && traced.is_ok();
    let mut refused: BTreeMap<(&str, bool), bool> = BTreeMap::new();
    let mut too_large: BTreeMap<u64, Option<Error>> = BTreeMap::new();
    for &what in whats {
        let size_bytes = what.size_bytes;
        let no_room = || {
            let room = files.scratch.room_for(size_bytes);
            room.err().inspect(|error| all.notes.push(error.to_string()))
        };
        // Reported once for a size, and not for each of its ways.
        if too_large.entry(size_bytes).or_insert_with(no_room).is_some() {
            continue;
        }
        // A case asked for by name is kept, and its failure reported when it is measured.
        let is_refused = asked.only.is_empty()
            && *refused.entry((what.way.name, what.cold)).or_insert_with(|| {
                let Err(why) = try_out(&files, what) else { return false };
                let cold = if what.cold { "+cold" } else { "" };
                all.notes.push(format!("{}{cold} is left out: {}", what.way, why));
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
    let words = What::plain(&BASELINE, TRIAL_BYTES).words(&source, &target);
    let counted = count::of(program, &words, &source, &target, None);
    files.remove_target();
    counted.map(drop)
}

/// Copies a small file in this process.
fn try_out(files: &Files, what: What) -> Result<(), Error> {
    let source = files.source(TRIAL_BYTES)?.path;
    let tried = Once { what, source, target: files.target() }.run();
    files.remove_target();
    tried.map(drop)
}
