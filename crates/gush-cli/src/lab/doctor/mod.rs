//! `gush doctor`: the abilities of this kernel, this process and these paths.

mod text;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use gush_lab::probe::Probe;
use gush_lab::probe::doctor::examine;

use crate::args;
use crate::console::{Console, write_out};
use crate::pv::pipeline;

/// Say what this kernel, this process and these paths allow: fact, consequence, remedy
#[derive(Debug, Parser)]
#[command(
    name = "doctor",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    after_help = "Every ability is tested by use. Nothing is written into existing files, and nothing remains \
                  afterwards. The exit status is 1 if a PATH can neither be read nor written."
)]
struct Doctor {
    /// Look at these directories or files too, and at copying between each two of them; without
    /// any, at the current directory. A path named like a command is written ./pipeline
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print JSON: schema, kernel, machine, findings, paths, pairs
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<DoctorCommand>,
}

#[derive(Debug, Subcommand)]
enum DoctorCommand {
    /// Show which stage of a running pipeline holds the others up, as gush pv --pipeline PID --once
    Pipeline {
        /// The process of any stage, or a process group as -PGID
        #[arg(value_name = "PID", allow_hyphen_values = true)]
        pid: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The definition of `gush doctor`: the source of help, manual page and completions.
pub fn command() -> clap::Command {
    Doctor::command()
}

/// Runs `doctor` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    gush_process::restore_sigchld();
    let Doctor { paths, json, command } =
        match args::parse::<Doctor>(command(), words, "gush doctor") {
            Ok(doctor) => doctor,
            Err(status) => return status,
        };
    let console = Console::new("gush doctor");
    if let Some(DoctorCommand::Pipeline { pid, json }) = command {
        return pipeline::look_once(&pid, json, &console);
    }
    let asked = !paths.is_empty();
    let paths = if asked { paths } else { vec![PathBuf::from(".")] };
    let examination = examine(&Probe::take(), &paths);
    let shown = match json {
        true => serde_json::to_string_pretty(&examination).map_err(io::Error::from),
        false => Ok(text::of(&examination, columns())),
    };
    let printed = shown.and_then(|shown| write_out(format!("{}\n", shown.trim_end()).as_bytes()));
    match printed {
        Err(error) => console.fail_output(&error),
        Ok(()) if asked && examination.paths.iter().any(|path| !path.usable) => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// The width of the terminal at standard output; elsewhere as much as is easily read.
fn columns() -> usize {
    match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => text::MOST_COLUMNS,
    }
}
