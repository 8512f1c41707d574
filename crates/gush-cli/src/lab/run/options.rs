//! The options of `gush lab run`; `comparisons` turns them into comparisons.

mod comparisons;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gush_lab::Error;
use gush_lab::bench::{Ignored, Input, Output, Pace, Shell, Summary, export, show::Unit};
use gush_lab::model::Printed;
use gush_text::{some_bytes, some_time};

use super::super::session::Keep;

/// Measure any commands side by side, in shuffled rounds, and compare their outputs
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "In a COMMAND {in} is the input, {out} a path for the output, {dir} a directory for whatever --setup \
                  makes, {gush} this program, and {NAME} a parameter. A shell starts the commands only if one of them needs one. Every {out} is compared, \
                  and with --output check the standard output of commands that name no {out}: a contender \
                  is disqualified if its output differs from the first one's or is a link, or if it changes {in} \
                  (with --input FILE the file itself, not a copy); what it moved to {out} or {dir} is kept. The processor time and memory of programs that go on after \
                  their command has ended are not counted: a warning names such commands.\n\n\
                  The options of hyperfine 1.20, and --env of 2.0, mean the same here, but for --input (with --stdin the commands read \
                  it); --style, --export-asciidoc and --export-orgmode are missing. CSV and JSON have the form of 1.20. A command that does not name a parameter is there once, and {NAME} in \
                  --name and --prepare is the parameter's value. A command finds the number of its run in HYPERFINE_ITERATION: 0, 1, …, and \
                  warmup-0 before the first round. With a file, options replace what the file says.\n\n\
                  Examples:\n  \
                  gush lab run --input 1G 'cp {in} {out}' 'gush cp {in} {out}'\n  \
                  gush lab run --input 256M -L level 1,3,9 --no-compare \\\n      \
                      'gzip -{level} -c {in} > {out}'\n  \
                  gush lab run --fail-if-slower 5% --input data.json './old {in}' './new {in}'\n\n\
                  The exit status is 1 if a contender failed, and 2 if all went well and --fail-if-slower found a slower \
                  one."
)]
pub struct RunArgs {
    /// Commands to compare, the first being the baseline; or a file of comparisons (.toml)
    #[arg(value_name = "COMMAND|FILE", required = true)]
    commands: Vec<String>,
    /// Only these comparisons of the file
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Give {NAME} in commands this value; replaces a variable of the file
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Name a command; once for each of the first ones, {NAME} for a parameter; with parameters,
    /// once for all or once for each
    #[arg(short, long, visible_alias = "command-name", value_name = "NAME")]
    name: Vec<String>,
    /// Measure all commands against COMMAND, which comes before them
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Name the command of --reference
    #[arg(long, value_name = "NAME", requires = "reference")]
    reference_name: Option<String>,
    /// Make an input of SIZE random bytes, or use the file or directory PATH
    #[arg(long, value_name = "SIZE|PATH")]
    input: Option<Input>,
    /// Give the input to the commands on standard input
    #[arg(long)]
    stdin: bool,
    /// Make files in DIR, on the file system to be measured [default: .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Reckon the throughput with SIZE bytes, instead of those of the input
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    bytes: Option<u64>,
    /// Give the parameter {VAR} each of the values in turn: 1,2,4
    #[arg(short = 'L', long, value_names = ["VAR", "VALUES"], num_args = 2, allow_hyphen_values = true)]
    parameter_list: Vec<String>,
    /// Give the parameter {VAR} the numbers from MIN to MAX
    #[arg(short = 'P', long, value_names = ["VAR", "MIN", "MAX"], num_args = 3, allow_hyphen_values = true)]
    parameter_scan: Vec<String>,
    /// The steps of --parameter-scan
    #[arg(
        short = 'D',
        long,
        value_name = "STEP",
        default_value = "1",
        requires = "parameter_scan",
        allow_hyphen_values = true
    )]
    parameter_step_size: String,
    /// Take exactly N rounds
    #[arg(short, long, visible_alias = "rounds", value_name = "N", value_parser = at_least_one())]
    runs: Option<u32>,
    /// Take at least N rounds [default: 10]
    #[arg(short, long, value_name = "N", value_parser = at_least_one(), conflicts_with = "runs")]
    min_runs: Option<u32>,
    /// Take at most N rounds [default: 500]
    #[arg(short = 'M', long, value_name = "N", value_parser = at_least_one(), conflicts_with = "runs")]
    max_runs: Option<u32>,
    /// Start no round after TIME, once --min-runs is reached [default: 3s for each contender]
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "runs")]
    time: Option<Duration>,
    /// Run each contender N times before the first round, and the first one at least once if
    /// outputs are compared [default: 1]
    #[arg(short, long, value_name = "N")]
    warmup: Option<u32>,
    /// Let a sample be N runs, each in a fresh place, for commands of a millisecond [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    repeat: Option<u32>,
    /// Set variables of the environment, for a command and what runs around it; given several
    /// times, once for each command
    #[arg(long, value_name = "NAME=VALUE …")]
    env: Vec<String>,
    /// Run COMMAND once for each contender, before all rounds
    #[arg(short, long, value_name = "COMMAND")]
    setup: Vec<String>,
    /// Run COMMAND before each run; given several times, once for each command
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Vec<String>,
    /// Run COMMAND after each run; given several times, once for each command
    #[arg(short = 'C', long, value_name = "COMMAND")]
    conclude: Vec<String>,
    /// Run COMMAND once for each contender, after all rounds and after an interrupt
    #[arg(short, long, value_name = "COMMAND")]
    cleanup: Vec<String>,
    /// Let SHELL start all commands; none for no shell
    #[arg(short = 'S', long, value_name = "SHELL")]
    shell: Option<Shell>,
    /// Start all commands without a shell, as --shell none
    #[arg(short = 'N', conflicts_with = "shell")]
    no_shell: bool,
    /// Measure commands that fail, too, or only those that end with one of these exit statuses
    #[arg(
        short,
        long,
        value_name = "STATUS,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all-non-zero"
    )]
    ignore_failure: Option<Ignored>,
    /// Where standard output goes: null, pipe (read and dropped), check (compared with the
    /// others'), inherit (shown), or into a file, a path with a slash; given several times, once
    /// for each command [default: null]
    #[arg(long, value_name = "WHERE")]
    output: Vec<Output>,
    /// Show the output of the commands, as --output inherit
    #[arg(long, conflicts_with = "output")]
    show_output: bool,
    /// Count cycles, instructions and cache misses of the processor (perf_event_open), in the
    /// kernel, too, and of all that a command starts
    #[arg(long)]
    counters: bool,
    /// Compare outputs with the file or directory PATH, or {in}, instead of the first contender's
    #[arg(long, value_name = "PATH", conflicts_with = "no_compare")]
    expect: Option<String>,
    /// Compare no outputs
    #[arg(long)]
    no_compare: bool,
    /// Leave {out} of the run before in its place
    #[arg(long)]
    keep_out: bool,
    /// Compare the number NAME of the last line of JSON that each command prints, instead of the
    /// time: median_us,µs,less where less is better; once for each figure, the compared one first
    #[arg(long, value_name = "NAME[,UNIT[,less]]", value_parser = figure)]
    figure: Vec<Printed>,
    /// End with status 2 if a contender is surely slower than the first by more than PERCENT
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_if_slower: Option<f64>,
    /// Write a table to the file PATH in Markdown, or to standard output for -
    #[arg(long, value_name = "PATH")]
    export_markdown: Option<PathBuf>,
    /// Write comma-separated values to the file PATH, with the columns of hyperfine first
    #[arg(long, value_name = "PATH")]
    export_csv: Option<PathBuf>,
    /// Write JSON to the file PATH, with the fields of hyperfine
    #[arg(long, value_name = "PATH")]
    export_json: Option<PathBuf>,
    /// Show times in UNIT (or us, ms, s), on the screen and in tables; CSV and JSON always have
    /// seconds [default: the one that fits]
    #[arg(short = 'u', long, value_name = "UNIT")]
    pub time_unit: Option<Unit>,
    /// The order of the rows in tables: of the commands (as auto), or of their mean times
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    sort: Sort,
    /// Print every sample as comma-separated values, as gush lab export does
    #[arg(long)]
    pub csv: bool,
    /// Print the whole run as JSON, as gush lab export does
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Write a report of this run and earlier ones to the file PATH
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub keep: Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Auto,
    Command,
    MeanTime,
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn figure(text: &str) -> Result<Printed, &'static str> {
    let mut parts = text.split(',');
    let mut next = || parts.next().unwrap_or_default().trim().to_owned();
    let (name, unit, way) = (next(), next(), next());
    match (name.as_str(), way.as_str(), parts.next()) {
        ("", ..) => Err("a name is missing: median_us,µs,less"),
        (_, "" | "less", None) => Ok(Printed { name, unit, less_is_better: way == "less" }),
        _ => Err("write NAME, NAME,UNIT or NAME,UNIT,less"),
    }
}

/// A part of a whole, written as so many percent.
pub fn percent(text: &str) -> Result<f64, &'static str> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("must be a number from 0 to 1000, with or without %"),
    }
}

impl RunArgs {
    /// The rounds of a comparison of so many contenders, whose file asks for `runs`.
    pub fn pace(&self, contenders: usize, runs: Option<u32>) -> Result<Pace, Error> {
        let is_open = self.min_runs.is_some() || self.max_runs.is_some() || self.time.is_some();
        if let Some(runs) = self.runs.or(runs.filter(|_| !is_open)) {
            return Ok(Pace::fixed(runs));
        }
        let usual = Pace::usual(contenders);
        let least = self.min_runs.unwrap_or(usual.least.min(self.max_runs.unwrap_or(u32::MAX)));
        let most = self.max_runs.unwrap_or(usual.most.max(least));
        if least > most {
            return Err(Error::refused(format!(
                "--min-runs {least} is more than --max-runs {most}"
            )));
        }
        Ok(Pace { least, most, time: self.time.unwrap_or(usual.time) })
    }

    /// The options for files to write, the files, and their writers.
    pub fn exports(&self) -> impl Iterator<Item = (&'static str, &Path, Export)> {
        let all: [(_, &Option<PathBuf>, Export); 3] = [
            ("--export-markdown", &self.export_markdown, export::markdown),
            ("--export-csv", &self.export_csv, |all, _| export::csv(all)),
            ("--export-json", &self.export_json, |all, _| export::json(all)),
        ];
        all.into_iter()
            .filter_map(|(option, path, export)| Some((option, path.as_deref()?, export)))
    }

    /// The summaries in the order of the rows of tables.
    pub fn sorted(&self, mut summaries: Vec<Summary>) -> Vec<Summary> {
        if self.sort == Sort::MeanTime {
            summaries.sort_by(|one, other| one.mean_s.total_cmp(&other.mean_s));
        }
        summaries
    }

    /// Are tables shown, and not samples or the run?
    pub fn shows_tables(&self) -> bool {
        !self.csv && !self.json
    }

    /// Does a file for other programs go to standard output?
    pub fn exports_to_stdout(&self) -> bool {
        self.exports_on_stdout().count() > 0
    }

    fn exports_on_stdout(&self) -> impl Iterator<Item = &'static str> {
        self.exports().filter(|(_, path, _)| is_stdout(path)).map(|(option, ..)| option)
    }

    /// Refuses two documents on one standard output: nobody could take them apart.
    pub fn check_stdout(&self) -> Result<(), String> {
        let samples = [("--csv", self.csv), ("--json", self.json)];
        let samples = samples.into_iter().filter(|(_, given)| *given).map(|(option, _)| option);
        let all: Vec<&str> = samples.chain(self.exports_on_stdout()).collect();
        match all[..] {
            [first, second, ..] => Err(format!(
                "{first} and {second} both write to standard output: give one of them a file"
            )),
            _ => Ok(()),
        }
    }
}

/// Is `path` the name of standard output?
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes summaries for another program.
pub type Export = fn(&[Summary], Option<Unit>) -> String;
