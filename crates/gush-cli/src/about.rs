//! Help, version, manual pages and shell completions of `gush`, all from the definitions of the commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use rustix::io::Errno;

use crate::talk::Talker;
use crate::{args, cat, cp, pv, tee, yes};
#[cfg(feature = "lab")]
use crate::{doctor, lab, pipe, tune};

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

/// All commands, each by its one definition.
fn everything() -> clap::Command {
    let all = Gush::command().subcommands([
        cp::command("gush cp"),
        cat::command(),
        pv::command(),
        tee::command(),
        yes::command(),
    ]);
    #[cfg(feature = "lab")]
    let all =
        all.subcommands([pipe::command(), lab::command(), tune::command(), doctor::command()]);
    #[cfg(feature = "link")]
    let all = all.subcommand(crate::link::command());
    let left_out: Vec<&str> =
        BY_FEATURE.iter().filter(|(.., built)| !built).map(|&(name, ..)| name).collect();
    match left_out.join(", ") {
        names if names.is_empty() => all,
        names => all.after_help(format!("Not in this build: {names}. {WHOLE}")),
    }
}

/// How to get every command.
const WHOLE: &str = "cargo build --release --features full builds every command.";

/// The commands that a feature of the build brings, each with this feature.
const BY_FEATURE: [(&str, &str, bool); 5] = [
    ("lab", "lab", cfg!(feature = "lab")),
    ("pipe", "lab", cfg!(feature = "lab")),
    ("tune", "lab", cfg!(feature = "lab")),
    ("doctor", "lab", cfg!(feature = "lab")),
    ("link", "link", cfg!(feature = "link")),
];

/// Was the program built without the command `name`?
pub fn is_left_out(name: &str) -> bool {
    BY_FEATURE.iter().any(|&(command, _, built)| command == name && !built)
}

/// Says that the program was built without the command `name`, and how to get it.
pub fn left_out(name: &str) -> ExitCode {
    let feature = BY_FEATURE.iter().find(|(command, ..)| *command == name);
    Talker::new("gush").fail(why_left_out(feature.map_or(name, |&(_, feature, _)| feature)))
}

/// How to get the commands of `feature`.
pub fn why_left_out(feature: &str) -> String {
    format!("built without the feature '{feature}'. {WHOLE}")
}

/// For manual pages: `gush help` has none.
fn documented() -> clap::Command {
    paragraphed(everything().disable_help_subcommand(true))
}

/// Each line behind the options begins a paragraph, since roff joins lines; those of a table begin with a blank.
fn paragraphed(command: clap::Command) -> clap::Command {
    let Some(text) = command.get_after_help().map(ToString::to_string) else {
        return command.mut_subcommands(paragraphed);
    };
    let mut pages = String::new();
    for line in text.lines() {
        if !line.is_empty()
            && !line.starts_with(' ')
            && !pages.is_empty()
            && !pages.ends_with("\n\n")
        {
            pages.push('\n');
        }
        pages.push_str(line);
        pages.push('\n');
    }
    command.after_help(pages).mut_subcommands(paragraphed)
}

/// Answers `gush help`, `--help`, `--version` and `generate`, and explains a wrong command.
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
    let Page::Generate(page) = page.page;
    let mut text = Vec::new();
    let talker = Talker::new(match page {
        Generate::Man { .. } => "gush generate man",
        Generate::Completions { .. } => "gush generate completions",
    });
    match page {
        Generate::Man { dir: Some(dir) } => {
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
        Generate::Man { dir: None } => {
            if let Err(error) = clap_mangen::Man::new(documented()).render(&mut text) {
                return talker.fail(format_args!("write error: {}", crate::talk::os_text(&error)));
            }
        }
        Generate::Completions { shell } => {
            clap_complete::generate(shell, &mut everything(), "gush", &mut text);
        }
    }
    talker.page(&text)
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
    fn a_page_joins_no_paragraphs_and_has_no_option_in_a_heading() {
        let dir = tempfile::tempdir().expect("directory");
        clap_mangen::generate_to(documented(), &dir).expect("pages");
        for page in std::fs::read_dir(&dir).expect("pages") {
            let path = page.expect("page").path();
            let text = std::fs::read_to_string(&path).expect("text");
            for heading in text.lines().filter(|line| line.starts_with(".SH")) {
                // In capitals an option would be another one.
                let plain = heading.replace('\\', "");
                assert!(
                    !plain.contains(" -") && !plain.contains("(-"),
                    "{}: {heading}",
                    path.display()
                );
            }
            let extra = text.split_once(".SH EXTRA").map_or("", |(_, extra)| extra);
            let lines: Vec<&str> =
                extra.lines().take_while(|line| *line != ".SH VERSION").collect();
            for pair in lines.windows(2) {
                let joined = pair.iter().all(|line| !line.is_empty() && !line.starts_with('.'));
                assert!(!joined || pair[1].starts_with(' '), "{}: {pair:?}", path.display());
            }
        }
    }

    #[test]
    fn every_option_and_operand_of_every_command_is_described() {
        assert_eq!(without_help(&everything(), "gush"), Vec::<String>::new());
    }
}
