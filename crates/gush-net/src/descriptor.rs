//! A descriptor with its properties, registered with the runtime of the relay.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use gush::Kind;
use gush::flow::PortState;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::layer::Facts;
use crate::pause::Pause;
use crate::tap;

/// A descriptor, and the descriptor's properties.
#[derive(Debug)]
pub(crate) struct Descriptor {
    watched: Watched,
    state: PortState,
    /// Set for a TCP socket, whose reads are short only before an urgent byte.
    is_tcp: bool,
    /// The next read, and the next write, are made before epoll reports.
    hopeful: [AtomicBool; 2],
    /// The end of what was written is left to close(2).
    owes_end: AtomicBool,
    /// Another process has a copy, so that close(2) ends nothing.
    is_shared: AtomicBool,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_shared() && self.is_socket() {
            // An error means that the connection is gone already.
            let _ = rustix::net::shutdown(self.fd(), rustix::net::Shutdown::Both);
        }
    }
}

#[derive(Debug)]
enum Watched {
    Not(OwnedFd),
    Epoll(AsyncFd<OwnedFd>, tokio::runtime::Id),
    /// epoll_ctl(2) answers EPERM: the descriptor is always ready.
    Always(OwnedFd, Box<Pause>, tokio::runtime::Id),
    /// Between two states.
    Gone,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let state = PortState::of(&fd)?;
        Ok(Self::with(fd, state))
    }

    /// A stream socket that is non-blocking: nothing is asked of it.
    pub(crate) fn of_stream_socket(socket: OwnedFd) -> Self {
        Self::with(socket, tap::nonblocking_stream())
    }

    fn with(fd: OwnedFd, state: PortState) -> Self {
        Self {
            watched: Watched::Not(fd),
            state,
            is_tcp: false,
            hopeful: Default::default(),
            owes_end: AtomicBool::default(),
            is_shared: AtomicBool::default(),
        }
    }

    /// The same for a connected TCP socket, which is read, and written, before epoll reports if it
    /// is `hopeful`: probably bytes have come, or there is room.
    pub(crate) fn of_tcp_socket(socket: OwnedFd, hopeful: [bool; 2]) -> Self {
        let mut tcp = Self::of_stream_socket(socket);
        (tcp.is_tcp, tcp.hopeful) = (true, hopeful.map(AtomicBool::new));
        tcp
    }

    /// May a call be made before epoll has reported? Once for each direction: the edge of what
    /// comes later is reported in any case.
    fn takes_hope(&self, interest: Interest) -> bool {
        let hopeful = match interest {
            Interest::READABLE => &self.hopeful[0],
            Interest::WRITABLE => &self.hopeful[1],
            _ => return false,
        };
        hopeful.load(Ordering::Relaxed) && hopeful.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.is_tcp
    }

    /// Can another process use it, and see the same end of its data? A pipe's comes only once all
    /// copies are closed, and a process that hangs would keep one.
    pub(crate) fn moves(&self) -> bool {
        let stays = matches!(self.state.kind(), Kind::Terminal | Kind::Datagram | Kind::Pipe);
        !self.owes_end() && !stays
    }

    pub(crate) fn set_shared(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::Relaxed);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Leaves the end of what was written to close(2).
    pub(crate) fn owe_end(&self) {
        self.owes_end.store(true, Ordering::Relaxed);
    }

    /// Is the end of what was written left to close(2)?
    pub(crate) fn owes_end(&self) -> bool {
        self.owes_end.load(Ordering::Relaxed)
    }

    /// Passes on the end that was left to close(2), if there is one.
    pub(crate) fn pass_owed_end(&self) -> io::Result<()> {
        match self.owes_end.swap(false, Ordering::Relaxed) {
            true => shut(self.fd()),
            false => Ok(()),
        }
    }

    /// Had the peer of a TCP socket ended its data when epoll last reported? Then a short read got
    /// all.
    pub(crate) fn has_ended(&self, cx: &mut Context<'_>) -> bool {
        let ended = |registered: &AsyncFd<OwnedFd>| match registered.poll_read_ready(cx) {
            Poll::Ready(Ok(guard)) => guard.ready().is_read_closed(),
            _ => false,
        };
        self.is_tcp && self.registered().is_some_and(ended)
    }

    /// Is this a TCP socket without urgent bytes, as far as is known? Then a short read, or
    /// `EAGAIN` of a splice, proves that there are no more bytes now. Urgent bytes end both too
    /// (`tcp_recvmsg_locked`, `tcp_splice_read` of net/ipv4/tcp.c), and epoll reports them
    /// (EPOLLPRI).
    pub(crate) fn has_nothing_urgent(&self) -> bool {
        let urgent =
            |registered: &AsyncFd<OwnedFd>| registered.try_io(Interest::PRIORITY, |_| Ok(()));
        self.is_tcp && self.registered().is_some_and(|registered| urgent(registered).is_err())
    }

    /// Registers with the current runtime, unless registered there already.
    // As for `watched`.
    #[allow(deprecated)]
    pub(crate) fn register(&mut self) -> io::Result<()> {
        // A missing runtime is an error here, and would be a panic in tokio.
        let here = tokio::runtime::Handle::try_current().map_err(io::Error::other)?.id();
        // The descriptor has to be owned by the registration, so it is taken out for a moment.
        let fd = match std::mem::replace(&mut self.watched, Watched::Gone) {
            Watched::Not(fd) => fd,
            // The runtime of the registration, or of the pause, may not even exist any more.
            Watched::Epoll(registered, there) if there != here => registered.into_inner(),
            Watched::Always(fd, _, there) if there != here => fd,
            as_it_was => {
                self.watched = as_it_was;
                return Ok(());
            }
        };
        let both = Interest::READABLE | Interest::WRITABLE;
        let interest = if self.is_tcp { both | Interest::PRIORITY } else { both };
        let (watched, answer) = match AsyncFd::try_with_interest(fd, interest) {
            Ok(registered) => (Watched::Epoll(registered, here), Ok(())),
            Err(refused) => match refused.into_parts() {
                // EPERM of epoll_ctl(2): a file or device without a poll operation, which never
                // waits.
                (fd, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    (Watched::Always(fd, Box::default(), here), Ok(()))
                }
                (fd, error) => (Watched::Not(fd), Err(error)),
            },
        };
        self.watched = watched;
        answer
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.watched {
            Watched::Not(fd) | Watched::Always(fd, ..) => fd.as_fd(),
            Watched::Epoll(registered, _) => registered.get_ref().as_fd(),
            Watched::Gone => unreachable!("only while it is registered"),
        }
    }

    /// Makes one call, unless the descriptor is known not to be ready.
    pub(crate) fn try_io<T>(
        &self,
        interest: Interest,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match self.registered() {
            Some(_) if self.takes_hope(interest) => call(),
            Some(registered) => registered.try_io(interest, |_| call()),
            None => {
                // Without epoll only the call itself answers whether the descriptor is ready.
                let answer = call();
                if let (Err(error), Some(pause)) = (&answer, self.pause())
                    && error.kind() == io::ErrorKind::WouldBlock
                {
                    pause.begin();
                }
                answer
            }
        }
    }

    /// The pause of one that is always ready.
    pub(crate) fn pause(&self) -> Option<&Pause> {
        match &self.watched {
            Watched::Always(_, pause, _) => Some(pause),
            _ => None,
        }
    }

    pub(crate) fn registered(&self) -> Option<&AsyncFd<OwnedFd>> {
        match &self.watched {
            Watched::Epoll(registered, _) => Some(registered),
            _ => None,
        }
    }

    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.state.kind(), Kind::Stream | Kind::Datagram)
    }

    pub(crate) fn state(&self) -> PortState {
        self.state
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        facts(Some(self.fd()), &self.state)
    }
}

/// What is known of an end that is read and written through one descriptor, which may be closed.
/// Inlined, so that a relay's polls cost the one fact that they ask.
#[inline]
pub(crate) fn facts<'a>(fd: Option<BorrowedFd<'a>>, state: &PortState) -> Facts<'a> {
    let kind = state.kind();
    let (is_stream, is_datagram) = (kind == Kind::Stream, kind == Kind::Datagram);
    let endless = is_datagram && !state.ends_at_zero();
    Facts {
        write_fd: fd,
        error_socket: fd.filter(|_| is_stream || is_datagram),
        endless,
        read_messages: is_datagram,
        write_messages: is_datagram,
        write_empty: endless,
        misses_errors: endless,
        hangs_up: kind == Kind::Terminal && state.is_master(),
        ..Facts::over(fd.filter(|_| is_stream))
    }
}

/// A descriptor registered with the current runtime.
///
/// tokio's newer `AsyncFd::register` is `unsafe` because some types answer one descriptor now and
/// another later. An `OwnedFd` cannot, so the older, safe function is sound here.
#[allow(deprecated)]
pub(crate) fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// Ends the writing direction of a socket.
pub(crate) fn shut(fd: BorrowedFd<'_>) -> io::Result<()> {
    match gush::end_writing(&fd) {
        // The peer is gone already, or a datagram socket has none.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_descriptor_without_readiness_pauses_also_on_another_runtime() {
        let zeros = std::fs::File::open("/dev/zero").expect("a device");
        let mut zeros = Descriptor::new(zeros.into()).expect("an end");
        // Has a pause begun? With `waits` its end is awaited.
        let mut asks = |waits: bool| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                zeros.register().expect("registered");
                let pause = zeros.pause().expect("epoll refuses this device");
                pause.begin();
                let begun = poll_fn(|cx| Poll::Ready(pause.poll(cx).is_pending())).await;
                if waits {
                    poll_fn(|cx| pause.poll(cx)).await;
                }
                begun
            })
        };
        assert!(asks(false) && asks(true));
    }
}
