//! `gush pipe`: the two programs of the pipe speed test.

mod read;
mod write;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use gush_lab::pipe::{ReadOptions, WriteOptions};

use crate::args;

/// Measure a pipe: one program writes, another reads
#[derive(Debug, Parser)]
#[command(
    name = "pipe",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
                  gush pipe write | gush pipe read\n  \
                  gush pipe write --vmsplice --huge-page --busy-loop |\n      \
                      gush pipe read --splice --busy-loop\n  \
                  gush pipe write --technique fresh --pattern counter |\n      \
                      gush pipe read --hold --pattern counter"
)]
struct Pipe {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Write(WriteOptions),
    Read(ReadOptions),
}

/// The one definition of `gush pipe`: the source of help, manual page and completions.
pub fn command() -> clap::Command {
    Pipe::command()
}

/// Runs `pipe` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match args::parse::<Pipe>(command(), words, "gush pipe") {
        Ok(Pipe { side: Side::Write(options) }) => write::run(&options),
        Ok(Pipe { side: Side::Read(options) }) => read::run(&options),
        Err(status) => status,
    }
}
