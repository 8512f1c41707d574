//! A comparison made ready: input, contenders, and in the end whether their outputs were equal.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use super::contender::{Contender, ContenderCase, Hooks, absence};
use super::parameter::{self, Parameter, Values};
use super::shared::{Expected, Shared};
use super::workplace::Workplace;
use super::{Comparison, Content, Entry, Output, Shell, label, template};
use crate::Error;
use crate::case::Case;
use crate::runner::children;

/// A comparison made ready: the files stay until [`end`](Self::end).
pub struct Prepared {
    pub cases: Vec<Box<dyn Case>>,
    /// Contenders that take no part, because an optional program is missing, and doubts about the
    /// comparison, as sentences.
    pub notes: Vec<String>,
    /// The label of the contender that the others are measured against.
    pub baseline: String,
    contenders: Vec<Rc<Contender>>,
    shared: Rc<Shared>,
}

impl Comparison {
    /// Makes the input and the contenders.
    pub fn prepare(&self) -> Result<Prepared, Error> {
        self.check()?;
        children::make_ready();
        let workplace = Workplace::new(self.dir(), self.input.as_ref())?;
        let shared = Rc::new(Shared {
            shell: self.shell_words(),
            suite: self.suite(),
            rules: self.clone(),
            expected: RefCell::new(self.expectation(&workplace)?),
            changed_by: OnceCell::new(),
            workplace,
        });
        let (mut contenders, mut notes) = (Vec::new(), Vec::new());
        let all = self.contenders(&shared)?;
        let measure = all.first().map_or_else(String::new, |first| first.label.clone());
        for contender in all {
            match contender.missing_program() {
                Some(program) if contender.is_optional => {
                    let label = &contender.label;
                    notes.push(format!("{label}: {}: left out", absence(&program, label)));
                }
                _ => contenders.push(Rc::new(contender)),
            }
        }
        let baseline = contenders.first().map_or(measure.as_str(), |first| &first.label);
        let case = |one| Box::new(ContenderCase::new(one, baseline)) as Box<dyn Case>;
        let cases = contenders.iter().map(case).collect();
        if let (Some(shell), Shell::Auto) = (&shared.shell, &self.shell) {
            notes.push(format!(
                "{} starts the commands, because one of them needs a shell; its start is a part of every time",
                shell[0]
            ));
        }
        if baseline != measure {
            notes.push(format!("{measure} is absent: {baseline} is the baseline instead"));
        }
        let baseline = baseline.to_owned();
        Ok(Prepared { cases, notes, baseline, contenders, shared })
    }

    /// The shell that starts the commands, if one does.
    pub(super) fn shell_words(&self) -> Option<Vec<String>> {
        self.shell.words_for(self.entries.iter().map(|entry| entry.command.as_str()))
    }

    fn expectation(&self, workplace: &Workplace) -> Result<Option<Expected>, Error> {
        let Some(text) = self.expected.as_deref().filter(|_| !self.ignores_output) else {
            return Ok(None);
        };
        let content = match text {
            "{in}" => workplace.input_content()?.cloned(),
            path => Some(Content::of(Path::new(path))?),
        };
        let from = if text == "{in}" { "the input".to_owned() } else { text.to_owned() };
        Ok(content.map(|content| Expected { from, content }))
    }

    /// Every entry with every choice of the parameters that the entry names, under labels that
    /// differ.
    fn contenders(&self, shared: &Rc<Shared>) -> Result<Vec<Contender>, Error> {
        let mut labels = BTreeSet::new();
        let mut found = Vec::new();
        for entry in &self.entries {
            let hooks = self.hooks(entry);
            for values in self.choices(entry) {
                let mut label = label::of(entry, &values);
                let mut copies = 1;
                while !labels.insert(label.clone()) {
                    copies += 1;
                    label = format!("{} ({copies})", label::of(entry, &values));
                }
                let dir = shared.workplace.own_dir(found.len() + 1)?;
                found.push(Contender::new(entry, label, &hooks, values, dir, Rc::clone(shared))?);
            }
        }
        Ok(found)
    }

    fn hooks(&self, entry: &Entry) -> Hooks {
        Hooks {
            setup: self.setup.clone(),
            prepare: entry.prepare.clone().or_else(|| self.prepare.clone()),
            conclude: entry.conclude.clone().or_else(|| self.conclude.clone()),
            cleanup: self.cleanup.clone(),
        }
    }

    /// The values of each contender that `entry` becomes.
    fn choices(&self, entry: &Entry) -> Vec<Values> {
        let hooks = self.hooks(entry);
        let env = entry.env.as_ref().or(self.env.as_ref());
        let is_named = |parameter: &&Parameter| {
            let name = &parameter.name;
            template::names(&entry.command, name)
                || hooks.name(name)
                || env.is_some_and(|env| template::names(env, name))
        };
        parameter::choices(&self.parameters.iter().filter(is_named).collect::<Vec<_>>())
    }

    /// Where the standard output of `entry` is to go.
    pub(super) fn output_of<'a>(&'a self, entry: &'a Entry) -> &'a Output {
        entry.output.as_ref().unwrap_or(&self.output)
    }
}

impl Prepared {
    /// Whether the outputs were equal, as a sentence; `None` if none was compared.
    pub fn agreement(&self) -> Result<Option<String>, Error> {
        let ignores_output = self.shared.rules.ignores_output;
        if self.shared.workplace.survey() != self.shared.workplace.first_survey
            && !self.shared.names_input()
        {
            return Err(Error::refused(
                "the input changed during the rounds: the figures are of unlike inputs",
            ));
        }
        // Standard output has figures, which differ by nature.
        let has_none =
            self.shared.expected.borrow().is_none() && !self.shared.rules.figures.is_empty();
        if ignores_output || has_none {
            return Ok(None);
        }
        let expected = self.shared.expected.borrow();
        let Some(Expected { content, .. }) = &*expected else {
            let is_shown = self.contenders.iter().all(|one| one.is_shown());
            let nothing =
                "No output was compared (--output check compares what the commands print)";
            return Ok((self.contenders.len() > 1 && !is_shown).then(|| nothing.to_owned()));
        };
        let workplace = &self.shared.workplace;
        let is_input = workplace.input_bytes == Some(content.bytes)
            && workplace.input_content()?.is_some_and(|input| input == content);
        let equal = if is_input { ", equal to the input" } else { "" };
        let left_out = self.contenders.iter().filter(|one| !one.is_compared());
        let left_out: Vec<&str> = left_out.map(|one| one.label.as_str()).collect();
        let which = match &left_out[..] {
            [] => "Every output".to_owned(),
            labels => format!("Every output but that of {}", labels.join(", ")),
        };
        Ok(Some(format!(
            "{which} was compared: {} bytes, blake3 {}…{equal}",
            content.bytes,
            content.short()
        )))
    }

    /// Runs the cleanup of each contender that was set up, and removes the files. `report` is
    /// called for failures, `report_interrupted` for a cleanup that continues after an interrupt.
    pub fn end(self, mut report: impl FnMut(&Error), mut report_interrupted: impl FnMut(&str)) {
        let Self { cases, contenders, shared, .. } = self;
        drop(cases);
        for contender in &contenders {
            if let Err(error) = contender.clean_up(&mut report_interrupted) {
                report(&error);
            }
        }
        drop(contenders);
        let removed = Rc::into_inner(shared).map_or(Ok(()), |shared| {
            let Shared { workplace, changed_by, .. } = shared;
            workplace.remove(changed_by.get().map(String::as_str))
        });
        if let Err(error) = removed {
            report(&error);
        }
    }
}
