//! Moves one input after the other to the output.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gush::{Control, Endpoint, Errno, Holes, Kind, Mover, Progress, Report, Side, hint_for};
use gush_text::{Doing, errno_text, in_brackets, os_text, quote};
use rustix::fs::{SeekFrom, fdatasync, fstat, seek};

use super::args::PvArgs;
use super::direct::Direct;
use super::inputs::left_bytes;
use super::lines;
use super::pipes;
use super::screen::Screen;
use super::signals::lock;
use super::skip::Skips;
use super::sparse;
use super::state::{StopReason, TransferState};
use super::status::Status;
use super::turns;
use crate::console::remedy;
use crate::files::{Operand, is_same_file};

/// One transfer of all inputs to one output.
pub struct Moving<'a> {
    pub options: &'a PvArgs,
    /// The bytes still to be skipped.
    pub skip_bytes: u64,
    pub state: Arc<TransferState>,
    pub screen: Arc<Mutex<Screen>>,
    pub output: Output,
    pub status: Status,
    /// The output has failed, or the transfer was stopped.
    pub is_stopped: bool,
    /// End once the expected amount has arrived.
    pub stops_at_size: bool,
    /// The output's name in messages.
    pub output_name: String,
    /// Invoked as pv: messages are pv's.
    pub is_gnu_name: bool,
}

/// Where the bytes go.
#[derive(Debug)]
pub enum Output {
    Stdout,
    File(File),
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::File(file) => file.as_fd(),
        }
    }
}

/// Whether the transfer goes on after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    NextInput,
    End,
}

/// Why a move ended early.
#[derive(Debug)]
pub struct MoveError {
    pub side: Side,
    pub errno: Option<Errno>,
    /// The cause in words.
    pub cause: String,
    /// Bytes read but not delivered.
    pub lost_bytes: u64,
}

impl MoveError {
    pub fn by(side: Side, errno: Errno) -> Self {
        Self { side, errno: Some(errno), cause: errno_text(errno), lost_bytes: 0 }
    }
}

impl From<gush::Error> for MoveError {
    fn from(error: gush::Error) -> Self {
        Self {
            side: error.side().unwrap_or(Side::Target),
            errno: error.errno(),
            cause: error.io_error().map_or_else(|| error.to_string(), os_text),
            lost_bytes: error.in_flight_bytes(),
        }
    }
}

/// The minimum time between two syncs of `--sync`.
const SYNC_EVERY: Duration = Duration::from_millis(100);

impl Moving<'_> {
    /// Moves all inputs.
    pub fn run(&mut self, files: &[OsString]) {
        for name in files {
            if self.move_named(name) == Then::End {
                return;
            }
        }
        if self.status == Status::default() {
            self.state.end_estimate();
        }
        if self.skip_bytes > 0 {
            let missing = self.skip_bytes;
            self.say(format_args!("input ended {missing} bytes short of --skip"));
            self.status.add(Status::TRANSFER);
        }
    }

    fn move_named(&mut self, name: &OsStr) -> Then {
        // Opening a FIFO blocks until it has a writer, and a signal has to end that.
        let input = match self.state.blocking(|| Operand::open(name)) {
            Some(Ok(input)) => input,
            None => {
                self.is_stopped = true;
                if self.state.stop_reason() == Some(StopReason::Signal) {
                    self.status.add(Status::SIGNAL);
                }
                return Then::End;
            }
            Some(Err(error)) => {
                let (name_given, name, why) = (name, shown(name), os_text(&error));
                if self.is_gnu_name {
                    self.say(format_args!("failed to read file: {name}: {why}"));
                } else {
                    let remedy = remedy(name_given.as_ref(), Doing::Other, &error);
                    let remedy = in_brackets(remedy);
                    self.say(format_args!("{name}: open failed: {why}{remedy}"));
                }
                self.status.add(Status::UNOPENED);
                return Then::NextInput;
            }
        };
        // Before anything is read: such an input would grow for ever.
        let both = [fstat(&input), fstat(&self.output)];
        if let [Ok(input), Ok(output)] = &both
            && is_same_file(input, output)
        {
            self.say(format_args!("input file is output file: {}", shown(name)));
            self.status.add(Status::SAME_FILE);
            // As in pv: a further input would overwrite this one.
            return Then::End;
        }
        self.state.set_input();
        let pipe = pipes::enlarge(&input);
        let direct = self.options.direct_io.then(|| Direct::set(&input));
        let then = self.move_one(name, &input);
        drop((direct, pipe));
        then
    }

    fn move_one(&mut self, name: &OsStr, input: &Operand) -> Then {
        let mut skips = Skips::new(self.options);
        loop {
            let left = self.left();
            if left == Some(0) {
                return Then::End;
            }
            let moved = self.skip(input);
            let moved = moved.and_then(|()| self.pass_by_turns(name, input, left));
            let moved = moved.and_then(|()| match left {
                left if self.cuts_lines(left) => {
                    let moved = self.synced(lines::pass(self, input, left.unwrap_or(u64::MAX)));
                    moved
                        .inspect(|()| self.explain(shown(name), "read-write, counting whole lines"))
                }
                left if self.makes_holes_of(input) => {
                    let moved = self.synced(sparse::pass(self, input, left));
                    moved.inspect(|()| self.explain(shown(name), "read-write, looking for zeros"))
                }
                left => {
                    self.pass(input, left).map(|report| self.explain(shown(name), report.explain()))
                }
            });
            let Err(error) = moved else { return Then::NextInput };
            self.is_stopped = self.state.cancel.is_cancelled() || error.side == Side::Target;
            // -E: continue after the part that cannot be read.
            if !self.is_stopped && skips.skip(self, name, input, &error) {
                continue;
            }
            self.report_end(&shown(name), &error);
            return if self.is_stopped { Then::End } else { Then::NextInput };
        }
    }

    /// With `--sync`, flushes bytes that the engine has not moved.
    fn synced(&self, moved: Result<(), MoveError>) -> Result<(), MoveError> {
        // Also after a failure: earlier bytes must be on storage.
        let flushed = if self.options.sync { flush(&self.output) } else { Ok(()) };
        moved.and(flushed.map_err(|errno| MoveError::by(Side::Target, errno)))
    }

    /// Moves the whole blocks of a file by two threads, where lines are counted and nothing ends or
    /// limits the transfer. The rest is still to be moved.
    fn pass_by_turns(
        &self,
        name: &OsStr,
        input: &Operand,
        left: Option<u64>,
    ) -> Result<(), MoveError> {
        if !self.options.counts_lines() || left.is_some() || self.has_rate() {
            return Ok(());
        }
        let blocks = turns::pass(self, input)?;
        if blocks > 0 {
            self.explain(shown(name), format_args!("read-write by two threads: {blocks} blocks"));
        }
        Ok(())
    }

    /// Whether lines are read and written here: the engine's rate limit is in bytes, and `-R` can
    /// set one at any time.
    fn cuts_lines(&self, left: Option<u64>) -> bool {
        let options = self.options;
        let is_limited = left.is_some() || self.has_rate();
        // Only the engine syncs, makes holes of files, and knows the size of a datagram.
        let needs_engine = || {
            let is_datagram =
                Endpoint::of(&self.output).is_ok_and(|end| end.kind() == Kind::Datagram);
            options.sync || options.sparse || is_datagram
        };
        options.counts_lines() && (is_limited || !needs_engine())
    }

    /// Whether zeros are searched here, because the engine makes holes only of files.
    fn makes_holes_of(&self, input: &Operand) -> bool {
        let takes_holes = Endpoint::of(&self.output)
            .is_ok_and(|end| end.kind() == Kind::File && !end.is_append());
        let is_file = Endpoint::of(input).is_ok_and(|end| end.kind() == Kind::File);
        self.options.sparse && takes_holes && !is_file
    }

    /// Skips the bytes of `--skip`, by a seek or by reading.
    fn skip(&mut self, input: &Operand) -> Result<(), MoveError> {
        let wanted = self.skip_bytes;
        if wanted == 0 {
            return Ok(());
        }
        let left_out = match left_bytes(input) {
            // Files of /proc have content, but no size.
            Some(left) if left > 0 => {
                let bytes = left.min(wanted);
                let moved = seek(input, SeekFrom::Current(bytes as i64));
                moved.map(|_| bytes).map_err(|errno| MoveError::by(Side::Source, errno))
            }
            _ => self.discard(input, wanted),
        };
        self.skip_bytes -= left_out?;
        Ok(())
    }

    fn discard(&self, input: &Operand, most_bytes: u64) -> Result<u64, MoveError> {
        // A pipe cannot seek: its bytes go to /dev/null, by splice where possible.
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(|_| MoveError::by(Side::Target, Errno::NOENT))?;
        let state = &self.state;
        let mut observer = |progress: &Progress| {
            state.set_skipped(progress.bytes);
            Control::Continue
        };
        let moved = Mover::new(input, &nowhere).length_bytes(most_bytes);
        let moved = moved.cancelled_by(&state.cancel).observe(&mut observer).run();
        moved.map(|report| report.bytes).map_err(MoveError::from)
    }

    fn has_rate(&self) -> bool {
        self.state.rate.get().is_some()
    }

    /// The bytes or lines left in a transfer that stops at a size.
    fn left(&self) -> Option<u64> {
        let options = self.options;
        let known = self.state.known();
        // As in pv, if --size is 0 and no input has a size.
        let is_none = options.display.size.is_some() && known.is_none();
        if options.stop_at_size && is_none && !options.counts_lines() {
            return Some(0);
        }
        let known = known.filter(|_| self.stops_at_size)?;
        Some(known.saturating_sub(self.state.count()))
    }

    /// Moves to the end of `source`, or at most `length_bytes`.
    ///
    /// # Errors
    /// As [`Mover::run`], and where the flush of `--sync` fails.
    pub fn pass(&self, source: &impl AsFd, length_bytes: Option<u64>) -> Result<Report, MoveError> {
        let (state, output, options) = (&self.state, &self.output, self.options);
        let before_bytes = state.bytes();
        let mut synced = Instant::now();
        let mut sync_failed = None;
        let mut observer = |progress: &Progress| {
            let arrived_bytes = before_bytes + progress.bytes;
            if options.sync && arrived_bytes > state.bytes() {
                // A sync after every step would take longer than the move.
                if synced.elapsed() < SYNC_EVERY {
                    return Control::Continue;
                }
                if let Err(errno) = flush(output) {
                    sync_failed = Some(errno);
                    return Control::Stop;
                }
                synced = Instant::now();
            }
            state.set_bytes(arrived_bytes);
            Control::Continue
        };
        let mut mover = Mover::new(source, output)
            .method(options.choice())
            .tuning(options.tuning())
            .holes(if options.sparse { Holes::Make } else { Holes::default() })
            .limit(state.rate.clone())
            .cancelled_by(&state.cancel)
            .observe(&mut observer);
        if let Some(bytes) = length_bytes {
            mover = mover.length_bytes(bytes);
        }
        // Inspecting the bytes rules out splice.
        if state.inspector.is_needed() {
            let shown = Arc::clone(state);
            mover = mover.inspect(move |bytes| shown.inspector.inspect(bytes));
        }
        let moved = mover.run();
        let arrived_bytes = match &moved {
            Ok(report) => report.bytes,
            Err(error) => error.delivered_bytes(),
        };
        if options.sync && sync_failed.is_none() {
            sync_failed = flush(output).err();
        }
        if let Some(errno) = sync_failed {
            return Err(MoveError::by(Side::Target, errno));
        }
        state.set_bytes(before_bytes + arrived_bytes);
        moved.map_err(MoveError::from)
    }

    /// With `--explain`, prints how an input was moved.
    pub fn explain(&self, input: impl Display, how: impl Display) {
        if self.options.explain {
            how.to_string().lines().for_each(|line| self.say(format_args!("{input}: {line}")));
        }
    }

    /// Reports why moving `input` ended early.
    pub fn report_end(&mut self, input: &str, error: &MoveError) {
        match error.side {
            _ if self.state.cancel.is_cancelled() => self.report_stop(error),
            // A reader that has had enough ends a pipeline silently.
            Side::Target if error.errno == Some(Errno::PIPE) => {}
            Side::Target if self.is_gnu_name => self.report_failure("write failed", error),
            Side::Target => {
                self.report_failure(format!("{}: write failed", self.output_name), error);
            }
            Side::Source => self.report_failure(format_args!("{input}: read failed"), error),
        }
    }

    fn report_stop(&mut self, error: &MoveError) {
        match self.state.stop_reason() {
            Some(StopReason::Stall) => {
                let limit = self.options.stall_timeout.unwrap_or_default();
                let bytes = self.state.bytes();
                self.say(format_args!(
                    "no byte moved for {} after {bytes} bytes (--stall-timeout)",
                    gush_text::with_unit(limit)
                ));
                self.status.add(Status::TRANSFER);
            }
            Some(StopReason::Reader) => return,
            Some(StopReason::Signal) | None => self.status.add(Status::SIGNAL),
        }
        self.report_loss(error);
    }

    fn report_failure(&mut self, what: impl Display, error: &MoveError) {
        let cause = &error.cause;
        self.status.add(Status::TRANSFER);
        if self.is_gnu_name {
            self.say(format_args!("{what}: {cause}"));
        } else {
            let hint = error.errno.and_then(|errno| hint_for(error.side, errno));
            let hint = in_brackets(hint);
            let bytes = self.state.bytes();
            self.say(format_args!("{what} after {bytes} bytes: {cause}{hint}"));
        }
        self.report_loss(error);
    }

    fn report_loss(&self, error: &MoveError) {
        if error.lost_bytes > 0 {
            self.say(format_args!("{} bytes were read but not delivered", error.lost_bytes));
        }
    }

    pub fn say(&self, what: impl Display) {
        lock(&self.screen).say(what);
    }
}

/// Waits until the written bytes are on disk, if the output is a file or block device.
fn flush(output: &Output) -> Result<(), Errno> {
    match fdatasync(output) {
        // A pipe or terminal cannot be synced (fdatasync(2)).
        Err(Errno::INVAL | Errno::ROFS) | Ok(()) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The name of an input in messages.
pub fn shown(name: &OsStr) -> String {
    match name.as_bytes() {
        b"-" => "(stdin)".to_owned(),
        _ => quote::if_needed(name.as_ref()).to_string(),
    }
}
