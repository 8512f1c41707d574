//! Proving the end of a source: only a `read` that answers 0 is one (invariant 2).

use rustix::io::Errno;

use super::drive::SLICE;
use super::job::Job;
use crate::endpoint::Kind;
use crate::error::Error;
use crate::fault::Fault;
use crate::method::MethodName;
use crate::port::{Port, Side};
use crate::progress::Control;
use crate::sys::Call;

/// What is taken at a time of a stream whose end was asked for.
const PIECE_BYTES: usize = 4096;

/// What the end's proof found.
pub(super) enum Proof {
    End,
    /// A look saw that there is more.
    More,
    /// A read took some, and it is delivered.
    Taken,
    /// A stream has nothing now, and has not ended.
    NotYet,
}

impl Job<'_> {
    /// Looks at a file or a datagram socket; reads from a stream, and delivers what came: that also
    /// gets past urgent data, which holds up a splice.
    pub(super) fn prove_end(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Proof, Error> {
        let left = goal.map_or(u64::MAX, |goal| goal - self.moved_bytes);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = [0; PIECE_BYTES];
        let mut port = Port::new(&self.source, None);
        let (looked, taken) = loop {
            let looked = match port.kind() {
                Kind::Stream => None,
                _ => port.peek(self.source_at(), &mut piece[..1]),
            };
            let (answer, taken) = match looked {
                Some(answer) => (answer, false),
                None => (port.read(&mut piece[..most]), true),
            };
            match answer {
                Err(Errno::INTR) => {}
                answer => break (answer, taken),
            }
        };
        match looked {
            Ok(0) => {
                self.ended = true;
                Ok(Proof::End)
            }
            Ok(got) if taken => self.deliver_taken(name, &piece[..got]).map(|()| Proof::Taken),
            Ok(_) => Ok(Proof::More),
            Err(Errno::AGAIN) => Ok(Proof::NotYet),
            Err(errno) => Err(self.failed(Call::Read, Side::Source, errno)),
        }
    }

    /// A stream's end was asked for and bytes came: they go where they belong.
    fn deliver_taken(&mut self, name: MethodName, piece: &[u8]) -> Result<(), Error> {
        let named = self.target_at().filter(|_| self.options.target_offset.is_some());
        let mut port = Port::new(&self.target, named);
        let fault = |call, errno| Fault { call, side: Side::Target, errno };
        let mut rest = piece;
        while !rest.is_empty() {
            let left = rest.len() as u64;
            match port.write(rest) {
                Ok(0) => return Err(self.undelivered(fault(Call::Write, Errno::IO), left)),
                Ok(put) => {
                    rest = &rest[put..];
                    self.moved_bytes += put as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let slice = self.options.is_watched().then_some(SLICE);
                    let waited = self.waiting().for_side(self.target.fd(), Side::Target, slice);
                    waited.map_err(|errno| self.undelivered(fault(Call::Poll, errno), left))?;
                    if slice.is_some() && self.observe(name) == Control::Stop {
                        return Err(self.stopped(left));
                    }
                }
                Err(errno) => return Err(self.undelivered(fault(Call::Write, errno), left)),
            }
        }
        self.options.tuning.show(piece);
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(piece.len() as u64);
        }
        Ok(())
    }
}
