//! `gush lab pages`: the cost of lending pages.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::suite::pages::{self, Costs};

use super::suite::{Common, Suite, this_program};
use crate::size::memory_bytes;
use crate::talk::Talker;

/// The cost of lending memory to the kernel: vmsplice of touched and untouched, small and huge pages
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "The columns of --csv:\n\
                  case,memory,page_bytes,round,gib_per_s,ns_per_page,drop_ns_per_page,bytes\n\n\
                  Costs are of every 4 KiB, with huge pages too."
)]
pub struct Options {
    /// Lend SIZE bytes in every case, in fields of 64M, instead of 2G
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    bytes: Option<usize>,
    #[command(flatten)]
    common: Common,
}

pub fn run(options: &Options) -> ExitCode {
    let suite = Suite::new("pages", &Costs, &options.common);
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return suite.refuse(&error),
    };
    let bytes = options.bytes.map(|bytes| bytes as u64);
    let (cases, notes) = pages::cases(&program, bytes, &options.common.only);
    let talker = Talker::new("gush lab pages");
    for note in notes {
        talker.say(note);
    }
    suite.run(cases)
}
