//! Up to which size a message between two sockets is better read and written than spliced.
//!
//! The cost of a splice is two calls and a pipe for every size; the cost of a copy grows with the size.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::pipe::{SpliceFlags, splice};
use serde::Serialize;

use crate::Error;
use crate::stats::{self, MARGIN, Verdict};

const SIZES: [usize; 6] = [64, 512, 2 << 10, 8 << 10, 16 << 10, 32 << 10];
const MESSAGES: usize = 100;
const MOST_ROUNDS: usize = 15;

/// The finding about one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Message {
    /// The size.
    pub bytes: usize,
    /// Microseconds to pass one on by read and write.
    pub read_write_us: f64,
    /// Microseconds to pass one on by two splices.
    pub splice_us: f64,
    /// Is read and write faster?
    pub read_write_is: Verdict,
    /// Did the samples show that read and write is no slower?
    pub no_slower: bool,
}

/// Passes messages on between two connections, in both ways by turns, for `time` at most.
///
/// # Errors
/// A call that failed.
pub(super) fn messages(time: Duration) -> Result<Vec<Message>, Error> {
    let failed = |error: std::io::Error| Error::failed("messages between sockets", error);
    let mut relay = Relay::new().map_err(failed)?;
    let mut all = Vec::new();
    for bytes in SIZES {
        let until = Instant::now() + time / SIZES.len() as u32;
        let mut rounds = Vec::new();
        while rounds.len() < MOST_ROUNDS && (rounds.is_empty() || Instant::now() < until) {
            let spliced = relay.pass(bytes, Relaying::Splice).map_err(failed)?;
            rounds.push((spliced, relay.pass(bytes, Relaying::ReadWrite).map_err(failed)?));
        }
        let ratio = stats::paired_ratio(&rounds);
        let (splices, reads): (Vec<_>, Vec<_>) = rounds.iter().copied().unzip();
        let us = |seconds: &[f64]| stats::middle(seconds).map_or(0.0, |median| median * 1e6);
        all.push(Message {
            bytes,
            read_write_us: us(&reads),
            splice_us: us(&splices),
            read_write_is: Verdict::of(ratio.as_ref(), MARGIN),
            no_slower: ratio.is_some_and(|ratio| ratio.is_no_slower(MARGIN)),
        });
    }
    Ok(all)
}

/// The largest size up to which reading and writing was shown to be no slower; none where that was not shown of the smallest.
pub(super) fn threshold_bytes(messages: &[Message]) -> Option<usize> {
    messages.iter().take_while(|message| message.no_slower).last().map(|message| message.bytes)
}

#[derive(Clone, Copy)]
enum Relaying {
    Splice,
    ReadWrite,
}

struct Relay {
    client: TcpStream,
    from: TcpStream,
    to: TcpStream,
    server: TcpStream,
    pipe: (std::io::PipeReader, std::io::PipeWriter),
    buffer: Vec<u8>,
}

impl Relay {
    fn new() -> std::io::Result<Self> {
        let joined = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            near.set_nodelay(true)?;
            listener.accept().map(|(far, _)| (near, far))
        };
        let ((client, from), (to, server)) = (joined()?, joined()?);
        Ok(Self { client, from, to, server, pipe: std::io::pipe()?, buffer: vec![b'm'; 64 << 10] })
    }

    /// Seconds for one message, while only the relay's own calls are timed.
    fn pass(&mut self, bytes: usize, way: Relaying) -> std::io::Result<f64> {
        let mut passing = Duration::ZERO;
        for _ in 0..MESSAGES {
            self.client.write_all(&self.buffer[..bytes])?;
            let start = Instant::now();
            match way {
                Relaying::Splice => self.splice(bytes)?,
                Relaying::ReadWrite => {
                    self.from.read_exact(&mut self.buffer[..bytes])?;
                    self.to.write_all(&self.buffer[..bytes])?;
                }
            }
            passing += start.elapsed();
            self.server.read_exact(&mut self.buffer[..bytes])?;
        }
        Ok(passing.as_secs_f64() / MESSAGES as f64)
    }

    fn splice(&self, bytes: usize) -> std::io::Result<()> {
        let (out, into) = &self.pipe;
        let mut left = bytes;
        while left > 0 {
            let got = splice(&self.from, None, into, None, left, SpliceFlags::empty())?;
            let mut held = got;
            while held > 0 {
                held -= splice(out, None, &self.to, None, held, SpliceFlags::empty())?;
            }
            left -= got;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_small_as_long_as_copying_them_was_shown_to_be_no_slower() {
        let threshold = |shown: &[bool]| {
            let message = |(bytes, &no_slower): (usize, &bool)| Message {
                bytes: bytes + 1,
                read_write_us: 1.0,
                splice_us: 1.0,
                read_write_is: Verdict::CannotTell,
                no_slower,
            };
            threshold_bytes(&shown.iter().enumerate().map(message).collect::<Vec<_>>())
        };
        assert_eq!(threshold(&[true, true, false, true]), Some(2));
        assert_eq!(threshold(&[true, true]), Some(2));
        assert_eq!(threshold(&[false, true]), None);
        assert_eq!(threshold(&[]), None);
    }

    #[test]
    fn messages_arrive_whole_both_ways() {
        let mut relay = Relay::new().expect("two connections");
        for bytes in SIZES {
            assert!(relay.pass(bytes, Relaying::Splice).expect("spliced") > 0.0);
            assert!(relay.pass(bytes, Relaying::ReadWrite).expect("copied") > 0.0);
        }
    }
}
