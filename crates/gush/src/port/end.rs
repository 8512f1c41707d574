//! Where a source ends, and where its next datagram does.

use rustix::event::PollFlags;
use rustix::fs::SeekFrom;
use rustix::io::{self, Errno};

use super::Port;
use crate::endpoint::Kind;
use crate::sys::pipe::{is_ready, poll_now, unread_bytes};
use crate::sys::{data, file, socket};

impl Port<'_> {
    /// A master fails with `EIO` once the slave has been closed (pty(7)): that is its end.
    pub(crate) fn ended_by_slave(&self, answer: io::Result<usize>) -> io::Result<usize> {
        match answer {
            Err(Errno::IO) if self.state.is_master => Ok(0),
            answer => answer,
        }
    }

    /// The size of the next datagram, which stays in the socket; `None` where there are no
    /// boundaries.
    #[must_use]
    pub fn next_datagram_bytes(&self) -> Option<io::Result<usize>> {
        (self.state.kind == Kind::Datagram).then(|| match self.looks_begin_elsewhere() {
            true => self.unread_bytes_or_again(),
            false => match data::recv_size(self.fd) {
                // Asked once more: see `has_ended`.
                Ok(0) if self.state.is_seqpacket() => match data::recv_size(self.fd) {
                    Err(Errno::AGAIN) => Ok(0),
                    answer => answer,
                },
                answer => answer,
            },
        })
    }

    /// Has somebody set an offset for looks (MSG_PEEK), which is theirs, and which a look would
    /// move?
    fn looks_begin_elsewhere(&self) -> bool {
        // Where it cannot be asked there is none: an old kernel, another kind of socket, a filter.
        socket::peek_offset(self.fd).is_ok_and(|offset_bytes| offset_bytes >= 0)
    }

    /// What a read finds, without a look: of unix datagrams and UDP the next one's size, of
    /// SOCK_SEQPACKET and streams all that waits; 0 for an empty datagram or the end.
    fn unread_bytes_or_again(&self) -> io::Result<usize> {
        let events = poll_now(self.fd, PollFlags::IN)?;
        // Asked after the poll: nothing comes after a hang-up.
        match unread_bytes(self.fd)? {
            0 if events.is_empty() => Err(Errno::AGAIN),
            unread => Ok(usize::try_from(unread).unwrap_or(usize::MAX)),
        }
    }

    /// Was a 0 from a SOCK_SEQPACKET socket the end? An empty record answers 0, too, and so does a
    /// read while the last record and the close arrive between the kernel's checks of the queue and
    /// of the close (`__unix_dgram_recvmsg` of `net/unix/af_unix.c`; 2 in 4,000 trials).
    ///
    /// Nothing is queued after a hang-up, and a queued record without a byte carries nothing.
    pub(super) fn has_ended(&self) -> bool {
        // Where poll(2) fails, the 0 is believed: a loop of questions would never end.
        let hung_up = is_ready(self.fd, PollFlags::RDHUP).unwrap_or(true);
        hung_up && unread_bytes(self.fd).unwrap_or(0) == 0
    }

    /// Has the source ended? 0 is the end, 1 is something to be read. Nothing is taken.
    ///
    /// A pipe has ended where nobody writes and nothing is inside (`pipe_read` of `fs/pipe.c`).
    ///
    /// # Errors
    /// `EAGAIN` if nothing is there yet; `EOPNOTSUPP` where only a `read` shows, as of a terminal.
    pub(crate) fn look_for_end(&self) -> io::Result<usize> {
        let mut byte = [0];
        match self.state.kind {
            Kind::Pipe => {
                // Asked first: after a hang-up no byte comes any more.
                let hung_up = poll_now(self.fd, PollFlags::IN)?.contains(PollFlags::HUP);
                match (unread_bytes(self.fd)?, hung_up) {
                    (0, true) => Ok(0),
                    // A writer is there, and may write later: not the end.
                    (0, false) => Err(Errno::AGAIN),
                    _ => Ok(1),
                }
            }
            Kind::Stream if self.looks_begin_elsewhere() => {
                let unread = self.unread_bytes_or_again()?;
                let events = poll_now(self.fd, PollFlags::RDHUP | PollFlags::PRI)?;
                // At TCP's urgent mark FIONREAD answers 0, too.
                let is_plain_end =
                    events.contains(PollFlags::RDHUP) && !events.contains(PollFlags::PRI);
                if unread > 0 || is_plain_end { Ok(unread) } else { Err(Errno::OPNOTSUPP) }
            }
            Kind::Stream => data::peek_nowait(self.fd, &mut byte),
            Kind::File | Kind::Block | Kind::Pseudo => {
                let at = match self.state.at {
                    Some(at) => at,
                    None => {
                        // pread(2) leaves the position alone, which others may share.
                        file::seek(self.fd, SeekFrom::Current(0)).map_err(|_| Errno::OPNOTSUPP)?
                    }
                };
                match data::pread(self.fd, &mut byte, at) {
                    // O_DIRECT takes aligned pieces only.
                    Err(Errno::INVAL | Errno::SPIPE) => Err(Errno::OPNOTSUPP),
                    answer => answer,
                }
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}
