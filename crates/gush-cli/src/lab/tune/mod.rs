//! `gush tune`: measures whether other methods and sizes than the engine's are faster here.

mod show;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, ValueHint};
use gush_lab::Error;
use gush_lab::tune::{self, TrialDir};

use crate::args;
use crate::talk::Talker;
use show::Screen;

/// Measure whether another method, buffer or pipe than the engine's is faster here
///
/// Moves bytes between files, pipes and sockets by the engine's own choice and by others, and
/// reports those that are surely faster on this machine: options such as --method and --buffer-size
/// of gush cp and cat choose them. Nothing is written, and files made for the measurement have no
/// names.
#[derive(Debug, Parser)]
#[command(name = "tune", version, max_term_width = 100)]
struct TuneArgs {
    /// Measure files in DIR; several DIRs name several file systems [default: here, and shared
    /// memory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Vec<PathBuf>,
    /// Take about N seconds
    #[arg(long, value_name = "N", default_value = "55", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Print the answers as one JSON object
    #[arg(long)]
    json: bool,
}

/// The definition of `gush tune`: the source of help, manual page and completions.
pub fn command() -> clap::Command {
    TuneArgs::command()
}

/// Runs `tune` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    gush_process::restore_sigchld();
    let options: TuneArgs = match args::parse(command(), words, "gush tune") {
        Ok(options) => options,
        Err(status) => return status,
    };
    let talker = Talker::new("gush tune");
    match options.measure(&talker) {
        Ok(status) => status,
        Err(error) => talker.fail(error),
    }
}

impl TuneArgs {
    fn measure(&self, talker: &Talker) -> Result<ExitCode, Error> {
        let here = [PathBuf::from(".")];
        let dirs = TrialDir::all(if self.dir.is_empty() { &here } else { &self.dir })?;
        if let Some(warning) = busy() {
            talker.say(warning);
        }
        let mut screen = Screen::new(talker, self.json);
        let time = Duration::from_secs(self.seconds);
        let answers = tune::measure(&dirs, time, |answer| screen.answer(answer))?;
        Ok(screen.conclude(&answers))
    }
}

/// A warning if other programs were at work, because they spoil the figures.
fn busy() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    (load > 0.5).then(|| {
        format!(
            "other programs were at work during the last minute (load {load}): small differences \
             cannot be seen; better on a quiet machine"
        )
    })
}
