//! The options of `gush lab run`, and the comparisons that they ask for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gush_lab::Error;
use gush_lab::contend::template::names;
use gush_lab::contend::{
    Aim, Block, CaseFile, Comparison, Entry, Ignored, Input, Output, Pace, Parameter, Shell,
    Standing, export, show::Unit,
};
use gush_lab::model::Printed;
use gush_tree::quote;

use super::super::session::Keep;
use super::super::suites::this_program;
use crate::args::nearest;
use crate::size::{self, size_bytes};
use crate::time::time;

/// Measure any commands side by side, in shuffled rounds, and compare their outputs
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "In a COMMAND {in} is the input, {out} a path for the output, {dir} a directory for whatever --setup \
                  makes, {gush} this program, and {NAME} a parameter. A shell starts the commands only if one of them needs one. Every {out} is compared: a contender that \
                  writes something else than the first is out, and so is one that makes a link. Beside commands that write {out}, standard output \
                  goes into a file and is compared with theirs. Where no command names {out} and some name {in}, the standard output of one \
                  untimed run each is looked at, only to tell of a difference (--output check compares every run). A contender that \
                  changes {in} is out; files of yours that it moved are kept. The processor time and memory of programs that go on after \
                  their command has ended are not counted: a warning names such commands.\n\n\
                  Beside a command with --output check the others are compared with it, too: those whose standard output goes elsewhere by one \
                  untimed run each.\n\n\
                  The options of hyperfine 1.20 mean the same here, but for --input (with --stdin the commands read it). --prepare, --conclude, \
                  --output and --name may also be given once for each command with each value of its parameters, in the order of \
                  hyperfine: all commands with the first values, then all with the next value of the first parameter. A command that \
                  does not name a parameter is there once. A command finds the number of its run in HYPERFINE_ITERATION: 0, 1, …, and \
                  warmup-0 before the first round.\n\n\
                  gush lab run --input 1G 'cp {in} {out}' 'gush cp {in} {out}'\n\
                  gush lab run --input 256M -L level 1,3,9 'gzip -{level} -c {in} > {out}' --no-compare\n\
                  gush lab run --fail-if-slower 5% './old {in}' './new {in}' --input data.json\n\n\
                  The exit status is 1 if a contender failed, and 2 if all went well and --fail-if-slower found a slower \
                  one."
)]
pub struct Options {
    /// The commands, of which the first is the measure of the others; or a file of comparisons (.toml)
    #[arg(value_name = "COMMAND|FILE", required = true)]
    commands: Vec<String>,
    /// Only these comparisons of the file
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Give {NAME} in commands this value; replaces a variable of the file
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Name a command; once for each of the first ones, {NAME} for a parameter; with parameters, once for all or once for each
    #[arg(short, long, visible_alias = "command-name", value_name = "NAME")]
    name: Vec<String>,
    /// Measure all commands against COMMAND, which comes before them
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Name the command of --reference
    #[arg(long, value_name = "NAME", requires = "reference")]
    reference_name: Option<String>,
    /// Make an input of SIZE random bytes, or use the file or directory PATH
    #[arg(long, value_name = "SIZE|PATH", value_parser = input)]
    input: Option<Input>,
    /// Give the input to the commands on standard input
    #[arg(long)]
    stdin: bool,
    /// Make files in DIR, on the file system to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Reckon the throughput with SIZE bytes, instead of those of the input
    #[arg(long, value_name = "SIZE", value_parser = size::some_bytes)]
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
    /// Begin no round after TIME, once the least number is taken [default: 3s for each contender]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "runs")]
    time: Option<Duration>,
    /// Run each contender N times before the first round, and the first one at least once if outputs are compared [default: 1]
    #[arg(short, long, value_name = "N")]
    warmup: Option<u32>,
    /// Let a sample be N runs, each in a fresh place, for commands of a millisecond [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    repeat: Option<u32>,
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
    shell: Option<String>,
    /// Start all commands without a shell, as --shell none
    #[arg(short = 'N', conflicts_with = "shell")]
    no_shell: bool,
    /// Measure commands that fail, too, or only those that end with one of these exit statuses
    #[arg(
        short,
        long,
        value_name = "STATUS,…",
        value_parser = ignored,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all-non-zero"
    )]
    ignore_failure: Option<Ignored>,
    /// Where standard output goes: null, pipe (dropped behind a pipe), check (compared with the others'), inherit (shown), or into a
    /// file, a path with a slash; given several times, once for each command
    #[arg(long, value_name = "WHERE", default_value = "null", value_parser = output)]
    output: Vec<Output>,
    /// Show the output of the commands, as --output inherit
    #[arg(long, conflicts_with = "output")]
    show_output: bool,
    /// Compare outputs with the file or directory PATH, or {in}, instead of the first contender's
    #[arg(long, value_name = "PATH", conflicts_with = "no_compare")]
    expect: Option<String>,
    /// Compare no outputs
    #[arg(long)]
    no_compare: bool,
    /// Leave {out} of the run before in its place
    #[arg(long)]
    keep_out: bool,
    /// Count system calls, in one run of each contender that is not timed
    #[arg(long)]
    count_calls: bool,
    /// Compare the number NAME of the last line of JSON that each command prints, instead of the time: median_us,µs,less where less is
    /// better; once for each figure, the compared one first
    #[arg(long, value_name = "NAME[,UNIT[,less]]", value_parser = figure)]
    figure: Vec<Printed>,
    /// End with status 2 if a contender is surely slower than the first by more than PERCENT
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_if_slower: Option<f64>,
    /// Write a table to the file PATH in Markdown, or to standard output for -
    #[arg(long, value_name = "PATH")]
    export_markdown: Option<PathBuf>,
    /// Write a table to the file PATH in AsciiDoc, or to standard output for -
    #[arg(long, value_name = "PATH")]
    export_asciidoc: Option<PathBuf>,
    /// Write a table to the file PATH for the org mode of Emacs, or to standard output for -
    #[arg(long, value_name = "PATH")]
    export_orgmode: Option<PathBuf>,
    /// Write comma-separated values to the file PATH, with the columns of hyperfine first
    #[arg(long, value_name = "PATH")]
    export_csv: Option<PathBuf>,
    /// Write JSON to the file PATH, with the fields of hyperfine
    #[arg(long, value_name = "PATH")]
    export_json: Option<PathBuf>,
    /// Show times in UNIT, on the screen and in tables; CSV and JSON always have seconds [default: the one that fits]
    #[arg(short = 'u', long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// The order of the rows in tables: of the commands (as auto), or of their mean times
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    sort: Sort,
    /// What to show beside messages: full and nocolor the progress in any case, basic and color none, none no tables either
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub style: Style,
    /// An option of hyperfine's that has another name here
    #[arg(long, value_name = "SECONDS", hide = true)]
    min_benchmarking_time: Option<String>,
    /// Print every sample as comma-separated values
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TimeUnit {
    Microsecond,
    Millisecond,
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Auto,
    Command,
    MeanTime,
}

/// The words of hyperfine; nothing here has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Style {
    Auto,
    Basic,
    Full,
    Nocolor,
    Color,
    None,
}

impl Style {
    /// Whether the progress is shown, where the terminal does not decide.
    pub fn shows_progress(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Full | Self::Nocolor => Some(true),
            Self::Basic | Self::Color | Self::None => Some(false),
        }
    }
}

fn ignored(text: &str) -> Result<Ignored, String> {
    Ignored::read(text).map_err(|error| error.told())
}

fn output(text: &str) -> Result<Output, String> {
    Output::read(text).map_err(|error| error.told())
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// A text that is a size is one; `./1G` is a path.
fn input(text: &str) -> Result<Input, String> {
    match size_bytes(text) {
        Ok(0) => Err("an input of no bytes cannot be measured".to_owned()),
        _ if text == "null" => {
            Err("without --input the commands read /dev/null (./null is a file)".to_owned())
        }
        Ok(bytes) => Ok(Input::Bytes(bytes)),
        Err(size::SizeError::NotASize) => Ok(Input::Path(text.into())),
        Err(error) => Err(error.to_string()),
    }
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

/// One comparison of this run.
pub struct Bout {
    /// The comparison's name in a file, and the subject.
    pub title: Option<String>,
    pub comparison: Comparison,
    /// The rounds that the file asks for.
    pub runs: Option<u32>,
    pub aims: Vec<Aim>,
}

impl Options {
    /// The comparisons, in order.
    ///
    /// # Errors
    /// The contradiction, as a sentence.
    pub fn bouts(&self) -> Result<Vec<Bout>, Error> {
        if self.min_benchmarking_time.is_some() {
            return Err(Error::refused(
                "--min-benchmarking-time is hyperfine's: --min-runs N asks for more rounds, and --time TIME for none after TIME",
            ));
        }
        // No command is a single word that ends so, except by a path with a slash that can be started.
        let is_file = |text: &&String| {
            text.ends_with(".toml") && (Path::new(text).is_file() || !text.contains([' ', '/']))
        };
        match self.commands.iter().find(is_file) {
            Some(path) if self.commands.len() == 1 => self.of_file(Path::new(path)),
            Some(path) => Err(Error::refused(format!(
                "{path} is a file of comparisons: no command can stand beside"
            ))),
            None => {
                if let Some(name) = self.only.first() {
                    return Err(Error::refused(format!(
                        "--only {name} is for files of comparisons"
                    )));
                }
                let comparison = self.comparison()?;
                self.refuse_unused_variables(&comparison.texts().collect::<Vec<_>>().join(" "))?;
                Ok(vec![Bout { title: None, comparison, runs: None, aims: Vec::new() }])
            }
        }
    }

    /// The comparisons of the file at `path`, where options of the command line replace those of the file.
    fn of_file(&self, path: &Path) -> Result<Vec<Bout>, Error> {
        if let Some(option) = self.of_commands() {
            return Err(Error::refused(format!(
                "{option} says nothing of a file of comparisons: write it into the file"
            )));
        }
        let shown = quote::if_needed(path);
        let text = fs::read_to_string(path)
            .map_err(|error| Error::failed(format!("cannot read {shown}"), error))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let size_of = |text: &str| size_bytes(text).map_err(|error| error.to_string());
        let CaseFile { blocks } = CaseFile::read(&stem, &text, &size_of)
            .map_err(|error| Error::refused(format!("{shown} {}", error.told())))?;
        self.refuse_unused_variables(&text)?;
        let known: Vec<&str> = blocks.iter().map(|block| block.name.as_str()).collect();
        if let Some(unknown) = self.only.iter().find(|name| !known.contains(&name.as_str())) {
            let hint = match nearest(unknown, known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("there are {}", known.join(", ")),
            };
            return Err(Error::refused(format!("{shown} has no comparison '{unknown}'; {hint}")));
        }
        let is_wanted = |block: &Block| self.only.is_empty() || self.only.contains(&block.name);
        blocks.into_iter().filter(is_wanted).map(|block| self.bout(block)).collect()
    }

    /// A name that is written wrong would leave the usual program in its place, and nobody would see.
    fn refuse_unused_variables(&self, commands: &str) -> Result<(), Error> {
        match self.variables()?.keys().find(|name| !names(commands, name)) {
            None => Ok(()),
            Some(name) => Err(Error::refused(format!("--set {name}: no command names {{{name}}}"))),
        }
    }

    fn bout(&self, block: Block) -> Result<Bout, Error> {
        let Block { name, about, mut comparison, runs, aims } = block;
        comparison.gush = Some(this_program()?);
        comparison.variables.extend(self.variables()?);
        if comparison.dir.as_os_str().is_empty() {
            comparison.dir.clone_from(&self.dir);
        }
        comparison.input = self.input.clone().or(comparison.input);
        comparison.bytes = self.bytes.or(comparison.bytes);
        comparison.warmups = self.warmup.unwrap_or(comparison.warmups);
        comparison.repeat = self.repeat.unwrap_or(comparison.repeat);
        comparison.counts_calls = self.count_calls;
        let title = if about.is_empty() { name } else { format!("{name}: {about}") };
        Ok(Bout { title: Some(title), comparison, runs, aims })
    }

    /// An option that describes commands of the command line, if one was given.
    fn of_commands(&self) -> Option<&'static str> {
        let given = [
            ("--name", !self.name.is_empty()),
            ("--reference", self.reference.is_some()),
            ("--stdin", self.stdin),
            ("--parameter-list", !self.parameter_list.is_empty()),
            ("--parameter-scan", !self.parameter_scan.is_empty()),
            ("--setup", !self.setup.is_empty()),
            ("--prepare", !self.prepare.is_empty()),
            ("--conclude", !self.conclude.is_empty()),
            ("--cleanup", !self.cleanup.is_empty()),
            ("--shell", self.shell.is_some() || self.no_shell),
            ("--ignore-failure", self.ignore_failure.is_some()),
            ("--output", self.output != [Output::Null]),
            ("--show-output", self.show_output),
            ("--expect", self.expect.is_some()),
            ("--no-compare", self.no_compare),
            ("--keep-out", self.keep_out),
            ("--figure", !self.figure.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    fn comparison(&self) -> Result<Comparison, Error> {
        let Self { commands, name, prepare, conclude, .. } = self;
        let all = self.reference.iter().chain(commands);
        let references = usize::from(self.reference.is_some());
        for (option, given) in [("--setup", &self.setup), ("--cleanup", &self.cleanup)] {
            if given.len() > 1 {
                return Err(Error::refused(format!(
                    "{option} is one for all commands, and given twice"
                )));
            }
        }
        if name.iter().chain(&self.reference_name).any(String::is_empty) {
            return Err(Error::refused("a name with nothing in it tells no command from others"));
        }
        let output = match &self.output[..] {
            _ if self.show_output => Output::Inherit,
            [output] => output.clone(),
            _ => Output::Null,
        };
        let of_all = |texts: &[String]| texts.first().filter(|_| texts.len() == 1).cloned();
        let entry = |(place, command): (usize, &String)| Entry {
            command: command.clone(),
            name: self.reference_name.clone().filter(|_| place < references),
            ..Entry::default()
        };
        let usual = Comparison::default();
        self.with_own(Comparison {
            entries: all.enumerate().map(entry).collect(),
            parameters: self.parameters()?,
            gush: Some(this_program()?),
            variables: self.variables()?,
            dir: self.dir.clone(),
            input: self.input.clone(),
            bytes: self.bytes,
            setup: of_all(&self.setup),
            prepare: of_all(prepare),
            conclude: of_all(conclude),
            cleanup: of_all(&self.cleanup),
            shell: self.shell()?,
            warmups: self.warmup.unwrap_or(usual.warmups),
            repeat: self.repeat.unwrap_or(usual.repeat),
            ignored: self.ignore_failure.clone().unwrap_or_default(),
            output,
            is_input_piped: self.stdin,
            keeps_output: self.keep_out,
            ignores_output: self.no_compare,
            expected: self.expect.clone(),
            counts_calls: self.count_calls,
            figures: self.figure.clone(),
            ..usual
        })
    }

    /// `comparison` with all that is given once for each command, or once for each contender.
    fn with_own(&self, mut comparison: Comparison) -> Result<Comparison, Error> {
        let references = usize::from(self.reference.is_some());
        let has_parameters = !comparison.parameters.is_empty();
        let all = [
            ("--prepare", self.prepare.len()),
            ("--conclude", self.conclude.len()),
            ("--output", self.output.len()),
            ("--name", self.name.len()),
        ];
        let mut of_contenders = Vec::new();
        for (option, given) in all {
            let is_name = option == "--name";
            let entries = &mut comparison.entries[if is_name { references } else { 0 }..];
            let commands = entries.len();
            let own = match given {
                // None, or the comparison's own.
                _ if given <= usize::from(!is_name) => 0,
                // A name for all, which tells the values of the parameters.
                1 if has_parameters => commands,
                _ if given == commands || is_name && !has_parameters && given < commands => given,
                _ => {
                    of_contenders.push((option, given, commands));
                    0
                }
            };
            for (at, entry) in entries.iter_mut().take(own).enumerate() {
                self.give(option, at % given, entry);
            }
        }
        if of_contenders.is_empty() {
            return Ok(comparison);
        }
        let (mut singled, places) = comparison.singled();
        comparison.entries.truncate(references);
        let of_reference = comparison.singled().1.len();
        for (option, given, commands) in of_contenders {
            let from = if option == "--name" { of_reference } else { 0 };
            let mut order: Vec<usize> = (from..places.len()).collect();
            order.sort_unstable_by_key(|&contender| places[contender]);
            if given != order.len() {
                return Err(Error::refused(match (option, has_parameters) {
                    ("--name", false) => {
                        format!("{given} names for {commands} command(s): give one --name for each")
                    }
                    (_, false) => format!(
                        "{given} {option} for {commands} command(s): give one for all, or one for each"
                    ),
                    (_, true) => format!(
                        "{given} {option} for {commands} command(s), which are {} with the values of their parameters: give \
                         one for all, or one for each",
                        order.len()
                    ),
                }));
            }
            for (at, contender) in order.into_iter().enumerate() {
                self.give(option, at, &mut singled.entries[contender]);
            }
        }
        Ok(singled)
    }

    /// Gives `entry` the value at place `at` of those given with `option`.
    fn give(&self, option: &str, at: usize, entry: &mut Entry) {
        match option {
            "--prepare" => entry.prepare = Some(self.prepare[at].clone()),
            "--conclude" => entry.conclude = Some(self.conclude[at].clone()),
            "--output" => entry.output = Some(self.output[at].clone()),
            _ => entry.name = Some(self.name[at].clone()),
        }
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, Error> {
        let pair = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Error::refused(format!("--set {text}: write NAME=VALUE"))),
        };
        self.set.iter().map(pair).collect()
    }

    fn parameters(&self) -> Result<Vec<Parameter>, Error> {
        let lists = self.parameter_list.chunks(2).map(|pair| Parameter::list(&pair[0], &pair[1]));
        let step = &self.parameter_step_size;
        let scan = |scan: &[String]| Parameter::scan(&scan[0], &scan[1], &scan[2], step);
        lists.chain(self.parameter_scan.chunks(3).map(scan)).collect()
    }

    fn shell(&self) -> Result<Shell, Error> {
        match self.shell.as_deref() {
            None if self.no_shell => Ok(Shell::None),
            None => Ok(Shell::Auto),
            Some(text) => Shell::read(text),
        }
    }

    /// The rounds of a comparison of so many contenders, whose file asks for `runs`.
    ///
    /// # Errors
    /// Limits that contradict each other.
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
        let all: [(_, &Option<PathBuf>, Export); 5] = [
            ("--export-markdown", &self.export_markdown, export::markdown),
            ("--export-asciidoc", &self.export_asciidoc, export::asciidoc),
            ("--export-orgmode", &self.export_orgmode, export::orgmode),
            ("--export-csv", &self.export_csv, |all, _| export::csv(all)),
            ("--export-json", &self.export_json, |all, _| export::json(all)),
        ];
        all.into_iter()
            .filter_map(|(option, path, export)| Some((option, path.as_deref()?, export)))
    }

    /// The unit that all times are shown in.
    pub fn unit(&self) -> Option<Unit> {
        self.time_unit.map(|unit| match unit {
            TimeUnit::Microsecond => Unit::Microsecond,
            TimeUnit::Millisecond => Unit::Millisecond,
            TimeUnit::Second => Unit::Second,
        })
    }

    /// The standings in the order of the rows of tables.
    pub fn sorted(&self, mut standings: Vec<Standing>) -> Vec<Standing> {
        if self.sort == Sort::MeanTime {
            standings.sort_by(|one, other| one.mean_s.total_cmp(&other.mean_s));
        }
        standings
    }

    /// Are tables shown, and not samples or the run?
    pub fn shows_tables(&self) -> bool {
        !self.csv && !self.json && self.style != Style::None
    }

    /// Does a file for other programs go to standard output?
    pub fn exports_to_stdout(&self) -> bool {
        self.exports_on_stdout().count() > 0
    }

    fn exports_on_stdout(&self) -> impl Iterator<Item = &'static str> {
        self.exports().filter(|(_, path, _)| is_stdout(path)).map(|(option, ..)| option)
    }

    /// Refuses two documents on one standard output: nobody could take them apart.
    ///
    /// # Errors
    /// The two options that ask for them.
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

/// Is `path` the name that stands for standard output?
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes standings for another program.
pub type Export = fn(&[Standing], Option<Unit>) -> String;
