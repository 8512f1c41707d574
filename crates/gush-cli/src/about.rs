//! Help, version, manual pages and shell completions of `gush`, all from the definitions of the commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use rustix::io::Errno;

use crate::talk::Talker;
use crate::{args, cat, cp, doctor, lab, link, pipe, pv, tee, tune, yes};

#[derive(Parser)]
#[command(
    name = "gush",
    version,
    about = "Moves bytes between any two file descriptors by the fastest way that is sound on this kernel",
    max_term_width = 100
)]
struct Gush {
    #[command(subcommand)]
    page: Page,
}

#[derive(Subcommand)]
enum Page {
    /// Write the manual pages into DIR, or gush(1) to standard output
    #[command(display_order = 1000)]
    Man { dir: Option<PathBuf> },
    /// Print completions for SHELL, which reads them at its start
    #[command(display_order = 1001)]
    Completions { shell: Shell },
}

/// All commands, each by its one definition.
fn everything() -> clap::Command {
    Gush::command().subcommands([
        cp::command("gush cp"),
        cat::command(),
        pv::command(),
        tee::command(),
        yes::command(),
        pipe::command(),
        lab::command(),
        tune::command(),
        doctor::command(),
        link::command(),
    ])
}

/// For manual pages: `gush help` has none.
fn documented() -> clap::Command {
    everything().disable_help_subcommand(true)
}

/// Answers `gush help`, `--help`, `--version`, `man` and `completions`, and explains a wrong command.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let talker = Talker::new("gush");
    if words.is_empty() {
        talker.print(everything().render_help());
        return ExitCode::FAILURE;
    }
    let page: Gush = match args::parse(everything(), words.into_iter(), "gush") {
        Ok(page) => page,
        Err(status) => return status,
    };
    let mut text = Vec::new();
    let talker = Talker::new(match page.page {
        Page::Man { .. } => "gush man",
        Page::Completions { .. } => "gush completions",
    });
    match page.page {
        Page::Man { dir: Some(dir) } => {
            let made = match dir.metadata() {
                Ok(present) if !present.is_dir() => Err(Errno::NOTDIR.into()),
                _ => std::fs::create_dir_all(&dir),
            };
            return match made.and_then(|()| clap_mangen::generate_to(documented(), &dir)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    talker.say_failed(&dir, "cannot write the manual pages", &error);
                    ExitCode::FAILURE
                }
            };
        }
        Page::Man { dir: None } => {
            if let Err(error) = clap_mangen::Man::new(documented()).render(&mut text) {
                return talker.fail(format_args!("write error: {}", crate::talk::os_text(&error)));
            }
        }
        Page::Completions { shell } => {
            clap_complete::generate(shell, &mut everything(), "gush", &mut text);
        }
    }
    talker.page(&text)
}
