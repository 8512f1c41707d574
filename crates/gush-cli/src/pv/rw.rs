//! Reads and writes for moves that the engine does not offer: waiting, and the rate limit.

use std::os::fd::AsFd;
use std::time::Duration;

use gush::pipe::Pipe;
use gush::{Errno, Kind, Pages, Port, Side, is_refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, retry_on_intr};
use rustix::param::page_size;

use super::moving::MoveError;
use super::state::TransferState;

pub const BUFFER_BYTES: usize = 128 << 10;

/// The longest wait before checking whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(50);

/// Repeats a call until it neither blocks nor is interrupted: for a read, or for bytes that can be
/// read again.
///
/// # Errors
/// That of the call; `ECANCELED` once the transfer is to end.
pub fn unless_cancelled<T>(
    state: &TransferState,
    events: PollFlags,
    fd: &impl AsFd,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        if state.cancel.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        match call() {
            Err(Errno::AGAIN) => {
                let slice = Timespec::try_from(SLICE).ok();
                // The call itself reports the cause of an error of poll(2).
                let _ = poll(&mut [PollFd::new(fd, events)], slice.as_ref());
            }
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// As [`unless_cancelled`], for bytes that cannot be read again: even once the transfer is to end,
/// what the target takes at once is delivered.
///
/// # Errors
/// As [`unless_cancelled`].
pub fn write_some(
    state: &TransferState,
    port: &mut Port<'_>,
    fd: &impl AsFd,
    bytes: &[u8],
) -> io::Result<usize> {
    match port.write(bytes) {
        Err(Errno::AGAIN | Errno::INTR) => {
            unless_cancelled(state, PollFlags::OUT, fd, || port.write(bytes))
        }
        answer => answer,
    }
}

/// Reads bytes of a stream, or whole datagrams, into a buffer.
///
/// A short `read` of a packet (O_DIRECT of pipe(2)) drops the rest of the packet. As in the engine,
/// less than a page is therefore spliced into a private pipe, and read from there.
#[derive(Debug)]
pub struct Reader<'fd> {
    pub port: Port<'fd>,
    buffer: Pages,
    own_pipe: Option<Pipe>,
    cannot_splice: bool,
}

impl<'fd> Reader<'fd> {
    pub fn of(input: &'fd impl AsFd, buffer_bytes: usize) -> io::Result<Self> {
        let (port, buffer) = (Port::of(input)?, Pages::new(buffer_bytes)?);
        Ok(Self { port, buffer, own_pipe: None, cannot_splice: false })
    }

    /// The first `bytes` of the last read.
    pub fn taken(&self, bytes: usize) -> &[u8] {
        &self.buffer.as_slice()[..bytes]
    }

    /// Reads once, without blocking: at most `most_bytes` of a stream; 0 at the end.
    ///
    /// # Errors
    /// Those of [`Port::read_whole`].
    pub fn read(&mut self, most_bytes: usize) -> io::Result<usize> {
        let most_bytes = match self.port.kind() {
            Kind::Datagram => most_bytes,
            _ => most_bytes.min(self.buffer.len_bytes()),
        };
        if self.port.kind() == Kind::Pipe && most_bytes < page_size() && !self.cannot_splice {
            match self.read_packet(most_bytes) {
                Err(errno) if is_refusal(errno) => self.cannot_splice = true,
                answer => return answer,
            }
        }
        self.port.read_whole(&mut self.buffer, most_bytes)
    }

    fn read_packet(&mut self, most_bytes: usize) -> io::Result<usize> {
        let pipe = match &mut self.own_pipe {
            Some(pipe) => pipe,
            None => self.own_pipe.insert(Pipe::new(page_size())?),
        };
        pipe.fill(&mut self.port, most_bytes)?;
        let mut got = 0;
        // A read returns at most one packet.
        while !pipe.is_empty() {
            let room = &mut self.buffer.as_mut_slice()[got..];
            got += retry_on_intr(|| pipe.read_out(room))?;
        }
        Ok(got)
    }
}

/// Waits until bytes, or lines where those are counted, may pass; returns how many of `wanted`.
///
/// # Errors
/// `ECANCELED` once the transfer is to end.
pub fn allowance(state: &TransferState, wanted: usize) -> Result<usize, MoveError> {
    loop {
        match state.rate.allowance() {
            Ok(number) => return Ok(usize::try_from(number).unwrap_or(wanted).clamp(1, wanted)),
            Err(pause) => {
                state.rate.begin_sleep();
                std::thread::sleep(pause.min(SLICE));
            }
        }
        if state.cancel.is_cancelled() {
            return Err(MoveError::by(Side::Source, Errno::CANCELED));
        }
    }
}
