//! `gush tee`: GNU tee's command line. The engine's [`Tee`] copies, by reference where tee(2) and
//! splice(2) can.

mod address;
mod options;

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::CommandFactory;
use gush::{Control, Loss, Tee};
use gush_text::{errno_text, noted, os_text, quote};
use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, stat};
use rustix::io::Errno;

use crate::args;
use crate::console::{Console, remedy_to_store};
use crate::files;
use address::Remote;
use options::{Mode, TeeArgs};

/// The definition of `gush tee`, from which help, manual page and completions are made.
pub fn command() -> clap::Command {
    TeeArgs::command()
}

/// Runs `tee` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let options: TeeArgs = match args::parse_as_gnu(command(), options::GNU, words, as_name) {
        Ok(options) => options,
        Err(status) => return status,
    };
    // Writes then fail with EPIPE, and the other outputs still get their bytes.
    gush_process::ignore_sigpipe();
    if options.ignore_interrupts {
        gush_process::ignore_interrupts();
    }
    let mut console = Console::new(as_name);
    // Likewise EFBIG at the limit on file sizes.
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    if options.mode().is_none() {
        // GNU tee ignores SIGPIPE with -p and --output-error.
        console = console.ending_unread(|| {});
    }
    let mut reporter = Reporter { options: &options, console, failed: false, died: false };
    let Some(outputs) = open_outputs(&mut reporter, as_name) else { return ExitCode::FAILURE };
    if !outputs.is_empty() {
        copy(&outputs, &mut reporter);
    }
    // As in GNU tee, standard output is last.
    let (stdout, files) = outputs
        .into_iter()
        .partition::<Vec<_>, _>(|output| !matches!(output.place, Place::Named(..)));
    files.into_iter().chain(stdout).for_each(|output| reporter.closed(output));
    if reporter.died {
        gush_process::die_of_sigpipe();
    }
    if reporter.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Where the bytes go.
struct Output<'a> {
    place: Place<'a>,
    /// The link to an address, whose pipe is the file.
    remote: Option<Remote>,
    /// The bytes written to an address when its reader was gone.
    left_after_bytes: OnceLock<u64>,
}

enum Place<'a> {
    Stdout,
    /// Standard output was closed: a read-only file, which also fails at the first byte.
    Closed(File),
    Named(&'a OsStr, File),
}

impl<'a> Output<'a> {
    fn new(place: Place<'a>, remote: Option<Remote>) -> Self {
        Self { place, remote, left_after_bytes: OnceLock::new() }
    }

    fn stdout() -> io::Result<Self> {
        let place = match gush_process::was_closed(1) {
            true => Place::Closed(File::open("/dev/null")?),
            false => Place::Stdout,
        };
        Ok(Self::new(place, None))
    }
}

impl AsFd for Output<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.place {
            Place::Closed(file) | Place::Named(_, file) => file.as_fd(),
            Place::Stdout => rustix::stdio::stdout(),
        }
    }
}

/// Opens the outputs. `None` on a failure that the mode does not permit.
fn open_outputs<'a>(reporter: &mut Reporter<'a>, as_name: &str) -> Option<Vec<Output<'a>>> {
    let mut outputs = Vec::with_capacity(1 + reporter.options.files.len());
    let stdout = rustix::stdio::stdout();
    if is_written(stdout) && is_source(fstat(stdout)) {
        reporter.failure(format_args!("{STDOUT}: {IS_SOURCE}"));
    } else {
        match Output::stdout() {
            Ok(output) => outputs.push(output),
            Err(_) => reporter.failure(format_args!("{STDOUT}: {}", errno_text(Errno::BADF))),
        }
    }
    if reporter.failed && reporter.exits() {
        return None;
    }
    for name in &reporter.options.files {
        match open(name, reporter.options.append) {
            Ok(file) => outputs.push(Output::new(Place::Named(name, file), None)),
            Err(Unopened::Error(error)) => {
                let remedy = remedy_to_store(name.as_ref(), &error);
                reporter.console.say_unopened(name, &error, remedy.as_deref());
                reporter.failed = true;
            }
            Err(Unopened::Source) => {
                let name = quote::if_needed(name.as_ref());
                reporter.failure(format_args!("{name}: {IS_SOURCE}"));
            }
        }
        if reporter.failed && reporter.exits() {
            return None;
        }
    }
    for address in &reporter.options.to {
        match Remote::open(address, as_name) {
            Ok((file, remote)) => {
                let place = Place::Named(address, file);
                outputs.push(Output::new(place, Some(remote)));
            }
            Err(why) => reporter.failure(why),
        }
        if reporter.failed && reporter.exits() {
            return None;
        }
    }
    Some(outputs)
}

enum Unopened {
    Error(io::Error),
    /// The file is the source: opening would truncate it, and appending would never end.
    Source,
}

fn open(name: &OsStr, append: bool) -> Result<File, Unopened> {
    if is_source(stat(name)) {
        return Err(Unopened::Source);
    }
    let mut how = OpenOptions::new();
    let how = if append { how.append(true) } else { how.write(true).truncate(true) };
    let file = files::open(name, how.create(true)).map_err(Unopened::Error)?;
    never_wait_in_a_fifo(&file);
    Ok(file)
}

/// A FIFO, also the pipe of `>(…)`, refuses writes with `RWF_NOWAIT` (`fifo_open` of fs/pipe.c), so
/// that only a page goes at a time once poll(2) has found room. The description is our own.
fn never_wait_in_a_fifo(file: &File) {
    let is_fifo =
        fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if is_fifo && let Ok(flags) = fcntl_getfl(file) {
        // Refused, the file is still written, page by page.
        let _ = fcntl_setfl(file, flags | OFlags::NONBLOCK);
    }
}

/// Whether this is the regular file at standard input.
fn is_source(file: rustix::io::Result<Stat>) -> bool {
    let source = fstat(rustix::stdio::stdin());
    source.is_ok_and(|source| file.is_ok_and(|file| files::is_same_file(&source, &file)))
}

fn is_written(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR))
}

const IS_SOURCE: &str = "input file is output file";
const STDOUT: &str = "'standard output'";

fn copy(outputs: &[Output<'_>], reporter: &mut Reporter<'_>) {
    if gush_process::was_closed(0) {
        return reporter.failure(format_args!("read error: {}", errno_text(Errno::BADF)));
    }
    let options = reporter.options;
    let stdin = rustix::stdio::stdin();
    let mut tee = Tee::new(&stdin).method(options.method).isolated(options.isolated);
    for output in outputs {
        tee = tee.to(output);
    }
    if let Some(bytes) = options.buffer_size {
        tee = tee.buffer_bytes(bytes);
    }
    if let Some(bytes) = options.pipe_size {
        tee = tee.pipe_bytes(bytes);
    }
    if let Some(bytes) = options.buffer {
        // Less than a page would take many calls.
        tee = tee.backlog_bytes(bytes.max(rustix::param::page_size()));
    }
    if let Some(time) = options.drop_slow {
        tee = tee.most_stall(time);
    }
    // As in GNU tee, only -p notices a closed reader while the input is idle.
    if reporter.mode().spares_pipes && options.mode().is_some() {
        tee = tee.sees_hang_ups();
    }
    let mut lost = |loss: &Loss| reporter.lost(&outputs[loss.target], loss);
    match tee.on_loss(&mut lost).run() {
        Ok(report) if options.explain => {
            for line in report.explain().to_string().lines() {
                reporter.console.say(format_args!("standard input: {line}"));
            }
        }
        Ok(_) => {}
        Err(error) => reporter.source_failed(&error),
    }
}

/// Reports errors, and keeps the exit status.
struct Reporter<'a> {
    options: &'a TeeArgs,
    console: Console,
    failed: bool,
    /// The reader of a pipe is gone, which ends a filter silently.
    died: bool,
}

impl Reporter<'_> {
    fn mode(&self) -> Mode {
        self.options.mode().unwrap_or(Mode { exits: false, spares_pipes: true })
    }

    fn exits(&self) -> bool {
        self.mode().exits
    }

    fn failure(&mut self, why: impl std::fmt::Display) {
        self.console.say(why);
        self.failed = true;
    }

    /// Reports a failed output.
    fn lost(&mut self, output: &Output<'_>, loss: &Loss) -> Control {
        let by_pipe = loss.errno() == Some(Errno::PIPE);
        if let (true, Some(remote)) = (by_pipe, &output.remote) {
            // A failed link reports its own error at its end.
            let _ = output.left_after_bytes.set(loss.delivered_bytes);
            let spared = remote.is_program && self.mode().spares_pipes;
            return if self.exits() && !spared { Control::Stop } else { Control::Continue };
        }
        // GNU tee dies of the signal; here the other outputs first get the bytes in flight.
        if by_pipe && self.options.mode().is_none() && !gush_process::sigpipe_was_ignored() {
            self.died = true;
            return Control::Stop;
        }
        if !(by_pipe && self.mode().spares_pipes) {
            let name = name(output);
            let after = loss.delivered_bytes;
            match loss.errno() {
                Some(Errno::TIMEDOUT) => {
                    self.failure(format_args!("{name}: too slow, dropped after {after} bytes"));
                }
                Some(errno) => {
                    let hint = gush::hint_for(gush::Side::Target, errno);
                    let note = noted(&format!("after {after} bytes"), hint);
                    self.failure(format_args!("{name}: {}{note}", errno_text(errno)));
                }
                None => self.failure(format_args!("{name}: {}", loss.failure)),
            }
        }
        if self.exits() && self.failed { Control::Stop } else { Control::Continue }
    }

    fn source_failed(&mut self, error: &gush::Error) {
        let cause = error.io_error().map_or_else(|| error.to_string(), os_text);
        if error.call() == Some(gush::Call::Mmap) && self.options.buffer.is_some() {
            return self.failure(format_args!("no memory for --buffer: {cause}"));
        }
        let how_far = match error.is_refused() {
            true => error.to_string(),
            false => format!("after {} bytes", error.delivered_bytes()),
        };
        self.failure(format_args!("read error: {cause}{}", noted(&how_far, error.hint())));
    }

    /// Closes an output, for errors that only close(2) returns, such as a full quota on NFS.
    fn closed(&mut self, output: Output<'_>) {
        let name = name(&output);
        let (closed, what) = match output.place {
            Place::Named(_, file) => (files::close(file), &*name),
            // Standard output stays open.
            Place::Stdout => (files::close_twin(rustix::stdio::stdout()), "write error"),
            Place::Closed(_) => return,
        };
        if let Err(error) = closed {
            self.failure(format_args!("{what}: {}", os_text(&error)));
        }
        let Some(remote) = output.remote else { return };
        // As in GNU tee, with -p a program may exit early.
        let spared = remote.is_program && self.options.mode().is_some_and(|mode| mode.spares_pipes);
        // The end of the pipe is the end of the link.
        match (remote.finish(), output.left_after_bytes.get()) {
            (false, _) => self.failed = true,
            (true, Some(bytes)) if !spared => {
                self.failure(format_args!("{name}: exited early ({bytes} bytes were written)"));
            }
            (true, _) => {}
        }
    }
}

fn name(output: &Output<'_>) -> String {
    match &output.place {
        Place::Named(name, _) => quote::if_needed(name.as_ref()).to_string(),
        Place::Stdout | Place::Closed(_) => STDOUT.to_owned(),
    }
}
