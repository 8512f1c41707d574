//! `gush lab pipe`: the ladder of the pipe speed test.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::suite::pipe;

use super::suite::{Common, Suite, this_program};
use crate::size::some_bytes;

/// The pipe speed test, rung by rung: gush pipe write and read, pinned, in rounds
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "The columns of --csv: case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound"
)]
pub struct Options {
    /// Move SIZE bytes in every case, instead of as many as take up to a second or so
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    bytes: Option<u64>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: &Options) -> ExitCode {
    let suite = Suite::new("pipe", &pipe::Ladder, &options.common);
    match this_program() {
        Ok(program) => suite.run(pipe::cases(&program, options.bytes)),
        Err(error) => suite.refuse(&error),
    }
}
