//! A port: one side of a move, the offset there, and calls that never wait.

mod end;
mod room;
mod state;

pub use state::PortState;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{self, Errno};

use crate::endpoint::{Endpoint, Kind};
use crate::kernel::{Kernel, is_refusal};
use crate::pages::Pages;
use crate::sys::data::{self, Nowait};
use crate::sys::file;
use crate::sys::map::Window;
use room::Room;

/// The largest buffer for one datagram (invariant 8).
pub(crate) const MOST_DATAGRAM_BYTES: usize = 8 << 20;

/// Which end of a move something concerns.
///
/// ```
/// let directory = std::fs::File::open("/")?;
/// let error = gush::copy(&directory, &tempfile::tempfile()?).unwrap_err();
/// assert_eq!(error.side(), Some(gush::Side::Source));
/// assert_eq!(gush::Side::Source.to_string(), "source");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the bytes come from.
    Source,
    /// Where the bytes go.
    Target,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Source => "source",
            Side::Target => "target",
        })
    }
}

/// One side of a move: a descriptor, and an offset or none for the descriptor's own position.
///
/// The calls of a port never wait, with or without O_NONBLOCK: they answer `EAGAIN`, and the driver
/// waits. Without the flag a write to a terminal carries 256 bytes at most, or a part of a line,
/// which has room after poll(2) unless another process fills or stops the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Port<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) state: PortState,
}

impl<'fd> Port<'fd> {
    /// A descriptor, used at its own position.
    ///
    /// # Errors
    /// As [`Endpoint::of`].
    pub fn of(fd: &'fd impl AsFd) -> io::Result<Self> {
        Endpoint::of(fd).map(|endpoint| Self::new(&endpoint, None))
    }

    /// The same, at an offset in bytes, which moves on with every call.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { state: self.state.at(offset), ..self }
    }

    /// The kind of the descriptor.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.state.kind
    }

    /// The offset of the next call, if not the descriptor's own position.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.state.at
    }

    /// The same, for a call that moves the offset on by itself.
    pub(crate) fn offset_mut(&mut self) -> Option<&mut u64> {
        self.state.at.as_mut()
    }

    pub(crate) fn go_to(&mut self, offset: Option<u64>) {
        self.state.at = offset;
    }

    pub(crate) fn new(endpoint: &Endpoint<'fd>, at: Option<u64>) -> Self {
        let mut state = endpoint.state();
        state.at = at;
        Self { fd: endpoint.fd(), state }
    }

    pub(crate) fn nowait(&self) -> Nowait {
        match self.state.kind {
            // Also where it is non-blocking: `send` with MSG_NOSIGNAL raises no SIGPIPE.
            Kind::Stream if !self.state.refuses_nowait => Nowait::Socket,
            // A plain read cuts a datagram silently.
            Kind::Datagram => Nowait::Socket,
            _ if self.state.is_nonblocking() => Nowait::Plain,
            Kind::Pipe if !self.state.refuses_nowait => Nowait::Pipe,
            _ => Nowait::Plain,
        }
    }

    /// Learns from an error that the call that never waits is refused here; returns whether it is.
    /// The descriptor is then polled, and read and written plainly: the caller calls again.
    ///
    /// `RWF_NOWAIT`: named FIFOs answer EOPNOTSUPP, pipes since Linux 6.4 do not (`fifo_open` and
    /// `create_pipe_files` of `fs/pipe.c`). A kernel without preadv2 answers ENOSYS, one without
    /// the flag EINVAL (preadv2(2)), and a seccomp filter mostly EPERM or
    /// ENOSYS; filters for processes with inherited sockets deny recvfrom and sendto.
    /// EBADF is about the descriptor and no flag: the descriptor is not open for this direction.
    fn learn_nowait_refused(&mut self, errno: Errno) -> bool {
        // EBADF is not about the flag; the other refusals are, or about the call.
        let is_about_flag = is_refusal(errno) && errno != Errno::BADF;
        let was_nowait = self.state.at.is_none() && self.nowait() != Nowait::Plain;
        // A datagram needs recv(2) to be whole: there is no sound call to fall back to.
        let has_plain_call = self.state.kind != Kind::Datagram;
        let is_refused = is_about_flag && was_nowait && has_plain_call;
        self.state.refuses_nowait |= is_refused;
        is_refused
    }

    /// Reads once, without waiting: at most `buf.len()` bytes, 0 at the end. From a datagram socket
    /// 0 is an empty datagram, from SOCK_SEQPACKET the end. The kernel drops the rest of a packet
    /// (O_DIRECT of pipe(2)) longer than `buf`; none is longer than a page.
    ///
    /// # Errors
    /// `EAGAIN` if there is nothing now; `EINTR` after a signal or an empty record of
    /// SOCK_SEQPACKET: ask again; `EMSGSIZE` for a datagram longer than `buf`, whose rest is lost:
    /// ask [`Port::next_datagram_bytes`] first; else the kernel's error.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.read_once(buf) {
            // An empty record of SOCK_SEQPACKET looks like the end: EINTR makes the caller ask
            // again.
            Ok(0) if !buf.is_empty() && self.state.is_seqpacket() && !self.has_ended() => {
                Err(Errno::INTR)
            }
            answer => self.ended_by_slave(answer),
        }
    }

    /// Reads once into `buffer`, at most `most_bytes` of a stream, or a whole datagram: a buffer
    /// that is too short is replaced, up to 8 MiB. 0 is the end, and nothing else.
    ///
    /// The buffer begins with a page: AMD's processors with `fsrm` take four times as long to fill
    /// one that begins 16 bytes later, as the heap's do (`bench/align.c`).
    ///
    /// # Errors
    /// `EAGAIN` if there is nothing now; `EINTR` after a signal or an empty datagram: ask again;
    /// `EMSGSIZE` for a datagram beyond 8 MiB; `ENOMEM`; else the kernel's error.
    pub fn read_whole(&mut self, buffer: &mut Pages, most_bytes: usize) -> io::Result<usize> {
        let Some(datagram_bytes) = self.next_datagram_bytes() else {
            let most_bytes = most_bytes.min(buffer.len_bytes());
            return self.read(&mut buffer.as_mut_slice()[..most_bytes]);
        };
        let datagram_bytes = datagram_bytes?;
        // Bounded, because the peer says how long its datagram is (invariant 8).
        if datagram_bytes > MOST_DATAGRAM_BYTES {
            return Err(Errno::MSGSIZE);
        }
        if buffer.len_bytes() < datagram_bytes {
            // A new mapping is zeroed anyway, so the old content is not carried over.
            *buffer = Pages::new(datagram_bytes)?;
        }
        match self.read(buffer.as_mut_slice())? {
            // An empty datagram is no end: the caller asks for the next one.
            0 if !self.state.is_seqpacket() => Err(Errno::INTR),
            got => Ok(got),
        }
    }

    fn read_once(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = match (self.state.at, self.nowait()) {
            // An offset means a file or block device, whose reads wait for nobody but the disk.
            (Some(at), _) => data::pread(self.fd, buf, at),
            (None, Nowait::Socket) if self.state.kind == Kind::Datagram => {
                // recv(2) with MSG_TRUNC: a plain read would cut the datagram silently.
                data::recv_whole(self.fd, buf)
            }
            (None, Nowait::Socket) => data::recv_nowait(self.fd, buf),
            (None, Nowait::Pipe) => data::read_nowait(self.fd, buf),
            (None, Nowait::Plain) => {
                // Nothing keeps this read from waiting, so poll(2) has to say that a byte is there.
                self.ready_or_again(PollFlags::IN)?;
                self.before_last_offset(buf.len(), |len| data::read(self.fd, &mut buf[..len]))
            }
        };
        let got = match got {
            // The call that never waits is missing or denied: from now on poll(2) and the plain
            // one.
            Err(errno) if self.learn_nowait_refused(errno) => return self.read_once(buf),
            // The unaligned tail of a file with O_DIRECT: read through a description without the
            // flag.
            Err(Errno::INVAL) if self.state.is_direct() => {
                self.through_page_cache(OFlags::RDONLY, |twin, at| data::pread(twin, buf, at))
            }
            got => got,
        }?;
        self.advance(got);
        Ok(got)
    }

    /// Makes a call of `len` bytes at the descriptor's own position, and again of fewer where that
    /// call would go beyond the largest offset: the error itself does not say so.
    pub(crate) fn before_last_offset(
        &self,
        len: usize,
        mut call: impl FnMut(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let answer = call(len);
        let has_position = self.state.at.is_none()
            && matches!(self.state.kind, Kind::File | Kind::Block | Kind::Pseudo);
        if let (true, Err(Errno::INVAL | Errno::OVERFLOW)) = (has_position, answer)
            && let Ok(at) = file::seek(self.fd, SeekFrom::Current(0))
            && let fewer = data::before_last_offset(Some(at), len)
            && fewer < len
        {
            return call(fewer);
        }
        answer
    }

    /// Writes once, without waiting; answers how many bytes were taken.
    ///
    /// # Errors
    /// `EAGAIN` when there is no room now; else the kernel's answer.
    pub fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let put = match (self.state.at, self.nowait()) {
            // No offset is named for O_APPEND, which would ignore it.
            (Some(at), _) => data::pwrite(self.fd, buf, at),
            (None, Nowait::Socket) => data::send_nowait(self.fd, buf),
            (None, Nowait::Pipe) => data::write_nowait(self.fd, buf),
            (None, Nowait::Plain) => {
                let most = match self.room()? {
                    Room::Call(output) => output.first_bytes(buf),
                    room => room.any_bytes(buf.len()),
                };
                self.before_last_offset(most, |len| match len {
                    0 if most > 0 => Err(Errno::FBIG),
                    len => data::write(self.fd, &buf[..len]),
                })
            }
        };
        let put = match put {
            Err(errno) if self.learn_nowait_refused(errno) => return self.write(buf),
            // With O_APPEND the twin's offset would be a guess about the end.
            Err(Errno::INVAL) if self.state.is_direct() && !self.state.is_append() => {
                self.through_page_cache(OFlags::WRONLY, |twin, at| data::pwrite(twin, buf, at))
            }
            put => put,
        }?;
        self.advance(put);
        Ok(put)
    }

    /// As [`Port::write`], before the end: a socket keeps the bytes, and sends one segment.
    pub(crate) fn write_last(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.state.at.is_some() || self.nowait() != Nowait::Socket {
            return self.write(buf);
        }
        match data::send_before_more(self.fd, buf) {
            // A filter denies sendto(2).
            Err(errno) if self.learn_nowait_refused(errno) => self.write(buf),
            answer => answer.inspect(|&put| self.advance(put)),
        }
    }

    /// Splices at most `most` bytes to the target; one of the two is a pipe. A 0 is no proof of an
    /// end.
    ///
    /// Neither side is asked to wait, but a socket without O_NONBLOCK may: poll first.
    ///
    /// # Errors
    /// `EAGAIN` if one side has nothing or the other no room; else the kernel's error.
    pub(crate) fn splice_to(&mut self, target: &mut Port<'_>, most: usize) -> io::Result<usize> {
        let flags = rustix::pipe::SpliceFlags::NONBLOCK;
        // SPLICE_F_NONBLOCK concerns the pipe: a terminal without O_NONBLOCK would hold a longer
        // call.
        let most = target.unheld_bytes(most);
        let (source, to) = (*self, target.fd);
        let spliced = source.before_last_offset(most, |most| {
            let (from_at, to_at) = (self.offset_mut(), target.offset_mut());
            crate::sys::pipe::splice(source.fd, from_at, to, to_at, most, flags)
        });
        self.ended_by_slave(spliced)
    }

    /// Sends at most `most` bytes of a file on to a target, at the target's own position. A 0 from
    /// sendfile(2) is no proof of an end.
    ///
    /// A datagram is never longer than the rest of the file: the kernel would cork it
    /// (SPLICE_F_MORE, `splice_direct_to_actor` of fs/splice.c), and sum it wrongly where a page
    /// has an odd part of it, so that the receiver drops it (UdpInCsumErrors of Linux 6.18;
    /// `tests/datagrams.rs`).
    ///
    /// # Errors
    /// `EAGAIN` when a non-blocking target has no room now; else the kernel's answer.
    pub(crate) fn send_file_to(&mut self, target: &mut Port<'_>, most: usize) -> io::Result<usize> {
        let most = match target.state.kind {
            Kind::Datagram => self.left_bytes().map_or(most, |left| most.min(left)),
            // One page at most has room for certain after poll(2).
            Kind::Pipe if !Kernel::get().sendfile_ends_at_full_pipe() => {
                most.min(rustix::pipe::PIPE_BUF)
            }
            _ => target.unheld_bytes(most),
        };
        let source = *self;
        source.before_last_offset(most, |most| {
            file::sendfile(source.fd, self.offset_mut(), target.fd, most)
        })
    }

    /// The bytes of a file after the position, if there are any and the size is known.
    fn left_bytes(&self) -> Option<usize> {
        let at = match self.state.at {
            Some(at) => at,
            None => file::seek(self.fd, SeekFrom::Current(0)).ok()?,
        };
        let left_bytes =
            file::size_bytes(self.fd).ok()?.checked_sub(at).filter(|left| *left > 0)?;
        usize::try_from(left_bytes).ok()
    }

    /// As [`Port::write`], from a mapped file.
    pub(crate) fn write_window(
        &mut self,
        window: &Window,
        offset: usize,
        len: usize,
    ) -> io::Result<usize> {
        let nowait = self.nowait();
        let len = match (self.state.at, nowait) {
            (None, Nowait::Plain) => self.room()?.any_bytes(len),
            _ => len,
        };
        match window.write(offset, len, self.fd, self.state.at, nowait) {
            Err(errno) if self.learn_nowait_refused(errno) => {
                self.write_window(window, offset, len)
            }
            answer => answer.inspect(|&put| self.advance(put)),
        }
    }

    /// An O_DIRECT file takes aligned pieces only (open(2)): any other piece goes through a file
    /// description without that flag, at the same place.
    fn through_page_cache(
        &mut self,
        access: OFlags,
        call: impl FnOnce(BorrowedFd<'_>, u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let twin = file::reopen(self.fd, access)?;
        let at = match self.state.at {
            Some(at) => at,
            None => file::seek(self.fd, SeekFrom::Current(0))?,
        };
        let moved = call(twin.as_fd(), at)?;
        // The bytes have moved. A position that does not follow is not used any more.
        if self.state.at.is_none()
            && file::seek(self.fd, SeekFrom::Start(at + moved as u64)).is_err()
        {
            self.state.at = Some(at);
        }
        Ok(moved)
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        if let Some(at) = &mut self.state.at {
            *at += bytes as u64;
        }
    }
}

impl AsFd for Port<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}
