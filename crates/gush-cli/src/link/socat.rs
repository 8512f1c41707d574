//! `gush socat`, and gush by the name `socat`: a command line of socat, translated and run.

use std::ffi::OsString;
use std::fs::File;
use std::process::ExitCode;

use clap::{Arg, Command};
use gush_link::open::SOCAT_VERSION;
use gush_text::{in_brackets, os_text, quote};

use super::from_socat::{self, Report, Translation};
use crate::console::{Console, remedy_to_store};

const NAME: &str = "gush socat";

/// The definition of `gush socat`, for help, manual page and completions.
pub fn command() -> clap::Command {
    let words = Arg::new("ARGS")
        .help("The switches and the two addresses, as for socat(1)")
        .num_args(1..)
        .required(true)
        .allow_hyphen_values(true)
        .trailing_var_arg(true);
    let about =
        "Run a command line of socat by gush link, or report the parts without an equivalent";
    Command::new("socat").about(about).max_term_width(100).arg(words).after_help(AFTER_HELP)
}

const AFTER_HELP: &str = "\
gush link --from-socat ARGS prints the command line that is run. What cannot be done in the same way is \
refused; differences that neither lose nor change data are reported with -d -d.";

/// Runs `socat` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let console = Console::new(NAME);
    let words: Result<Vec<String>, OsString> = words.map(OsString::into_string).collect();
    let words = match words {
        Ok(words) => words,
        Err(word) => {
            let name = quote::if_needed(word.as_ref());
            return console
                .fail(format_args!("{name}: an argument that is not UTF-8 cannot be translated"));
        }
    };
    // Not by clap, for which the switches of socat are unknown options.
    match words.first().map(String::as_str) {
        Some("-h" | "-hh" | "-hhh" | "-?" | "-??" | "-???" | "--help") => {
            return console.page(command().bin_name(NAME).render_help().to_string().as_bytes());
        }
        // Scripts look whether it succeeds, and for the number.
        Some("-V") => {
            let version = format!(
                "gush {}, which takes the command line of\nsocat version {SOCAT_VERSION}\n",
                env!("CARGO_PKG_VERSION")
            );
            return console.page(version.as_bytes());
        }
        _ => {}
    }
    let mut report = Report::default();
    let translation = from_socat::translated(words, &mut report);
    let Some(Translation { mut words, log_file, lingers }) =
        translation.filter(|_| report.is_whole())
    else {
        return report.refused(&console);
    };
    if let Some(path) = log_file {
        let opened = File::options().create(true).append(true).open(&path);
        if let Err(error) = opened.and_then(|file| Ok(rustix::stdio::dup2_stderr(&file)?)) {
            let remedy = in_brackets(remedy_to_store(path.as_ref(), &error).as_deref());
            let name = quote::if_needed(path.as_ref());
            return console.fail(format_args!("{name}: open: {}{remedy}", os_text(&error)));
        }
    }
    if words.iter().any(|word| word == "--log") {
        report.notes(&console);
    }
    if !lingers {
        words.splice(..0, ["-t", "0.5"].map(str::to_owned));
    }
    let format = match words.iter().position(|word| word == "--log-format") {
        Some(at) => {
            words.drain(at..at + 2);
            "socat-precise"
        }
        None => "socat",
    };
    let words = ["--speak-for", NAME, "--log-format", format]
        .into_iter()
        .map(OsString::from)
        .chain(words.into_iter().map(OsString::from));
    super::run(words)
}
