//! `gush lab copy`: every way to copy a file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gush_lab::Error;
use gush_lab::suite::copy::{self, ADVICE, Choice, Copies, SPACE, WAYS, What};

use super::suite::{Common, Suite, this_program};
use crate::size::memory_bytes;
use crate::talk::Talker;

/// Copy files in every way, cached and uncached, and count the system calls
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "gush lab copy --size 512M --dir /data\n\
                  gush lab copy --only read-write,uring --sizes 1M,64M --space as-written,reserve\n\n\
                  --only takes cases, ways (read-write-4096) and methods (read-write).\n\
                  The columns of --csv: case,method,buffer_bytes,size_bytes,round,wall_s,user_s,system_s,\
                  gib_per_s,syscalls"
)]
pub struct Options {
    /// Copy files of these sizes, instead of 4K,64K,1M,16M,256M
    #[arg(long, visible_alias = "sizes", value_name = "SIZE,…", value_delimiter = ',', value_parser = memory_bytes)]
    size: Vec<usize>,
    /// Make the files in DIR, on the file system to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Also measure everything with the source dropped from the cache
    #[arg(long)]
    cold: bool,
    /// Give this advice before reading (posix_fadvise)
    #[arg(long, value_name = "ADVICE,…", value_delimiter = ',', value_parser = word(ADVICE))]
    advice: Vec<gush::Advice>,
    /// Reserve the target's space first (fallocate), or not
    #[arg(long, value_name = "SPACE,…", value_delimiter = ',', value_parser = word(SPACE))]
    space: Vec<gush::Space>,
    /// Do not count system calls
    #[arg(long)]
    no_count: bool,
    /// All sizes from 4K to 1G, and everything out of the cache, too: takes an hour or so
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: Common,
}

/// A parser of the words in a table, which yields the value beside the word.
pub fn word<T: Copy + Send + Sync + 'static>(
    table: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(table.iter().map(|(name, _)| *name)).map(move |text| {
        let found = table.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).expect("clap lets only these pass")
    })
}

pub fn run(options: &Options) -> ExitCode {
    let suite = Suite::new("copy", &Copies, &options.common);
    let named = !options.common.only.is_empty();
    let made = asked_for(options).and_then(|whats| {
        copy::cases(&this_program()?, &options.dir, &whats, named, !options.no_count)
    });
    match made {
        Ok(cases) => {
            let talker = Talker::new("gush lab copy");
            for note in &cases.notes {
                talker.say(note);
            }
            suite.run_all(cases.cases)
        }
        Err(error) => suite.refuse(&error),
    }
}

/// The plan, reduced to the names of `--only`.
fn asked_for(options: &Options) -> Result<Vec<What>, Error> {
    let mut whats = copy::plan(&Choice {
        sizes_bytes: options.size.iter().map(|&bytes| bytes as u64).collect(),
        advice: options.advice.clone(),
        space: options.space.clone(),
        cold: options.cold,
        all: options.all,
    });
    let names = &options.common.only;
    if let Some(unknown) = names.iter().find(|name| !whats.iter().any(|what| what.is_called(name)))
    {
        let ways: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        return Err(Error::refused(format!(
            "no case, way or method is called '{unknown}'; there are {}, each also with @SIZE",
            ways.join(", ")
        )));
    }
    whats.retain(|what| names.is_empty() || names.iter().any(|name| what.is_called(name)));
    Ok(whats)
}
