//! `gush tune`: measures the fastest methods here and writes the engine's profile.

mod show;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, ValueHint};
use gush::Profile;
use gush_lab::Error;
use gush_lab::stats::Verdict;
use gush_lab::tune::{self, Findings, TrialDir};
use gush_text::quote;

use crate::args;
use crate::files;
use crate::talk::Talker;
use show::Screen;

/// Measure which choices are fastest here, and let the engine act on them
///
/// Tries the methods that the engine's table permits between files, pipes and sockets, with several sizes of
/// buffers and pipes, and writes a profile of those that are surely faster here than the table's choice. gush
/// cp, cat and link follow the profile as long as kernel and processors are the same; --no-profile ignores the
/// profile, and so does every command once the file is removed. An interrupt writes nothing.
#[derive(Debug, Parser)]
#[command(name = "tune", version, max_term_width = 100)]
struct Options {
    /// Measure files in DIR; several DIRs name several file systems [default: here, and shared memory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Vec<PathBuf>,
    /// Take about N seconds
    #[arg(long, value_name = "N", default_value = "55", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Write the profile to PATH, or read it there with --check [default: where the engine looks]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print the profile instead of writing it
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Measure every choice with and without the present profile: is any slower with the profile?
    #[arg(long)]
    check: bool,
    /// Print the findings as one JSON object
    #[arg(long)]
    json: bool,
}

/// The one definition behind `gush tune`: the source of help, manual page and completions.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs `tune` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    gush_process::restore_sigchld();
    let options: Options = match args::parse(command(), words, "gush tune") {
        Ok(options) => options,
        Err(status) => return status,
    };
    let talker = Talker::new("gush tune");
    match options.act(&talker) {
        Ok(status) => status,
        Err(error) => talker.fail(error),
    }
}

impl Options {
    fn act(&self, talker: &Talker) -> Result<ExitCode, Error> {
        let path = self.output.clone().or_else(Profile::default_path).ok_or_else(|| {
            Error::refused("neither XDG_CONFIG_HOME nor HOME says where: name a file with --output")
        })?;
        let here = [PathBuf::from(".")];
        let asked = if self.dir.is_empty() { &here[..] } else { &self.dir };
        let (dirs, notes) = TrialDir::all(asked)?;
        for note in notes.iter().chain(&busy()) {
            talker.say(note);
        }
        let time = Duration::from_secs(self.seconds);
        let screen = Screen::new(talker, self.json);
        if self.check {
            check(&path, &dirs, time, screen)
        } else {
            self.tune(talker, &path, &dirs, time, screen)
        }
    }

    fn tune(
        &self,
        talker: &Talker,
        path: &Path,
        dirs: &[TrialDir],
        time: Duration,
        mut screen: Screen,
    ) -> Result<ExitCode, Error> {
        // Better an error now than after a minute.
        if !self.dry_run {
            may_write(path)?;
        }
        let findings = tune::measure(dirs, time, |answer| screen.answer(answer))?;
        let profile = findings.profile()?;
        let kept = if self.dry_run { None } else { kept(path, &findings) };
        if let Some(why) = kept {
            screen.findings(&findings, &profile, None);
            return Ok(screen.status(talker.fail(why)));
        }
        if !self.dry_run {
            tune::write(path, &profile)?;
        }
        let written = (!self.dry_run).then_some(path);
        screen.findings(&findings, &profile, written);
        Ok(screen.status(ExitCode::SUCCESS))
    }
}

/// Why an earlier profile stays: the earlier profile has rules, and there was too little time to find any.
fn kept(path: &Path, findings: &Findings) -> Option<String> {
    if findings.answers.iter().any(|answer| answer.change().is_some()) {
        return None;
    }
    let unanswered = findings.answers.iter().filter(|answer| answer.had_no_time()).count();
    let has_rules = Profile::load(path).is_some_and(|earlier| !earlier.is_empty());
    (unanswered > 0 && has_rules).then(|| {
        format!(
            "{} keeps the rules that it has: {unanswered} of {} questions had too little time, and the others gave no \
             rule (more --seconds give them time; a profile is undone by removing the file)",
            quote::if_needed(path),
            findings.answers.len()
        )
    })
}

/// Compares moves with and without the profile; no move may be surely slower with the profile.
fn check(
    path: &Path,
    dirs: &[TrialDir],
    time: Duration,
    mut screen: Screen,
) -> Result<ExitCode, Error> {
    let profile = Profile::load(path).ok_or_else(|| {
        let path = quote::if_needed(path);
        Error::refused(format!("there is no profile {path}: gush tune makes one"))
    })?;
    if let (true, [note, ..]) = (profile.is_empty(), profile.notes()) {
        return Err(Error::refused(note.clone()));
    }
    let checked = tune::check(&profile, dirs, time, |checked| screen.checked(checked))?;
    let verdict = |checked: &tune::Checked| checked.comparison.map(|compared| compared.verdict);
    let slower = checked.iter().any(|checked| verdict(checked) == Some(Verdict::Slower));
    screen.check(&checked);
    Ok(screen.status(if slower { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

/// Makes the profile's directory, and tests whether the profile can be written there, without leaving a file.
fn may_write(path: &Path) -> Result<(), Error> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let failed = |error| {
        let dir = quote::if_needed(dir);
        Error::failed(
            format!("the profile cannot be written into {dir} (another place: --output)"),
            error,
        )
    };
    files::takes_text(path).map_err(Error::refused)?;
    fs::create_dir_all(dir).map_err(failed)?;
    gush_lab::tune::may_make_files(dir).map_err(failed)
}

/// A warning if other programs were at work, because they spoil the figures.
fn busy() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    (load > 0.5).then(|| {
        format!(
            "other programs were at work here during the last minute (load {load}): small differences \
             will not be told apart; better on a quiet machine"
        )
    })
}
