//! A port: one side of a transfer, where it stands, and how to touch it without waiting.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{self, Errno};

use crate::endpoint::{Endpoint, Kind};
use crate::sys::data::{self, Nowait};
use crate::sys::file;
use crate::sys::map::Window;
use crate::sys::pipe::is_ready;

/// Which end of a move something concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the bytes come from.
    Source,
    /// Where the bytes go.
    Target,
}

/// A descriptor, and the offset to use, or `None` for its own position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) at: Option<u64>,
    pub(crate) kind: Kind,
    nonblocking: bool,
    append: bool,
    direct: bool,
    /// It answered EOPNOTSUPP to `RWF_NOWAIT`: named FIFOs do, pipes since Linux 6.4 do not
    /// (`fifo_open` and `create_pipe_files` of `fs/pipe.c`).
    waits: bool,
}

impl<'fd> Port<'fd> {
    pub(crate) fn new(endpoint: &Endpoint<'fd>, at: Option<u64>) -> Self {
        Self {
            fd: endpoint.fd(),
            at,
            kind: endpoint.kind(),
            nonblocking: endpoint.is_nonblocking(),
            append: endpoint.is_append(),
            direct: endpoint.is_direct(),
            waits: false,
        }
    }

    pub(crate) fn nowait(&self) -> Nowait {
        match self.kind {
            _ if self.nonblocking => Nowait::Plain,
            Kind::Stream | Kind::Datagram => Nowait::Socket,
            Kind::Pipe if !self.waits => Nowait::Pipe,
            _ => Nowait::Plain,
        }
    }

    /// Must be polled first, because no flag keeps its calls from waiting.
    fn needs_poll(&self) -> bool {
        !self.nonblocking && self.nowait() == Nowait::Plain && self.kind.can_idle()
    }

    /// `RWF_NOWAIT` was refused: from here on the pipe is polled before it is touched.
    fn must_poll_from_now_on(&mut self) -> bool {
        let learned = self.nowait() == Nowait::Pipe;
        self.waits |= learned;
        learned
    }

    /// Reads once, without waiting; `EAGAIN` when there is nothing now, 0 at the end.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = match (self.at, self.nowait()) {
            (Some(at), _) => data::pread(self.fd, buf, at),
            (None, Nowait::Socket) => data::recv_nowait(self.fd, buf),
            (None, Nowait::Pipe) => data::read_nowait(self.fd, buf),
            (None, Nowait::Plain) => {
                self.ready_or_again(PollFlags::IN)?;
                data::read(self.fd, buf)
            }
        };
        let got = match got {
            Err(Errno::OPNOTSUPP) if self.must_poll_from_now_on() => return self.read(buf),
            Err(Errno::INVAL) if self.direct => {
                self.through_page_cache(OFlags::RDONLY, |twin, at| data::pread(twin, buf, at))
            }
            got => got,
        }?;
        self.advance(got);
        Ok(got)
    }

    /// Looks at the next bytes of a file or socket without moving on; `None` where looking would take them.
    pub(crate) fn peek(&self, at: Option<u64>, buf: &mut [u8]) -> Option<io::Result<usize>> {
        match (at, self.kind) {
            (Some(at), _) => Some(data::pread(self.fd, buf, at)),
            (None, Kind::Stream | Kind::Datagram) => Some(data::recv_peek(self.fd, buf)),
            (None, _) => None,
        }
    }

    /// Writes once, without waiting; `EAGAIN` when there is no room now.
    pub(crate) fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let put = match (self.at, self.nowait()) {
            (Some(at), _) => data::pwrite(self.fd, buf, at),
            (None, Nowait::Socket) => data::send_nowait(self.fd, buf),
            (None, Nowait::Pipe) => data::write_nowait(self.fd, buf),
            (None, Nowait::Plain) => {
                let most = self.unwaited_bytes(buf.len())?;
                data::write(self.fd, &buf[..most])
            }
        };
        let put = match put {
            Err(Errno::OPNOTSUPP) if self.must_poll_from_now_on() => return self.write(buf),
            Err(Errno::INVAL) if self.direct && !self.append => {
                self.through_page_cache(OFlags::WRONLY, |twin, at| data::pwrite(twin, buf, at))
            }
            put => put,
        }?;
        self.advance(put);
        Ok(put)
    }

    /// As [`Port::write`], from a mapped file.
    pub(crate) fn write_window(
        &mut self,
        window: &Window,
        offset: usize,
        len: usize,
    ) -> io::Result<usize> {
        let nowait = self.nowait();
        let len = match (self.at, nowait) {
            (None, Nowait::Plain) => self.unwaited_bytes(len)?,
            _ => len,
        };
        match window.write(offset, len, self.fd, self.at, nowait) {
            Err(Errno::OPNOTSUPP) if self.must_poll_from_now_on() => {
                self.write_window(window, offset, len)
            }
            answer => answer.inspect(|&put| self.advance(put)),
        }
    }

    /// An O_DIRECT file takes aligned pieces only (open(2)): one that is not goes through a file
    /// description without that flag, at the same place.
    fn through_page_cache(
        &self,
        access: OFlags,
        call: impl FnOnce(BorrowedFd<'_>, u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let twin = file::reopen(self.fd, access)?;
        let at = match self.at {
            Some(at) => at,
            None => file::seek(self.fd, SeekFrom::Current(0))?,
        };
        let moved = call(twin.as_fd(), at)?;
        if self.at.is_none() {
            file::seek(self.fd, SeekFrom::Start(at + moved as u64))?;
        }
        Ok(moved)
    }

    /// How much of `len` a plain write may carry: what a polled pipe takes at once is one page
    /// (pipe(7), `PIPE_BUF`), what other devices take is theirs to say.
    fn unwaited_bytes(&self, len: usize) -> io::Result<usize> {
        if !self.needs_poll() {
            return Ok(len);
        }
        self.ready_or_again(PollFlags::OUT)?;
        Ok(if self.kind == Kind::Pipe { len.min(rustix::pipe::PIPE_BUF) } else { len })
    }

    fn ready_or_again(&self, events: PollFlags) -> io::Result<()> {
        if !self.needs_poll() || is_ready(self.fd, events)? { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Invariant 5: may bytes be spliced *from* here without holding a pipe's lock while waiting?
    ///
    /// A pipe needs no asking: `SPLICE_F_NONBLOCK` concerns it.
    pub(crate) fn is_readable(&self) -> io::Result<bool> {
        if !self.kind.can_idle() || self.kind == Kind::Pipe {
            return Ok(true);
        }
        is_ready(self.fd, PollFlags::IN)
    }

    /// May bytes be spliced or sent here without waiting for room from the start?
    pub(crate) fn is_writable(&self) -> io::Result<bool> {
        if !self.kind.can_idle() {
            return Ok(true);
        }
        is_ready(self.fd, PollFlags::OUT)
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(at) = &mut self.at {
            *at += bytes as u64;
        }
    }
}
