//! One operand after the other on its way to standard output: as bytes, or as text.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::options::Options;
use super::source::Source;
use super::stream::{self, End, Output};
use super::text::Formatter;
use crate::talk::Talker;

/// Why an operand did not arrive in full.
pub enum Trouble {
    /// The operand failed: what did, and how.
    Source { what: String, error: io::Error },
    /// The method asked for cannot serve it.
    Refused(String),
    /// Standard output failed after so many bytes of this operand.
    Target {
        delivered_bytes: u64,
        error: io::Error,
    },
}

/// Standard output, and how operands are shown on it.
pub struct Show<'a> {
    text: Text<'a>,
}

struct Text<'a> {
    formatter: Formatter,
    output: Output<'a>,
    buffer: Vec<u8>,
}

impl<'a> Show<'a> {
    /// # Errors
    /// Why `options` cannot be followed.
    pub fn new(options: &'a Options, target: BorrowedFd<'a>) -> Result<Self, String> {
        let buffer_bytes = options.buffer_size.unwrap_or(128 << 10);
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(buffer_bytes)
            .map_err(|_| format!("no memory for a buffer of {buffer_bytes} bytes"))?;
        buffer.resize(buffer_bytes, 0);
        Ok(Self {
            text: Text {
                formatter: Formatter::new(options.style()),
                output: Output::new(target, options.limit),
                buffer,
            },
        })
    }

    pub fn one(&mut self, name: &OsStr, source: &Source, talker: &Talker) -> Result<(), Trouble> {
        self.text.one(source)
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.text.output.finish(&mut self.text.formatter)
    }
}

impl Text<'_> {
    fn one(&mut self, source: &Source) -> Result<(), Trouble> {
        let before_bytes = self.output.delivered_bytes();
        let ended = stream::format(
            source.as_fd(),
            &mut self.formatter,
            &mut self.output,
            &mut self.buffer,
        );
        let delivered_bytes = self.output.delivered_bytes() - before_bytes;
        ended.map_err(|end| match end {
            End::Source(error) => Trouble::Source {
                what: format!("read failed after {delivered_bytes} bytes"),
                error,
            },
            End::Target(error) => Trouble::Target {
                delivered_bytes,
                error,
            },
        })
    }
}
