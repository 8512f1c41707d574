//! Moves operands to standard output, as bytes or as text.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use gush::{Choice, Errno, Mover, Pages, Rate, Refusals, Report, Side, Tuning};
use gush_text::{errno_text, in_brackets, os_text};

use super::options::CatArgs;
use super::source::Source;
use super::stream::{self, FailedSide, Output};
use super::text::Formatter;

/// The default buffer size for text.
const TEXT_BUFFER_BYTES: usize = 128 << 10;

/// Why an operand did not arrive in full.
pub enum Trouble {
    /// The operand could not be opened.
    Unopened(io::Error),
    /// The operand failed: the operation, the OS error, and a hint.
    Source { what: String, error: io::Error, hint: Option<&'static str> },
    /// The operand cannot be moved by these options.
    Refused(String),
    /// The operand would read its own output.
    IsOutput,
    /// Standard output failed; `lost_bytes` more were read but not delivered.
    Target { delivered_bytes: u64, lost_bytes: u64, error: io::Error, hint: Option<&'static str> },
}

/// An operand that arrived in full.
pub struct Moved {
    pub bytes: u64,
    pub elapsed: Duration,
    /// The engine's report, if the engine moved the operand.
    pub report: Option<Report>,
}

/// How operands are moved to standard output.
pub enum Show<'a> {
    Bytes(Bytes<'a>),
    Text(Box<Text<'a>>),
}

impl<'a> Show<'a> {
    /// # Errors
    /// Why the options cannot be used.
    pub fn new(options: &'a CatArgs, target: BorrowedFd<'a>) -> Result<Self, String> {
        if !options.style().changes_bytes() {
            let refusals = Refusals::default();
            return Ok(Self::Bytes(Bytes { options, target, refusals }));
        }
        if let Some(conflict) = options.text_conflict() {
            return Err(conflict.to_owned());
        }
        Text::new(options, target).map(|text| Self::Text(Box::new(text)))
    }

    /// # Errors
    /// The end that failed, the OS error, and the number of bytes delivered.
    pub fn one(&mut self, source: &Source) -> Result<Moved, Trouble> {
        match self {
            Self::Bytes(bytes) => bytes.one(source),
            Self::Text(text) => text.one(source),
        }
    }

    /// Whether as many bytes are written as are read, by any method.
    pub fn keeps_bytes(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.options.method == Choice::Auto)
    }

    /// Moves an operand that is also the target, where reads stay ahead of writes: only alternating
    /// reads and writes are sound.
    ///
    /// # Errors
    /// As [`Show::one`].
    pub fn one_within_its_target(&mut self, source: &Source) -> Result<Moved, Trouble> {
        match self {
            Self::Bytes(bytes) => Text::new(bytes.options, bytes.target)
                .map_err(Trouble::Refused)
                .and_then(|mut in_turn| in_turn.one(source)),
            Self::Text(text) => text.one(source),
        }
    }

    /// Writes the bytes held back until the next byte.
    ///
    /// # Errors
    /// The OS error of standard output.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Bytes(_) => Ok(()),
            Self::Text(text) => text.output.finish(&mut text.formatter),
        }
    }
}

/// Operands moved as bytes, by the engine.
pub struct Bytes<'a> {
    options: &'a CatArgs,
    target: BorrowedFd<'a>,
    refusals: Refusals,
}

impl Bytes<'_> {
    fn one(&self, source: &Source) -> Result<Moved, Trouble> {
        let mut tuning = Tuning::default();
        if let Some(bytes) = self.options.buffer_size {
            tuning = tuning.buffer_bytes(bytes);
        }
        if let Some(bytes) = self.options.pipe_size {
            tuning = tuning.pipe_bytes(bytes);
        }
        let mut mover = Mover::new(source, &self.target)
            .method(self.options.method)
            .isolated(self.options.isolated)
            .tuning(tuning)
            .remember(&self.refusals);
        if let Some(rate) = self.options.limit.and_then(Rate::bytes_per_second) {
            mover = mover.limit(rate);
        }
        let report = mover.run().map_err(|error| trouble(&error, source))?;
        Ok(Moved { bytes: report.bytes, elapsed: report.elapsed, report: Some(report) })
    }
}

fn trouble(error: &gush::Error, source: &Source) -> Trouble {
    let hint = in_brackets(error.hint());
    match (error.side(), error.io_error()) {
        (Some(Side::Source), Some(cause)) => {
            let mut what = error.without_errno().to_string();
            if error.delivered_bytes() == 0 && error.in_flight_bytes() == 0 {
                what.push_str(" after 0 bytes");
            }
            Trouble::Source { what, error: copy_of(cause), hint: error.hint() }
        }
        (Some(Side::Target), Some(cause)) => Trouble::Target {
            delivered_bytes: error.delivered_bytes(),
            // A regular file still has these bytes.
            lost_bytes: if source.is_regular() { 0 } else { error.in_flight_bytes() },
            error: copy_of(cause),
            hint: error.hint(),
        },
        (None, Some(cause)) => {
            Trouble::Refused(format!("{}: {}{hint}", error.without_errno(), os_text(cause)))
        }
        _ => Trouble::Refused(error.to_string() + &hint),
    }
}

/// A copy of an `io::Error`, which has no `clone`.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Operands moved as text, by the formatter.
pub struct Text<'a> {
    formatter: Formatter,
    output: Output<'a>,
    buffer: Pages,
    buffer_bytes: usize,
}

impl<'a> Text<'a> {
    fn new(options: &'a CatArgs, target: BorrowedFd<'a>) -> Result<Self, String> {
        let no_memory = |errno: Errno| format!("no memory for a buffer: {}", errno_text(errno));
        let buffer_bytes = options.buffer_size.unwrap_or(TEXT_BUFFER_BYTES);
        let buffer_bytes = buffer_bytes.min(Tuning::MOST_BUFFER_BYTES);
        Ok(Self {
            formatter: Formatter::new(options.style()),
            output: Output::new(target, options.limit),
            buffer: Pages::new(buffer_bytes).map_err(no_memory)?,
            buffer_bytes,
        })
    }

    fn one(&mut self, source: &Source) -> Result<Moved, Trouble> {
        let start = Instant::now();
        let before_bytes = self.output.delivered_bytes();
        let Self { formatter, output, buffer, buffer_bytes } = self;
        let ended = stream::format(source.as_fd(), formatter, output, buffer, *buffer_bytes);
        let bytes = self.output.delivered_bytes() - before_bytes;
        match ended {
            Ok(()) => Ok(Moved { bytes, elapsed: start.elapsed(), report: None }),
            Err(FailedSide::Source(error)) => {
                let what = format!("read failed after {bytes} bytes");
                let errno = gush::Errno::from_io_error(&error);
                let hint = errno.and_then(|errno| gush::hint_for(Side::Source, errno));
                Err(Trouble::Source { what, error, hint })
            }
            Err(FailedSide::Target(error)) => {
                let errno = gush::Errno::from_io_error(&error);
                let hint = errno.and_then(|errno| gush::hint_for(Side::Target, errno));
                Err(Trouble::Target { delivered_bytes: bytes, lost_bytes: 0, error, hint })
            }
        }
    }
}
