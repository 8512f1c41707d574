//! `gush tune`: teaches the engine what is fastest here.

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
use gush_lab::tune::{self, Place};

use crate::args;
use crate::talk::Talker;
use show::Screen;

/// Measure which choices are fastest here, and let the engine act on them
///
/// Tries the methods that the engine's table permits between files, pipes and sockets, with several sizes
/// of buffers and pipes, and writes a profile of those that are surely faster here than the table's
/// choice. gush cp, cat and the others follow the profile as long as kernel and processors are the same;
/// --no-profile ignores the profile, and so does everybody once the file is removed. An interrupt writes nothing.
#[derive(Debug, Parser)]
#[command(name = "tune", version, max_term_width = 100)]
struct Options {
    /// Measure files in DIR; several name several file systems [default: here, and shared memory]
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

/// The one definition behind `gush tune`, its help, its manual page and its completions.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs `tune` with `words`, the arguments after its name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let options: Options = match args::parse(command(), words, "gush tune") {
        Ok(options) => options,
        Err(status) => return status,
    };
    let talker = Talker::new("gush tune");
    match options.act(&talker) {
        Ok(status) => status,
        Err(error) => talker.fail(error.told()),
    }
}

impl Options {
    fn act(&self, talker: &Talker) -> Result<ExitCode, Error> {
        let path = self.output.clone().or_else(Profile::default_path).ok_or_else(|| {
            Error::refused("neither XDG_CONFIG_HOME nor HOME says where: name a file with --output")
        })?;
        let here = [PathBuf::from(".")];
        let dirs = if self.dir.is_empty() { &here[..] } else { &self.dir };
        let (places, notes) = Place::all(dirs)?;
        for note in notes.iter().chain(&busy()) {
            talker.say(note);
        }
        let time = Duration::from_secs(self.seconds);
        let screen = Screen::new(talker, self.json);
        if self.check {
            check(&path, &places, time, screen)
        } else {
            self.tune(&path, &places, time, screen)
        }
    }

    fn tune(
        &self,
        path: &Path,
        places: &[Place],
        time: Duration,
        mut screen: Screen<'_>,
    ) -> Result<ExitCode, Error> {
        // Better now than after a minute.
        if !self.dry_run {
            may_write(path)?;
        }
        let findings = tune::measure(places, time, |answer| screen.answer(answer))?;
        let profile = findings.profile()?;
        if !self.dry_run {
            tune::write(path, &profile)?;
        }
        let written = (!self.dry_run).then_some(path);
        screen.findings(&findings, &profile, written);
        Ok(screen.status(ExitCode::SUCCESS))
    }
}

/// Compares moves with the profile and without it; none may be surely slower.
fn check(
    path: &Path,
    places: &[Place],
    time: Duration,
    mut screen: Screen<'_>,
) -> Result<ExitCode, Error> {
    let profile = Profile::load(path).ok_or_else(|| {
        Error::refused(format!("there is no profile {}: gush tune makes one", path.display()))
    })?;
    if let (true, [note, ..]) = (profile.is_empty(), profile.notes()) {
        return Err(Error::refused(note.clone()));
    }
    let checked = tune::check(&profile, places, time, |checked| screen.checked(checked))?;
    let verdict = |checked: &tune::Checked| checked.comparison.map(|compared| compared.verdict);
    let slower = checked.iter().any(|checked| verdict(checked) == Some(Verdict::Slower));
    screen.check(&checked);
    Ok(screen.status(if slower { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

/// Tries what writing the profile will do, as far as leaves no trace: its directory is made already.
fn may_write(path: &Path) -> Result<(), Error> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let failed = |error| {
        let dir = dir.display();
        Error::failed(
            format!("the profile cannot be written into {dir} (another place: --output)"),
            error,
        )
    };
    if path.is_dir() {
        return Err(Error::refused(format!("{} is a directory: name a file", path.display())));
    }
    fs::create_dir_all(dir).map_err(failed)?;
    gush_lab::tune::may_make_files(dir).map_err(failed)
}

/// Other programs that are at work spoil figures.
fn busy() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    (load > 0.5).then(|| {
        format!(
            "other programs were at work here during the last minute (load {load}): what differs little \
             will not be told apart; better on a quiet machine"
        )
    })
}
