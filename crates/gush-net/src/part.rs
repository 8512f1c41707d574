//! Parting from a socket: once all sent bytes have arrived, or at once by a reset.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gush::unacknowledged_bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

use crate::conduit::Conduit;
use crate::silence::within;

/// The first and the longest pause between two looks at a socket's unacknowledged bytes: no event tells of an
/// acknowledgement. Each pause is twice the one before, also while bytes arrive: a thousand connections looked at
/// every millisecond take a fifth of a relay's processor time.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// Bytes that nobody wants are read and dropped in pieces of so many.
const DROPPED_BYTES: usize = 16 << 10;

/// How long a peer is waited for after the end of the data.
///
/// ```
/// use std::time::Duration;
/// let patience = gush_net::LingerTimeouts::of(Some(Duration::from_secs(5)));
/// assert_eq!(patience.unsent(), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LingerTimeouts {
    /// While the peer acknowledges nothing more.
    unsent: Duration,
    /// Once all is acknowledged, while the peer sends neither bytes nor an end.
    quiet: Duration,
}

impl LingerTimeouts {
    /// So long for the peer to acknowledge something more, and for its own end; without a limit 30 seconds and one.
    #[must_use]
    pub fn of(linger: Option<Duration>) -> Self {
        match linger {
            Some(limit) => Self { unsent: limit, quiet: limit },
            None => Self { unsent: Duration::from_secs(30), quiet: Duration::from_secs(1) },
        }
    }

    /// No time at all: bytes that have not arrived by now are late.
    #[must_use]
    pub fn none() -> Self {
        Self { unsent: Duration::ZERO, quiet: Duration::ZERO }
    }

    /// How long a peer may acknowledge nothing more.
    #[must_use]
    pub fn unsent(&self) -> Duration {
        self.unsent
    }
}

/// Why nobody knows whether everything has arrived.
#[derive(Debug)]
#[non_exhaustive]
pub enum LingerError {
    /// The peer has cut the connection, or the socket cannot be looked at.
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

/// The directions in which an end was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes were written to the end.
    pub is_written: bool,
    /// Bytes were read from the end, up to the end of the data there.
    pub is_read: bool,
}

impl Used {
    /// Written and read.
    pub const BOTH_WAYS: Self = Self { is_written: true, is_read: true };
    /// Written alone.
    pub const WRITTEN: Self = Self { is_written: true, is_read: false };
}

impl Conduit {
    /// Waits until all that was written to a stream socket, or to a stream over a socket, has arrived. The
    /// end of the data was passed on before, or is now if it was left to the close. If the end was read, nothing more comes from a peer that reads tell of
    /// ([`Conduit::hears_its_peer`]).
    ///
    /// close(2) with unread bytes makes the kernel send a reset and throw away bytes still to be sent (`tcp_close` of
    /// net/ipv4/tcp.c), so these bytes are read and dropped.
    ///
    /// # Errors
    /// [`LingerError`], if the peer resets the connection or acknowledges nothing for too long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, LingerTimeouts, Used};
    /// let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// let mut near = Conduit::new(near.into())?;
    /// near.finish()?;
    /// drop(far);
    /// near.linger(Used::WRITTEN, LingerTimeouts::of(None)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn linger(
        &mut self,
        used: Used,
        patience: LingerTimeouts,
    ) -> Result<(), LingerError> {
        linger(self, used, patience).await
    }

    /// Would [`Conduit::linger`] answer at once that all has arrived, also where the last end is left to the close
    /// ([`RelayOptions::close_sends_last_fin`](crate::RelayOptions::close_sends_last_fin))? Then the conduit is closed now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, RelayOptions, Used, relay};
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
    /// relay(&mut a, &mut b, &RelayOptions::new().close_sends_last_fin()).await?;
    /// for end in [a, b] {
    ///     if !end.is_seen_off(Used::BOTH_WAYS) {
    ///         let mut end = end;
    ///         end.linger(Used::BOTH_WAYS, gush_net::LingerTimeouts::of(None)).await?;
    ///     }
    /// }
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer)?;
    /// assert_eq!((answer.as_str(), server.read(&mut [0])?), ("answer", 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_seen_off(&self, used: Used) -> bool {
        if !used.is_written || !self.is_connection() {
            return true;
        }
        used.is_read && self.hears_its_peer() && unsent_bytes(self).is_ok_and(|bytes| bytes == 0)
    }

    /// Waits until the peer of a TCP socket has acknowledged everything, but no longer than `limit`, and not for a peer that
    /// has reset the connection.
    pub async fn arrived(&self, limit: Duration) {
        let Some(socket) = self.stream_socket().filter(|socket| is_internet(*socket)) else {
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

    /// Reads and drops bytes still coming to the written descriptor, or to one only read: the output of a program whose terminal has to
    /// stay open for as long as the program runs. Over when something comes after `limit`. The end of the output is no
    /// reason to hang up: a program may close its terminal, or open the terminal again, some time before it exits.
    pub async fn drop_rest(&mut self, limit: Option<Duration>) {
        let (began, mut buffer) = (Instant::now(), vec![0; DROPPED_BYTES]);
        loop {
            let mut room = ReadBuf::new(&mut buffer);
            let came = poll_fn(|cx| match self.writes() {
                true => self.poll_read_back(cx, &mut room),
                // The data went the other way, and nobody wants more of it.
                false => Pin::new(&mut *self).poll_read(cx, &mut room),
            })
            .await;
            let has_come = came.is_ok() && !room.filled().is_empty();
            if has_come && limit.is_some_and(|limit| began.elapsed() >= limit) {
                return;
            }
            // Others have their turn: unwanted bytes are in no hurry.
            sleep(LOOKS[usize::from(!has_come)]).await;
        }
    }

    /// Lets the socket be reset on close(2) (SO_LINGER, socket(7)), so that the peer does not take the bytes received for all
    /// of them; of two sockets, one read and the other written, both. A socket that has no reset is closed as ever.
    pub fn reset_on_close(&self) {
        for socket in self.stream_sockets().into_iter().flatten() {
            // One that is dead already needs none.
            // A linger of 0 makes close(2) send a reset (socket(7), tcp(7)).
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}

async fn linger(
    end: &mut Conduit,
    used: Used,
    patience: LingerTimeouts,
) -> Result<(), LingerError> {
    // Nothing was sent there that could fail to arrive.
    if !used.is_written || !end.is_connection() {
        return Ok(());
    }
    end.say_owed_end().map_err(LingerError::Failed)?;
    let (mut ended, mut left_bytes) = (used.is_read && end.hears_its_peer(), u64::MAX);
    let (mut progress, mut heard, mut pause) = (Instant::now(), Instant::now(), LOOKS[0]);
    loop {
        if !ended {
            let now = poll_fn(|cx| Poll::Ready(poll_dropped(end, cx))).await;
            if let Poll::Ready(came) = now {
                (ended, heard) = (came? == Came::End, Instant::now());
            }
        }
        let bytes = unsent_bytes(end).map_err(LingerError::Failed)?;
        // A connection that was reset keeps its count of what was not acknowledged (tcp_reset of net/ipv4/tcp_input.c).
        let error = end.stream_socket().filter(|_| bytes > 0).map(sockopt::socket_error);
        if let Some(Ok(Err(errno)) | Err(errno)) = error {
            return Err(LingerError::Failed(errno.into()));
        }
        // Any progress renews the patience: a slow peer is not a dead one.
        if bytes < left_bytes {
            left_bytes = bytes;
            (progress, heard) = (Instant::now(), Instant::now());
        }
        // Both are done: nothing can be cut by closing now.
        if bytes == 0 && ended {
            return Ok(());
        }
        let waited = progress.elapsed();
        let wait = match bytes {
            0 if heard.elapsed() >= patience.quiet
                || waited >= patience.unsent.max(patience.quiet) =>
            {
                return Ok(());
            }
            // All has arrived; the peer's last words are read, because unread bytes make close(2) send a reset.
            0 => patience.quiet - heard.elapsed().min(patience.quiet),
            bytes if waited >= patience.unsent => return Err(LingerError::Late(bytes)),
            _ => pause,
        };
        // No event tells of an acknowledgement, so SIOCOUTQ is asked, ever more rarely.
        pause = (pause * 2).min(LOOKS[1]);
        if ended {
            sleep(wait).await;
            continue;
        }
        let came = poll_fn(|cx| poll_dropped(end, cx));
        let came = match bytes {
            // The patience ends with this wait, and not without a look at what has come.
            0 => within(wait, came).await,
            _ => timeout(wait, came).await,
        };
        if let Ok(came) = came {
            (ended, heard) = (came? == Came::End, Instant::now());
        }
    }
}

/// How many bytes of data the socket under an end has sent that the peer has not acknowledged.
fn unsent_bytes(end: &Conduit) -> io::Result<u64> {
    let Some(socket) = end.stream_socket() else { return Ok(0) };
    // The end of the data counts as one byte once it was said, and behind a layer such as TLS so many more.
    let end_bytes = u64::from(!end.owes_end()) + end.end_bytes();
    match unacknowledged_bytes(&socket)? {
        // Only the end itself is out, which no program can fail to read.
        bytes if bytes <= end_bytes => Ok(0),
        bytes if is_internet(socket) => Ok(bytes - end_bytes),
        // Bytes that one Unix socket has sent are in the other's queue.
        _ => Ok(0),
    }
}

/// Bytes that a peer has sent to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Bytes,
    End,
}

/// Reads and drops all bytes at hand, and waits for more where there are none.
fn poll_dropped(end: &mut Conduit, cx: &mut Context<'_>) -> Poll<Result<Came, LingerError>> {
    let mut buffer = [0; DROPPED_BYTES];
    let mut came = false;
    // So many pieces, and the timers have their turn.
    for _ in 0..64 {
        let mut room = ReadBuf::new(&mut buffer);
        match end.poll_read_back(cx, &mut room) {
            Poll::Ready(Ok(())) if room.filled().is_empty() => return Poll::Ready(Ok(Came::End)),
            Poll::Ready(Ok(())) => came = true,
            // Nobody wants the last words of a stream that was cut short.
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

/// A connection that was reset has no peer any more (`inet_getname` of net/ipv4/af_inet.c), though the socket keeps the count of bytes that
/// were not acknowledged, and though somebody has taken the error.
fn has_peer(socket: BorrowedFd<'_>) -> bool {
    !matches!(rustix::net::getpeername(socket), Err(Errno::NOTCONN))
}

fn is_internet(socket: BorrowedFd<'_>) -> bool {
    let domain = sockopt::socket_domain(socket);
    domain.is_ok_and(|domain| domain == AddressFamily::INET || domain == AddressFamily::INET6)
}
