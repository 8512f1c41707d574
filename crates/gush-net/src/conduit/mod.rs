//! A conduit: any descriptor, or two, or a stream without one, as one end of a relay.

mod bytes;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use gush::{Kind, Side};
use rustix::fs::OFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::descriptor::Descriptor;
use crate::sides::Opened;
use crate::stream::{Layer, Stream};
use crate::tap::Tap;

/// One end of a relay: sockets, pipes, terminals, devices, files, and streams without a descriptor.
///
/// A conduit may be made anywhere: a relay registers the conduit with the relay's tokio runtime. A descriptor that epoll
/// refuses, such as a file, counts as always ready.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::{Read, Write};
/// let (mut client, a) = std::os::unix::net::UnixStream::pair()?;
/// let (b, mut server) = std::os::unix::net::UnixStream::pair()?;
/// client.write_all(b"ping")?;
/// client.shutdown(std::net::Shutdown::Write)?;
/// server.write_all(b"pong")?;
/// server.shutdown(std::net::Shutdown::Write)?;
///
/// let (mut a, mut b) = (gush_net::Conduit::new(a.into())?, gush_net::Conduit::new(b.into())?);
/// let totals = gush_net::relay(&mut a, &mut b, &gush_net::RelayOptions::new()).await?;
/// assert_eq!((totals.forward.bytes, totals.back.bytes), (4, 4));
///
/// let mut arrived = [0; 4];
/// server.read_exact(&mut arrived)?;
/// assert_eq!(&arrived, b"ping");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Conduit(Means);

#[derive(Debug)]
enum Means {
    Descriptors { read: Option<Descriptor>, write: Writer },
    Stream(Stream),
}

#[derive(Debug)]
enum Writer {
    /// The descriptor that is read is written too.
    Same,
    /// Another descriptor, until that is closed.
    Own(Option<Descriptor>),
}

impl Conduit {
    /// One descriptor, used in the directions that its open(2) named.
    ///
    /// Nobody else may use the open file description, which gets O_NONBLOCK.
    ///
    /// # Errors
    /// `EBADF`, or the error of fcntl(2).
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // Ours alone: an inherited description may be shared with programs that expect to wait.
        set_nonblocking(fd.as_fd())?;
        Self::inherited(fd)
    }

    /// A stream socket that is non-blocking already, as accept4(2) makes sockets with SOCK_NONBLOCK. Nothing is asked of the
    /// socket, which saves each of many short connections five calls; of any other descriptor this is wrong.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// near.set_nonblocking(true)?;
    /// drop(far);
    /// let mut near = gush_net::Conduit::of_stream_socket(near.into());
    /// let mut null = gush_net::Conduit::new(std::fs::File::create("/dev/null")?.into())?;
    /// let totals = gush_net::relay_one_way(&mut near, &mut null, &gush_net::RelayOptions::new()).await?;
    /// assert_eq!(totals.forward.bytes, 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn of_stream_socket(socket: OwnedFd) -> Self {
        let read = Some(Descriptor::of_stream_socket(socket));
        Self(Means::Descriptors { read, write: Writer::Same })
    }

    /// A TCP socket that was accepted and is non-blocking, as accept4(2) makes sockets with SOCK_NONBLOCK. Nothing is asked of the
    /// socket, as by [`Conduit::of_stream_socket`]; beside, the first call is made without waiting for readiness, because the
    /// client's first bytes have often come by now, and no read is made that would only find nothing. For a socket of another
    /// protocol, or with one above TCP in the kernel (TLS), this is wrong.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io::Write;
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// std::net::TcpStream::connect(listener.local_addr()?)?.write_all(b"all of it")?;
    /// let (near, _) = listener.accept()?;
    /// near.set_nonblocking(true)?;
    /// let mut near = gush_net::Conduit::of_accepted_tcp(near.into());
    /// let mut null = gush_net::Conduit::new(std::fs::File::create("/dev/null")?.into())?;
    /// let totals = gush_net::relay_one_way(&mut near, &mut null, &gush_net::RelayOptions::new()).await?;
    /// assert_eq!(totals.forward.bytes, 9);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn of_accepted_tcp(socket: OwnedFd) -> Self {
        let read = Some(Descriptor::of_tcp_socket(socket, true));
        Self(Means::Descriptors { read, write: Writer::Same })
    }

    /// As [`Conduit::of_accepted_tcp`], for a TCP socket whose connection was made by us: the peer has probably nothing to say
    /// before the first question.
    #[must_use]
    pub fn of_connected_tcp(socket: OwnedFd) -> Self {
        let read = Some(Descriptor::of_tcp_socket(socket, false));
        Self(Means::Descriptors { read, write: Writer::Same })
    }

    /// Two descriptors, one to read and one to write, as of a child's two pipes. The second is closed
    /// when the other end's data has ended.
    ///
    /// Nobody else may use their open file descriptions: they get O_NONBLOCK.
    ///
    /// # Errors
    /// `EBADF`, or the error of fcntl(2).
    pub fn of_two(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        set_nonblocking(read.as_fd())?;
        set_nonblocking(write.as_fd())?;
        Self::inherited_two(read, write)
    }

    /// As [`Conduit::new`], for a descriptor that others may use too, such as standard input: its
    /// flags stay as they are.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn inherited(fd: OwnedFd) -> io::Result<Self> {
        // A direction that open(2) did not grant would fail at the first call, in the middle of a relay.
        let access = rustix::fs::fcntl_getfl(&fd)? & OFlags::RWMODE;
        let descriptor = Some(Descriptor::new(fd)?);
        let (read, write) = if access == OFlags::WRONLY {
            (None, Writer::Own(descriptor))
        } else if access == OFlags::RDONLY {
            (descriptor, Writer::Own(None))
        } else {
            (descriptor, Writer::Same)
        };
        Ok(Self(Means::Descriptors { read, write }))
    }

    /// As [`Conduit::of_two`], for descriptors that others may use too, such as standard input and
    /// output: their flags stay as they are.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn inherited_two(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        let (read, write) = (Descriptor::new(read)?, Descriptor::new(write)?);
        let write = Writer::Own(Some(write));
        Ok(Self(Means::Descriptors { read: Some(read), write }))
    }

    /// A stream without a descriptor, such as one of TLS. The bytes pass through memory: [`RelayOptions::method`] refuses any
    /// method but `read-write` by name.
    ///
    /// The end of the other side's data is passed on by `poll_shutdown`. A stream that keeps bytes back is flushed whenever
    /// no more are there to be delivered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, RelayOptions};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (mut client, near) = tokio::io::duplex(64);
    /// let (far, mut server) = tokio::net::UnixStream::pair()?;
    /// client.write_all(b"through memory").await?;
    /// client.shutdown().await?;
    /// let (mut near, mut far) = (Conduit::of_stream(near), far);
    /// let totals = gush_net::relay_one_way(&mut near, &mut far, &RelayOptions::new()).await?;
    /// assert_eq!(totals.forward.method, Some(gush::MethodName::ReadWrite));
    ///
    /// let mut arrived = [0; 14];
    /// server.read_exact(&mut arrived).await?;
    /// assert_eq!(&arrived, b"through memory");
    /// # Ok(()) }
    /// ```
    ///
    /// [`RelayOptions::method`]: crate::RelayOptions::method
    #[must_use]
    pub fn of_stream<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Means::Stream(Stream::alone(stream)))
    }

    /// As [`Conduit::of_stream`], for a stream over a socket that `socket` names: then [`Conduit::linger`],
    /// [`Conduit::arrived`] and [`Conduit::reset_on_close`] serve as they do for the socket itself.
    ///
    /// A stream may be made over a conduit, which is an `AsyncRead` and `AsyncWrite` itself: then the socket is
    /// [`Conduit::stream_socket`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use std::os::fd::AsFd;
    /// let (near, _far) = tokio::net::UnixStream::pair()?;
    /// let buffered = tokio::io::BufStream::new(near);
    /// let conduit = gush_net::Conduit::of_stream_over(buffered, |buffered| Some(buffered.get_ref().as_fd()));
    /// assert!(conduit.stream_socket().is_some() && conduit.read_fd().is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn of_stream_over<S>(stream: S, socket: fn(&S) -> Option<BorrowedFd<'_>>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
    {
        Self(Means::Stream(Stream::over(stream, socket)))
    }

    /// As [`Conduit::of_stream_over`], for a stream that can tell more of itself.
    #[must_use]
    pub fn of_layer(layer: impl Layer) -> Self {
        Self(Means::Stream(Stream::layer(layer)))
    }

    /// One end of two: `source` is read, and `target` is written.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::Conduit;
    /// let (question, heard) = (std::fs::File::open("/dev/null")?, tempfile::tempfile()?);
    /// let end = Conduit::joined(Conduit::new(question.into())?, Conduit::new(heard.into())?);
    /// assert!(end.reads() && end.writes());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn joined(source: Self, target: Self) -> Self {
        match (source.0, target.write_only().0) {
            (Means::Descriptors { read, .. }, Means::Descriptors { write, .. }) => {
                Self(Means::Descriptors { read, write })
            }
            (source, target) => Self(Means::Stream(Stream::apart(Self(source), Self(target)))),
        }
    }

    /// The reading direction alone: nothing will be written, and the other direction is not ended.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        match &mut self.0 {
            Means::Descriptors { write, .. } => *write = Writer::Own(None),
            Means::Stream(stream) => stream.writes = false,
        }
        self
    }

    /// Leaves unread all bytes that the end sends.
    pub fn stop_reading(&mut self) {
        match &mut self.0 {
            Means::Descriptors { read, write: Writer::Own(_) } => *read = None,
            // One descriptor for both directions stays open for the one that is left.
            Means::Descriptors { read, write } => *write = Writer::Own(read.take()),
            Means::Stream(stream) => stream.reads = false,
        }
    }

    /// The writing direction alone.
    #[must_use]
    pub fn write_only(mut self) -> Self {
        self.stop_reading();
        self
    }

    /// Has the conduit a direction to be read?
    #[must_use]
    pub fn reads(&self) -> bool {
        match &self.0 {
            Means::Descriptors { read, .. } => read.is_some(),
            Means::Stream(stream) => stream.reads,
        }
    }

    /// Has the conduit a direction to be written, whose end was not said yet?
    #[must_use]
    pub fn writes(&self) -> bool {
        match &self.0 {
            Means::Descriptors { write: Writer::Same, .. } => true,
            Means::Descriptors { write: Writer::Own(own), .. } => own.is_some(),
            Means::Stream(stream) => stream.writes,
        }
    }

    /// The descriptor that is read; none where a stream has no descriptor.
    #[must_use]
    pub fn read_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Means::Descriptors { read, .. } => read.as_ref().map(Descriptor::fd),
            Means::Stream(_) => None,
        }
    }

    /// The descriptor that is written; of a stream, the one that is known to be under the stream
    /// ([`Layer::write_fd`]).
    #[must_use]
    pub fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Means::Stream(stream) if stream.writes => stream.both.write_fd(),
            _ => self.written().map(Descriptor::fd),
        }
    }

    /// Passes on the end of data by hand, as [`relay`](crate::relay()) does
    /// by itself: `shutdown(SHUT_WR)` on a socket, the end-of-file character on a pseudo-terminal's
    /// master (a raw one cannot be told), else closing a descriptor that is only written.
    ///
    /// # Errors
    /// The error of shutdown(2) or write(2); for a stream without a descriptor `WouldBlock` when the stream cannot send its end at once:
    /// there `poll_shutdown` serves.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Means::Stream(stream) if !stream.writes => Ok(()),
            Means::Stream(stream) => {
                // Asked once, without a task: whoever calls this cannot wait.
                let mut cx = Context::from_waker(Waker::noop());
                match Pin::new(stream.both.writer()).poll_shutdown(&mut cx) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
            Means::Descriptors { .. } => {
                self.writer()?.map_or(Ok(()), |mut tap| tap.finish(&mut 0).map(drop))
            }
        }
    }

    /// The stream socket of this conduit, if there is one; of a stream without a descriptor, the socket known to be
    /// under the stream.
    #[must_use]
    pub fn stream_socket(&self) -> Option<BorrowedFd<'_>> {
        if let Means::Stream(stream) = &self.0 {
            return stream.both.socket();
        }
        self.any().and_then(stream_socket_of)
    }

    /// The stream sockets that are read and written, where these are two; else the one of [`Conduit::stream_socket`].
    pub(crate) fn stream_sockets(&self) -> [Option<BorrowedFd<'_>>; 2] {
        match &self.0 {
            Means::Stream(stream) => stream.both.sockets(),
            Means::Descriptors { read, write } => {
                let own = match write {
                    Writer::Same => None,
                    Writer::Own(own) => own.as_ref(),
                };
                [read.as_ref(), own].map(|found| found.and_then(stream_socket_of))
            }
        }
    }

    /// The socket of this conduit, of a stream or of datagrams, or the one known to be under its stream: the socket's pending
    /// error (SO_ERROR, socket(7)), such as a datagram refused by ICMP (udp(7)), is one of the conduit's.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let conduit = gush_net::Conduit::new(socket.into())?;
    /// assert!(conduit.error_socket().is_some() && conduit.stream_socket().is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn error_socket(&self) -> Option<BorrowedFd<'_>> {
        if let Means::Stream(stream) = &self.0 {
            return stream.both.error_socket(Side::Target);
        }
        let found = self.any()?;
        matches!(found.kind(), Kind::Stream | Kind::Datagram).then(|| found.fd())
    }

    /// How many bytes of the socket under a [`Layer`] have said the end of the data; 0 where nothing but the socket's own end
    /// does.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        match &self.0 {
            Means::Stream(stream) => stream.both.end_bytes(),
            Means::Descriptors { .. } => 0,
        }
    }

    /// Is the end of what was written left to close(2)?
    pub(crate) fn owes_end(&self) -> bool {
        self.written().is_some_and(Descriptor::owes_end)
    }

    /// Says the end of what was written, if that was left to close(2).
    pub(crate) fn say_owed_end(&self) -> io::Result<()> {
        self.written().map_or(Ok(()), Descriptor::say_owed_end)
    }

    /// Says the end of the data to the peer of a stream that has a message of its own for the end, as TLS has, in the directions that
    /// were left out too ([`Layer::poll_part`]). For descriptors nothing is to be done: closing them says so.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Means::Stream(stream) => stream.both.poll_part(cx),
            Means::Descriptors { .. } => Poll::Ready(Ok(())),
        }
    }

    /// How many bytes at most have come and wait to be read; none where nobody knows. A file has received nothing.
    pub(crate) fn received_bytes(&self) -> Option<u64> {
        match &self.0 {
            Means::Stream(stream) => stream.both.received_bytes(),
            Means::Descriptors { read, .. } => {
                Some(read.as_ref().map_or(0, |read| Tap::lent(read).unread_bytes()))
            }
        }
    }

    /// Are there bytes that nobody has taken yet, as far as can be known without taking them?
    pub(crate) fn has_more(&self) -> bool {
        match &self.0 {
            Means::Stream(stream) => stream.both.has_more(),
            Means::Descriptors { read, .. } => {
                read.as_ref().is_some_and(|read| Tap::lent(read).has_more())
            }
        }
    }

    /// Is the written descriptor a connection, whose peer says an end too?
    pub(crate) fn is_connection(&self) -> bool {
        match &self.0 {
            Means::Descriptors { .. } => {
                self.written().is_some_and(|found| found.kind() == Kind::Stream)
            }
            Means::Stream(stream) => stream.writes && stream.both.is_connection(),
        }
    }

    /// Reads from the connection that is written, whether or not the conduit is read: bytes of a peer that nobody wants, and
    /// the peer's end.
    ///
    /// # Errors
    /// The error of read(2), or of the stream.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use std::io::Write;
    /// let (mut far, near) = std::os::unix::net::UnixStream::pair()?;
    /// let mut near = gush_net::Conduit::new(near.into())?.write_only();
    /// far.write_all(b"unwanted")?;
    /// let mut room = [0; 16];
    /// let mut room = tokio::io::ReadBuf::new(&mut room);
    /// std::future::poll_fn(|cx| near.poll_read_back(cx, &mut room)).await?;
    /// assert_eq!(room.filled(), b"unwanted");
    /// # Ok(()) }
    /// ```
    pub fn poll_read_back(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Means::Stream(stream) = &mut self.0 {
            return stream.both.poll_read_back(cx, buf);
        }
        if let Some(tap) = self.writer()? {
            let read_bytes = ready!(tap.poll_read(cx, buf.initialize_unfilled()))?;
            buf.advance(read_bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Is this the master of a pseudo-terminal? Closing the master hangs up the slave.
    #[must_use]
    pub fn is_terminal_master(&self) -> bool {
        if let Means::Stream(stream) = &self.0 {
            return stream.both.is_terminal_master();
        }
        let is_master =
            |found: &Descriptor| found.kind() == Kind::Terminal && found.shape().state.is_master();
        self.any().is_some_and(is_master)
    }

    /// Has this end no end of data, as UDP has none?
    #[must_use]
    pub fn is_endless(&self) -> bool {
        if let Means::Stream(stream) = &self.0 {
            return stream.both.is_endless();
        }
        self.any().is_some_and(|found| Tap::lent(found).is_endless())
    }

    /// Is each read of this conduit, or each write, a message of its own, as those of datagrams and packets are? A reader gives room for a
    /// whole message, and a writer writes whole ones.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
    /// let conduit = gush_net::Conduit::new(near.into())?;
    /// assert!(conduit.keeps_bounds(gush::Side::Source) && conduit.keeps_bounds(gush::Side::Target));
    /// # drop(far);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn keeps_bounds(&self, side: Side) -> bool {
        let found = match (&self.0, side) {
            (Means::Stream(stream), _) => return stream.both.keeps_bounds(side),
            (Means::Descriptors { read, .. }, Side::Source) => read.as_ref(),
            (Means::Descriptors { .. }, Side::Target) => self.written(),
        };
        found.is_some_and(|found| found.kind() == Kind::Datagram)
    }

    /// May a read wait although there is an error ([`Conduit::error_socket`])? No error makes a datagram socket readable.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// let datagrams = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert!(gush_net::Conduit::new(datagrams.into())?.misses_errors());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn misses_errors(&self) -> bool {
        match &self.0 {
            Means::Stream(stream) => stream.both.misses_errors(),
            Means::Descriptors { read, .. } => {
                read.as_ref().is_some_and(|read| Tap::lent(read).is_endless())
            }
        }
    }

    /// Do reads tell of the peer that is written to, of its end and of a reset? They do not where one descriptor is read and another
    /// written, or where a stream ends its data before the peer does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use gush_net::Conduit;
    /// let (near, _far) = std::os::unix::net::UnixStream::pair()?;
    /// let near = Conduit::new(near.into())?;
    /// assert!(near.hears_its_peer());
    /// let news = Conduit::new(std::fs::File::open("/dev/null")?.into())?;
    /// assert!(!Conduit::joined(news, near).hears_its_peer());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn hears_its_peer(&self) -> bool {
        match &self.0 {
            Means::Stream(stream) => stream.reads && stream.both.hears_its_peer(),
            Means::Descriptors { read, write } => read.is_some() && matches!(write, Writer::Same),
        }
    }

    fn written(&self) -> Option<&Descriptor> {
        match &self.0 {
            Means::Descriptors { read, write: Writer::Same } => read.as_ref(),
            Means::Descriptors { write: Writer::Own(own), .. } => own.as_ref(),
            Means::Stream(_) => None,
        }
    }

    /// The descriptor that is written, or else the one that is read.
    fn any(&self) -> Option<&Descriptor> {
        let Means::Descriptors { read, .. } = &self.0 else { return None };
        self.written().or(read.as_ref())
    }

    /// Both directions, registered with the runtime.
    pub(crate) fn opened<E: ?Sized>(&mut self) -> io::Result<Opened<'_, E>> {
        match &mut self.0 {
            Means::Stream(stream) => Ok(Opened::Stream(stream)),
            Means::Descriptors { read: Some(read), write: Writer::Same } => {
                read.register()?;
                Ok(Opened::Joint(Tap::lent(read)))
            }
            Means::Descriptors { read, write } => {
                let writer = write.tap()?;
                Ok(Opened::Apart(Box::new([Descriptor::tap(read)?, writer])))
            }
        }
    }

    fn reader(&mut self) -> io::Result<Option<Tap<'_>>> {
        match &mut self.0 {
            Means::Descriptors { read, .. } => Descriptor::tap(read),
            Means::Stream(_) => Ok(None),
        }
    }

    fn writer(&mut self) -> io::Result<Option<Tap<'_>>> {
        match &mut self.0 {
            Means::Descriptors { read, write: Writer::Same } => Descriptor::tap(read),
            Means::Descriptors { write, .. } => write.tap(),
            Means::Stream(_) => Ok(None),
        }
    }
}

impl Writer {
    /// A descriptor for one direction, registered with the runtime.
    fn tap(&mut self) -> io::Result<Option<Tap<'_>>> {
        let Writer::Own(own) = self else { return Ok(None) };
        let Some(write) = own.as_mut() else { return Ok(None) };
        write.register()?;
        // The end is a shutdown; bytes of the other direction may still be read.
        // A pipe's end of data is its close(2); a socket's other direction must survive.
        let is_kept = write.is_socket();
        Ok(if is_kept { own.as_ref().map(Tap::lent) } else { Tap::slot(own) })
    }
}

fn stream_socket_of(found: &Descriptor) -> Option<BorrowedFd<'_>> {
    (found.kind() == Kind::Stream).then(|| found.fd())
}

/// On files O_NONBLOCK means nothing (open(2)), so nobody need be asked.
fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    // One call less for sockets accepted with SOCK_NONBLOCK.
    if !flags.contains(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    }
    Ok(())
}
