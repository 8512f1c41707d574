//! A contender as a case: described, set up, warmed up, measured.

use std::rc::Rc;

use super::super::template::names;
use super::{Contender, absence, plain_text};
use crate::Error;
use crate::case::Case;
use crate::model::{Described, Measured};
use crate::probe::Probe;

/// A contender's turns in the rounds.
pub(in super::super) struct ContenderCase {
    contender: Rc<Contender>,
    described: Described,
}

impl ContenderCase {
    /// Measured against the contender with the label `baseline`.
    pub(in super::super) fn new(contender: &Rc<Contender>, baseline: &str) -> Self {
        Self { contender: Rc::clone(contender), described: contender.described(baseline) }
    }
}

impl Contender {
    fn described(&self, baseline: &str) -> Described {
        let Self { label, command, hooks, values, shared, .. } = self;
        let rules = &shared.rules;
        let mut described = Described::new(&shared.suite, label)
            .with("command", plain_text(command))
            .against(baseline);
        described.printed.clone_from(&rules.figures);
        for (name, value) in values {
            described = described.with(name, plain_text(value));
        }
        let env: Vec<String> =
            self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !env.is_empty() {
            described = described.with("env", plain_text(&env.join(" ")));
        }
        let texts =
            [("setup", &hooks.setup), ("prepare", &hooks.prepare), ("conclude", &hooks.conclude)];
        for (name, text) in texts {
            if let Some(text) = text {
                described = described.with(name, plain_text(text));
            }
        }
        if let Some(bytes) = shared.workplace.input_bytes {
            described = described.with("input_bytes", bytes);
        }
        if let Some(input) = shared.workplace.input_identity() {
            described = described.with("input", plain_text(&input));
        }
        if let Some(bytes) = rules.bytes {
            described = described.with("bytes", bytes);
        }
        if let Some(expected) = &rules.expected {
            described = described.with("expect", plain_text(expected));
        }
        for (name, value) in rules.variables.iter().filter(|(name, _)| names(command, name)) {
            described = described.with(&format!("variable {name}"), plain_text(value));
        }
        let [file_system, device] = shared.workplace.scratch.file_system();
        described
            .with("output", self.output().name())
            .with("stdin", rules.is_input_piped)
            .with("ignore_failure", rules.ignored.to_json())
            .with(
                "shell",
                shared.shell.as_ref().map_or_else(|| "none".to_owned(), |words| words.join(" ")),
            )
            .with("file_system", file_system)
            .with("device", device)
            .with("repeat", rules.repeat())
            .with("keep_out", rules.keeps_output)
    }
}

impl Case for ContenderCase {
    fn described(&self) -> &Described {
        &self.described
    }

    fn prepare(&self, _probe: &Probe) -> Result<(), Error> {
        let contender = &self.contender;
        let left_out = |program: Option<String>| match program {
            Some(program) => {
                let why = absence(&program, &contender.label);
                Err(Error::refused(format!("{why}: left out")))
            }
            None => Ok(()),
        };
        left_out(contender.missing_program())?;
        // Before the setup: one that fails in the middle has left something to clean up.
        contender.is_set_up.set(true);
        contender.side("setup", contender.hooks.setup.as_ref())?;
        left_out(contender.missing_own())
    }

    fn warm_up(&self, _probe: &Probe) -> Result<(), Error> {
        let contender = &self.contender;
        let before = contender.shared.workplace.survey();
        // The first output is the measure for all, so there must be one before the first sample.
        let least = u32::from(contender.sets_the_expected());
        (0..contender.rules().warmup.unwrap_or(1).max(least))
            .try_for_each(|_| contender.sample("warmup-").map(drop))?;
        contender.runs.set(0);
        // Of a directory, the look around each run sees only its own entries.
        if !contender.shared.names_input() && contender.shared.workplace.survey() != before {
            return Err(contender.spoils());
        }
        Ok(())
    }

    fn measure(&self, _probe: &Probe) -> Result<Measured, Error> {
        self.contender.sample("")
    }
}
