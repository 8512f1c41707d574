//! Parting from a socket: until what was sent has arrived, or at once by a reset.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gush::{Errno, unacknowledged_bytes};
use rustix::net::{AddressFamily, RecvFlags, sockopt};
use tokio::io::Interest;
use tokio::time::{Instant, sleep};

use super::record::Failure;
use crate::conduit::Conduit;
use crate::tap::Tap;

/// How often a socket is asked what its peer has not acknowledged: no event tells of that.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// What a peer sends to nobody is dropped in pieces of so many bytes.
const DROPPED_BYTES: usize = 16 << 10;

/// How long a peer is waited for after the end of the data.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// While it acknowledges nothing more.
    unsent: Duration,
    /// Once all is acknowledged, while it sends neither bytes nor its end.
    quiet: Duration,
}

impl Patience {
    /// By the linger limit, where one was said.
    pub fn of(linger: Option<Duration>) -> Self {
        match linger {
            Some(limit) => Self { unsent: limit, quiet: limit },
            None => Self { unsent: Duration::from_secs(30), quiet: Duration::from_secs(1) },
        }
    }

    pub fn none() -> Self {
        Self { unsent: Duration::ZERO, quiet: Duration::ZERO }
    }
}

/// Why it is not known that everything has arrived.
pub(super) enum Unsent {
    /// The peer has cut the connection, or it cannot be looked at.
    Failed(io::Error),
    /// So many bytes were not acknowledged in time.
    Late(u64),
}

impl Unsent {
    pub fn failure(&self, name: &str) -> Failure {
        match self {
            Self::Failed(error) => Failure::new(
                format!(
                    "{name}: after the last byte: {error} (it may not have read all that was sent)"
                ),
                error.raw_os_error(),
            ),
            Self::Late(bytes) => Failure::new(
                format!(
                    "{name}: {bytes} bytes were sent and not acknowledged in time (-t TIME waits longer)"
                ),
                None,
            ),
        }
    }
}

impl From<Errno> for Unsent {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// Waits until all that was written to a stream socket, if it `is_written`, has arrived. The end of the data was passed on
/// before; if the peer's own end `is_read`, nothing more comes.
///
/// close(2) with unread bytes makes the kernel send a reset and throw away what is still to be sent (tcp_close of
/// net/ipv4/tcp.c), so these bytes are read and dropped.
///
/// # Errors
/// [`Unsent`], if the peer resets the connection or acknowledges nothing for too long.
pub(super) async fn see_off(
    end: &mut Conduit,
    is_written: bool,
    is_read: bool,
    patience: Patience,
) -> Result<(), Unsent> {
    if !is_written {
        return Ok(());
    }
    let Some(tap) = end.socket_tap().map_err(Unsent::Failed)? else { return Ok(()) };
    // What one Unix socket has sent is in the other's queue.
    let mut is_tcp = None;
    let mut unsent = || -> io::Result<u64> {
        // The end of the data counts as one byte.
        match unacknowledged_bytes(&tap.fd())? {
            0 | 1 => Ok(0),
            bytes if *is_tcp.get_or_insert_with(|| is_internet(tap.fd())) => Ok(bytes - 1),
            _ => Ok(0),
        }
    };
    let (mut ended, mut left_bytes) = (is_read, u64::MAX);
    let (mut progress, mut heard, mut pause) = (Instant::now(), Instant::now(), LOOKS[0]);
    loop {
        if !ended {
            let (came, end) = drop_what_came(&tap)?;
            ended = end;
            if came {
                heard = Instant::now();
            }
        }
        let bytes = unsent().map_err(Unsent::Failed)?;
        if bytes < left_bytes {
            (left_bytes, pause) = (bytes, LOOKS[0]);
            (progress, heard) = (Instant::now(), Instant::now());
        }
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
            0 => patience.quiet - heard.elapsed().min(patience.quiet),
            bytes if waited >= patience.unsent => return Err(Unsent::Late(bytes)),
            _ => pause,
        };
        pause = (pause * 2).min(LOOKS[1]);
        let readable = std::future::poll_fn(|cx| tap.poll_ready(cx, Interest::READABLE));
        tokio::select! {
            ready = readable, if !ended => ready.map_err(Unsent::Failed)?,
            () = sleep(wait) => {}
        }
    }
}

/// Reads what is there now: whether there was something, and whether the peer's end came behind it.
fn drop_what_came(tap: &Tap<'_>) -> Result<(bool, bool), Errno> {
    let mut buffer = [0; DROPPED_BYTES];
    let mut came = false;
    // So many pieces, and the timers have their turn.
    for _ in 0..64 {
        let read = || rustix::net::recv(tap.fd(), &mut buffer, RecvFlags::DONTWAIT);
        match tap.attempt(Interest::READABLE, read) {
            Ok((0, _)) => return Ok((came, true)),
            Ok(_) => came = true,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok((came, false))
}

/// Waits until the peer of a TCP socket has acknowledged everything, but no longer than `limit`.
pub(super) async fn arrived(end: &Conduit, limit: Duration) {
    let Some(socket) = end.stream_socket().filter(|socket| is_internet(*socket)) else { return };
    let (began, mut pause) = (Instant::now(), LOOKS[0]);
    while began.elapsed() < limit && unacknowledged_bytes(&socket).is_ok_and(|bytes| bytes > 0) {
        sleep(pause).await;
        pause = (pause * 2).min(LOOKS[1]);
    }
}

/// Lets the socket be reset when it is closed (SO_LINGER, socket(7)). A socket that has no reset is closed as ever.
pub(super) fn reset(end: &Conduit) {
    if let Some(socket) = end.stream_socket() {
        // One that is dead already needs none.
        let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    }
}

fn is_internet(socket: BorrowedFd<'_>) -> bool {
    let domain = sockopt::socket_domain(socket);
    domain.is_ok_and(|domain| domain == AddressFamily::INET || domain == AddressFamily::INET6)
}
