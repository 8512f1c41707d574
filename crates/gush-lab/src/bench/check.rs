//! Contradictions in a comparison, reported before anything is created or started.

use std::collections::BTreeSet;
use std::path::Path;

use super::counters::Counting;
use super::{Comparison, Content, Entry, Output, start, template, workplace};
use crate::Error;

/// The names that every comparison knows, with words of other programs for the same.
pub(super) const NAMES: [(&str, &[&str]); 4] = [
    ("in", &["input", "infile", "source", "src"]),
    ("out", &["output", "outfile", "target", "dst"]),
    ("dir", &["directory", "tmp", "tmpdir"]),
    ("gush", &[]),
];

impl Comparison {
    /// Refuses a comparison that contradicts itself, before anything is made or started.
    pub fn check(&self) -> Result<(), Error> {
        if self.entries.is_empty() {
            return Err(Error::refused("no command is there to be measured"));
        }
        for env in self.entries.iter().map(|entry| &entry.env).chain([&self.env]).flatten() {
            start::assignments(env)?;
        }
        drop(Counting::begin(self)?);
        if self.shell_words().is_none() {
            for entry in &self.entries {
                start::words(&entry.command, |_| None)?;
            }
        }
        let used = |name: &str| self.texts().any(|text| template::names(text, name));
        let mut names = BTreeSet::new();
        for name in self.parameters.iter().map(|parameter| &parameter.name) {
            let wrong = [
                (!names.insert(name), format!("the parameter {{{name}}} is given twice")),
                (
                    self.variables.contains_key(name),
                    format!("{{{name}}} is a variable and a parameter"),
                ),
                (!used(name), format!("no command names the parameter {{{name}}}")),
            ];
            if let Some((_, why)) = wrong.into_iter().find(|(is_so, _)| *is_so) {
                return Err(Error::refused(why));
            }
        }
        for text in self.texts() {
            if let Some(name) = template::unknown(text, |name| self.knows(name)) {
                return Err(self.unknown_name(name));
            }
        }
        let wants_input = used("in") || self.is_input_piped;
        if wants_input && self.input.is_none() {
            let who = if used("in") { "{in}" } else { "--stdin" };
            return Err(Error::refused(format!("{who} needs --input, a size or a path")));
        }
        self.check_figures()?;
        if self.input.is_some() && !wants_input {
            return Err(Error::refused(
                "no command reads the input: name it with {in}, or say --stdin",
            ));
        }
        workplace::check(self.dir(), self.input.as_ref())?;
        let expected = self.expected.as_deref().filter(|path| *path != "{in}");
        if let Some(path) = expected.filter(|_| !self.ignores_output) {
            Content::look(Path::new(path))?;
        }
        self.check_outputs()
    }

    /// Figures are read from standard output, which nothing else can then have.
    fn check_figures(&self) -> Result<(), Error> {
        let Some(first) = self.figures.first() else { return Ok(()) };
        let twice = self.figures.iter().enumerate().find_map(|(place, figure)| {
            let others = &self.figures[..place];
            others.iter().any(|other| other.name == figure.name).then_some(&figure.name)
        });
        if let Some(name) = twice {
            return Err(Error::refused(format!("the figure '{name}' is named twice")));
        }
        let mut outputs = self.entries.iter().map(|entry| self.output_of(entry));
        if let Some(output) = outputs.find(|output| **output != Output::Null) {
            return Err(Error::refused(format!(
                "the figure '{}' is read from standard output, which --output {} uses otherwise",
                first.name,
                output.name()
            )));
        }
        Ok(())
    }

    /// Outputs are compared for all commands or for none: unchecked work is not comparable.
    fn check_outputs(&self) -> Result<(), Error> {
        if self.ignores_output {
            return Ok(());
        }
        let is_compared = |entry: &&Entry| {
            template::names(&entry.command, "out")
                || *self.output_of(entry) == Output::Check && self.figures.is_empty()
        };
        let writes_out = |entry: &Entry| template::names(&entry.command, "out");
        let compared = self.entries.iter().filter(is_compared).count();
        if compared == 0 && self.expected.is_some() {
            return Err(Error::refused(
                "--expect needs an output to compare: {out}, or --output check for standard output",
            ));
        }
        if compared < self.entries.len() && self.entries.iter().any(writes_out) {
            if !self.figures.is_empty() {
                return Err(Error::refused(
                    "with figures, every command writes {out} or none does: standard output is not compared",
                ));
            }
            return Err(Error::refused(
                "some commands write {out} and others do not: --output check compares the standard \
                 output of the others, --no-compare compares nothing",
            ));
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let usual = NAMES.iter().map(|(name, _)| *name);
        let parameters = self.parameters.iter().map(|parameter| parameter.name.as_str());
        usual.chain(parameters).chain(self.variables.keys().map(String::as_str))
    }

    fn knows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    fn unknown_name(&self, name: &str) -> Error {
        let lower = name.to_lowercase();
        let same = NAMES.iter().find(|(_, words)| words.contains(&&*lower));
        let remedy = match same {
            Some((own, _)) => format!("; did you mean '{{{own}}}'?"),
            None => {
                let known: Vec<String> = self.names().map(|name| format!("{{{name}}}")).collect();
                gush_text::suggestion(&format!("{{{lower}}}"), known.iter().map(String::as_str))
            }
        };
        Error::refused(format!(
            "{{{name}}} has no value{remedy} (--set {name}=… gives one; {{ {name} }} are just braces)"
        ))
    }

    /// All texts that may contain names: the commands, and the path of the expected output.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let own =
            [&self.env, &self.setup, &self.prepare, &self.conclude, &self.cleanup, &self.expected];
        let of_entries = self.entries.iter().flat_map(|entry| {
            let around = [&entry.env, &entry.prepare, &entry.conclude].into_iter().flatten();
            around.map(String::as_str).chain([entry.command.as_str()])
        });
        own.into_iter().flatten().map(String::as_str).chain(of_entries)
    }
}
