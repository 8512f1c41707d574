//! A transfer from the inputs to the output, from the command line to the status.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use gush::{Endpoint, Errno, Kind, Rate};
use gush_text::{Doing, errno_text, in_brackets, os_text, quote};
use rustix::fs::{SeekFrom, fstat, seek, stat};
use rustix::pipe::fcntl_getpipe_size;
use rustix::stdio::stdout;

use super::args::PvArgs;
use super::direct::Direct;
use super::display::{DelayedStart, DisplayHandle, Plan, Transfers};
use super::inspect::Inspect;
use super::line::{Layout, Subject};
use super::moving::{Moving, Output, shown};
use super::pipes::{self, Enlarged};
use super::screen::Screen;
use super::signals::{SignalHandler, lock};
use super::state::TransferState;
use super::status::Status;
use super::{asked_size, inputs, json, plan, store};
use crate::console::{Console, remedy_to_store};
use crate::files;

/// State shared by the transfers of one command line.
pub struct Session<'a> {
    pub options: &'a PvArgs,
    pub console: &'a Console,
    pub screen: Arc<Mutex<Screen>>,
    pub signals: Arc<SignalHandler>,
    pub delayed: Arc<DelayedStart>,
    /// The value of `--size`.
    pub asked: Option<u64>,
    /// The expected size of the inputs.
    pub expected: Option<u64>,
    /// The size of the inputs, if the number of their lines is estimated.
    estimated_bytes: Option<u64>,
    /// The size of the output, if it is a block device.
    pub device_bytes: Option<u64>,
    /// The output, if it is a pipe.
    pipe: Option<Enlarged<OwnedFd>>,
}

/// A transfer from the inputs to the output, or a half of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Whole,
    /// From the inputs to the file of `--store-and-forward`.
    Store,
    /// From that file to the output.
    Forward,
}

/// Moves the inputs to the output.
///
/// # Errors
/// The status; the error has been reported.
pub fn run(options: &PvArgs, console: &Console) -> Result<Status, Status> {
    let output = open_output(options, console)?;
    let session = Session::new(options, console, &output)?;
    let (mut status, output) = match &options.store_and_forward {
        Some(name) => store::run(&session, name, output)?,
        None => {
            let files = &options.files;
            let moved = session.transfer(files, session.expected, output, Stage::Whole)?;
            (moved.status, moved.output)
        }
    };
    status.add(close(output, console));
    Ok(status)
}

/// Closes an output, for errors that only close(2) returns, such as a full quota on NFS.
pub fn close(output: Output, console: &Console) -> Status {
    let closed = match output {
        Output::File(file) => files::close(file),
        Output::Stdout => files::close_twin(stdout()),
    };
    match closed {
        Ok(()) => Status::default(),
        Err(error) => {
            Status::UNCLOSED.report(console, format_args!("close failed: {}", os_text(&error)))
        }
    }
}

/// The rate of `--rate-limit`, of which 0 is none.
fn rate(options: &PvArgs) -> Rate {
    options.display.rate_limit.and_then(Rate::bytes_per_second).unwrap_or_default()
}

impl<'a> Session<'a> {
    /// # Errors
    /// The status; the error has been reported.
    pub fn new(options: &'a PvArgs, console: &'a Console, output: &Output) -> Result<Self, Status> {
        let asked = asked_size(&options.display, console)?;
        // As in pv, a size of 0 is that of the inputs.
        let total = asked.or_else(|| total_bytes(options));
        let is_estimate = options.counts_lines() && asked.is_none();
        let (expected, estimated_bytes) = if is_estimate { (None, total) } else { (total, None) };
        let is_free = total.is_none() && !options.counts_lines();
        let device_bytes = inputs::device_bytes(output).filter(|_| is_free);
        let screen = Arc::new(Mutex::new(Screen::new(options, console)));
        let delayed = Arc::new(DelayedStart::default());
        let signals = SignalHandler::begin(&screen, Some(&delayed), console)?;
        let is_pipe = fcntl_getpipe_size(output).is_ok();
        let twin = is_pipe.then(|| output.as_fd().try_clone_to_owned().ok()).flatten();
        let pipe = twin.filter(|_| gush_process::has_room()).and_then(pipes::enlarge);
        signals.write_pid(options, console).inspect_err(|_| lock(&screen).leave())?;
        Ok(Self {
            options,
            console,
            screen,
            signals,
            delayed,
            asked,
            expected,
            estimated_bytes,
            device_bytes,
            pipe,
        })
    }

    /// The state of a transfer, which signals can stop.
    pub fn state(&self, expected: Option<u64>, plan: &Plan, stage: Stage) -> Arc<TransferState> {
        let options = self.options;
        let layouts = plan.layouts();
        let wanted = Inspect {
            last_bytes: layouts.clone().map(Layout::last_bytes).max().unwrap_or(0),
            last_line: { layouts }.any(Layout::has_last_line),
            // Of the output: with -U the bytes pass twice.
            checksum: options.checksum.filter(|_| stage != Stage::Store),
            ..options.inspect()
        };
        let state = Arc::new(TransferState::new(wanted, rate(options)));
        state.expect(expected);
        state.estimate_lines_in(self.estimated_bytes.filter(|_| stage != Stage::Forward));
        self.signals.add(&state);
        state
    }

    /// What the display options show; `name` replaces that of `--name`.
    pub fn plan(&self, expected: Option<u64>, name: Option<&str>, has_out: bool) -> Plan {
        let mut display = self.options.display.clone();
        display.name = name.map(str::to_owned).or(display.name);
        let is_sized = expected.is_some() || self.estimated_bytes.is_some();
        let counts_lines = self.options.counts_lines();
        let subject = Subject { counts_lines, is_sized, has_out };
        plan(self.options, Layout::new(&display, subject))
    }

    /// Moves `files` to `output`, and shows that. Returns how far that came.
    ///
    /// # Errors
    /// The status if the display cannot start; the error has been reported.
    pub fn transfer(
        &self,
        files: &[OsString],
        expected: Option<u64>,
        output: Output,
        stage: Stage,
    ) -> Result<Moving<'_>, Status> {
        let expected = expected.or(self.device_bytes);
        let name = (stage == Stage::Store).then_some("(input)");
        let plan = self.plan(expected, name, false);
        let state = self.state(expected, &plan, stage);
        let transfers = Transfers { shown: &state, out: None, watched: &[&state] };
        let display = self.show(plan, &transfers)?;
        let direct = self.options.direct_io.then(|| Direct::set(&output));
        let mut moving = self.moving(&state, output);
        if let (Stage::Store, Some(name)) = (stage, &self.options.store_and_forward) {
            moving.output_name = match name.as_encoded_bytes() {
                b"-" => "the -U file".to_owned(),
                _ => format!("{} (-U)", quote::if_needed(name.as_ref())),
            };
        }
        if stage == Stage::Forward {
            // The file has neither the skipped bytes nor those after the size.
            (moving.skip_bytes, moving.stops_at_size) = (0, false);
        }
        moving.run(files);
        drop(direct);
        display.finish(stage != Stage::Store);
        moving.status.add(self.report_checksum(&state));
        Ok(moving)
    }

    /// Whether the transfer ends at its size, which an estimated number of lines does not.
    fn stops_at_size(&self) -> bool {
        let options = self.options;
        options.stop_at_size && (options.display.size.is_some() || !options.counts_lines())
    }

    pub fn moving(&self, state: &Arc<TransferState>, output: Output) -> Moving<'_> {
        if self.options.stall_timeout.is_some() {
            state.watch_output(&output);
        }
        Moving {
            options: self.options,
            skip_bytes: self.options.skip.unwrap_or(0),
            state: Arc::clone(state),
            screen: Arc::clone(&self.screen),
            output,
            status: Status::default(),
            is_stopped: false,
            stops_at_size: self.stops_at_size() || self.device_bytes.is_some(),
            output_name: match &self.options.output {
                Some(name) => quote::if_needed(name.as_ref()).to_string(),
                None => "standard output".to_owned(),
            },
            is_gnu_name: self.console.is_gnu_name(),
        }
    }

    /// Starts the display.
    ///
    /// # Errors
    /// The status; the error has been reported.
    pub fn show(&self, plan: Plan, transfers: &Transfers<'_>) -> Result<DisplayHandle, Status> {
        DisplayHandle::start(plan, transfers, &self.screen, &self.delayed).map_err(|errno| {
            let is_gnu_name = self.console.is_gnu_name();
            let remedy = gush_text::remedy(Doing::Other, errno).filter(|_| !is_gnu_name);
            let (why, remedy) = (errno_text(errno), in_brackets(remedy));
            Status::MISUSE.report(self.console, format_args!("cannot show progress: {why}{remedy}"))
        })
    }

    /// The bytes of the inputs, as far as they are known.
    pub fn input_bytes(&self) -> Option<u64> {
        // --size is only what the user expects.
        let is_known = !self.options.counts_lines() && self.options.display.size.is_none();
        self.expected.filter(|_| is_known)
    }

    /// Reports that a command has read only part of its input.
    pub fn report_unread(&self, read_bytes: u64) {
        let (options, mut screen) = (self.options, lock(&self.screen));
        // Readers of --numeric expect only numbers.
        if !screen.is_used() || (options.display.numeric && !options.json) {
            return;
        }
        let all_bytes = self.input_bytes();
        if options.json {
            return screen.print(json::unread(read_bytes, all_bytes));
        }
        let name = quote::if_needed(options.command[0].as_ref());
        match all_bytes {
            Some(all) => {
                screen.say(format_args!("{name}: exited after reading {read_bytes} of {all} bytes"))
            }
            None => screen.say(format_args!("{name}: exited after reading {read_bytes} bytes")),
        }
    }

    /// Prints the checksum and compares it, if requested.
    pub fn report_checksum(&self, state: &TransferState) -> Status {
        let Some((algorithm, digest)) = state.inspector.checksum() else {
            return Status::default();
        };
        let mut screen = lock(&self.screen);
        screen.print(match self.options.json {
            true => json::checksum(algorithm.name(), &digest),
            false => format!("{} {digest}", algorithm.name()),
        });
        match &self.options.expect {
            Some(expected) if *expected != digest => {
                let name = algorithm.name();
                screen.say(format_args!(
                    "the {name} of these bytes is {digest}, and {expected} was expected (--expect)"
                ));
                Status::TRANSFER
            }
            _ => Status::default(),
        }
    }
}

impl Drop for Session<'_> {
    /// Restores the pipe, gives up the line of `-c`, and removes the file of `-P`.
    fn drop(&mut self) {
        drop(self.pipe.take());
        lock(&self.screen).leave();
        self.signals.clean_up();
    }
}

/// Standard output, `--output`, or /dev/null for `--discard`.
///
/// # Errors
/// The status; the error has been reported.
pub fn open_output(options: &PvArgs, console: &Console) -> Result<Output, Status> {
    let fail = |status: Status, what: String| status.report(console, what);
    let name = match (&options.output, options.discard) {
        (_, true) => OsStr::new("/dev/null"),
        (Some(name), false) => name,
        (None, false) if gush_process::was_closed(1) => {
            let what = if console.is_gnu_name() {
                "failed to stat output file"
            } else {
                "standard output"
            };
            let why = errno_text(Errno::BADF);
            return Err(fail(Status::UNOPENED, format!("{what}: {why}")));
        }
        (None, false) => {
            let output = Output::Stdout;
            let sought = options.seek.map_or(Ok(()), |bytes| seek_on(&output, bytes));
            return sought
                .map(|()| output)
                .map_err(|why| fail(Status::TRANSFER, format!("standard output: --seek: {why}")));
        }
    };
    refuse_input(options, console, name)?;
    let keeps = options.seek.is_some();
    let file = files::open(name, File::options().write(true).create(true).truncate(!keeps));
    let file = file.map_err(|error| fail(Status::UNOPENED, unopened(console, name, &error)))?;
    let output = Output::File(file);
    if let Some(bytes) = options.seek {
        let cut = truncate(&output, bytes).and_then(|()| seek_on(&output, bytes));
        cut.map_err(|why| fail(Status::TRANSFER, format!("{}: --seek: {why}", shown(name))))?;
    }
    Ok(output)
}

/// The message for an output that cannot be opened; pv's when invoked as pv.
pub fn unopened(console: &Console, name: &OsStr, error: &io::Error) -> String {
    let (name, why, path) = (shown(name), os_text(error), name.as_ref());
    if console.is_gnu_name() {
        return format!("{name}: {why}");
    }
    format!("{name}: open failed: {why}{}", in_brackets(remedy_to_store(path, error).as_deref()))
}

/// Truncates the file after `bytes`.
fn truncate(output: &Output, bytes: u64) -> Result<(), String> {
    match Endpoint::of(output).map(|end| end.kind()) {
        Ok(Kind::File) => rustix::fs::ftruncate(output, bytes).map_err(errno_text),
        _ => Ok(()),
    }
}

fn seek_on(output: &Output, bytes: u64) -> Result<(), String> {
    if Endpoint::of(output).is_ok_and(|end| end.is_append()) {
        return Err("in append mode, every byte is written at the end".to_owned());
    }
    let offset = i64::try_from(bytes).map_err(|_| errno_text(Errno::INVAL))?;
    seek(output, SeekFrom::Current(offset)).map(drop).map_err(|errno| match errno {
        Errno::SPIPE => {
            format!("{} (--seek requires a file; use --output)", errno_text(errno))
        }
        _ => errno_text(errno),
    })
}

/// Refuses to write to an input, which opening would truncate.
pub fn refuse_input(options: &PvArgs, console: &Console, name: &OsStr) -> Result<(), Status> {
    let Ok(output) = stat(name) else { return Ok(()) };
    let is_output = |input: &&OsString| {
        let input = match input.as_encoded_bytes() {
            b"-" => fstat(rustix::stdio::stdin()),
            _ => stat(*input),
        };
        input.is_ok_and(|input| files::is_same_file(&input, &output))
    };
    match options.files.iter().find(is_output) {
        Some(input) => {
            let what = format!("input file is output file: {}", shown(input));
            Err(Status::SAME_FILE.report(console, what))
        }
        None => Ok(()),
    }
}

/// The bytes of the inputs, as far as they are known.
fn total_bytes(options: &PvArgs) -> Option<u64> {
    let total = inputs::total_bytes(options.files.iter().map(OsString::as_os_str))?;
    Some(total.saturating_sub(options.skip.unwrap_or(0))).filter(|&left| left > 0)
}

#[cfg(test)]
mod tests {
    use super::super::args::read_words;
    use super::*;

    #[test]
    fn the_rate_of_a_transfer_is_that_of_the_option() {
        let cases =
            [("200k", Some(204_800)), ("7", Some(7)), ("1.5M/s", Some(1_572_864)), ("0", None)];
        for (text, wanted) in cases {
            let options = read_words(&["-L", text]);
            assert_eq!(rate(&options).get(), wanted, "{text}");
        }
    }
}
