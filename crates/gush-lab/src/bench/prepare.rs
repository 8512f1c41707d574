//! A comparison made ready: input, contenders, and in the end whether their outputs were equal.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use super::contender::{Contender, ContenderCase, Hooks};
use super::parameter::{self, Parameter, Values};
use super::shared::{Expected, Shared};
use super::workplace::Workplace;
use super::{Comparison, Content, Entry, Output, Shell, label, template};
use crate::Error;
use crate::case::Case;
use crate::runner::children;

/// A contender that takes no part, because an optional program is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The contender.
    pub label: String,
    /// The program.
    pub program: String,
}

/// A comparison made ready: the files stay until [`end`](Self::end).
pub struct Prepared {
    /// The contenders, in order.
    pub cases: Vec<Box<dyn Case>>,
    /// Contenders left out, and why.
    pub absent: Vec<Absent>,
    /// Doubts about the comparison, as sentences.
    pub notes: Vec<String>,
    contenders: Vec<Rc<Contender>>,
    shared: Rc<Shared>,
}

impl Comparison {
    /// Makes the input and the contenders.
    ///
    /// # Errors
    /// The contradiction in the comparison, as a sentence, or the file that cannot be made.
    pub fn prepare(&self) -> Result<Prepared, Error> {
        self.check()?;
        children::make_ready();
        let workplace = Workplace::new(self.dir(), self.input.as_ref())?;
        let shared = Rc::new(Shared {
            shell: self.shell_words(),
            suite: self.suite(),
            rules: self.clone(),
            expected: RefCell::new(self.expectation(&workplace)?),
            baseline: OnceCell::new(),
            seen_once: RefCell::default(),
            printed: RefCell::default(),
            changed_by: OnceCell::new(),
            workplace,
        });
        let (mut contenders, mut absent) = (Vec::new(), Vec::new());
        let all = self.contenders(&shared)?;
        let measure = all.first().map_or_else(String::new, |first| first.label().to_owned());
        for contender in all {
            match contender.missing_program() {
                Some(program) if contender.is_optional() => {
                    absent.push(Absent { label: contender.label().to_owned(), program });
                }
                _ => contenders.push(Rc::new(contender)),
            }
        }
        if let Some(first) = contenders.first() {
            // Empty before: nobody else sets the cell.
            let _ = shared.baseline.set(first.label().to_owned());
        }
        let case = |one: &Rc<Contender>| Box::new(ContenderCase(Rc::clone(one))) as Box<dyn Case>;
        let cases = contenders.iter().map(case).collect();
        let mut notes = self.notes(&shared);
        let is_written = |one: &&Rc<Contender>| {
            one.others_write_out() && *one.requested_output() == Output::Null
        };
        notes.extend(contenders.iter().filter(is_written).map(|one| {
            let label = one.label();
            format!("{label}: its standard output goes into a file, because others write {{out}}")
        }));
        if let Some(first) = contenders.first().filter(|first| first.label() != measure) {
            let other = first.label();
            notes.push(format!("{measure} is absent: {other} is the measure of the others"));
        }
        Ok(Prepared { cases, absent, notes, contenders, shared })
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

    /// Every entry with every choice of the parameters that the entry names, under labels that differ.
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
                    label = label::numbered(&label::of(entry, &values), copies);
                }
                let dir = shared.workplace.own_dir(found.len() + 1)?;
                found.push(Contender::new(entry, label, &hooks, values, dir, Rc::clone(shared)));
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
        let is_named = |parameter: &&Parameter| {
            template::names(&entry.command, &parameter.name) || hooks.name(&parameter.name)
        };
        parameter::choices(&self.parameters.iter().filter(is_named).collect::<Vec<_>>())
    }

    /// Where the standard output of `entry` is to go.
    pub(super) fn output_of<'a>(&'a self, entry: &'a Entry) -> &'a Output {
        entry.output.as_ref().unwrap_or(&self.output)
    }

    fn notes(&self, shared: &Shared) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(shell), Shell::Auto) = (&shared.shell, &self.shell) {
            notes.push(format!(
                "{} starts the commands, because one of them needs a shell; its start is a part of every time",
                shell[0]
            ));
        }
        notes
    }
}

/// Says whether standard outputs, seen once each, are the same. One alone is compared with nothing.
fn printed_sentence(printed: &[(String, Content)], is_to_null: bool) -> Option<String> {
    let ((_, first), rest) = printed.split_first()?;
    let timed = match is_to_null {
        true => "; the timed runs wrote to /dev/null, where some programs do less (--output pipe)",
        false => "",
    };
    let differs = rest.iter().find(|(_, content)| content != first);
    match differs {
        Some((label, other)) => Some(format!(
            "Standard output, seen once and not timed, differs: {} bytes from {}, {} bytes from {label} (--output check puts out who differs)",
            first.bytes, printed[0].0, other.bytes
        )),
        None if rest.is_empty() => None,
        None => Some(format!(
            "Standard output was the same, seen once each and not timed: {} bytes{timed}",
            first.bytes
        )),
    }
}

impl Prepared {
    /// The label of the contender that the others are measured against.
    #[must_use]
    pub fn baseline(&self) -> &str {
        self.shared.baseline.get().map_or("", String::as_str)
    }

    /// Whether the outputs were equal, as a sentence; `None` if none was compared.
    ///
    /// # Errors
    /// When the input cannot be read again.
    pub fn agreement(&self) -> Result<Option<String>, Error> {
        let ignores_output = self.shared.rules.ignores_output;
        if self.shared.workplace.survey() != self.shared.workplace.first_survey()
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
            let printed = self.shared.printed.borrow();
            let goes_to =
                |to: &Output| self.contenders.iter().any(|one| one.requested_output() == to);
            let is_shown =
                self.contenders.iter().all(|one| *one.requested_output() == Output::Inherit);
            let is_blind = printed.is_empty() && !is_shown;
            let nothing =
                "No output was compared (--output check compares what the commands print)";
            return Ok(match is_blind && self.contenders.len() > 1 {
                true => Some(nothing.to_owned()),
                false => printed_sentence(&printed, goes_to(&Output::Null)),
            });
        };
        let workplace = &self.shared.workplace;
        let is_input = workplace.input_bytes() == Some(content.bytes)
            && workplace.input_content()?.is_some_and(|input| input == content);
        let equal = if is_input { ", equal to the input" } else { "" };
        let once = self.shared.seen_once.borrow();
        let (which, rest) = match &once[..] {
            [] => ("Every output", String::new()),
            once if once.len() == self.contenders.len() => {
                ("Standard output, seen once each and not timed,", String::new())
            }
            once => ("Every output", format!("; of {} one, not timed", once.join(", "))),
        };
        Ok(Some(format!(
            "{which} was compared: {} bytes, blake3 {}…{equal}{rest}",
            content.bytes,
            content.short()
        )))
    }

    /// Runs the cleanup of every contender set up, and removes the files; `tell` learns of failures, and `tell_interrupted` of
    /// a cleanup that goes on after an interrupt.
    pub fn end(self, mut tell: impl FnMut(&Error), mut tell_interrupted: impl FnMut(&str)) {
        let Self { cases, contenders, shared, .. } = self;
        drop(cases);
        for contender in &contenders {
            if let Err(error) = contender.clean_up(&mut tell_interrupted) {
                tell(&error);
            }
        }
        drop(contenders);
        let removed = Rc::into_inner(shared).map_or(Ok(()), |shared| {
            let Shared { workplace, changed_by, .. } = shared;
            workplace.remove(changed_by.get().map(String::as_str))
        });
        if let Err(error) = removed {
            tell(&error);
        }
    }
}
