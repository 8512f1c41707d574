//! Help, version, manual pages and shell completions of `gush`, all from the definitions of the
//! commands.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use gush_text::{Doing, in_brackets, os_text, quote};
use rustix::io::Errno;

use crate::console::{Console, remedy};
use crate::{args, cat, completions, cp, manual, pv, serve_tree, tee, yes};

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
    /// Write manual pages or completions, made from the definitions of the commands
    #[command(subcommand, display_order = 1000)]
    Generate(Generate),
}

#[derive(Subcommand)]
enum Generate {
    /// Write the manual page of every command into DIR, or gush(1) to standard output
    Man {
        /// The directory of the pages, made where it is missing
        dir: Option<PathBuf>,
    },
    /// Print completions for SHELL, which reads them at its start
    Completions {
        /// The shell: bash, elvish, fish, powershell or zsh
        #[arg(hide_possible_values = true)]
        shell: Shell,
    },
}

/// All commands, each from its single definition.
fn everything() -> clap::Command {
    let all = Gush::command().subcommands([
        cp::command("gush cp"),
        cat::command(),
        pv::command(),
        tee::command(),
        yes::command(),
        serve_tree::command(),
    ]);
    let (built, left_out): (Vec<&Optional>, Vec<&Optional>) =
        OPTIONAL.iter().partition(|command| command.built.is_some());
    let built = built.into_iter().filter_map(|command| command.built.as_ref());
    let all = all.subcommands(built.map(|built| (built.definition)()));
    let left_out: Vec<&str> = left_out.into_iter().map(|command| command.name).collect();
    match left_out.join(", ") {
        names if names.is_empty() => all,
        names => all.after_help(format!("Not in this build: {names}. {WHOLE}")),
    }
}

/// How to get every command.
const WHOLE: &str = "cargo build --release --features full builds every command.";

/// A command that depends on a feature of the build.
pub struct Optional {
    name: &'static str,
    feature: &'static str,
    /// `None` in a program without the feature.
    built: Option<Built>,
}

struct Built {
    definition: fn() -> clap::Command,
    run: fn(Vec<OsString>) -> ExitCode,
}

/// The one place that asks which features the program has, besides the `mod` lines of `main.rs`.
macro_rules! optional {
    ($($feature:literal $name:literal $($module:ident)::+;)+) => {
        &[$(Optional {
            name: $name,
            feature: $feature,
            #[cfg(feature = $feature)]
            built: Some(Built {
                definition: crate::$($module)::+::command,
                run: |words| crate::$($module)::+::run(words.into_iter()),
            }),
            #[cfg(not(feature = $feature))]
            built: None,
        }),+]
    };
}

const OPTIONAL: &[Optional] = optional! {
    "lab" "pipe" lab::pipe;
    "lab" "lab" lab;
    "lab" "tune" lab::tune;
    "lab" "doctor" lab::doctor;
    "link" "link" link;
    "link" "socat" link::socat;
};

/// The command `name`, if it depends on a feature.
pub fn optional(name: &str) -> Option<&'static Optional> {
    OPTIONAL.iter().find(|command| command.name == name)
}

impl Optional {
    /// Runs the command, or says how to get a program that has it.
    pub fn run(&self, words: Vec<OsString>) -> ExitCode {
        match &self.built {
            Some(built) => (built.run)(words),
            None => Console::new("gush").fail(why_left_out(self.feature)),
        }
    }
}

/// How to get the commands of `feature`.
pub fn why_left_out(feature: &str) -> String {
    format!("built without the feature '{feature}'. {WHOLE}")
}

/// Answers `gush help`, `--help`, `--version` and `generate`, and explains a wrong command.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let console = Console::new("gush");
    if words.is_empty() {
        console.print(everything().render_help());
        return ExitCode::FAILURE;
    }
    let page: Gush = match args::parse(everything(), words.into_iter(), "gush") {
        Ok(page) => page,
        Err(status) => return status,
    };
    let Page::Generate(page) = page.page;
    let console = Console::new(match page {
        Generate::Man { .. } => "gush generate man",
        Generate::Completions { .. } => "gush generate completions",
    });
    let text = match page {
        Generate::Man { dir: Some(dir) } => {
            let made = match dir.metadata() {
                Ok(present) if !present.is_dir() => Err(Errno::NOTDIR.into()),
                _ => fs::create_dir_all(&dir),
            };
            let mut pages = manual::pages(everything()).into_iter();
            let written = made
                .and_then(|()| pages.try_for_each(|(name, page)| fs::write(dir.join(name), page)));
            return match written {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let remedy = in_brackets(remedy(&dir, Doing::Making, &error));
                    let (name, why) = (quote::if_needed(&dir), os_text(&error));
                    console
                        .say(format_args!("{name}: cannot write the manual pages: {why}{remedy}"));
                    ExitCode::FAILURE
                }
            };
        }
        Generate::Man { dir: None } => {
            let pages = manual::pages(everything());
            pages.into_iter().next_back().map(|(_, page)| page).unwrap_or_default()
        }
        Generate::Completions { shell } => completions::script(shell, everything(), "gush"),
    };
    console.page(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_help(command: &clap::Command, path: &str) -> Vec<String> {
        let of_this = command.get_arguments().filter(|arg| {
            !arg.is_hide_set() && arg.get_help().is_none_or(|help| help.to_string().is_empty())
        });
        let own = of_this.map(|arg| format!("{path}: {}", arg.get_id()));
        let parts = command.get_subcommands().filter(|part| !part.is_hide_set());
        own.chain(parts.flat_map(|part| without_help(part, &format!("{path} {}", part.get_name()))))
            .collect()
    }

    #[test]
    fn a_page_has_no_option_in_a_heading() {
        for (name, text) in manual::pages(everything()) {
            for heading in text.lines().filter(|line| line.starts_with(".SH")) {
                // In capitals an option would be another one.
                let plain = heading.replace('\\', "");
                assert!(!plain.contains(" -") && !plain.contains("(-"), "{name}: {heading}");
            }
        }
    }

    #[test]
    fn every_option_and_operand_of_every_command_is_described() {
        assert_eq!(without_help(&everything(), "gush"), Vec::<String>::new());
    }
}
