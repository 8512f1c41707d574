//! Proving the end of a source: only a `read` that answers 0 is one (invariant 2).

use rustix::io::Errno;

use super::job::Job;
use crate::error::Error;
use crate::fault::Fault;
use crate::port::{Port, Side};
use crate::sys::Call;

/// What the end's proof found.
pub(super) enum Proof {
    End,
    More,
    /// A stream has nothing now, and has not ended.
    NotYet,
}

impl Job<'_> {
    /// Reads one byte: a file or socket is looked at without taking it, a pipe's byte is delivered.
    pub(super) fn prove_end(&mut self) -> Result<Proof, Error> {
        let mut byte = [0];
        let mut port = Port::new(&self.source, None);
        let (looked, taken) = loop {
            let (answer, taken) = match port.peek(self.source_at(), &mut byte) {
                Some(answer) => (answer, false),
                None => (port.read(&mut byte), true),
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
            Ok(_) => {
                if taken {
                    self.deliver_byte(byte)?;
                }
                Ok(Proof::More)
            }
            Err(Errno::AGAIN) => Ok(Proof::NotYet),
            Err(errno) => Err(self.failed(Call::Read, Side::Source, errno)),
        }
    }

    /// A stream's end was asked for and a byte came: it goes where it belongs.
    fn deliver_byte(&mut self, byte: [u8; 1]) -> Result<(), Error> {
        let named = self.target_at().filter(|_| self.options.target_offset.is_some());
        let mut port = Port::new(&self.target, named);
        let fault = |call, errno| Fault { call, side: Side::Target, errno };
        loop {
            match port.write(&byte) {
                Ok(0) => return Err(self.undelivered(fault(Call::Write, Errno::IO), 1)),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let waited = self.waiting().for_side(self.target.fd(), Side::Target, None);
                    waited.map_err(|errno| self.undelivered(fault(Call::Poll, errno), 1))?;
                }
                Err(errno) => return Err(self.undelivered(fault(Call::Write, errno), 1)),
            }
        }
        self.options.tuning.show(&byte);
        self.moved_bytes += 1;
        Ok(())
    }
}
