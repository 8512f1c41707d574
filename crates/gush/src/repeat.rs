//! Writes a pattern again and again: out of a [`Reservoir`] into a pipe, out of memory elsewhere.

use std::fmt;
use std::os::fd::AsFd;

use rustix::io::{self, Errno};

use crate::access;
use crate::cancel::Cancel;
use crate::endpoint::{Endpoint, Kind};
use crate::errno::errno_name;
use crate::error::Error;
use crate::fault::Fault;
use crate::flow::STREAM_TO_DATAGRAM_BYTES;
use crate::kernel::is_refusal;
use crate::pipe::{self, Reservoir};
use crate::port::{Port, Side};
use crate::sys::Call;
use crate::wait::{self, Wait, Waiter};

/// A write out of memory has at least so many bytes, in whole patterns.
const WRITE_BYTES: usize = 128 << 10;

/// Writes a pattern again and again, as yes(1) does.
///
/// A pipe gets the pattern by reference from a [`Reservoir`], sound for every reader; any other
/// target, and a pipe where tee(2) is denied, by writes.
///
/// The process should ignore SIGPIPE, or be content to end when the reader leaves.
///
/// ```
/// use std::io::Read;
/// let (mut reader, writer) = std::io::pipe()?;
/// let written_bytes = gush::Repeat::new(b"yes\n").length_bytes(10).run(&writer)?;
/// assert_eq!(written_bytes, 10);
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "yes\nyes\nye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Repeat<'a> {
    pattern: &'a [u8],
    length_bytes: u64,
    pipe_bytes: Option<usize>,
    cancel: Option<&'a Cancel>,
    explain: Option<Explain<'a>>,
}

/// Takes the lines that explain how the pattern is handed over.
#[derive(Clone, Copy)]
struct Explain<'a>(&'a (dyn Fn(&str) + Sync));

impl fmt::Debug for Explain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explain")
    }
}

impl<'a> Repeat<'a> {
    /// The pattern, without end. An empty pattern has no bytes to write.
    #[must_use]
    pub fn new(pattern: &'a [u8]) -> Self {
        Self { pattern, length_bytes: u64::MAX, pipe_bytes: None, cancel: None, explain: None }
    }

    /// Ends after so many bytes, perhaps within a pattern.
    #[must_use]
    pub fn length_bytes(mut self, bytes: u64) -> Self {
        self.length_bytes = bytes;
        self
    }

    /// Makes the target's pipe as large as this or as permitted, for good; 1 leaves it as it is.
    /// The default is 1 MiB, or a sixteenth of the user's memory for pipes if that is less.
    #[must_use]
    pub fn pipe_bytes(mut self, bytes: usize) -> Self {
        self.pipe_bytes = Some(bytes);
        self
    }

    /// May be ended from another thread, as by [`Mover::cancelled_by`](crate::Mover::cancelled_by).
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Passes lines as of [`Report::explain`](crate::Report::explain) to `explain`: one for each
    /// refused call, and one for the technique. They come before the first byte, or when a call is
    /// refused.
    ///
    /// ```
    /// let (_reader, writer) = std::io::pipe()?;
    /// let lines = std::sync::Mutex::new(String::new());
    /// let explain = |line: &str| *lines.lock().unwrap() += line;
    /// gush::Repeat::new(b"y\n").length_bytes(10).explained_to(&explain).run(&writer)?;
    /// assert!(lines.lock().unwrap().contains("picked "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explained_to(mut self, explain: &'a (dyn Fn(&str) + Sync)) -> Self {
        self.explain = Some(Explain(explain));
        self
    }

    /// Writes until the length is reached; answers how many bytes were written.
    ///
    /// # Errors
    /// The target's failure, `EPIPE` without a reader; cancelling. [`Error::delivered_bytes`]
    /// counts.
    pub fn run(self, target: &impl AsFd) -> Result<u64, Error> {
        let failed = |(call, errno)| Error::failed(Fault { call, side: Side::Target, errno });
        let endpoint = Endpoint::look(target.as_fd()).map_err(failed)?;
        access::check(&endpoint, Side::Target).map_err(Error::failed)?;
        if self.pattern.is_empty() {
            return Ok(0);
        }
        let mut supply = self.supply(&endpoint);
        let mut port = Port::new(&endpoint, None);
        // A reader that splices empties a pipe in microseconds, which a sleep would miss.
        let mut waiter = Waiter::new(Wait::Auto);
        let mut written_bytes = 0;
        // The bytes written so far are whole patterns and the first `phase` bytes of one more.
        while written_bytes < self.length_bytes {
            if self.cancel.is_some_and(Cancel::is_cancelled) {
                return Err(Error::cancelled().after(written_bytes, 0));
            }
            let most = usize::try_from(self.length_bytes - written_bytes).unwrap_or(usize::MAX);
            let phase = (written_bytes % self.pattern.len() as u64) as usize;
            match supply.give(&mut port, phase, most) {
                Ok(bytes) => written_bytes += bytes as u64,
                Err((_, Errno::INTR)) => {}
                Err((call, Errno::AGAIN)) => {
                    let slice = wait::longest(self.cancel.is_some());
                    waiter
                        .for_side(endpoint.fd(), Side::Target, slice)
                        .map_err(|errno| failed((call, errno)).after(written_bytes, 0))?;
                }
                Err((Call::Tee, errno)) if is_refusal(errno) => {
                    // tee(2) is denied after all: write(2) does the same, slower.
                    self.explain_refused("reservoir", Call::Tee, errno);
                    supply = self.memory();
                }
                Err(why) => return Err(failed(why).after(written_bytes, 0)),
            }
        }
        Ok(written_bytes)
    }

    fn supply(&self, target: &Endpoint<'_>) -> Supply {
        if target.kind() == Kind::Pipe {
            // A pipe that stays small is slower, and nothing else.
            let wanted_bytes = pipe::asked_bytes(self.pipe_bytes, pipe::USUAL_BYTES);
            let _ = pipe::grow(target.fd(), wanted_bytes);
            match Reservoir::filled(self.pattern, pipe::USUAL_BYTES) {
                Ok((reservoir, denied)) => {
                    if let Some((call, errno)) = denied {
                        self.explain_refused("slots of 32 KiB", call, errno);
                    }
                    let held_bytes = reservoir.held_bytes();
                    self.explain(format_args!(
                        "picked reservoir: {held_bytes} bytes a call, by tee"
                    ));
                    return Supply::Reservoir(reservoir);
                }
                Err((call, errno)) => self.explain_refused("reservoir", call, errno),
            }
        }
        self.memory()
    }

    fn memory(&self) -> Supply {
        self.explain(format_args!(
            "picked write: {} KiB or more a call, out of memory",
            WRITE_BYTES >> 10
        ));
        Supply::in_memory(self.pattern)
    }

    fn explain_refused(&self, what: &str, call: Call, errno: Errno) {
        self.explain(format_args!("refused {what}: {call}: {}", errno_name(errno)));
    }

    fn explain(&self, line: fmt::Arguments<'_>) {
        if let Some(Explain(explain)) = self.explain {
            explain(&line.to_string());
        }
    }
}

/// Where the bytes come from.
enum Supply {
    Reservoir(Reservoir),
    /// The pattern, often.
    Memory(Vec<u8>),
}

impl Supply {
    fn in_memory(pattern: &[u8]) -> Self {
        // One pattern more than a write carries: a write can begin in the middle of the first.
        Self::Memory(pattern.repeat(WRITE_BYTES.div_ceil(pattern.len()) + 1))
    }

    /// Writes at most `most` bytes, of which the first is the pattern's byte `phase`.
    fn give(
        &mut self,
        port: &mut Port<'_>,
        phase: usize,
        most: usize,
    ) -> Result<usize, (Call, Errno)> {
        match self {
            Self::Reservoir(reservoir) => {
                let poured: io::Result<usize> = reservoir.pour(&port.fd, most);
                poured.map_err(|errno| (Call::Tee, errno))
            }
            Self::Memory(bytes) => {
                let rest = &bytes[phase..];
                let rest = &rest[..rest.len().min(most)];
                // A message is written whole or not at all.
                let rest = match port.kind() == Kind::Datagram {
                    true => &rest[..rest.len().min(STREAM_TO_DATAGRAM_BYTES)],
                    false => rest,
                };
                match port.write(rest) {
                    Ok(0) => Err((Call::Write, Fault::TOOK_NOTHING)),
                    answer => answer.map_err(|errno| (Call::Write, errno)),
                }
            }
        }
    }
}
