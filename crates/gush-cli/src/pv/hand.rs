//! Moving by hand, where a command needs more than the engine's moves: waiting, and the rate limit.

use std::os::fd::AsFd;
use std::time::Duration;

use gush::pipe::Pipe;
use gush::{Errno, Kind, Pages, Port, Side, is_refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, retry_on_intr};
use rustix::param::page_size;

use super::account::Account;
use super::moving::Halt;

pub const BUFFER_BYTES: usize = 128 << 10;

/// How long at most nobody looks whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(50);

/// Calls again until the call neither waits nor is interrupted: for a read, or for bytes that can be read again.
///
/// # Errors
/// That of the call; `ECANCELED` once the transfer is to end.
pub fn unless_cancelled<T>(
    account: &Account,
    events: PollFlags,
    fd: &impl AsFd,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        if account.cancel.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        match call() {
            Err(Errno::AGAIN) => {
                let slice = Timespec::try_from(SLICE).ok();
                // An error of poll(2) needs no answer here: the call is made again, and meets the cause itself.
                let _ = poll(&mut [PollFd::new(fd, events)], slice.as_ref());
            }
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// As [`unless_cancelled`], for bytes that can be read from nowhere again: those that the target takes at once arrive also
/// once the transfer is to end.
///
/// # Errors
/// As [`unless_cancelled`].
pub fn delivered(
    account: &Account,
    port: &mut Port<'_>,
    fd: &impl AsFd,
    bytes: &[u8],
) -> io::Result<usize> {
    match port.write(bytes) {
        Err(Errno::AGAIN | Errno::INTR) => {
            unless_cancelled(account, PollFlags::OUT, fd, || port.write(bytes))
        }
        answer => answer,
    }
}

/// Takes bytes of a stream into a buffer, and datagrams whole.
///
/// A `read` of less than a packet of a pipe (O_DIRECT of pipe(2)) drops the rest of the packet. As in the engine, less than a page of
/// a pipe is therefore spliced into a pipe of our own, and all of it read there.
#[derive(Debug)]
pub struct Intake<'fd> {
    pub port: Port<'fd>,
    buffer: Pages,
    own_pipe: Option<Pipe>,
    cannot_splice: bool,
}

impl<'fd> Intake<'fd> {
    pub fn of(input: &'fd impl AsFd, buffer_bytes: usize) -> io::Result<Self> {
        let (port, buffer) = (Port::of(input)?, Pages::new(buffer_bytes)?);
        Ok(Self { port, buffer, own_pipe: None, cannot_splice: false })
    }

    /// What the last read took, the first so many bytes.
    pub fn taken(&self, bytes: usize) -> &[u8] {
        &self.buffer.as_slice()[..bytes]
    }

    /// Takes once, without waiting: at most `most_bytes` of a stream; 0 at the end.
    ///
    /// # Errors
    /// Those of [`Port::read_whole`].
    pub fn read(&mut self, most_bytes: usize) -> io::Result<usize> {
        let most_bytes = match self.port.kind() {
            Kind::Datagram => most_bytes,
            _ => most_bytes.min(self.buffer.len_bytes()),
        };
        if self.port.kind() == Kind::Pipe && most_bytes < page_size() && !self.cannot_splice {
            match self.sip(most_bytes) {
                Err(errno) if is_refusal(errno) => self.cannot_splice = true,
                answer => return answer,
            }
        }
        self.port.read_whole(&mut self.buffer, most_bytes)
    }

    fn sip(&mut self, most_bytes: usize) -> io::Result<usize> {
        let pipe = match &mut self.own_pipe {
            Some(pipe) => pipe,
            None => self.own_pipe.insert(Pipe::new(page_size())?),
        };
        pipe.fill(&mut self.port, most_bytes)?;
        let mut got = 0;
        // A read gives one packet at most.
        while !pipe.is_empty() {
            let room = &mut self.buffer.as_mut_slice()[got..];
            got += retry_on_intr(|| pipe.read_out(room))?;
        }
        Ok(got)
    }
}

/// Waits until bytes may pass, or lines where the account counts them; answers how many of `wanted`.
///
/// # Errors
/// `ECANCELED` once the transfer is to end.
pub fn allowance(account: &Account, wanted: usize) -> Result<usize, Halt> {
    loop {
        match account.rate.allowance() {
            Ok(number) => return Ok(usize::try_from(number).unwrap_or(wanted).clamp(1, wanted)),
            Err(pause) => {
                account.rate.begin_sleep();
                std::thread::sleep(pause.min(SLICE));
            }
        }
        if account.cancel.is_cancelled() {
            return Err(Halt::by(Side::Source, Errno::CANCELED));
        }
    }
}
