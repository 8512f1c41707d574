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
    for run in &runs {
        let is_new = store.insert(run).inspect_err(|_| {
            if taken.new > 0 {
                console.say(format_args!("{} earlier runs were taken", taken.new));
            }
        })?;
        if is_new {
            taken.new += 1;
        } else {
            taken.known += 1;
        }
    }
    Ok(taken)
}
