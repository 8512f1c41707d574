//! `gush cp`: GNU cp's command line for files and trees, with further guarantees.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use gush_text::{errno_text, quote};
use gush_tree::{
    Census, Copier, CopyOptions, Destination, Done, Error, Name, Naming, NamingError, Parents,
    Place, Shard, journal_path, shards_path, strip_trailing_slashes,
};
use rustix::fs::FileType;

use crate::args;
use crate::console::{Console, die_if_nobody_reads};

mod attributes;
mod choice;
mod command;
mod json;
mod progress;
mod remote;
mod say;
mod settings;
mod shard;

use command::Words;
pub use command::command;
use say::Reporter;
use settings::Settings;
pub use settings::When;

/// Runs `cp` with the arguments `words`. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    // Leave no temporary files, even on EPIPE on standard error.
    let console = Console::new(as_name).ending_unread(gush_tree::remove_temporaries);
    let words: Words = match args::parse_as_gnu(command(as_name), command::GNU, words, as_name) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let misuse = |text: String| {
        console.say(text);
        console.print(format_args!("Try '{as_name} --help' for more information.\n"));
        ExitCode::FAILURE
    };
    // A FIFO without a reader then fails with EPIPE, and only if there are bytes to write.
    gush_process::ignore_sigpipe();
    // EFBIG at the limit on file sizes (ulimit -f) is reported, and leaves no temporary file.
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    let mut settings = match Settings::read(&words) {
        Ok(settings) => settings,
        Err(text) => return misuse(text),
    };
    for warning in &settings.warnings {
        console.say(warning);
    }
    // Called by the name of GNU cp, it has local files alone.
    if as_name != "cp" {
        match remote::RemoteCopy::read(&words, &settings) {
            Ok(None) => {}
            Ok(Some(copy)) => return remote::run(&settings, &copy, as_name, &console),
            Err(text) => return misuse(text),
        }
    }
    if goes_on(&settings.options, &settings.naming, &settings.operands) {
        // The first attempt created the directory: copying into it would start a new copy.
        settings.naming.no_target_directory = true;
    }
    // Finding the destination removes the target from the operands, and may be repeated below.
    let operands = settings.operands.clone();
    let mut destination = settings.naming.destination(&mut settings.operands);
    // Another rank may have created the directory since.
    if settings.options.shard.is_some() && goes_on(&settings.options, &settings.naming, &operands) {
        settings.naming.no_target_directory = true;
        settings.operands = operands;
        destination = settings.naming.destination(&mut settings.operands);
    }
    let destination = match destination {
        Ok(destination) => destination,
        Err(NamingError::Usage(text)) => return misuse(text),
        Err(NamingError::Target(error)) => return console.fail(error),
    };
    if let Some(target) = mixed_with_records(&settings, &destination) {
        return misuse(format!(
            "{}: is standard output, which --json uses for its records; choose another target",
            quote::if_needed(&target)
        ));
    }
    // A copy without anything to clean up dies of a signal by default, as GNU cp does.
    let shard = settings.options.shard;
    if (settings.options.makes_temporaries() || settings.naming.parents || shard.is_some())
        && let Err(errno) = gush_process::on_termination(clean_up(shard, console.clone()))
    {
        let why = errno_text(errno);
        return console.fail(format_args!("cannot watch for signals: {why}"));
    }
    if settings.options.recursive {
        // A deep tree needs up to two descriptors per level.
        gush_process::raise_descriptor_limit();
    }
    let mut reporter = Reporter::new(as_name, &console, &settings);
    // A rank copies only a part, so the total would mislead.
    if settings.options.recursive && settings.options.shard.is_none() && reporter.shows_progress() {
        let name = |operand: &PathBuf| source_name(&settings, operand).to_path_buf();
        let sources = settings.operands.iter().map(name).collect();
        reporter.expect(count_ahead(&settings.options, sources));
    }
    let copied = match &destination {
        Destination::File { path, missing } => to_file(&settings, path, *missing, &mut reporter),
        Destination::Directory { path, dir } => {
            into_directory(&settings, path, dir.as_fd(), &mut reporter)
        }
    };
    // Not `&&`: the summary is printed after a failure, too.
    match copied & reporter.finish() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Cleans up at a signal. A rank also reports how to continue, since all ranks have to be
/// restarted.
fn clean_up(shard: Option<Shard>, console: Console) -> impl FnOnce() + Send + 'static {
    move || {
        gush_tree::remove_temporaries();
        if let Some(shard) = shard {
            console.say_at_once(shard::interrupted(shard));
        }
    }
}

/// Counts the files to be copied, on a thread that is not joined.
fn count_ahead(options: &CopyOptions, sources: Vec<PathBuf>) -> Arc<Census> {
    let census = Arc::new(Census::default());
    let options = options.clone();
    let counted = Arc::clone(&census);
    // Without a thread there are no totals.
    let _ = thread::Builder::new().spawn(move || {
        let sources: Vec<_> = sources.iter().map(PathBuf::as_path).collect();
        // A shorter copy shows nothing.
        thread::sleep(progress::SHOWN_AFTER);
        let _ = gush_process::leave_real_time();
        // The census takes a tenth of the time of copying small files: let the copy go first
        // (setpriority(2) of this thread).
        let _ = rustix::process::setpriority_process(None, 19);
        counted.count(&options, &sources);
    });
    census
}

/// Whether a copy to this name was interrupted, or another rank has started it.
fn goes_on(options: &CopyOptions, naming: &Naming, operands: &[PathBuf]) -> bool {
    match operands {
        // Only two plain operands name the copy itself; with -t it is created in the directory.
        [_, target] if options.shard.is_some() && naming.target_directory.is_none() => {
            shards_path(target).is_some_and(|state| state.is_dir())
        }
        [_, target] if options.resume && naming.target_directory.is_none() => {
            journal_path(target).is_some_and(|journal| journal.is_file())
                // This is refused later, unlike a copy into the directory.
                || shards_path(target).is_some_and(|state| state.is_dir())
        }
        _ => false,
    }
}

/// The target that is standard output, where the records of `--json` go.
fn mixed_with_records(settings: &Settings, destination: &Destination) -> Option<PathBuf> {
    if !settings.messages.json || gush_process::was_closed(1) {
        return None;
    }
    let output = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    // /dev/null discards both.
    if FileType::from_raw_mode(output.st_mode) == FileType::CharacterDevice
        && output.st_rdev == rustix::fs::makedev(1, 3)
    {
        return None;
    }
    let is_output = |target: &PathBuf| {
        std::fs::metadata(target)
            // /dev/stdout and a redirection have the same device and inode.
            .is_ok_and(|there| (there.dev(), there.ino()) == (output.st_dev, output.st_ino))
    };
    match destination {
        Destination::File { path, .. } => Some(path.to_path_buf()).filter(is_output),
        Destination::Directory { path, .. } => {
            let below = |operand| settings.naming.name_below(source_name(settings, operand));
            settings.operands.iter().map(|operand| path.join(below(operand))).find(is_output)
        }
    }
}

/// Copies one source to the name `target`.
fn to_file(settings: &Settings, target: &Path, missing: bool, reporter: &mut Reporter<'_>) -> bool {
    let source = source_name(settings, &settings.operands[0]);
    let aside = backup_of_itself(settings, source, target);
    let (options, target) = match &aside {
        Some((options, backup)) => (options, backup.as_path()),
        None => (&settings.options, target),
    };
    let (from, to) = (Place::here(source), Place::here(target));
    let name = if missing && aside.is_none() { Name::Free } else { Name::Any };
    timed((source, target), reporter, |reporter| {
        Copier::new(options).copy_to(from, to, name, reporter)
    })
}

/// `cp -f -b FILE FILE` copies FILE to the name of its backup.
fn backup_of_itself(
    settings: &Settings,
    source: &Path,
    target: &Path,
) -> Option<(CopyOptions, PathBuf)> {
    let backup = settings.options.backup.as_ref().filter(|_| settings.options.force)?;
    if source != target || !std::fs::metadata(target).is_ok_and(|file| file.is_file()) {
        return None;
    }
    let name = backup.name_for(&Place::here(target)).ok()?;
    let mut options = settings.options.clone();
    options.backup = None;
    Some((options, name))
}

fn into_directory(
    settings: &Settings,
    path: &Path,
    dir: BorrowedFd<'_>,
    reporter: &mut Reporter<'_>,
) -> bool {
    let options = &settings.options;
    // Several operands may have the same name in the target.
    let mut copier = match settings.operands.len() {
        1 => Copier::new(options),
        _ => Copier::for_several(options),
    };
    let mut all_well = true;
    for operand in &settings.operands {
        let source = source_name(settings, operand);
        let name = settings.naming.name_below(source);
        let shown = path.join(name);
        let target = Place::below(dir, name, &shown);
        // As GNU cp, go on after a failed operand.
        all_well &= timed((source, &shown), reporter, |reporter| {
            let parents = match settings.naming.parents {
                true => Parents::make(options, (dir, path), source, name, reporter)?,
                false => Parents::default(),
            };
            let result =
                copier.copy_to(Place::here(source), target, Name::Below(&parents), reporter);
            // Last, since copying into a directory changes its times.
            let complete = parents.finish(reporter);
            result.map(|mut done| {
                done.complete &= complete;
                done
            })
        });
        if options.stop_at_error && !all_well {
            break;
        }
    }
    all_well
}

fn source_name<'a>(settings: &Settings, operand: &'a Path) -> &'a Path {
    match settings.strips_slashes {
        true => strip_trailing_slashes(operand),
        false => operand,
    }
}

fn timed<'t>(
    names: (&Path, &Path),
    reporter: &mut Reporter<'t>,
    copy: impl FnOnce(&mut Reporter<'t>) -> Result<Done, Error>,
) -> bool {
    let start = Instant::now();
    let result = copy(reporter);
    if let Some(error) = result.as_ref().err().and_then(Error::io_error) {
        die_if_nobody_reads(error);
    }
    reporter.ended(names, Some(start.elapsed().as_secs_f64()), &result)
}
