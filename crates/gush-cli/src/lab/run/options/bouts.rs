//! From the options of `gush lab run` to comparisons: those of the command line, or of a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gush_lab::Error;
use gush_lab::contend::template::names;
use gush_lab::contend::{Aim, Block, CaseFile, Comparison, Entry, Output, Parameter, Shell};
use gush_tree::quote;

use super::Options;
use crate::args::nearest;
use crate::lab::suites::this_program;
use crate::size::size_bytes;

/// Characters that make a text more than a name: of the shell, and of parameters in braces.
const OF_COMMANDS: &[char] =
    &[' ', '\t', '\n', '<', '>', '|', '&', ';', '(', ')', '{', '}', '$', '`', '\'', '"', '*', '?'];

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
        // No program's name ends so, but a redirection of the shell's may.
        let is_file = |text: &&String| {
            text.ends_with(".toml") && (Path::new(text).is_file() || !text.contains(OF_COMMANDS))
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
}
