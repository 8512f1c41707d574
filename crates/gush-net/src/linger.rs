//! Closing a socket: once all sent bytes have arrived, or at once by a reset.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gush::unacknowledged_bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, connect_unspec, sockopt};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

use crate::conduit::Conduit;
use crate::layer::Facts;
use crate::silence::within;
use crate::tap;

/// The first and the longest pause between two looks at a socket's unacknowledged bytes, since no
/// event reports an acknowledgement. Each pause is twice the one before: a thousand connections
/// looked at every millisecond take a fifth of a relay's processor time.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// Unwanted bytes are read and discarded in pieces of so many.
const DISCARDED_BYTES: usize = 16 << 10;

/// How long to wait for a peer after the end of the data.
#[derive(Clone, Copy, Debug)]
pub struct LingerTimeouts {
    /// While the peer acknowledges nothing more.
    pub unsent: Duration,
    /// Once all is acknowledged, while the peer sends neither bytes nor its end.
    pub quiet: Duration,
}

impl LingerTimeouts {
    /// `linger` for the peer to acknowledge something more, and `linger` for its end; by default 30
    /// seconds and one.
    #[must_use]
    pub fn of(linger: Option<Duration>) -> Self {
        match linger {
            Some(limit) => Self { unsent: limit, quiet: limit },
            None => Self { unsent: Duration::from_secs(30), quiet: Duration::from_secs(1) },
        }
    }

    /// No time: bytes that have not arrived by now are late.
    #[must_use]
    pub fn none() -> Self {
        Self { unsent: Duration::ZERO, quiet: Duration::ZERO }
    }
}

/// Why it is not known that everything has arrived.
#[derive(Debug)]
#[non_exhaustive]
pub enum LingerError {
    /// The peer has reset the connection, or a call on the socket failed.
    Failed(io::Error),
    /// So many bytes were not acknowledged in time.
    Late(u64),
}

impl fmt::Display for LingerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LingerError::Failed(io) => {
                write!(f, "after the last byte: {io} (it may not have read all bytes)")
            }
            LingerError::Late(bytes) => {
                write!(f, "{bytes} bytes were not acknowledged in time")
            }
        }
    }
}

impl std::error::Error for LingerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LingerError::Failed(io) => Some(io),
            LingerError::Late(_) => None,
        }
    }
}

impl Conduit {
    /// Waits until all that was written to a stream socket, or to a stream over one, has arrived.
    /// The end of the data was passed on before, or is now if it was left to close(2). With
    /// `peer_ended` the peer's data was read up to its end.
    ///
    /// close(2) with unread bytes makes the kernel send a reset and discard bytes still to be sent
    /// (`tcp_close` of net/ipv4/tcp.c), so the peer's bytes are read and discarded.
    ///
    /// # Errors
    /// [`LingerError`], if the peer resets the connection or acknowledges nothing for too long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, LingerTimeouts};
    /// let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// let mut near = Conduit::new(near.into())?;
    /// near.finish()?;
    /// drop(far);
    /// near.linger(false, LingerTimeouts::of(None)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn linger(
        &mut self,
        peer_ended: bool,
        timeouts: LingerTimeouts,
    ) -> Result<(), LingerError> {
        if !self.facts().connected {
            return Ok(());
        }
        self.pass_owed_end().map_err(LingerError::Failed)?;
        let (mut ended, mut left_bytes) = (peer_ended && self.facts().hears_peer, u64::MAX);
        let (mut progress, mut heard, mut pause) = (Instant::now(), Instant::now(), LOOKS[0]);
        loop {
            if !ended {
                let now = poll_fn(|cx| Poll::Ready(poll_discarded(self, cx))).await;
                if let Poll::Ready(came) = now {
                    (ended, heard) = (came? == Came::End, Instant::now());
                }
            }
            let bytes =
                unsent_bytes(&self.facts(), self.owes_end()).map_err(LingerError::Failed)?;
            // A connection that was reset keeps its count of what was not acknowledged (tcp_reset
            // of net/ipv4/tcp_input.c).
            let error = self.facts().socket.filter(|_| bytes > 0).and_then(|socket| {
                // Another process, or the relay, may have taken the error. A connection that ended
                // since the count has no peer either, and counts nothing any more.
                let counts = || unsent_bytes(&self.facts(), self.owes_end()).is_ok_and(|n| n > 0);
                let is_gone = || (!has_peer(socket) && counts()).then_some(Errno::CONNRESET);
                tap::socket_error(socket).or_else(is_gone)
            });
            if let Some(errno) = error {
                return Err(LingerError::Failed(errno.into()));
            }
            // Any progress restarts the timeouts: a slow peer is not a dead one.
            if bytes < left_bytes {
                left_bytes = bytes;
                (progress, heard) = (Instant::now(), Instant::now());
            }
            if bytes == 0 && ended {
                return Ok(());
            }
            let waited = progress.elapsed();
            let wait = match bytes {
                0 if heard.elapsed() >= timeouts.quiet
                    || waited >= timeouts.unsent.max(timeouts.quiet) =>
                {
                    return Ok(());
                }
                0 => timeouts.quiet - heard.elapsed().min(timeouts.quiet),
                bytes if waited >= timeouts.unsent => return Err(LingerError::Late(bytes)),
                _ => pause,
            };
            pause = (pause * 2).min(LOOKS[1]);
            if ended {
                sleep(wait).await;
                continue;
            }
            let came = poll_fn(|cx| poll_discarded(self, cx));
            let came = match bytes {
                // The timeout ends with this wait, and not without a look at what has come.
                0 => within(wait, came).await,
                _ => timeout(wait, came).await,
            };
            if let Ok(came) = came {
                (ended, heard) = (came? == Came::End, Instant::now());
            }
        }
    }

    /// Would [`Conduit::linger`] wait, or have to pass on an end that was left to close(2) without
    /// a peer that hears it
    /// ([`RelayOptions::close_sends_last_fin`](crate::RelayOptions::close_sends_last_fin))?
    /// Otherwise the conduit can be closed now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, LingerTimeouts, Relay, RelayOptions};
    /// use std::io::{Read, Write};
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let connected = || -> std::io::Result<_> {
    ///     let peer = std::net::TcpStream::connect(listener.local_addr()?)?;
    ///     let (near, _) = listener.accept()?;
    ///     near.set_nonblocking(true)?;
    ///     Ok((peer, Conduit::of_accepted_tcp(near.into())))
    /// };
    /// let ((mut client, mut a), (mut server, mut b)) = (connected()?, connected()?);
    /// server.write_all(b"answer")?;
    /// server.shutdown(std::net::Shutdown::Write)?;
    /// client.shutdown(std::net::Shutdown::Write)?;
    /// Relay::new(&RelayOptions { close_sends_last_fin: true, ..RelayOptions::new() }).run(&mut a, &mut b).await?;
    /// for mut end in [a, b] {
    ///     if end.needs_linger(true) {
    ///         end.linger(true, LingerTimeouts::of(None)).await?;
    ///     }
    /// }
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer)?;
    /// assert_eq!((answer.as_str(), server.read(&mut [0])?), ("answer", 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn needs_linger(&self, peer_ended: bool) -> bool {
        let facts = self.facts();
        let is_done = || {
            let unsent_bytes = unsent_bytes(&facts, self.owes_end());
            peer_ended && facts.hears_peer && unsent_bytes.is_ok_and(|bytes| bytes == 0)
        };
        facts.connected && !is_done()
    }

    /// Waits until the peer of a TCP socket has acknowledged everything, at most for `limit`, and
    /// not for a peer that has reset the connection.
    pub async fn arrived(&self, limit: Duration) {
        let Some(socket) = self.facts().socket.filter(|socket| is_internet(*socket)) else {
            return;
        };
        let (began, mut pause) = (Instant::now(), LOOKS[0]);
        let waits = || unacknowledged_bytes(&socket).is_ok_and(|bytes| bytes > 0);
        // A peer that has reset acknowledges nothing more, and the kernel keeps the count.
        while began.elapsed() < limit && waits() && has_peer(socket) {
            sleep(pause).await;
            pause = (pause * 2).min(LOOKS[1]);
        }
    }

    /// Reads and discards what still comes to the written descriptor, or to one that is only read:
    /// the output of a program whose terminal has to stay open while the program runs. Returns when
    /// something comes after `limit`, but not at the end of the output: a program may close its
    /// terminal, or open it again, some time before it exits.
    pub async fn discard(&mut self, limit: Option<Duration>) {
        let (began, mut buffer) = (Instant::now(), vec![0; DISCARDED_BYTES]);
        loop {
            let mut room = ReadBuf::new(&mut buffer);
            let came = poll_fn(|cx| match self.writes() {
                true => self.poll_read_back(cx, &mut room),
                false => Pin::new(&mut *self).poll_read(cx, &mut room),
            })
            .await;
            let has_come = came.is_ok() && !room.filled().is_empty();
            if has_come && limit.is_some_and(|limit| began.elapsed() >= limit) {
                return;
            }
            // Unwanted bytes are in no hurry: other tasks have their turn.
            sleep(LOOKS[usize::from(!has_come)]).await;
        }
    }

    /// Makes close(2) reset the connection (SO_LINGER, socket(7)), so that the peer does not take
    /// the bytes received for all of them; of two sockets, one read and the other written, both. A
    /// socket without a reset is closed as usual. Resets at once with
    /// [`set_shared`](Self::set_shared).
    pub fn reset_on_close(&self) {
        for (facts, is_shared) in self.facts_of_each().zip(self.are_shared()) {
            let Some(socket) = facts.socket else { continue };
            // An error means that the connection is gone already.
            let _ = match is_shared {
                true => connect_unspec(socket),
                false => sockopt::set_socket_linger(socket, Some(Duration::ZERO)),
            };
        }
    }
}

/// How many bytes of data the socket of an end has sent that the peer has not acknowledged.
fn unsent_bytes(facts: &Facts<'_>, owes_end: bool) -> io::Result<u64> {
    let Some(socket) = facts.socket else { return Ok(0) };
    // The end of the data counts as one byte once it is sent, and a layer such as TLS adds its own.
    let end_bytes = u64::from(!owes_end) + facts.end_bytes;
    match unacknowledged_bytes(&socket)? {
        // A program cannot fail to read the end.
        bytes if bytes <= end_bytes => Ok(0),
        bytes if is_internet(socket) => Ok(bytes - end_bytes),
        // The bytes that one Unix socket has sent are in the other's queue.
        _ => Ok(0),
    }
}

/// What a peer has sent after everybody stopped reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Bytes,
    End,
}

/// Reads and discards all bytes at hand, and waits for more if there are none.
fn poll_discarded(end: &mut Conduit, cx: &mut Context<'_>) -> Poll<Result<Came, LingerError>> {
    let mut buffer = [0; DISCARDED_BYTES];
    let mut came = false;
    // After so many pieces the timers have their turn.
    for _ in 0..64 {
        let mut room = ReadBuf::new(&mut buffer);
        match end.poll_read_back(cx, &mut room) {
            Poll::Ready(Ok(())) if room.filled().is_empty() => return Poll::Ready(Ok(Came::End)),
            Poll::Ready(Ok(())) => came = true,
            // The bytes were unwanted anyway.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Poll::Ready(Ok(Came::End));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(LingerError::Failed(error))),
            Poll::Pending if came => break,
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Ok(Came::Bytes))
}

/// A connection that was reset has no peer any more (`inet_getname` of net/ipv4/af_inet.c),
/// although the socket keeps the count of unacknowledged bytes, and also once its error was taken.
fn has_peer(socket: BorrowedFd<'_>) -> bool {
    !matches!(rustix::net::getpeername(socket), Err(Errno::NOTCONN))
}

fn is_internet(socket: BorrowedFd<'_>) -> bool {
    let domain = sockopt::socket_domain(socket);
    domain.is_ok_and(|domain| domain == AddressFamily::INET || domain == AddressFamily::INET6)
}
