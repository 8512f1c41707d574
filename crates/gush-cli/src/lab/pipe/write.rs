//! `gush pipe write`.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::Error;
use gush_lab::pipe::{BUFFER_BYTES, Technique, WriteOptions, without_huge_pages, write};
use gush_text::size_bytes;
use nix::sys::resource::{UsageWho, getrusage};

use super::shared::{Shared, named};
use crate::talk::Talker;

/// Write into the pipe on standard output until its reader is gone
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct WriteArgs {
    #[command(flatten)]
    shared: Shared,
    /// Write by NAME: write, vmsplice (unsound, to show the fault), fresh, socket, reservoir
    #[arg(long, value_name = "NAME", value_parser = named::<Technique>(), hide_possible_values = true)]
    technique: Option<Technique>,
    /// Same as --technique vmsplice
    #[arg(long)]
    vmsplice: bool,
    /// Give the pages away as far as the kernel knows (SPLICE_F_GIFT)
    #[arg(long)]
    gift: bool,
    /// One buffer in two halves instead of two buffers (with vmsplice)
    #[arg(long)]
    same_buffer: bool,
    /// Have pages of the usual size alone, also for --technique fresh
    #[arg(long, conflicts_with_all = ["huge_page", "check_huge_page"])]
    no_huge_page: bool,
    /// End after SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    bytes: Option<u64>,
    /// Tell failures only: the reader prints the figures
    #[arg(long)]
    csv: bool,
}

impl WriteArgs {
    fn resolve(&self) -> Result<WriteOptions, Error> {
        let technique = match (self.technique, self.vmsplice) {
            (Some(technique), true) if technique != Technique::Vmsplice => {
                return Err(Error::Refused(format!(
                    "--vmsplice and --technique {technique} are two ways of writing: leave one out"
                )));
            }
            (_, true) => Technique::Vmsplice,
            (technique, false) => technique.unwrap_or_default(),
        };
        let options = WriteOptions {
            technique,
            buffer_bytes: self.shared.buffer_size.unwrap_or(BUFFER_BYTES),
            pipe_bytes: self.shared.pipe_size,
            bytes: self.bytes,
            gift: self.gift,
            same_buffer: self.same_buffer,
            memory: self.shared.memory(),
            waiting: self.shared.waiting()?.unwrap_or_else(|| {
                technique.usual_waiting(gush_lab::affinity::allowed().map_or(1, |all| all.len()))
            }),
            pattern: self.shared.pattern,
        };
        options.check()?;
        Ok(options)
    }
}

pub fn run(options: &WriteArgs) -> ExitCode {
    let talker = Talker::new("gush pipe write");
    match run_or_fail(options, &talker) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => talker.fail(error),
    }
}

fn run_or_fail(options: &WriteArgs, talker: &Talker) -> Result<(), Error> {
    let resolved = options.resolve()?;
    if gush_process::was_closed(1) {
        return Err(Error::Refused(
            "standard output is closed: connect the two, gush pipe write | gush pipe read"
                .to_owned(),
        ));
    }
    options.shared.pin()?;
    if options.no_huge_page {
        without_huge_pages()?;
    }
    if options.shared.verbose {
        talker.say(format_args!("{resolved:?}"));
    }
    let silent = options.shared.quiet || options.csv;
    let mut say = |note: &str| {
        if !silent {
            talker.say(note);
        }
    };
    let faults_before = page_faults();
    let bytes = write(&resolved, &rustix::stdio::stdout(), &mut say)?;
    if options.shared.verbose {
        let faults = page_faults() - faults_before;
        talker.say(format_args!("{bytes} bytes written, {faults} page faults"));
    }
    Ok(())
}

fn page_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.minor_page_faults())
}
