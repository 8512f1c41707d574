//! `gush lab report`: runs as a page to look at.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use gush_lab::model::Run;
use gush_lab::store;
use gush_lab::{report, transfer};
use gush_text::{os_text, quote};

use super::screen;
use super::session::stored_runs;
use crate::console::Console;
use crate::files::takes_text_in_its_directory;

/// Write one HTML page that shows runs: figures with the published ones, history, machines
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "A run is an id, the start of an id, last, or last~1 for the run before. A name with a slash, or that ends \
                  in .json, is a file that gush lab export wrote, and - is standard input.\n\
                  The page opens offline, asks for nothing, and has every raw sample in it."
)]
pub struct ReportArgs {
    /// The runs, or files of runs; all stored runs if none are named
    #[arg(value_name = "RUN|FILE")]
    runs: Vec<String>,
    /// Write the page to PATH, - for standard output [default: $XDG_DATA_HOME/gush/report.html]
    #[arg(long, short = 'o', value_name = "PATH", visible_alias = "output")]
    report: Option<PathBuf>,
    /// The directory of runs [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
}

pub fn run(options: &ReportArgs) -> ExitCode {
    let console = Console::new("gush lab report");
    if let Some(path) = options.report.as_deref().filter(|path| *path != Path::new("-"))
        && let Err(why) = takes_text_in_its_directory(path)
    {
        return console.fail(why);
    }
    let place = || options.report.clone().map_or_else(default_path, Ok);
    let write = |((runs, is_whole), path): ((Vec<Run>, bool), PathBuf)| {
        if path == Path::new("-") {
            return Ok((report::html(&runs), is_whole));
        }
        report::write(&runs, &path).map_err(|error| error.to_string())?;
        Ok((quote::if_needed(&path).to_string(), is_whole))
    };
    let chosen = runs(&console, options).and_then(|runs| Ok((runs, place()?)));
    screen::print(&console, chosen.and_then(write))
}

/// The requested runs, from files and from the store, and whether all could be read.
fn runs(console: &Console, options: &ReportArgs) -> Result<(Vec<Run>, bool), String> {
    let is_file = |word: &String| word == "-" || word.contains('/') || word.ends_with(".json");
    let (files, words): (Vec<String>, Vec<String>) =
        options.runs.iter().cloned().partition(is_file);
    let (mut runs, mut is_whole) = (Vec::new(), true);
    for file in &files {
        let read = match file.as_str() {
            "-" => transfer::parse_from(io::stdin().lock()),
            path => transfer::read(Path::new(path)),
        };
        runs.extend(read.map_err(|error| format!("{file}: {error}"))?);
    }
    if files.is_empty() || !words.is_empty() {
        let stored = stored_runs(console, options.db.as_ref(), &words);
        let (stored, all_stored) = stored.map_err(|error| error.to_string())?;
        runs.extend(stored);
        is_whole = all_stored;
    }
    if runs.is_empty() {
        return Err("no runs yet: gush lab, or gush lab import, makes the first".to_owned());
    }
    Ok((runs, is_whole))
}

/// The default path of a page, in the directory of the store.
pub fn default_path() -> Result<PathBuf, String> {
    let directory = store::data_directory().map_err(|error| error.to_string())?;
    match fs::create_dir_all(&directory) {
        Ok(()) => Ok(directory.join("report.html")),
        Err(error) => Err(format!(
            "cannot make the directory {}: {}; --report PATH puts the page elsewhere",
            directory.display(),
            os_text(&error)
        )),
    }
}
