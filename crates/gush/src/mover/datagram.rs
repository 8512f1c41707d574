//! Datagrams stay whole: no buffer, budget or length cuts one, and an empty one is no end.

use rustix::io::Errno;

use super::job::Job;
use crate::endpoint::Kind;
use crate::error::Error;
use crate::fault::Fault;
use crate::method::{MethodName, Transfer};
use crate::port::{Port, Side};
use crate::sys::Call;

impl Job<'_> {
    /// The budget of the next step, and the size of the datagram that it is to take, if it takes one.
    /// Where the source has boundaries the budget is the next datagram, also when a limit or the pace
    /// allows less; `None` while there is none to be moved.
    pub(super) fn whole_datagram(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        budget: u64,
        goal: Option<u64>,
    ) -> Result<Option<(u64, u64)>, Error> {
        if transfer.in_flight() > 0 {
            return Ok(Some((budget, 0)));
        }
        let mut source = Port::new(&self.source, None);
        match source.next_datagram_bytes() {
            None => Ok(Some((budget, 0))),
            // Perhaps the end: the method's own read says so.
            Some(Ok(0)) if source.ends_at_zero() => Ok(Some((1, 0))),
            Some(Ok(0)) => self.pass_empty_datagram(name, transfer, &mut source).map(|()| None),
            Some(Ok(bytes)) => {
                let bytes = bytes as u64;
                // It stays in the socket, so nothing is lost.
                if goal.is_some_and(|goal| bytes > goal - self.moved_bytes) {
                    return Err(self.failed(Call::Recv, Side::Source, Errno::MSGSIZE));
                }
                Ok(Some((bytes, bytes)))
            }
            Some(Err(Errno::INTR)) => Ok(None),
            Some(Err(Errno::AGAIN)) => self.wait(name, transfer, Side::Source).map(|()| None),
            Some(Err(errno)) => Err(self.failed(Call::Recv, Side::Source, errno)),
        }
    }

    /// Counts what a step has cut off a datagram: sendfile does where its target, a pipe, is partly full.
    pub(super) fn check_whole(
        &self,
        transfer: &dyn Transfer,
        moved_bytes: u64,
        datagram_bytes: u64,
    ) -> Result<(), Error> {
        let came = moved_bytes + transfer.in_flight();
        if moved_bytes == 0 || came >= datagram_bytes {
            return Ok(());
        }
        let fault = Fault { call: Call::Recv, side: Side::Source, errno: Errno::MSGSIZE };
        Err(Error::failed(fault).after(self.moved_bytes, datagram_bytes - came))
    }

    /// To a datagram socket an empty datagram is passed on; to anything else there is nothing to pass.
    fn pass_empty_datagram(
        &mut self,
        name: MethodName,
        transfer: &mut dyn Transfer,
        source: &mut Port<'_>,
    ) -> Result<(), Error> {
        let mut target = Port::new(&self.target, None);
        // A record without bytes would be the end to a SOCK_SEQPACKET socket's reader.
        let passes = target.kind() == Kind::Datagram && !target.ends_at_zero();
        if passes {
            match target.is_writable() {
                Ok(true) => {}
                Ok(false) => return self.wait(name, transfer, Side::Target),
                Err(errno) => return Err(self.failed(Call::Poll, Side::Target, errno)),
            }
        }
        let taken = source.read(&mut []).map_err(|errno| (Call::Recv, Side::Source, errno));
        let passed = match taken {
            Ok(_) if passes => target.write(&[]).map_err(|errno| (Call::Send, Side::Target, errno)),
            taken => taken,
        };
        match passed {
            // Taken by somebody else, or, as any datagram may be, dropped for want of room.
            Ok(_) | Err((_, _, Errno::INTR | Errno::AGAIN)) => Ok(()),
            Err((call, side, errno)) => Err(self.failed(call, side, errno)),
        }
    }
}
