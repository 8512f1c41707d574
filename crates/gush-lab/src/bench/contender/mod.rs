//! One command: its values, the commands around it, and one run of it under the clock.

mod case;
mod output;
mod stderr;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use super::counters::{self, Counting, Counts};
use super::parameter::Values;
use super::shared::Shared;
use super::template::{filled, names};
use super::{Comparison, Content, Entry, Output, printed, start};
use crate::Error;
use crate::model::Measured;
use crate::runner::{Usage, children, lower_start, start_bytes};

pub(super) use case::ContenderCase;
use stderr::{copy_of, stderr_file, succeeded};

#[derive(Clone, Debug)]
pub(super) struct Hooks {
    pub(super) setup: Option<String>,
    pub(super) prepare: Option<String>,
    pub(super) conclude: Option<String>,
    pub(super) cleanup: Option<String>,
}

impl Hooks {
    fn all(&mut self) -> [&mut Option<String>; 4] {
        [&mut self.setup, &mut self.prepare, &mut self.conclude, &mut self.cleanup]
    }

    /// Does one of them name `{name}`?
    pub(super) fn name(&self, name: &str) -> bool {
        let all = [&self.setup, &self.prepare, &self.conclude, &self.cleanup];
        all.into_iter().flatten().any(|text| names(text, name))
    }
}

/// The variable by which a command learns which of its runs this is, named as scripts for hyperfine
/// know it.
const ITERATION: &str = "HYPERFINE_ITERATION";

#[derive(Debug)]
pub(super) struct Contender {
    pub(super) label: String,
    command: String,
    /// Variables of the environment, whose values may name `{in}` and others.
    env: Vec<(String, String)>,
    hooks: Hooks,
    output: Output,
    values: Values,
    needs: Vec<String>,
    pub(super) is_optional: bool,
    /// The directory that replaces `{dir}`: the contender's own, because all setups run before
    /// all rounds.
    dir: PathBuf,
    shared: Rc<Shared>,
    is_set_up: Cell<bool>,
    /// Where the command's program was found in PATH: not looked for by each run.
    program: RefCell<Option<PathBuf>>,
    /// The file for the messages of the next run, if no program of the runs before has it open.
    said: RefCell<Option<File>>,
    /// The runs so far, of the warm-up or, once the rounds have begun, of the rounds.
    runs: Cell<u32>,
}

impl Contender {
    pub(super) fn new(
        entry: &Entry,
        label: String,
        hooks: &Hooks,
        values: Values,
        dir: PathBuf,
        shared: Rc<Shared>,
    ) -> Result<Self, Error> {
        let fill = |text: &str| {
            filled(text, |name| {
                values.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
            })
        };
        let mut hooks = hooks.clone();
        for text in hooks.all().into_iter().flatten() {
            *text = fill(text);
        }
        let env = entry.env.as_ref().or(shared.rules.env.as_ref());
        let mut env = env.map_or_else(|| Ok(Vec::new()), |env| start::assignments(env))?;
        env.iter_mut().for_each(|(_, value)| *value = fill(value));
        Ok(Self {
            label,
            command: fill(&entry.command),
            env,
            hooks,
            output: shared.rules.output_of(entry).clone(),
            needs: entry.needs.iter().map(|program| fill(program)).collect(),
            is_optional: entry.is_optional,
            values,
            dir,
            shared,
            is_set_up: Cell::new(false),
            program: RefCell::default(),
            said: RefCell::default(),
            runs: Cell::new(0),
        })
    }

    /// The first program that is missing before the setup: one that the contender needs, or its
    /// own, which a setup may make.
    pub(super) fn missing_program(&self) -> Option<String> {
        let mut needed = self.needs.iter().map(|text| filled(text, |name| self.value_of(name)));
        needed
            .find(|program| start::found(Path::new(program)).is_none())
            // A setup may build the program: it is looked for again afterwards.
            .or_else(|| self.missing_own().filter(|_| self.hooks.setup.is_none()))
    }

    /// The program to be started, if execvp(3) would not find the file. For a shell's command the
    /// answer is unknown.
    fn missing_own(&self) -> Option<String> {
        // A shell has built-in commands, and reports itself what it does not find.
        if self.shared.shell.is_some() {
            return None;
        }
        let mut words = start::words(&self.command, |name| self.value_of(name)).ok()?;
        let program = words.swap_remove(0);
        let found = start::found(Path::new(&program));
        let is_missing = found.is_none();
        // Each run searches where another command may install one, or the environment has its PATH.
        let is_fixed = !self.shared.has_others() && self.env.iter().all(|(name, _)| name != "PATH");
        self.program.replace(found.filter(|_| is_fixed));
        is_missing.then_some(program)
    }

    fn rules(&self) -> &Comparison {
        &self.shared.rules
    }

    /// None for a path that is not UTF-8, too: such a directory is refused when it is made.
    fn value_of(&self, name: &str) -> Option<String> {
        let (rules, workplace) = (self.rules(), &self.shared.workplace);
        let text = |path: &Path| path.to_str().map(str::to_owned);
        match name {
            "in" => text(workplace.input.as_deref()?),
            "out" => text(&workplace.output()),
            "dir" => text(&self.dir),
            "gush" if !rules.variables.contains_key(name) => text(rules.gush.as_deref()?),
            name => rules.variables.get(name).cloned(),
        }
    }

    /// The process of a command or hook, in the contender's environment.
    fn process(
        &self,
        command: &str,
        shell: Option<&[String]>,
        path: Option<&Path>,
    ) -> Result<Command, Error> {
        let value_of = |name: &str| self.value_of(name);
        let mut process = start::process(command, shell, path, value_of)?;
        process.envs(self.env.iter().map(|(name, value)| (name, filled(value, value_of))));
        Ok(process)
    }

    /// Runs a hook, untimed.
    fn side(&self, what: &str, text: Option<&String>) -> Result<(), Error> {
        let Some(text) = text else { return Ok(()) };
        let (mut command, said) = self.side_process(text)?;
        let (_, status, _) = children::start_group(&mut command)?.finish_used()?;
        succeeded(status, &said).map_err(|why| Error::refused(format!("{what} '{text}' {why}")))
    }

    fn side_process(&self, text: &str) -> Result<(Command, File), Error> {
        let shell = self.rules().shell.words_for([text]);
        let mut command = self.process(text, shell.as_deref(), None)?;
        let said = stderr_file(None)?;
        // Standard error goes to a file and not to a pipe, which a talkative command would fill.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(copy_of(&said)?);
        Ok((command, said))
    }

    /// Runs the cleanup, also after an interrupt; only of a contender set up. `report_interrupted`
    /// learns once of an interrupt that the cleanup outlives.
    pub(super) fn clean_up(&self, report_interrupted: impl FnOnce(&str)) -> Result<(), Error> {
        // Only where its setup has run: there is nothing to clean up otherwise.
        let Some(text) = self.hooks.cleanup.as_ref().filter(|_| self.is_set_up.take()) else {
            return Ok(());
        };
        let (mut command, said) = self.side_process(text)?;
        let running = children::start_last(&mut command)?;
        running.when_interrupted(|| report_interrupted(text))?;
        let (_, status, _) = running.finish_used()?;
        succeeded(status, &said).map_err(|why| Error::refused(format!("cleanup '{text}' {why}")))
    }

    /// The command once, as the run called `iteration`: the time, the resources used, and the exit
    /// status.
    ///
    /// # Errors
    /// Also if the command changed the input: later commands would get another one.
    fn once(
        &self,
        iteration: &str,
        counts: &mut Counts,
    ) -> Result<(Duration, Usage, ExitStatus), Error> {
        // Everything after a changed input is measured on other bytes.
        if let Some(label) = self.shared.changed_by.get() {
            return Err(Error::refused(format!("not measured: {label} changed the input")));
        }
        // Cheap, and made around each run: a changed input makes every later figure worthless.
        let before = self.shared.workplace.look();
        let done = self.run(iteration, counts);
        if self.shared.workplace.look() != before {
            return Err(self.spoils());
        }
        done
    }

    /// The error of a contender that changed the input; nothing is measured after it.
    fn spoils(&self) -> Error {
        // Set once: no command runs after the input was changed.
        let _ = self.shared.changed_by.set(self.label.clone());
        let taken_back = match self.shared.workplace.take_back() {
            Ok(true) => ", and was moved back".to_owned(),
            Ok(false) => String::new(),
            Err(error) => format!("; {error}"),
        };
        Error::refused(format!(
            "it changed the input{taken_back}, so nothing after it was measured: let it work on a copy (--prepare 'cp -r {{in}} {{dir}}/x')"
        ))
    }

    fn run(
        &self,
        iteration: &str,
        counts: &mut Counts,
    ) -> Result<(Duration, Usage, ExitStatus), Error> {
        let shell = self.shared.shell.as_deref();
        let mut command = self.process(&self.command, shell, self.program.borrow().as_deref())?;
        command.env(ITERATION, iteration);
        let said = self.wire(&mut command)?;
        let counting = Counting::begin(self.rules())?;
        // After pipes and files are ready: the clock is the command's.
        let begun = Instant::now();
        let mut running = children::start_group(&mut command)?;
        // The copies of descriptors in here would keep a pipe open.
        drop(command);
        if let Some(mut printed) = running.child().stdout.take() {
            // Not joined: a process that outlives the command may hold the pipe open.
            thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
        }
        let (ended, status, usage) = running.finish_used()?;
        counting.end(counts);
        if !self.rules().ignored.has(status) {
            succeeded(status, &said).map_err(Error::refused)?;
        }
        let is_alone = usage.left_running == 0 && children::are_strays_known();
        self.said.replace(Some(said).filter(|_| is_alone));
        Ok((ended - begun, usage, status))
    }

    /// A whole sample: each of its runs begins in a fresh place, and each output is compared. The
    /// runs are called `kind` and their number.
    fn sample(&self, kind: &str) -> Result<Measured, Error> {
        let (mut wall, mut used) = (Duration::ZERO, Usage::default());
        let (mut failed, mut answer) = (None, None);
        let figures = &self.rules().figures;
        let mut sums = vec![0.0; figures.len()];
        let mut counts = Counting::none(self.rules());
        for _ in 0..self.rules().repeat() {
            self.freshen()?;
            lower_start();
            let number = self.runs.replace(self.runs.get() + 1);
            let (time, usage, status) = self.once(&format!("{kind}{number}"), &mut counts)?;
            (wall, used) = (wall + time, used.and(usage));
            failed = failed.or(Some(status).filter(|status| !status.success()));
            answer = self.answer()?;
            if !figures.is_empty() {
                let printed = printed::read(&self.shared.workplace.printed(), figures)?;
                sums.iter_mut().zip(printed).for_each(|(sum, value)| *sum += value);
            }
            self.side("conclude", self.hooks.conclude.as_ref())?;
        }
        let runs = f64::from(self.rules().repeat());
        let measured = self.measured(wall, used, failed, answer.as_ref());
        let measured = counters::recorded(measured, counts, runs);
        let each = figures.iter().zip(sums);
        Ok(each.fold(measured, |all, (figure, sum)| all.with(&figure.fact(), sum / runs)))
    }

    /// Takes away the output of the run before, unless `keeps_output` is set, and runs `prepare`.
    fn freshen(&self) -> Result<(), Error> {
        if !self.rules().keeps_output {
            self.shared.workplace.clear()?;
        }
        self.side("prepare", self.hooks.prepare.as_ref())
    }

    fn measured(
        &self,
        wall: Duration,
        used: Usage,
        failed: Option<ExitStatus>,
        answer: Option<&Content>,
    ) -> Measured {
        let runs = self.rules().repeat();
        let bytes = self.rules().bytes.or(self.shared.workplace.input_bytes).unwrap_or(0);
        let wall_s = wall.as_secs_f64() / f64::from(runs);
        let measured = used.recorded(Measured::timed(bytes, wall_s), runs);
        let mut measured = measured.with("command", plain_text(&self.command));
        let floor_bytes = start_bytes().unwrap_or(0);
        // A child begins as a copy of this process, whose peak it inherits until its exec: below
        // that nothing is known.
        let peak = if used.peak_bytes > floor_bytes { "peak_bytes" } else { "peak_at_most_bytes" };
        measured = measured.with(peak, used.peak_bytes);
        for (parameter, value) in &self.values {
            measured = measured.with(&format!("parameter {parameter}"), plain_text(value));
        }
        if let Some(code) = failed.and_then(|status| status.code()) {
            measured = measured.with("status", code);
        }
        if let Some(signal) = failed.and_then(|status| status.signal()) {
            measured = measured.with("signal", signal);
        }
        if let Some(content) = answer {
            measured = measured.with("output", content.short());
        }
        measured
    }
}

/// Why a command's program cannot be run, to follow the command's label: it does not exist, or is
/// not executable. The program is not named again if the label is its name.
pub fn absence(program: &str, label: &str) -> String {
    let why = match Path::new(program).metadata() {
        Ok(there) if there.is_dir() => "is a directory and no program",
        Ok(_) => "is not a program (a file of comparisons ends in .toml)",
        // Looked for in this place alone, where a build would put the program.
        Err(_) if program.contains('/') => "does not exist",
        Err(_) => "is not installed",
    };
    if program == label { why.to_owned() } else { format!("{program} {why}") }
}

/// `text` without the characters that an export refuses.
fn plain_text(text: &str) -> String {
    // The store and the terminal take no control characters.
    text.replace(|c: char| c.is_control() && !"\n\r\t".contains(c), "\u{fffd}")
}
