//! What `gush` says about itself: help, version, manual pages and shell completions, all from the commands' own definitions.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::talk::Talker;
use crate::{args, cat, cp, doctor, lab, link, pipe, tune};

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
    #[command(hide = true)]
    Man { dir: Option<PathBuf> },
    /// Print completions for SHELL
    #[command(hide = true)]
    Completions { shell: Shell },
}

/// Every command under its one definition.
fn everything() -> clap::Command {
    Gush::command().subcommands([
        cp::command(),
        cat::command(),
        pipe::command(),
        lab::command(),
        tune::command(),
        doctor::command(),
        link::command(),
    ])
}

/// Answers `gush help`, `--help`, `--version`, `man` and `completions`, and explains what it was called with otherwise.
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
    let written = match page.page {
        Page::Man { dir: Some(dir) } => clap_mangen::generate_to(everything(), dir),
        Page::Man { dir: None } => print(|out| clap_mangen::Man::new(everything()).render(out)),
        Page::Completions { shell } => print(|out| {
            clap_complete::generate(shell, &mut everything(), "gush", out);
            Ok(())
        }),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => talker.fail(format_args!("write error: {}", crate::talk::os_text(&error))),
    }
}

fn print(fill: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let mut page = Vec::new();
    fill(&mut page)?;
    io::stdout().lock().write_all(&page)?;
    io::stdout().lock().flush()
}
