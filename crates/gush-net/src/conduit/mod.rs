//! A conduit: any descriptor, or two, or a stream without one, as one end of a relay.

mod bytes;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker, ready};

use gush::Side;
use gush::flow::PortState;
use rustix::fs::OFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::carry::ConduitPart;
use crate::descriptor::Descriptor;
use crate::half::{self, Halves};
use crate::layer::{Alone, Facts, Layer};
use crate::sides::{Opened, Stream};
use crate::tap::Tap;

/// A half of a conduit.
pub(crate) type Half = half::Half<Descriptor, Box<dyn Layer>>;

/// One end of a relay: sockets, pipes, terminals, devices, files, and streams without a descriptor.
///
/// A conduit may be made anywhere: a relay registers it with its own tokio runtime. A descriptor
/// that epoll refuses, such as a file, counts as always ready.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use gush_net::{Conduit, Relay, RelayOptions};
/// use std::io::{Read, Write};
/// let (mut client, a) = std::os::unix::net::UnixStream::pair()?;
/// let (b, mut server) = std::os::unix::net::UnixStream::pair()?;
/// client.write_all(b"ping")?;
/// client.shutdown(std::net::Shutdown::Write)?;
/// server.write_all(b"pong")?;
/// server.shutdown(std::net::Shutdown::Write)?;
///
/// let (mut a, mut b) = (Conduit::new(a.into())?, Conduit::new(b.into())?);
/// let totals = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await?;
/// assert_eq!((totals.forward.bytes, totals.back.bytes), (4, 4));
///
/// let mut arrived = [0; 4];
/// server.read_exact(&mut arrived)?;
/// assert_eq!(&arrived, b"ping");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Conduit(Halves<Half>);

impl Conduit {
    /// One descriptor, used in the directions that its open(2) named.
    ///
    /// The open file description gets O_NONBLOCK, so no other process may use it.
    ///
    /// # Errors
    /// `EBADF`, or the error of fcntl(2).
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // Ours alone: an inherited description may be shared with programs that expect to wait.
        set_nonblocking(fd.as_fd())?;
        Self::inherited(fd)
    }

    /// A stream socket that is non-blocking already, as accept4(2) returns with SOCK_NONBLOCK. No
    /// call is made to check this, which saves five calls for each of many short connections.
    #[must_use]
    pub fn of_stream_socket(socket: OwnedFd) -> Self {
        Self::joint(Descriptor::of_stream_socket(socket))
    }

    /// A TCP socket that was accepted and is non-blocking, as [`Conduit::of_stream_socket`].
    ///
    /// The first call is made before epoll reports, because the client's first bytes have often
    /// come, and no read is made only to find nothing. Not for a socket of another protocol, or
    /// with a layer above TCP in the kernel (TLS).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, Relay, RelayOptions};
    /// use std::io::Write;
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// std::net::TcpStream::connect(listener.local_addr()?)?.write_all(b"all of it")?;
    /// let (near, _) = listener.accept()?;
    /// near.set_nonblocking(true)?;
    /// let mut near = Conduit::of_accepted_tcp(near.into());
    /// let mut null = Conduit::new(std::fs::File::create("/dev/null")?.into())?;
    /// let totals = Relay::new(&RelayOptions::new()).copy(&mut near, &mut null).await?;
    /// assert_eq!(totals.forward.bytes, 9);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn of_accepted_tcp(socket: OwnedFd) -> Self {
        Self::joint(Descriptor::of_tcp_socket(socket, [true; 2]))
    }

    /// As [`Conduit::of_accepted_tcp`], for a connection made from here: the peer probably sends
    /// nothing before the first request.
    #[must_use]
    pub fn of_connected_tcp(socket: OwnedFd) -> Self {
        Self::joint(Descriptor::of_tcp_socket(socket, [false, true]))
    }

    fn joint(descriptor: Descriptor) -> Self {
        Self(Halves::Joint(Half::Fd(descriptor)))
    }

    /// Two descriptors, one to read and one to write, as of a child's two pipes. The second is
    /// closed when the other end's data has ended.
    ///
    /// Their open file descriptions get O_NONBLOCK, so no other process may use them.
    ///
    /// # Errors
    /// `EBADF`, or the error of fcntl(2).
    pub fn of_two(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        set_nonblocking(read.as_fd())?;
        set_nonblocking(write.as_fd())?;
        Self::inherited_two(read, write)
    }

    /// As [`Conduit::new`], for a descriptor that other processes may use, such as standard input:
    /// its flags are not changed.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn inherited(fd: OwnedFd) -> io::Result<Self> {
        // A direction that open(2) did not grant would fail at the first call, in the middle of a
        // relay.
        let access = rustix::fs::fcntl_getfl(&fd)? & OFlags::RWMODE;
        let half = Half::Fd(Descriptor::new(fd)?);
        Ok(Self(match access {
            OFlags::WRONLY => Halves::apart(None, Some(half)),
            OFlags::RDONLY => Halves::apart(Some(half), None),
            _ => Halves::Joint(half),
        }))
    }

    /// As [`Conduit::of_two`], for descriptors that other processes may use, such as standard input
    /// and output: their flags are not changed.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn inherited_two(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        let [read, write] = [Descriptor::new(read)?, Descriptor::new(write)?];
        Ok(Self(Halves::apart(Some(Half::Fd(read)), Some(Half::Fd(write)))))
    }

    /// A stream without a descriptor, such as one of TLS. The bytes pass through memory:
    /// [`RelayOptions::method`] refuses any method but `read-write` by name.
    ///
    /// The end of the other side's data is passed on by `poll_shutdown`, and the stream is flushed
    /// whenever nothing more is there to be written.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, Relay, RelayOptions};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let (mut client, near) = tokio::io::duplex(64);
    /// let (far, mut server) = tokio::net::UnixStream::pair()?;
    /// client.write_all(b"through memory").await?;
    /// client.shutdown().await?;
    /// let (mut near, mut far) = (Conduit::of_stream(near), far);
    /// let totals = Relay::new(&RelayOptions::new()).copy(&mut near, &mut far).await?;
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
        Self::of_layer(Alone(Mutex::new(stream)))
    }

    /// As [`Conduit::of_stream`], for a stream with facts of its own. Over a socket,
    /// [`Conduit::linger`], [`Conduit::arrived`] and [`Conduit::reset_on_close`] serve as for that.
    ///
    /// A conduit is an `AsyncRead` and `AsyncWrite` itself, so that a layer may be made over one.
    #[must_use]
    pub fn of_layer(layer: impl Layer) -> Self {
        Self(Halves::Joint(Half::Stream(Box::new(layer))))
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
        let read = source.0.into_half(Side::Source);
        Self(Halves::apart(read, target.0.into_half(Side::Target)))
    }

    /// The reading direction alone: nothing will be written, and the other direction is not ended.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self(Halves::apart(self.0.into_half(Side::Source), None))
    }

    /// The writing direction alone.
    #[must_use]
    pub fn write_only(self) -> Self {
        Self(Halves::apart(None, self.0.into_half(Side::Target)))
    }

    /// Leaves unread all bytes that the end sends.
    pub fn stop_reading(&mut self) {
        let halves = std::mem::replace(&mut self.0, Halves::apart(None, None));
        self.0 = Self(halves).write_only().0;
    }

    /// Has the conduit a direction to be read?
    #[must_use]
    pub fn reads(&self) -> bool {
        self.0.get(Side::Source).is_some()
    }

    /// Has the conduit a direction to be written, whose end was not passed on yet?
    #[must_use]
    pub fn writes(&self) -> bool {
        self.0.get(Side::Target).is_some()
    }

    /// The descriptor that is read; none of a stream.
    #[must_use]
    pub fn read_fd(&self) -> Option<BorrowedFd<'_>> {
        match self.0.get(Side::Source)? {
            Half::Fd(descriptor) => Some(descriptor.fd()),
            Half::Stream(_) => None,
        }
    }

    /// The descriptor that is written; of a stream [`Facts::write_fd`].
    #[must_use]
    pub fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        self.facts().write_fd
    }

    /// The descriptors, so that another process can make the same conduit of them; `None` of
    /// streams without a descriptor, and where an end of data would not be seen again, as at
    /// terminals, or not while another process has a copy, as at pipes.
    #[must_use]
    pub fn parts(&self) -> Option<Vec<(ConduitPart, BorrowedFd<'_>)>> {
        fn part(half: &Half, reads: bool, writes: bool) -> Option<(ConduitPart, BorrowedFd<'_>)> {
            match half {
                Half::Fd(fd) if fd.moves() => {
                    Some((ConduitPart { reads, writes, is_tcp: fd.is_tcp() }, fd.fd()))
                }
                _ => None,
            }
        }
        match &self.0 {
            Halves::Joint(half) => Some(vec![part(half, true, true)?]),
            Halves::Apart(halves) => {
                let [read, write] = halves.each_ref().map(Option::as_ref);
                let there = [
                    read.map(|half| part(half, true, false)),
                    write.map(|half| part(half, false, true)),
                ];
                there.into_iter().flatten().collect()
            }
        }
    }

    /// The conduit of another process, of its [`parts`](Self::parts).
    ///
    /// # Errors
    /// `EBADF`, or the error of looking at them.
    pub fn of_parts(parts: Vec<(ConduitPart, OwnedFd)>) -> io::Result<Self> {
        let mut halves = [None, None];
        for (ConduitPart { reads, writes, is_tcp }, fd) in parts {
            let half = Half::Fd(match is_tcp {
                true => Descriptor::of_tcp_socket(fd, [false; 2]),
                false => Descriptor::new(fd)?,
            });
            match (reads, writes) {
                (true, true) => return Ok(Self(Halves::Joint(half))),
                (true, false) => halves[Side::Source as usize] = Some(half),
                (false, _) => halves[Side::Target as usize] = Some(half),
            }
        }
        let [read, write] = halves;
        Ok(Self(Halves::apart(read, write)))
    }

    /// Registers the descriptors with the current runtime, as the first relay on it would do.
    ///
    /// # Errors
    /// The error of epoll_ctl(2), or that there is no runtime.
    pub fn register(&mut self) -> io::Result<()> {
        for half in self.0.each_mut() {
            if let Half::Fd(descriptor) = half {
                descriptor.register()?;
            }
        }
        Ok(())
    }

    /// Says whether another process has copies of the descriptors ([`parts`](Self::parts)), which
    /// keep connections open: then their ends are sent by shutdown(2), and not left to close(2).
    /// Dropped, a shared conduit ends its connections.
    pub fn set_shared(&self, is_shared: bool) {
        for half in self.0.each() {
            if let Half::Fd(descriptor) = half {
                descriptor.set_shared(is_shared);
            }
        }
    }

    /// Of each half.
    pub(crate) fn are_shared(&self) -> impl Iterator<Item = bool> {
        self.0.each().map(|half| matches!(half, Half::Fd(descriptor) if descriptor.is_shared()))
    }

    /// The port of a descriptor that is read or written.
    pub(crate) fn port(&self, side: Side) -> Option<PortState> {
        match self.0.get(side)? {
            Half::Fd(descriptor) => Some(descriptor.state()),
            Half::Stream(_) => None,
        }
    }

    /// What is known of this end. Of two halves, facts of both directions are those of the one that
    /// is written, if there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use gush_net::Conduit;
    /// let datagrams = Conduit::new(std::net::UdpSocket::bind("127.0.0.1:0")?.into())?;
    /// let facts = datagrams.facts();
    /// assert!(facts.endless && facts.read_messages && facts.misses_errors);
    /// assert!(facts.error_socket.is_some() && facts.socket.is_none());
    ///
    /// let (near, _far) = std::os::unix::net::UnixStream::pair()?;
    /// let near = Conduit::new(near.into())?;
    /// assert!(near.facts().hears_peer);
    /// let other = Conduit::new(std::fs::File::open("/dev/null")?.into())?;
    /// assert!(!Conduit::joined(other, near).facts().hears_peer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        match &self.0 {
            Halves::Joint(half) => half.facts(),
            Halves::Apart(halves) => {
                let [read, write] = halves.each_ref().map(|half| half.as_ref().map(Half::facts));
                Facts::of_two(read, write)
            }
        }
    }

    /// Passes on the end of data as a relay does: `shutdown(SHUT_WR)` on a socket, the end-of-file
    /// character on a pseudo-terminal's master (a raw one has none), else closing a descriptor that
    /// is only written.
    ///
    /// # Errors
    /// The error of shutdown(2) or write(2). `WouldBlock` if a stream cannot send its end at once;
    /// await `shutdown` there.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(Half::Stream(layer)) = self.0.get_mut(Side::Target) {
            let mut cx = Context::from_waker(Waker::noop());
            return match Pin::new(layer).poll_shutdown(&mut cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        self.writer()?.map_or(Ok(()), |mut tap| tap.finish(&mut 0).map(drop))
    }

    /// The facts of each half, as far as there is one.
    pub(crate) fn facts_of_each(&self) -> impl Iterator<Item = Facts<'_>> {
        self.0.each().map(Half::facts)
    }

    fn written(&self) -> Option<&Descriptor> {
        match self.0.get(Side::Target)? {
            Half::Fd(descriptor) => Some(descriptor),
            Half::Stream(_) => None,
        }
    }

    /// Is the end of what was written left to close(2)?
    pub(crate) fn owes_end(&self) -> bool {
        self.written().is_some_and(Descriptor::owes_end)
    }

    /// Passes on the end of what was written, if it was left to close(2).
    pub(crate) fn pass_owed_end(&self) -> io::Result<()> {
        self.written().map_or(Ok(()), Descriptor::pass_owed_end)
    }

    /// Sends the end of the data to the peer of a stream that has a message for it, as TLS has,
    /// also in a direction that was left out ([`Layer::poll_close`]). Descriptors need no more than
    /// close(2).
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Both at once: a peer that cannot be reached must not keep the other waiting.
        let mut answer = Poll::Ready(Ok(()));
        for half in self.0.each_mut() {
            if let Half::Stream(layer) = half {
                let closed = Pin::new(&mut **layer).poll_close(cx);
                if !matches!(answer, Poll::Pending) && !matches!(closed, Poll::Ready(Ok(()))) {
                    answer = closed;
                }
            }
        }
        answer
    }

    /// Reads from the connection that is written, whether or not the conduit is read: bytes that
    /// nobody wants, and the peer's end.
    ///
    /// # Errors
    /// The error of read(2), or of the stream.
    pub fn poll_read_back(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(Half::Stream(layer)) = self.0.get_mut(Side::Target) {
            return Pin::new(&mut **layer).poll_read_back(cx, buf);
        }
        if let Some(tap) = self.writer()? {
            let read_bytes = ready!(tap.poll_read(cx, buf.initialize_unfilled()))?;
            buf.advance(read_bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Both halves, registered with the current runtime.
    pub(crate) fn opened<E: ?Sized>(&mut self) -> io::Result<Opened<'_, E>> {
        Ok(match &mut self.0 {
            Halves::Joint(half) => Halves::Joint(half.opened()?),
            Halves::Apart(halves) => {
                let [read, write] = &mut **halves;
                let read = read.as_mut().map(Half::opened).transpose()?;
                let write = match write {
                    Some(Half::Stream(layer)) => Some(half::Half::Stream(Stream::Layer(layer))),
                    write => tap_of_own(write)?.map(half::Half::Fd),
                };
                Halves::apart(read, write)
            }
        })
    }

    /// The descriptor that is read, registered with the current runtime.
    fn reader(&mut self) -> io::Result<Option<Tap<'_>>> {
        self.0.get_mut(Side::Source).map_or(Ok(None), Half::tap)
    }

    /// The descriptor that is written, registered with the current runtime.
    fn writer(&mut self) -> io::Result<Option<Tap<'_>>> {
        match &mut self.0 {
            Halves::Joint(half) => half.tap(),
            Halves::Apart(halves) => tap_of_own(&mut halves[Side::Target as usize]),
        }
    }
}

impl Half {
    fn facts(&self) -> Facts<'_> {
        match self {
            Half::Fd(descriptor) => descriptor.facts(),
            Half::Stream(layer) => layer.facts(),
        }
    }

    fn tap(&mut self) -> io::Result<Option<Tap<'_>>> {
        let Half::Fd(descriptor) = self else { return Ok(None) };
        descriptor.register()?;
        Ok(Some(Tap::lent(descriptor)))
    }

    fn opened<E: ?Sized>(&mut self) -> io::Result<half::Half<Tap<'_>, Stream<'_, E>>> {
        Ok(match self {
            Half::Fd(descriptor) => {
                descriptor.register()?;
                half::Half::Fd(Tap::lent(descriptor))
            }
            Half::Stream(layer) => half::Half::Stream(Stream::Layer(layer)),
        })
    }
}

/// A descriptor that is only written. The end of its data is close(2), except of a socket, from
/// which bytes may still be read.
fn tap_of_own(slot: &mut Option<Half>) -> io::Result<Option<Tap<'_>>> {
    let Some(Half::Fd(descriptor)) = slot else { return Ok(None) };
    descriptor.register()?;
    if descriptor.is_socket() {
        slot.as_mut().map_or(Ok(None), Half::tap)
    } else {
        Ok(Tap::slot(slot))
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    // Sockets accepted with SOCK_NONBLOCK save a call.
    if !flags.contains(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    }
    Ok(())
}
