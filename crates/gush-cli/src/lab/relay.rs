//! `gush lab relay`: each method of gush link.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::suite::relay;

use super::suite::{Common, Suite, this_program};
use crate::size::some_bytes;

/// Relays through loopback by each method of gush link: one connection, and many at once
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "The columns of --csv: \
        case,method,connections,round,gib_per_s,wall_s,user_s,system_s,cpu_s_per_gib,bytes"
)]
pub struct Options {
    /// Relay SIZE bytes in every case, instead of 4 GiB
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    bytes: Option<u64>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: &Options) -> ExitCode {
    let suite = Suite::new("relay", &relay::Relays, &options.common);
    match this_program() {
        Ok(program) => suite.run(relay::cases(&program, options.bytes)),
        Err(error) => suite.refuse(&error),
    }
}
