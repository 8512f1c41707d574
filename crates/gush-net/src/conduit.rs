//! A conduit: any descriptor, or two, as one end of a relay.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gush::flow::Stance;
use gush::{Endpoint, Kind};
use rustix::fs::OFlags;
use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;

use crate::tap::{Shape, Tap};

/// One end of a relay: sockets, pipes, terminals, devices, files.
///
/// It may be made anywhere; a relay registers it with the tokio runtime that it runs on. What epoll
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
/// let totals = gush_net::copy_bidirectional(&mut a, &mut b, &gush_net::Options::new()).await?;
/// assert_eq!((totals.forward.bytes, totals.back.bytes), (4, 4));
///
/// let mut arrived = [0; 4];
/// server.read_exact(&mut arrived)?;
/// assert_eq!(&arrived, b"ping");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Conduit {
    read: Option<Descriptor>,
    write: Writer,
}

#[derive(Debug)]
enum Writer {
    /// The descriptor that is read is written too.
    Same,
    /// One of its own, until it is closed.
    Own(Option<Descriptor>),
}

impl Conduit {
    /// One descriptor, used in the directions that it was opened for.
    ///
    /// Nobody else may use its open file description: it gets O_NONBLOCK.
    ///
    /// # Errors
    /// `EBADF`, or what fcntl(2) answers.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        set_nonblocking(fd.as_fd())?;
        Self::inherited(fd)
    }

    /// Two descriptors, one to read and one to write, as of a child's two pipes. The second is closed
    /// when the other end's data has ended.
    ///
    /// Nobody else may use their open file descriptions: they get O_NONBLOCK.
    ///
    /// # Errors
    /// `EBADF`, or what fcntl(2) answers.
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
        let access = rustix::fs::fcntl_getfl(&fd)? & OFlags::RWMODE;
        let descriptor = Some(Descriptor::new(fd)?);
        Ok(if access == OFlags::WRONLY {
            Self { read: None, write: Writer::Own(descriptor) }
        } else if access == OFlags::RDONLY {
            Self { read: descriptor, write: Writer::Own(None) }
        } else {
            Self { read: descriptor, write: Writer::Same }
        })
    }

    /// As [`Conduit::of_two`], for descriptors that others may use too, such as standard input and
    /// output: their flags stay as they are.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn inherited_two(read: OwnedFd, write: OwnedFd) -> io::Result<Self> {
        let (read, write) = (Descriptor::new(read)?, Descriptor::new(write)?);
        Ok(Self { read: Some(read), write: Writer::Own(Some(write)) })
    }

    /// Only its reading direction: nothing will be written to it, nor its other direction ended.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read: self.read, write: Writer::Own(None) }
    }

    /// Leaves what comes from there unread.
    pub(crate) fn stop_reading(&mut self) {
        if let Writer::Own(_) = self.write {
            self.read = None;
        } else {
            self.write = Writer::Own(self.read.take());
        }
    }

    /// Only its writing direction.
    #[must_use]
    pub fn write_only(self) -> Self {
        match self.write {
            Writer::Same => Self { read: None, write: Writer::Own(self.read) },
            own @ Writer::Own(_) => Self { read: None, write: own },
        }
    }

    /// Can it be read?
    #[must_use]
    pub fn reads(&self) -> bool {
        self.read.is_some()
    }

    /// Can it be written, and has that direction not been ended?
    #[must_use]
    pub fn writes(&self) -> bool {
        match &self.write {
            Writer::Same => true,
            Writer::Own(own) => own.is_some(),
        }
    }

    /// The descriptor that is read.
    #[must_use]
    pub fn read_fd(&self) -> Option<BorrowedFd<'_>> {
        self.read.as_ref().map(Descriptor::fd)
    }

    /// The descriptor that is written.
    #[must_use]
    pub fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.write {
            Writer::Same => self.read_fd(),
            Writer::Own(own) => own.as_ref().map(Descriptor::fd),
        }
    }

    /// Passes on the end of data by hand, as [`copy_bidirectional`](crate::copy_bidirectional) does
    /// by itself: `shutdown(SHUT_WR)` on a socket, the end-of-file character on a pseudo-terminal's
    /// master, else closing a descriptor that is only written.
    ///
    /// # Errors
    /// What shutdown(2) or write(2) answers.
    pub fn finish(&mut self) -> io::Result<()> {
        self.taps()?.1.map_or(Ok(()), |mut tap| tap.finish(&mut 0))
    }

    /// The stream socket that it is, if it is one.
    pub(crate) fn stream_socket(&self) -> Option<BorrowedFd<'_>> {
        let found = self.written().or(self.read.as_ref())?;
        (found.kind() == Kind::Stream).then(|| found.fd())
    }

    /// The stream socket that is written, in both directions, registered with the runtime.
    pub(crate) fn socket_tap(&mut self) -> io::Result<Option<Tap<'_>>> {
        let written = match &mut self.write {
            Writer::Same => self.read.as_mut(),
            Writer::Own(own) => own.as_mut(),
        };
        match written {
            Some(written) if written.kind() == Kind::Stream => {
                written.register()?;
                Ok(Some(Tap::lent(written)))
            }
            _ => Ok(None),
        }
    }

    /// Has it no end of data, as UDP?
    pub(crate) fn is_endless(&self) -> bool {
        let endless = |found: &Descriptor| {
            found.kind() == Kind::Datagram && !found.shape.stance.ends_at_zero()
        };
        self.written().or(self.read.as_ref()).is_some_and(endless)
    }

    fn written(&self) -> Option<&Descriptor> {
        match &self.write {
            Writer::Same => self.read.as_ref(),
            Writer::Own(own) => own.as_ref(),
        }
    }

    /// What is read and what is written, registered with the runtime.
    pub(crate) fn taps(&mut self) -> io::Result<(Option<Tap<'_>>, Option<Tap<'_>>)> {
        if let Some(read) = &mut self.read {
            read.register()?;
        }
        let read = self.read.as_ref();
        let writer = match &mut self.write {
            Writer::Same => read.map(Tap::lent),
            Writer::Own(own) => match own {
                Some(write) => {
                    write.register()?;
                    match write.is_socket() {
                        // Its end is a shutdown; what comes the other way may still be read.
                        true => own.as_ref().map(Tap::lent),
                        false => Tap::slot(own),
                    }
                }
                None => None,
            },
        };
        Ok((read.map(Tap::lent), writer))
    }
}

/// On files O_NONBLOCK means nothing (open(2)), so nobody need be asked.
fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    if !flags.contains(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    }
    Ok(())
}

/// A descriptor with what is known of it.
#[derive(Debug)]
pub(crate) struct Descriptor {
    watched: Watched,
    shape: Shape,
}

#[derive(Debug)]
enum Watched {
    Not(OwnedFd),
    Epoll(AsyncFd<OwnedFd>, tokio::runtime::Id),
    /// epoll_ctl(2) answers EPERM: it is always ready.
    Always(OwnedFd),
    /// Between two states.
    Gone,
}

impl Descriptor {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let shape = Shape::of(fd.as_fd())?;
        Ok(Self { watched: Watched::Not(fd), shape })
    }

    /// Registers with the current runtime, unless it is registered there already.
    ///
    /// tokio's newer `AsyncFd::register` is `unsafe` because some types answer one descriptor now and
    /// another later. An `OwnedFd` cannot, so the safe function that it replaces is sound here.
    #[allow(deprecated)]
    fn register(&mut self) -> io::Result<()> {
        let here = tokio::runtime::Handle::try_current().map_err(io::Error::other)?.id();
        let fd = match std::mem::replace(&mut self.watched, Watched::Gone) {
            Watched::Not(fd) => fd,
            // It was used on a runtime that may not even exist any more.
            Watched::Epoll(registered, there) if there != here => registered.into_inner(),
            as_it_was => {
                self.watched = as_it_was;
                return Ok(());
            }
        };
        let (watched, answer) = match AsyncFd::try_new(fd) {
            Ok(registered) => (Watched::Epoll(registered, here), Ok(())),
            Err(refused) => match refused.into_parts() {
                (fd, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    (Watched::Always(fd), Ok(()))
                }
                (fd, error) => (Watched::Not(fd), Err(error)),
            },
        };
        self.watched = watched;
        answer
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.watched {
            Watched::Not(fd) | Watched::Always(fd) => fd.as_fd(),
            Watched::Epoll(registered, _) => registered.get_ref().as_fd(),
            Watched::Gone => unreachable!("only while it is registered"),
        }
    }

    pub(crate) fn registered(&self) -> Option<&AsyncFd<OwnedFd>> {
        match &self.watched {
            Watched::Epoll(registered, _) => Some(registered),
            _ => None,
        }
    }

    fn kind(&self) -> Kind {
        self.shape.stance.kind()
    }

    fn is_socket(&self) -> bool {
        matches!(self.kind(), Kind::Stream | Kind::Datagram)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }
}

impl Shape {
    /// Looks at a descriptor.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stance = Stance::of(&fd)?;
        let size_bytes = match stance.kind() {
            // Not asked again: a link of many short connections would pay for it at each.
            Kind::Stream | Kind::Datagram => 0,
            _ => Endpoint::of(&fd)?.size_bytes(),
        };
        Ok(Self { stance, size_bytes })
    }
}

/// Ends the writing direction of a socket.
pub(crate) fn shut(fd: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::net::shutdown(fd, Shutdown::Write) {
        // The peer has gone already, or a datagram socket has none: nobody is left to be told.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
