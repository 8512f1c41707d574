//! Through memory: `read` and `write`, from a buffer that the thread's flows share.
//!
//! Only what the target did not take is kept by the flow, so that an idle connection has no buffer.

use std::cell::RefCell;

use gush::{Errno, Kind, MethodName, Side};
use tokio::io::Interest;

use super::{Did, Failure, Flow, Step, judge};
use crate::options::Options;
use crate::tap::Tap;

/// The most that is read at once: the largest datagram of UDP, and a connection's share of memory.
const BUFFER_BYTES: usize = 64 << 10;

/// A stream has no boundaries; its pieces become datagrams of at most so many bytes, as with socat.
const STREAM_TO_DATAGRAM_BYTES: usize = 8192;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Flow {
    /// Reads once and writes once.
    pub(super) fn copy(
        &mut self,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
    ) -> Step {
        let most = match (source.kind(), target.kind()) {
            (Kind::Datagram, _) => BUFFER_BYTES.max(next_datagram_bytes(source)),
            (_, Kind::Datagram) => STREAM_TO_DATAGRAM_BYTES,
            _ if self.may_splice() && !self.bulk => options.short_message.bytes(),
            _ => BUFFER_BYTES,
        };
        let allowed = self.most_bytes();
        let most = if source.kind() == Kind::Datagram { most } else { most.min(allowed) };
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < most {
                buffer.resize(most, 0);
            }
            let got =
                match source.attempt(Interest::READABLE, |port| port.read(&mut buffer[..most])) {
                    Ok(got) => got,
                    // The slave of a pseudo-terminal was closed (pty(7)).
                    Err(Errno::IO) if source.shape.is_master => 0,
                    Err(errno) => return last_resort(judge("read", Side::Source, errno)),
                };
            if got == 0 {
                return self.ended(source, target, options);
            }
            self.took(got, options);
            self.bulk = got >= options.short_message.bytes();
            let put = target.attempt(Interest::WRITABLE, |port| port.write(&buffer[..got]));
            let put_bytes = put.unwrap_or(0);
            self.wrote(&buffer[..put_bytes], options);
            if put_bytes < got {
                self.held.clear();
                self.held.extend_from_slice(&buffer[put_bytes..got]);
                self.held_from = 0;
            }
            match put {
                Ok(_) => Ok(Did::Moved),
                Err(errno) => last_resort(judge("write", Side::Target, errno)),
            }
        })
    }

    /// A read of 0 bytes: the end, or an empty datagram, which is one too.
    fn ended(&mut self, source: &Tap<'_>, target: &mut Tap<'_>, _options: &Options) -> Step {
        if source.shape.ends_at_zero {
            self.end = true;
        } else if target.kind() == Kind::Datagram {
            // One that finds no room is dropped, as any datagram may be.
            let _dropped = target.attempt(Interest::WRITABLE, |port| port.write(&[]));
        }
        Ok(Did::Moved)
    }

    /// Writes what an earlier write left.
    pub(super) fn deliver_held(&mut self, target: &mut Tap<'_>, options: &Options) -> Step {
        let held = std::mem::take(&mut self.held);
        let rest = &held[self.held_from..];
        let put = target.attempt(Interest::WRITABLE, |port| port.write(rest));
        if let Ok(put) = put {
            self.wrote(&rest[..put], options);
            self.held_from += put;
        }
        if self.held_from < held.len() {
            self.held = held;
        }
        match put {
            Ok(_) => Ok(Did::Moved),
            Err(errno) => last_resort(judge("write", Side::Target, errno)),
        }
    }

    /// Takes a piece out of a pipe whose target takes no splices.
    pub(super) fn spill(&mut self) -> Step {
        let Some(pipe) = &mut self.pipe else { return Ok(Did::Moved) };
        self.held.resize(BUFFER_BYTES, 0);
        self.held_from = 0;
        let got = pipe.read_out(&mut self.held);
        self.held.truncate(*got.as_ref().unwrap_or(&0));
        match got {
            Ok(_) => Ok(Did::Moved),
            Err(errno) => last_resort(judge("read", Side::Source, errno)),
        }
    }

    fn wrote(&mut self, bytes: &[u8], options: &Options) {
        self.delivered(bytes.len(), MethodName::ReadWrite, options);
        if let Some(observer) = &options.observer
            && !bytes.is_empty()
        {
            observer(self.way, bytes);
        }
    }
}

/// There is no other way to try.
fn last_resort(step: Step) -> Step {
    match step {
        Ok(Did::Refused(call, side, errno)) => Err(Failure::Failed(call, side, errno.into())),
        step => step,
    }
}

/// FIONREAD: of UDP and unix sockets, the size of the next datagram (udp(7), unix(7)).
fn next_datagram_bytes(source: &Tap<'_>) -> usize {
    let bytes = rustix::io::ioctl_fionread(source.port()).unwrap_or(0);
    usize::try_from(bytes).unwrap_or(0)
}
