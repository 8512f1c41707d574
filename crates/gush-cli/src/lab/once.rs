//! `gush lab once`: one measurement in this process, as a line of JSON. Suites start this command, and
//! tracing and profiling see this command too.

use std::ffi::OsString;
use std::io::{self};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gush_lab::model::Measured;
use gush_lab::suite::copy::{self, ADVICE, SPACE, WAYS, Way};
use gush_lab::suite::{memory, pages};
use gush_lab::{Error, count, once};

use super::copy::word;
use super::suite::this_program;
use crate::talk::{Talker, os_text, write_line};

/// Measure once, in this process, and print the figures as JSON
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct Options {
    /// Stay on this processor
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// Be traced by the parent process first
    #[arg(long, hide = true)]
    traced: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Copy(Copy),
    Pages(Pages),
    Memory(Memory),
}

/// Take references to pages, and drop them
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Pages {
    /// Measure this
    #[arg(long, value_name = "NAME", value_parser = |name: &str| named(pages::WAYS, |way| way.name, name))]
    way: &'static pages::Way,
    /// Lend SIZE bytes
    #[arg(long, value_name = "SIZE")]
    bytes: Option<u64>,
}

/// Read, write or copy memory
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Memory {
    /// Measure this
    #[arg(long, value_name = "NAME", value_parser = |name: &str| named(memory::WAYS, |way| way.name, name))]
    way: &'static memory::Way,
    /// Use SIZE bytes of memory
    #[arg(long, value_name = "SIZE")]
    bytes: Option<u64>,
}

/// Copy SOURCE to TARGET, which is overwritten
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Copy {
    /// Copy this way
    #[arg(long, value_name = "NAME", value_parser = |name: &str| named(WAYS, |way| way.name, name))]
    way: &'static Way,
    /// Give this advice before reading
    #[arg(long, value_name = "ADVICE", default_value = "none", value_parser = word(ADVICE))]
    advice: gush::Advice,
    /// Reserve the target's space first, or not
    #[arg(long, value_name = "SPACE", default_value = "as-written", value_parser = word(SPACE))]
    space: gush::Space,
    /// Drop SOURCE from the cache first
    #[arg(long)]
    cold: bool,
    /// The file to copy
    source: PathBuf,
    /// The copy
    target: PathBuf,
}

/// The entry of a table with the name `name`. The error lists all names.
fn named<T>(
    table: &'static [T],
    name_of: fn(&T) -> &'static str,
    name: &str,
) -> Result<&'static T, String> {
    table.iter().find(|entry| name_of(entry) == name).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(name_of).collect();
        format!("there are {}", names.join(", "))
    })
}

pub fn run(options: Options) -> ExitCode {
    let talker = Talker::new("gush lab once");
    match measure(options) {
        Ok(measured) => print(&measured, &talker),
        Err(error) => talker.fail(error.told()),
    }
}

fn measure(options: Options) -> Result<Measured, Error> {
    if options.traced {
        let words: Vec<OsString> =
            std::env::args_os().skip(1).filter(|word| word != "--traced").collect();
        match count::gate::enter(&this_program()?, &words)? {}
    }
    if let Some(processor) = options.cpu {
        once::pin(processor)?;
    }
    match options.what {
        What::Copy(Copy { way, advice, space, cold, source, target }) => {
            copy::Once { way, advice, space, cold, source, target }.run()
        }
        What::Pages(Pages { way, bytes }) => pages::once(way, bytes),
        What::Memory(Memory { way, bytes }) => memory::once(way, bytes),
    }
}

fn print(measured: &Measured, talker: &Talker) -> ExitCode {
    let line = serde_json::to_string(measured).map_err(io::Error::from);
    match line.and_then(|line| write_line(&line)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => talker.fail(format_args!("write error: {}", os_text(&error))),
    }
}
