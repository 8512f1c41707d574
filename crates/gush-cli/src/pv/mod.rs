//! `gush pv`: pv's command line. The engine moves the bytes, and a thread of its own shows how far they are.

mod account;
mod bar;
mod cut;
mod figures;
mod format;
mod inputs;
mod line;
mod meter;
mod moving;
mod options;
mod pipes;
mod screen;
mod seen;
mod skip;
mod slot;
mod status;
mod steward;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::CommandFactory;
use gush::{Rate, Throttle};
use gush_process::Then as Fate;

use crate::args;
use crate::talk::{Talker, errno_text, os_text};
use account::{Account, Early};
use line::Look;
use moving::{Moving, Output, shown};
use options::{Expected, Options};
use pipes::Pipes;
use screen::{Screen, Wishes};
use seen::{Observed, Wanted};
use status::Status;
use steward::{Numeric, Plan, Steward};

/// The one definition behind `gush pv`: help, manual page and completions come from it.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs `pv` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let options: Options = match args::parse_as_gnu(command(), options::PV, words, as_name) {
        Ok(options) => options,
        Err(status) if status == ExitCode::SUCCESS => return status,
        Err(_) => return Status::MISUSE.into(),
    };
    // A reader that leaves is told by EPIPE: the end is shown first.
    gush_process::ignore_sigpipe();
    let talker = Talker::new(as_name);
    match transfer(&options, &talker) {
        Ok(status) | Err(status) => status.into(),
    }
}

fn transfer(options: &Options, talker: &Talker) -> Result<Status, Status> {
    let fail = |status: Status, what: std::fmt::Arguments<'_>| {
        talker.say(what);
        status
    };
    let output =
        open_output(options).map_err(|(status, why)| fail(status, format_args!("{why}")))?;
    let mut expected =
        expected(options).map_err(|why| fail(Status::MISUSE, format_args!("{why}")))?;
    let device_bytes = inputs::device_bytes(&output).filter(|_| expected.is_none());
    expected = expected.or(device_bytes);
    let look = Look::new(&options.display, options.counts_lines(), expected.is_some());
    let observed = Observed::new(Wanted {
        lines: options.counts_lines(),
        separator: options.separator(),
        last_bytes: look.last_bytes(),
        last_line: look.has_last_line(),
    });
    let throttle = Throttle::new(options.display.rate_limit.and_then(Rate::bytes_per_second));
    let account = Arc::new(Account::new(observed, options.counts_lines(), throttle));
    account.expect(expected);
    end_on_signals(&account).map_err(|errno| {
        fail(Status::MISUSE, format_args!("signals cannot be watched: {}", errno_text(errno)))
    })?;
    let pid_file = options.pidfile.as_deref().map(PidFile::write).transpose();
    let _pid_file = pid_file.map_err(|(file, error)| {
        fail(Status::OTHER, format_args!("{}: {}", shown(&file), os_text(&error)))
    })?;
    let screen = Arc::new(Mutex::new(Screen::new(wishes(options), talker)));
    let is_shown = screen.lock().unwrap_or_else(PoisonError::into_inner).is_used();
    let plan = plan(options, look);
    let steward = match is_shown || options.stall_timeout.is_some() {
        true => Some(Steward::start(plan, &account, &screen).map_err(|errno| {
            fail(Status::MISUSE, format_args!("progress cannot be shown: {}", errno_text(errno)))
        })?),
        false => None,
    };
    let pipes = if options.no_boost { None } else { Some(Pipes::as_they_are()) };
    let mut moving = Moving {
        options,
        account,
        screen,
        output,
        status: Status::default(),
        stops_at_size: options.stop_at_size || device_bytes.is_some(),
        is_familiar: talker.is_familiar(),
    };
    moving.run();
    if let Some(steward) = steward {
        steward.finish();
    }
    drop(pipes);
    let Moving { output, mut status, .. } = moving;
    if let Output::File(file) = output
        && let Err(errno) = nix::unistd::close(std::os::fd::OwnedFd::from(file))
    {
        status.add(fail(Status::UNCLOSED, format_args!("close failed: {}", errno.desc())));
    }
    Ok(status)
}

/// Standard output, `--output`, or /dev/null for `--discard`.
fn open_output(options: &Options) -> Result<Output, (Status, String)> {
    let name = match (&options.output, options.discard) {
        (_, true) => OsStr::new("/dev/null"),
        (Some(name), false) => name,
        (None, false) if gush_process::was_closed(1) => {
            let why = errno_text(gush::Errno::BADF);
            return Err((Status::TRANSFER, format!("write failed: {why}")));
        }
        (None, false) => return Ok(Output::Stdout),
    };
    let unopened = |why: String| (Status::UNOPENED, format!("{}: {why}", shown(name)));
    for input in &options.files {
        if is_same_file(Path::new(input), Path::new(name)) {
            return Err((
                Status::SAME_FILE,
                format!("input file is output file: {}", shown(input)),
            ));
        }
    }
    let file = File::options().write(true).create(true).truncate(true).open(name);
    file.map(Output::File).map_err(|error| unopened(os_text(&error)))
}

/// Are both the same regular file? Opening would empty the input.
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else { return false };
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// What the options or the inputs say about the size.
fn expected(options: &Options) -> Result<Option<u64>, String> {
    match &options.display.size {
        Some(Expected::Number(0)) => Ok(None),
        Some(Expected::Number(number)) => Ok(Some(*number)),
        Some(Expected::AsLargeAs(path)) => {
            let bytes = inputs::bytes_at(Path::new(path));
            bytes
                .map(Some)
                .map_err(|error| format!("-s: {}: {}", shown(path.as_ref()), os_text(&error)))
        }
        // The lines of files are not known without reading them.
        None if options.counts_lines() => Ok(None),
        None if options.files.is_empty() => Ok(inputs::total_bytes([OsStr::new("-")].into_iter())),
        None => Ok(inputs::total_bytes(options.files.iter().map(OsString::as_os_str))),
    }
}

fn wishes(options: &Options) -> Wishes {
    let display = &options.display;
    let (quiet, numeric, cursor) = (display.quiet, display.numeric, display.cursor);
    Wishes { quiet, numeric, force: options.force, cursor }
}

fn plan(options: &Options, look: Look) -> Plan {
    /// pv's own limits.
    const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
    const LONGEST_INTERVAL: Duration = Duration::from_secs(600);
    let display = &options.display;
    let interval = display.interval.unwrap_or(Duration::from_secs(1));
    Plan {
        look,
        columns: display.width,
        interval: interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
        window: display.average_rate_window.unwrap_or(Duration::from_secs(30)),
        waits: options.wait,
        delay: options.delay_start.unwrap_or_default(),
        numeric: display.numeric.then_some(Numeric {
            timer: display.timer,
            amount: display.bytes,
            rate: display.rate,
        }),
        statistics: options.stats,
        stall: options.stall_timeout,
    }
}

/// The first ending signal ends the transfer in order, unless a call holds it; the second ends the process.
fn end_on_signals(account: &Arc<Account>) -> Result<(), gush::Errno> {
    let account = Arc::clone(account);
    gush_process::on_each_termination(move |_| {
        let is_second = account.ended_early().is_some();
        account.end_early(Early::Signal);
        if is_second || account.is_held() {
            return Fate::Die;
        }
        Fate::GoOn
    })
}

/// The file of `-P`, as long as the process runs.
struct PidFile<'a>(&'a OsStr);

impl<'a> PidFile<'a> {
    fn write(name: &'a OsStr) -> Result<Self, (OsString, std::io::Error)> {
        let text = format!("{}\n", std::process::id());
        std::fs::write(name, text).map_err(|error| (name.to_owned(), error))?;
        Ok(Self(name))
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        // Who has removed the file already has done the work.
        let _ = std::fs::remove_file(self.0);
    }
}
