//! `gush lab import`: adds another machine's runs to the store.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use gush_lab::store::Store;
use gush_lab::transfer;
use gush_text::quote;

use super::session::path_of;
use crate::console::Console;

/// Take the runs of an export, so that machines can be compared; runs already present stay
/// untouched
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct ImportArgs {
    /// The output of gush lab export on the other machine; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The directory of runs [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
}

pub fn run(options: &ImportArgs) -> ExitCode {
    let console = Console::new("gush lab import");
    let store = match path_of(options.db.as_ref()).and_then(|path| Store::open(&path)) {
        Ok(store) => store,
        Err(error) => return console.fail(error),
    };
    let mut status = ExitCode::SUCCESS;
    for file in &options.files {
        match take(file, &store, &console) {
            Ok(Taken { new, known }) => console.say(format_args!(
                "{}: {new} new runs, {known} already present",
                quote::if_needed(file)
            )),
            Err(error) => {
                // The other files are taken all the same.
                status = console.fail(format_args!("{}: {error}", quote::if_needed(file)));
            }
        }
    }
    status
}

struct Taken {
    new: usize,
    known: usize,
}

fn take(
    file: &Path,
    store: &Store,
    console: &Console,
) -> Result<Taken, Box<dyn std::error::Error>> {
    let runs = if file == Path::new("-") {
        transfer::parse_from(io::stdin().lock())?
    } else {
        transfer::read(file)?
    };
    let mut taken = Taken { new: 0, known: 0 };
    let mut failed = None;
    for run in &runs {
        match store.insert(run) {
            Ok(true) => taken.new += 1,
            Ok(false) => taken.known += 1,
            // A damaged file in the store concerns no other run.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let Some(error) = failed else { return Ok(taken) };
    if taken.new > 0 {
        console.say(format_args!("{} other runs were taken", taken.new));
    }
    Err(error.into())
}
