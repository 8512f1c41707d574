//! `gush lab matrix`: every way on every pair of ends.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::Error;
use gush_lab::suite::matrix::{self, Grid, Matrix, Pairs, Plan, Way};

use super::suite::{Common, Suite, this_program};
use crate::size::memory_bytes;

/// Try every method on every pair of ends, for real, and print which ones work here
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    mut_arg("rounds", |arg| arg.default_value("1").help("Try every cell N times, in turn with the others")),
    mut_arg("only", |arg| arg.value_name("METHOD,…").help("Only these methods")),
    after_help = "The columns of --csv: method,source,target,works,errno,gib_per_s. In place of an errno stands \
                  'refused' where a rule of gush's own says no, 'false-end' where a call answers 0 although there \
                  are bytes, or 'wrong', 'hangs', 'died'."
)]
pub struct Options {
    /// Only these pairs: SOURCE:TARGET by their kinds, '*' for any, such as ext4:tcp,pipe:*
    #[arg(long, value_name = "PAIR,…", value_delimiter = ',')]
    pairs: Vec<Pairs>,
    /// Only the table of 2007: five ways on four pairs of files and sockets
    #[arg(long)]
    five_ways: bool,
    /// Time the working ones: GiB/s, user and system seconds
    #[arg(long)]
    speed: bool,
    /// Time with SIZE bytes, instead of 1G for the table of 2007 and 64M for the rest
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes, requires = "speed")]
    bytes: Option<usize>,
    #[command(flatten)]
    common: Common,
    /// Serve attempts as JSON on standard input: this command starts itself so
    #[arg(long, hide = true, exclusive = true)]
    worker: bool,
}

pub fn run(options: &Options) -> ExitCode {
    if options.worker {
        return match matrix::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => Suite::new("matrix", &Grid::default(), &options.common).refuse(&error),
        };
    }
    match cells(options) {
        Ok(Matrix { cases, places }) => {
            Suite::new("matrix", &Grid { places }, &options.common).run_all(cases)
        }
        Err(error) => Suite::new("matrix", &Grid::default(), &options.common).refuse(&error),
    }
}

fn cells(options: &Options) -> Result<Matrix, Error> {
    let ways: Result<Vec<Way>, _> = options.common.only.iter().map(|name| name.parse()).collect();
    let plan = Plan {
        ways: ways.map_err(|error: matrix::UnknownWay| Error::refused(error.to_string()))?,
        pairs: options.pairs.clone(),
        only_s4: options.five_ways,
        speed: options.speed,
        bytes: options.bytes.map(|bytes| bytes as u64),
    };
    let matrix = matrix::cases(&this_program()?, &plan)?;
    if matrix.cases.is_empty() {
        let missing = matrix.places.iter().find(|place| place.dir.is_none());
        let why =
            missing.map_or(String::new(), |place| format!(": no {}: {}", place.kind, place.how));
        return Err(Error::refused(format!(
            "--only, --pairs and --five-ways leave no cell to be tried{why}"
        )));
    }
    Ok(matrix)
}
