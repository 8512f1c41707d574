//! From the options of `gush lab run` to comparisons: of the command line, or of a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gush_lab::Error;
use gush_lab::bench::template::names;
use gush_lab::bench::{Comparison, Entry, Output, Parameter, Shell};
use gush_text::{quote, unknown};

use super::RunArgs;
use crate::lab::suites::this_program;

/// Characters that make a text more than a name: of the shell, and of parameters in braces.
const OF_COMMANDS: &[char] =
    &[' ', '\t', '\n', '<', '>', '|', '&', ';', '(', ')', '{', '}', '$', '`', '\'', '"', '*', '?'];

impl RunArgs {
    /// The comparisons, in order.
    pub fn comparisons(&self) -> Result<Vec<Comparison>, Error> {
        // No program's name ends so, but a redirection of the shell's may.
        let is_file = |text: &&String| {
            text.ends_with(".toml") && (Path::new(text).is_file() || !text.contains(OF_COMMANDS))
        };
        match self.commands.iter().find(is_file) {
            Some(path) if self.commands.len() == 1 => self.of_file(Path::new(path)),
            Some(path) => Err(Error::refused(format!(
                "{path} is a file of comparisons: give no command with it"
            ))),
            None => {
                if let Some(name) = self.only.first() {
                    return Err(Error::refused(format!(
                        "--only {name} is for files of comparisons"
                    )));
                }
                let entry =
                    |command: &String| Entry { command: command.clone(), ..Entry::default() };
                let entries = self.commands.iter().map(entry).collect();
                let comparison = self.over(Comparison { entries, ..Comparison::default() })?;
                self.refuse_unused_variables(&comparison.texts().collect::<Vec<_>>().join(" "))?;
                Ok(vec![comparison])
            }
        }
    }

    fn of_file(&self, path: &Path) -> Result<Vec<Comparison>, Error> {
        let shown = quote::if_needed(path);
        let text = fs::read_to_string(path)
            .map_err(|error| Error::failed(format!("cannot read {shown}"), error))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let all = Comparison::read(&stem, &text)
            .map_err(|error| Error::refused(format!("{shown} {}", error)))?;
        self.refuse_unused_variables(&text)?;
        let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        if let Some(name) = self.only.iter().find(|name| !known.contains(&name.as_str())) {
            let wrong = unknown("comparison", name, known);
            return Err(Error::refused(format!("{shown}: {wrong}")));
        }
        let is_wanted = |one: &Comparison| self.only.is_empty() || self.only.contains(&one.name);
        all.into_iter().filter(is_wanted).map(|one| self.over(one)).collect()
    }

    /// A misspelt name would silently leave the usual program in its place.
    fn refuse_unused_variables(&self, commands: &str) -> Result<(), Error> {
        match self.variables()?.keys().find(|name| !names(commands, name)) {
            None => Ok(()),
            Some(name) => Err(Error::refused(format!("--set {name}: no command names {{{name}}}"))),
        }
    }

    /// `comparison`, with what the options say in place of what it says.
    fn over(&self, mut comparison: Comparison) -> Result<Comparison, Error> {
        let it = &mut comparison;
        it.gush = Some(this_program()?);
        it.variables.extend(self.variables()?);
        let parameters = self.parameters()?;
        it.parameters.retain(|one| parameters.iter().all(|own| own.name != one.name));
        it.parameters.extend(parameters);
        self.name_commands(it)?;
        let reference = self.reference.iter().map(|command| Entry {
            command: command.clone(),
            name: self.reference_name.clone(),
            ..Entry::default()
        });
        it.entries.splice(0..0, reference.collect::<Vec<_>>());
        for (option, given) in [("--setup", &self.setup), ("--cleanup", &self.cleanup)] {
            if given.len() > 1 {
                return Err(Error::refused(format!(
                    "{option} is one for all commands, and given twice"
                )));
            }
        }
        let entries = &mut it.entries;
        let prepare =
            one_or_each("--prepare", &self.prepare, entries, |entry, own| entry.prepare = own)?;
        let conclude =
            one_or_each("--conclude", &self.conclude, entries, |entry, own| entry.conclude = own)?;
        let output =
            one_or_each("--output", &self.output, entries, |entry, own| entry.output = own)?;
        let env = one_or_each("--env", &self.env, entries, |entry, own| entry.env = own)?;
        for (of_all, given) in [
            (&mut it.env, env),
            (&mut it.setup, self.setup.first().cloned()),
            (&mut it.prepare, prepare),
            (&mut it.conclude, conclude),
            (&mut it.cleanup, self.cleanup.first().cloned()),
            (&mut it.expected, self.expect.clone()),
        ] {
            *of_all = given.or(of_all.take());
        }
        it.dir = self.dir.clone().or(it.dir.take());
        it.input = self.input.clone().or(it.input.take());
        it.bytes = self.bytes.or(it.bytes);
        it.warmup = self.warmup.or(it.warmup);
        it.repeat = self.repeat.or(it.repeat);
        let shell = if self.no_shell { Some(Shell::None) } else { self.shell.clone() };
        it.shell = shell.unwrap_or_else(|| it.shell.clone());
        it.ignored = self.ignore_failure.clone().unwrap_or_else(|| it.ignored.clone());
        let output = output.or(self.show_output.then_some(Output::Inherit));
        it.output = output.unwrap_or_else(|| it.output.clone());
        it.is_input_piped |= self.stdin;
        it.counts |= self.counters;
        it.keeps_output |= self.keep_out;
        it.ignores_output |= self.no_compare;
        if !self.figure.is_empty() {
            it.figures.clone_from(&self.figure);
        }
        Ok(comparison)
    }

    /// Gives the commands their names: the first ones, where there are no parameters.
    fn name_commands(&self, comparison: &mut Comparison) -> Result<(), Error> {
        if self.name.iter().chain(&self.reference_name).any(String::is_empty) {
            return Err(Error::refused("a name must not be empty"));
        }
        let has_parameters = !comparison.parameters.is_empty();
        let (given, commands) = (self.name.len(), comparison.entries.len());
        let (is_one, is_each) = (given <= 1, given == commands);
        if given > commands || has_parameters && !is_one && !is_each {
            return Err(Error::refused(format!(
                "{given} names for {commands} command(s): give one --name for each, in which {{NAME}} is the \
                 value of a parameter"
            )));
        }
        let repeated = if has_parameters && is_one { commands } else { 1 };
        let names = self.name.iter().cycle().take(given * repeated);
        for (entry, name) in comparison.entries.iter_mut().zip(names) {
            entry.name = Some(name.clone());
        }
        Ok(())
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
}

/// The value for all commands, if one was given; several are one for each.
fn one_or_each<T: Clone>(
    option: &str,
    given: &[T],
    entries: &mut [Entry],
    set: impl Fn(&mut Entry, Option<T>),
) -> Result<Option<T>, Error> {
    if given.len() > 1 && given.len() != entries.len() {
        return Err(Error::refused(format!(
            "{option} is given {} times for {} command(s): give it once for all, or once for each",
            given.len(),
            entries.len()
        )));
    }
    // A file's own of a command are replaced, too.
    for (at, entry) in entries.iter_mut().enumerate().filter(|_| !given.is_empty()) {
        set(entry, given.get(at).filter(|_| given.len() > 1).cloned());
    }
    Ok(given.first().filter(|_| given.len() == 1).cloned())
}
