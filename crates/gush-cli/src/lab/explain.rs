//! `gush lab explain`: where the time of a case goes.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueHint};
use gush_lab::Error;
use gush_lab::explain::{self, Share, Stacks};
use gush_lab::model::{Attachment, Run};
use gush_lab::runner::interrupt;
use gush_lab::suite::{self, SUITES};
use gush_lab::{report, transfer};
use gush_text::{quote, wrapped};
use serde_json::{Value, json};

use super::screen::Screen;
use super::session::{self, Keep};
use super::suites::this_program;
use crate::console::Console;
use crate::files::takes_text_in_its_directory;

/// The functions named about a subject, and the levels of a call path: a screen of text.
const FUNCTIONS: usize = 4;
const DEPTH: usize = 8;
const SENTENCE_COLUMNS: usize = 82;

/// Where a case's time goes: a kernel profile, in words, figures and a picture
///
/// Runs one case of a suite under perf, which records the measurement alone and no preparation;
/// sums up the functions of the kernel that were at work, and says which subjects they belong to.
/// perf and the permission to profile the kernel are needed; without them the command reports the
/// remedy.
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct ExplainArgs {
    /// The case, as its suite names it, such as pipe:write-read or pipe:huge-splice-busy
    #[arg(value_name = "SUITE:CASE", value_parser = Named::read)]
    case: Named,
    /// Draw a flame graph into PATH: an SVG, for a browser
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    flame: Option<PathBuf>,
    /// Write a report with the flame graph to PATH
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,
    /// Print the account as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
    /// Options of the suite, after --, such as -- --bytes 256M, or -- --dir DIR
    #[arg(value_name = "OPTION", last = true)]
    options: Vec<String>,
}

/// A case by the names of its suite and of the case.
#[derive(Debug, Clone)]
struct Named {
    suite: String,
    case: String,
}

impl Named {
    fn read(text: &str) -> Result<Self, String> {
        let is_word = |word: &str| {
            // A word with a hyphen first would be an option of the command that is recorded.
            word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.chars().all(|c| c.is_ascii_graphic())
        };
        match text.split_once(':') {
            Some((suite, case)) if is_word(suite) && is_word(case) => {
                if suite::named(suite).is_none() {
                    let names = SUITES.iter().map(|suite| suite.name);
                    return Err(Error::unknown("suite", suite, names).to_string());
                }
                Ok(Self { suite: suite.to_owned(), case: case.to_owned() })
            }
            _ => Err("write SUITE:CASE, such as pipe:write-read".to_owned()),
        }
    }
}

const CALL_PATH: &str = "The kernel's call path as sampled, with parts of the time";

/// Runs `lab explain`.
pub fn run(options: &ExplainArgs) -> ExitCode {
    let console = Console::new("gush lab explain");
    options.act(&console).unwrap_or_else(|error| console.fail(error))
}

impl ExplainArgs {
    fn act(&self, console: &Console) -> Result<ExitCode, Error> {
        for path in self.flame.iter().chain(&self.report) {
            // Before the recording, which takes its time.
            takes_text_in_its_directory(path).map_err(Error::refused)?;
        }
        self.keep.check()?;
        // An interrupt ends perf's children and removes perf's file.
        interrupt::watch().map_err(|error| Error::failed("cannot watch for signals", error))?;
        let Named { suite, case } = &self.case;
        // Figures made under a profiler are slower ones: they go into no store.
        let mut words = vec!["lab", suite, "--only", case, "--rounds", "1", "--json", "--no-store"];
        words.extend(self.options.iter().map(String::as_str));
        let recording = explain::perf::record(&this_program()?, &words);
        // perf ends in order at an interrupt, and its half recording would look whole; or it is
        // killed, and would be said to have failed.
        if interrupt::requested() {
            console.say("interrupted");
            return Ok(session::interrupted_status());
        }
        let recording = recording?;
        let stacks = Stacks::of_script(&recording.script)?;
        if !stacks.sees_kernel() {
            console.say(
                "the kernel's functions have no names here: root, or kernel.kptr_restrict=0, shows them",
            );
        }
        let mut run = recorded_run(&recording.stdout)?;
        let speed = gib_per_s(&run);
        let flame = stacks.flame(&format!("gush lab explain {suite}:{case}"))?;
        if let Some(path) = &self.flame {
            fs::write(path, &flame).map_err(|error| {
                Error::failed(format!("cannot write {}", path.display()), error)
            })?;
        }
        run.attachments.push(self.attachment("flame graph", "image/svg+xml", flame));
        let path = Some(stacks.call_tree(DEPTH)).filter(|tree| !tree.is_empty());
        if let Some(tree) = path.clone() {
            run.attachments.push(self.attachment(CALL_PATH, "text/plain", tree));
        }
        let status = self.keep(console, run)?;
        let mut screen = Screen::new(console.clone(), 1);
        let account = match self.json {
            true => self.record(&stacks, speed, path).to_string(),
            false => self.text(&stacks, speed, path),
        };
        screen.print(&account);
        Ok(screen.ended().err().unwrap_or(status))
    }

    fn attachment(&self, title: &str, media_type: &str, text: String) -> Attachment {
        Attachment {
            suite: self.case.suite.clone(),
            case: self.case.case.clone(),
            title: title.to_owned(),
            media_type: media_type.to_owned(),
            text,
        }
    }

    /// Puts the account of the case into the store, and into a report if requested. A failure of
    /// the store is one of the command only where the user named the store.
    fn keep(&self, console: &Console, mut run: Run) -> Result<ExitCode, Error> {
        // A page about this run must not show the slower figures as measured ones.
        run.samples.clear();
        run.command = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        if let Some(path) = &self.report {
            report::write(std::slice::from_ref(&run), path)?;
        }
        let mut status = ExitCode::SUCCESS;
        if !self.keep.no_store {
            let stored = self.keep.open().and_then(|store| store.insert(&run).map(|_| store));
            match stored {
                Ok(store) => console.say(format_args!(
                    "stored as {} in {}: gush lab report {} makes a page",
                    run.id,
                    quote::if_needed(store.path()),
                    run.id
                )),
                Err(error) => {
                    console.say(format_args!("this is not stored: {error}"));
                    if self.keep.db.is_some() {
                        status = ExitCode::FAILURE;
                    }
                }
            }
        }
        Ok(status)
    }

    fn text(&self, stacks: &Stacks, speed: Option<f64>, path: Option<String>) -> String {
        let all = stacks.cpu_ns();
        let Named { suite, case } = &self.case;
        let speed =
            speed.map_or(String::new(), |speed| format!(" {speed:.2} GiB/s during the recording;"));
        let mut text =
            format!("{suite}:{case}:{speed} {:.2} s of processor time\n", all as f64 / 1e9);
        if all < ROUGH_BELOW_NS {
            text += "This is little, so the parts are rough. Give the case more to do (its options, after --).\n";
        }
        let functions = stacks.functions(true);
        for (kind, cpu_ns) in stacks.kinds() {
            if !is_worth_a_word(cpu_ns, all) {
                continue;
            }
            // Writing into a `String` cannot fail, here and below.
            let _ = write!(text, "\n{} {}\n", part(cpu_ns, all), kind.name());
            for line in wrapped(kind.sentence(), SENTENCE_COLUMNS) {
                let _ = writeln!(text, "        {line}");
            }
            let own = |share: &&Share| share.kind == kind && is_worth_a_word(share.cpu_ns, all);
            for share in functions.iter().filter(own).take(FUNCTIONS) {
                let _ = writeln!(text, "     {} {}", part(share.cpu_ns, all), share.function);
            }
        }
        if let Some(tree) = path {
            let _ = write!(text, "\n{CALL_PATH}:\n\n{tree}");
        }
        let files = [("flame graph", &self.flame), ("report", &self.report)];
        for (what, path) in files.iter().filter_map(|(what, path)| Some((what, path.as_ref()?))) {
            let _ = write!(text, "\n{what}: {}", quote::if_needed(path));
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn record(&self, stacks: &Stacks, speed: Option<f64>, path: Option<String>) -> Value {
        let all = stacks.cpu_ns();
        let share = |cpu_ns: u64| cpu_ns as f64 / all.max(1) as f64;
        let kinds: Vec<_> = stacks
            .kinds()
            .into_iter()
            .map(|(kind, cpu_ns)| {
                json!({ "about": kind.name(), "share": share(cpu_ns), "sentence": kind.sentence() })
            })
            .collect();
        let functions: Vec<_> = stacks
            .functions(true)
            .into_iter()
            .map(|one| {
                json!({ "function": one.function, "share": share(one.cpu_ns), "about": one.kind.name() })
            })
            .collect();
        json!({
            "suite": self.case.suite,
            "case": self.case.case,
            "gib_per_s": speed,
            "cpu_s": all as f64 / 1e9,
            "about": kinds,
            "kernel_functions": functions,
            "call_paths": path.iter().map(|tree| json!({ "title": CALL_PATH, "tree": tree })).collect::<Vec<_>>(),
            "flame": self.flame.as_ref().map(|path| path.to_string_lossy()),
        })
    }
}

/// Some 200 samples: a part of a tenth is then known to a fifth of itself.
const ROUGH_BELOW_NS: u64 = 50_000_000;

/// Parts below 0.5 % are left out.
fn is_worth_a_word(cpu_ns: u64, all: u64) -> bool {
    // Half a percent; less is noise of the sampling.
    cpu_ns * 200 >= all
}

fn part(cpu_ns: u64, all: u64) -> String {
    format!("{:5.1} %", cpu_ns as f64 * 100.0 / all.max(1) as f64)
}

/// The run that the suite printed.
///
/// The recording slowed this run's samples, so the text shows them but the store does not keep
/// them.
fn recorded_run(json: &[u8]) -> Result<Run, Error> {
    let runs = transfer::parse(json)
        .map_err(|error| Error::refused(format!("the case printed no run: {error}")))?;
    runs.into_iter().next().ok_or_else(|| Error::refused("the case printed no run"))
}

fn gib_per_s(run: &Run) -> Option<f64> {
    let samples: Vec<f64> =
        run.samples.iter().filter_map(|sample| sample.measured.gib_per_s).collect();
    gush_lab::stats::middle(&samples)
}
