//! `gush lab memory`: the physical limit.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::suite::memory::{self, Bandwidths};

use super::suite::{Common, Suite, this_program};
use crate::size::memory_bytes;

/// How fast one processor, and all of them, read, write and copy memory: the limit of every copy
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "The columns of --csv: case,operation,processors,round,gib_per_s,bytes"
)]
pub struct Options {
    /// Use SIZE bytes of memory in all, instead of far more than the caches hold
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    bytes: Option<usize>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: &Options) -> ExitCode {
    let suite = Suite::new("memory", &Bandwidths, &options.common);
    match this_program() {
        Ok(program) => suite.run(memory::cases(&program, options.bytes.map(|bytes| bytes as u64))),
        Err(error) => suite.refuse(&error),
    }
}
