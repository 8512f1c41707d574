//! A port: one side of a move, the offset there, and calls that never wait.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{self, Errno};
use rustix::net::SocketType;

use crate::endpoint::{Endpoint, Kind};
use crate::kernel::{Kernel, is_refusal};
use crate::pages::Pages;
use crate::sys::data::{self, Nowait};
use crate::sys::file;
use crate::sys::map::Window;
use crate::sys::pipe::{is_ready, poll_now, unread_bytes};
use crate::sys::socket;
use crate::terminal::Output;

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

/// One side of a move: a descriptor, and the offset to use, or none for the descriptor's own position.
///
/// The calls of a port never wait, with or without O_NONBLOCK: they answer `EAGAIN`, and whoever
/// drives them does the waiting. Without the flag a write to a terminal carries 256 bytes at most, or the part of a line:
/// so much has room where poll(2) says so, unless somebody else fills or stops the terminal in between.
///
/// ```
/// let (end, other) = std::os::unix::net::UnixStream::pair()?;
/// let mut port = gush::Port::of(&end)?;
/// assert_eq!(port.read(&mut [0; 8]), Err(gush::Errno::AGAIN));
/// assert_eq!(gush::Port::of(&other)?.write(b"abc"), Ok(3));
/// assert_eq!(port.read(&mut [0; 8]), Ok(3));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Port<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    manner: Manner,
}

/// A [`Port`] without the descriptor: how to touch the descriptor, and at which offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    at: Option<u64>,
    kind: Kind,
    can_idle: bool,
    nonblocking: bool,
    append: bool,
    direct: bool,
    is_master: bool,
    /// The descriptor refused the call that never waits (see [`Port::learn_nowait_refused`]).
    refuses_nowait: bool,
}

impl Manner {
    /// The port again, on the same descriptor.
    pub(crate) fn on(self, fd: BorrowedFd<'_>) -> Port<'_> {
        Port { fd, manner: self }
    }

    /// The kind of the descriptor.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// A descriptor of a known kind, used at the descriptor's own position; no call is made.
    pub(crate) fn known(kind: Kind, nonblocking: bool) -> Self {
        Self {
            at: None,
            kind,
            can_idle: kind.can_idle(),
            nonblocking,
            append: false,
            direct: false,
            is_master: false,
            refuses_nowait: false,
        }
    }

    pub(crate) fn at(self, offset: u64) -> Self {
        Self { at: Some(offset), ..self }
    }

    /// Where the next call reads or writes, if not at the descriptor's own position.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.at
    }

    pub(crate) fn can_idle(&self) -> bool {
        self.can_idle
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking
    }

    pub(crate) fn is_append(&self) -> bool {
        self.append
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Is this the master of a pseudo-terminal?
    pub(crate) fn is_master(&self) -> bool {
        self.is_master
    }
}

/// How much a plain write may carry without waiting.
enum Room {
    /// All bytes: nothing waits, or O_NONBLOCK is set.
    Enough,
    /// A polled pipe takes one page at once (pipe(7), `PIPE_BUF`).
    Bytes(usize),
    /// A polled terminal takes one call of the driver.
    Call(Output),
}

impl Room {
    /// How many bytes of any content, `len` at most.
    fn any_bytes(&self, len: usize) -> usize {
        match self {
            Room::Enough => len,
            Room::Bytes(most) => len.min(*most),
            Room::Call(output) => len.min(output.any_bytes()),
        }
    }
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
    ///
    /// ```
    /// let file = tempfile::tempfile()?;
    /// let mut port = gush::Port::of(&file)?.at(4096);
    /// port.write(b"abc")?;
    /// port.write(b"def")?;
    /// let mut text = [0; 6];
    /// gush::Port::of(&file)?.at(4096).read(&mut text)?;
    /// assert_eq!(&text, b"abcdef");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { manner: self.manner.at(offset), ..self }
    }

    /// The port without the descriptor, which the owner may close.
    pub(crate) fn manner(&self) -> Manner {
        self.manner
    }

    /// The kind of the descriptor.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.manner.kind
    }

    /// The offset of the next call, if not the descriptor's own position.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.manner.at
    }

    /// The same, for a call that moves the offset on by itself.
    pub(crate) fn offset_mut(&mut self) -> Option<&mut u64> {
        self.manner.at.as_mut()
    }

    pub(crate) fn go_to(&mut self, offset: Option<u64>) {
        self.manner.at = offset;
    }

    pub(crate) fn new(endpoint: &Endpoint<'fd>, at: Option<u64>) -> Self {
        let (fd, kind) = (endpoint.fd(), endpoint.kind());
        let manner = Manner {
            at,
            kind,
            can_idle: endpoint.can_idle(),
            nonblocking: endpoint.is_nonblocking(),
            append: endpoint.is_append(),
            direct: endpoint.is_direct(),
            is_master: kind == Kind::Terminal && file::is_terminal_master(fd),
            refuses_nowait: false,
        };
        Self { fd, manner }
    }

    pub(crate) fn nowait(&self) -> Nowait {
        match self.manner.kind {
            // Also where it is non-blocking: `send` with MSG_NOSIGNAL raises no SIGPIPE.
            Kind::Stream if !self.manner.refuses_nowait => Nowait::Socket,
            // No plain read tells that it has cut a datagram.
            Kind::Datagram => Nowait::Socket,
            _ if self.manner.nonblocking => Nowait::Plain,
            Kind::Pipe if !self.manner.refuses_nowait => Nowait::Pipe,
            _ => Nowait::Plain,
        }
    }

    /// Must be polled first, because no flag keeps the calls from waiting.
    fn needs_poll(&self) -> bool {
        !self.manner.nonblocking && self.nowait() == Nowait::Plain && self.manner.can_idle
    }

    /// Learns from an error whether the call that never waits is refused here, and answers so. The descriptor is then polled
    /// from here on, and read and written plainly: the caller makes the call again.
    ///
    /// `RWF_NOWAIT`: named FIFOs answer EOPNOTSUPP, pipes since Linux 6.4 do not (`fifo_open` and
    /// `create_pipe_files` of `fs/pipe.c`). A kernel without preadv2 answers ENOSYS, one without
    /// the flag EINVAL (preadv2(2)), and a seccomp filter mostly EPERM or
    /// ENOSYS; filters for processes with inherited sockets deny recvfrom and sendto.
    /// EBADF is about the descriptor and no flag: the descriptor is not open for this direction.
    fn learn_nowait_refused(&mut self, errno: Errno) -> bool {
        // EBADF would be the same without the flag; the other refusals are about the flag or the call.
        let is_about_flag = is_refusal(errno) && errno != Errno::BADF;
        let was_nowait = self.manner.at.is_none() && self.nowait() != Nowait::Plain;
        // A datagram needs recv(2) to be whole: there is no sound call to fall back to.
        let has_plain_call = self.manner.kind != Kind::Datagram;
        let is_refused = is_about_flag && was_nowait && has_plain_call;
        self.manner.refuses_nowait |= is_refused;
        is_refused
    }

    /// Reads once, without waiting: at most `buf.len()` bytes, 0 at the end. From a datagram socket 0
    /// is an empty datagram, and only from a SOCK_SEQPACKET socket the end. Of a packet (O_DIRECT of pipe(2)) that is longer than
    /// `buf` the kernel drops the rest; no packet is longer than a page.
    ///
    /// # Errors
    /// `EAGAIN` when there is nothing now; `EINTR` after a signal or an empty record of a SOCK_SEQPACKET
    /// socket: ask again; `EMSGSIZE` for a datagram longer than `buf`, whose rest is
    /// lost, so [`Port::next_datagram_bytes`] should be asked first; else the kernel's error.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.read_once(buf) {
            // An empty record of SOCK_SEQPACKET looks like the end; "interrupted" makes the caller ask again.
            Ok(0) if !buf.is_empty() && self.is_seqpacket() == Ok(true) && !self.has_ended() => {
                Err(Errno::INTR)
            }
            answer => self.ended_by_slave(answer),
        }
    }

    /// A master fails with `EIO` once the slave has been closed (pty(7)): that is its end.
    pub(crate) fn ended_by_slave(&self, answer: io::Result<usize>) -> io::Result<usize> {
        match answer {
            Err(Errno::IO) if self.manner.is_master => Ok(0),
            answer => answer,
        }
    }

    /// Reads once into `buffer`, at most `most_bytes` of a stream, and a datagram whole: a longer `buffer` takes the place of one
    /// that is too short, up to 8 MiB. 0 is the end of the source, and nothing else.
    ///
    /// The buffer begins with a page: on AMD's processors with `fsrm` the kernel takes four times as long to fill a buffer that
    /// begins 16 bytes behind a page, as large ones of the heap do (`bench/align.c`).
    ///
    /// ```
    /// use std::os::unix::net::UnixDatagram;
    /// let (near, far) = UnixDatagram::pair()?;
    /// far.send(b"a datagram is never cut")?;
    /// let mut buffer = gush::Pages::new(4)?;
    /// let got = gush::Port::of(&near)?.read_whole(&mut buffer, 4)?;
    /// assert_eq!(&buffer.as_slice()[..got], b"a datagram is never cut");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EAGAIN` when there is nothing now; `EINTR` after a signal or an empty datagram: ask again; `EMSGSIZE` for a datagram
    /// beyond 8 MiB; `ENOMEM` where no longer buffer can be had; else what the kernel answered.
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
            0 if self.is_seqpacket() != Ok(true) => Err(Errno::INTR),
            got => Ok(got),
        }
    }

    fn read_once(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = match (self.manner.at, self.nowait()) {
            // An offset means a file or block device, whose reads wait for nobody but the disk.
            (Some(at), _) => data::pread(self.fd, buf, at),
            (None, Nowait::Socket) if self.manner.kind == Kind::Datagram => {
                // recv(2) with MSG_TRUNC: a plain read would cut the datagram and tell nobody.
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
            // The call that never waits is missing or denied: the plain one serves from now on, behind a poll(2).
            Err(errno) if self.learn_nowait_refused(errno) => return self.read_once(buf),
            // The unaligned tail of a file with O_DIRECT; the flag is the caller's, so a twin without it reads.
            Err(Errno::INVAL) if self.manner.direct => {
                self.through_page_cache(OFlags::RDONLY, |twin, at| data::pread(twin, buf, at))
            }
            got => got,
        }?;
        self.advance(got);
        Ok(got)
    }

    /// Makes a call of `len` bytes at the descriptor's own position, and again of fewer where that
    /// call would go beyond the largest offset: no error by itself tells so.
    pub(crate) fn before_last_offset(
        &self,
        len: usize,
        mut call: impl FnMut(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let answer = call(len);
        let has_position = self.manner.at.is_none()
            && matches!(self.manner.kind, Kind::File | Kind::Block | Kind::Pseudo);
        if let (true, Err(Errno::INVAL | Errno::OVERFLOW)) = (has_position, answer)
            && let Ok(at) = file::seek(self.fd, SeekFrom::Current(0))
            && let fewer = data::before_last_offset(Some(at), len)
            && fewer < len
        {
            return call(fewer);
        }
        answer
    }

    /// The size of the next datagram, which stays in the socket; `None` where there are no boundaries.
    ///
    /// ```
    /// let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
    /// far.send(b"hello")?;
    /// assert_eq!(gush::Port::of(&near)?.next_datagram_bytes(), Some(Ok(5)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn next_datagram_bytes(&self) -> Option<io::Result<usize>> {
        (self.manner.kind == Kind::Datagram).then(|| match self.looks_begin_elsewhere() {
            true => self.unread_bytes_or_again(),
            false => match data::recv_size(self.fd) {
                // Asked once more: see `has_ended`.
                Ok(0) if self.is_seqpacket() == Ok(true) => match data::recv_size(self.fd) {
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

    /// Do messages have boundaries, and the stream of them an end? UDP and unix datagrams have no end.
    ///
    /// # Errors
    /// That of getsockopt(2).
    pub(crate) fn is_seqpacket(&self) -> io::Result<bool> {
        let is_socket = self.manner.kind == Kind::Datagram;
        Ok(is_socket && socket::type_of(self.fd)? == SocketType::SEQPACKET)
    }

    /// Was a 0 from a SOCK_SEQPACKET socket the end? An empty record answers 0, too, and so does a read that
    /// finds the last record and the close behind it come between the kernel's look at the queue and its look at
    /// the close (`__unix_dgram_recvmsg` of `net/unix/af_unix.c`; 2 times in 4,000 in a trial).
    ///
    /// Nothing is queued after a hang-up, and a queued record without a byte carries nothing.
    fn has_ended(&self) -> bool {
        // Where poll(2) fails, the 0 is believed: a loop of questions would never end.
        let hung_up = is_ready(self.fd, PollFlags::RDHUP).unwrap_or(true);
        hung_up && unread_bytes(self.fd).unwrap_or(0) == 0
    }

    /// Has the source ended? 0 is the end, 1 is something to be read. Nothing is taken.
    ///
    /// A pipe has ended where nobody writes and nothing is inside (`pipe_read` of `fs/pipe.c`).
    ///
    /// # Errors
    /// `EAGAIN` where nothing is there yet; `EOPNOTSUPP` where only a `read` tells, as of a terminal or a device.
    pub(crate) fn look_for_end(&self) -> io::Result<usize> {
        let mut byte = [0];
        match self.manner.kind {
            Kind::Pipe => {
                // Asked first: behind a hang-up no byte comes any more.
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
                let at = match self.manner.at {
                    Some(at) => at,
                    None => {
                        // pread(2) leaves the position alone, and so takes nothing from whoever shares the descriptor.
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

    /// Writes once, without waiting; answers how many bytes were taken.
    ///
    /// # Errors
    /// `EAGAIN` when there is no room now; else the kernel's answer.
    pub fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let put = match (self.manner.at, self.nowait()) {
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
            Err(Errno::INVAL) if self.manner.direct && !self.manner.append => {
                self.through_page_cache(OFlags::WRONLY, |twin, at| data::pwrite(twin, buf, at))
            }
            put => put,
        }?;
        self.advance(put);
        Ok(put)
    }

    /// As [`Port::write`], before an end that is told at once: a socket keeps the bytes until then, and sends one segment.
    pub(crate) fn write_last(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.manner.at.is_some() || self.nowait() != Nowait::Socket {
            return self.write(buf);
        }
        match data::send_before_more(self.fd, buf) {
            // A filter denies sendto(2).
            Err(errno) if self.learn_nowait_refused(errno) => self.write(buf),
            answer => answer.inspect(|&put| self.advance(put)),
        }
    }

    /// Splices at most `most` bytes on to the target; one of the two must be a pipe. A 0 from splice(2)
    /// is no proof of an end.
    ///
    /// Neither side is asked to wait, but a socket without O_NONBLOCK may: poll first.
    ///
    /// # Errors
    /// `EAGAIN` when the one has nothing or the other no room, which the answer does not tell apart;
    /// else the kernel's answer.
    pub(crate) fn splice_to(&mut self, target: &mut Port<'_>, most: usize) -> io::Result<usize> {
        let flags = rustix::pipe::SpliceFlags::NONBLOCK;
        // SPLICE_F_NONBLOCK concerns the pipe alone: a terminal without O_NONBLOCK would hold a longer call.
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
    /// A datagram is never asked to hold more than the file has left: the kernel corks it then (SPLICE_F_MORE,
    /// `splice_direct_to_actor` of fs/splice.c), sums it in software, and sums the datagram wrongly where a page has an odd part of
    /// it. The receiver drops such a datagram (UdpInCsumErrors of Linux 6.18; `tests/datagrams.rs`).
    ///
    /// # Errors
    /// `EAGAIN` when a non-blocking target has no room now; else the kernel's answer.
    pub(crate) fn send_file_to(&mut self, target: &mut Port<'_>, most: usize) -> io::Result<usize> {
        let most = match target.manner.kind {
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

    /// The bytes of a file behind the position, if there are any and the file tells its size.
    fn left_bytes(&self) -> Option<usize> {
        let at = match self.manner.at {
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
        let len = match (self.manner.at, nowait) {
            (None, Nowait::Plain) => self.room()?.any_bytes(len),
            _ => len,
        };
        match window.write(offset, len, self.fd, self.manner.at, nowait) {
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
        let at = match self.manner.at {
            Some(at) => at,
            None => file::seek(self.fd, SeekFrom::Current(0))?,
        };
        let moved = call(twin.as_fd(), at)?;
        // The bytes have moved. A position that does not follow is not used any more.
        if self.manner.at.is_none()
            && file::seek(self.fd, SeekFrom::Start(at + moved as u64)).is_err()
        {
            self.manner.at = Some(at);
        }
        Ok(moved)
    }

    /// The room for a plain write that must not wait.
    fn room(&self) -> io::Result<Room> {
        if !self.needs_poll() {
            return Ok(Room::Enough);
        }
        self.ready_or_again(PollFlags::OUT)?;
        Ok(self.room_after_poll())
    }

    /// The room of a side that has just polled writable: other devices than pipes and terminals say for themselves.
    fn room_after_poll(&self) -> Room {
        match self.manner.kind {
            Kind::Pipe => Room::Bytes(rustix::pipe::PIPE_BUF),
            Kind::Terminal => Room::Call(Output::of(self.fd, self.manner.is_master)),
            _ => Room::Enough,
        }
    }

    /// How many bytes may be spliced or sent here after poll(2): a terminal without O_NONBLOCK would wait for the rest.
    pub(crate) fn unheld_bytes(&self, most: usize) -> usize {
        match self.manner.kind {
            Kind::Terminal if !self.manner.nonblocking => self.room_after_poll().any_bytes(most),
            _ => most,
        }
    }

    fn ready_or_again(&self, events: PollFlags) -> io::Result<()> {
        if !self.needs_poll() || is_ready(self.fd, events)? { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Invariant 5: may bytes be spliced *from* here without holding a pipe's lock while waiting?
    ///
    /// A pipe needs no asking: `SPLICE_F_NONBLOCK` is for pipes.
    ///
    /// # Errors
    /// As poll(2).
    pub fn is_readable(&self) -> io::Result<bool> {
        if !self.manner.can_idle || self.manner.kind == Kind::Pipe {
            return Ok(true);
        }
        is_ready(self.fd, PollFlags::IN)
    }

    /// May bytes be spliced or sent here without waiting for room from the start?
    ///
    /// # Errors
    /// As poll(2).
    pub fn is_writable(&self) -> io::Result<bool> {
        if !self.manner.can_idle {
            return Ok(true);
        }
        is_ready(self.fd, PollFlags::OUT)
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        if let Some(at) = &mut self.manner.at {
            *at += bytes as u64;
        }
    }
}

impl AsFd for Port<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}
