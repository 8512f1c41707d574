//! One direction.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use gush::Side;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::call::Failure;
use crate::counts::Direction;
use crate::drive::{Driver, PassedEnd};
use crate::ends;
use crate::error::{End, Ended, Error, Passed, Totals};
use crate::options::RelayOptions;
use crate::sides::{Opened, Sides};
use crate::silence::Silence;

/// Copies from the source to the target until the source's end. The target is left open.
///
/// A target that keeps bytes back is flushed at the end, and whenever the source has nothing. After a failure of the source
/// the flush is begun, and not waited for; `tokio::io::copy` begins none.
///
/// # Cancellation
/// If the future is dropped, bytes that had been taken and not delivered are lost;
/// [`ByteCounts::in_flight_bytes`](crate::ByteCounts::in_flight_bytes) says how many.
///
/// # Errors
/// Which call failed on which end, with the bytes delivered before; or a method asked for by name that
/// cannot serve these ends. `EBADF` when one of them was not opened for its direction.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// let (mut client, near) = tokio::net::UnixStream::pair()?;
/// let (far, mut server) = tokio::net::UnixStream::pair()?;
/// client.write_all(b"one way").await?;
/// client.shutdown().await?;
///
/// let ((mut source, _), (_unused, mut target)) = (near.into_split(), far.into_split());
/// let totals = gush_net::relay_one_way(&mut source, &mut target, &gush_net::RelayOptions::new()).await?;
/// assert_eq!(totals.forward.bytes, 7);
///
/// let mut arrived = [0; 7];
/// server.read_exact(&mut arrived).await?;
/// # Ok(()) }
/// ```
pub async fn relay_one_way<S, T>(
    source: &mut S,
    target: &mut T,
    options: &RelayOptions,
) -> Result<Totals, Error>
where
    S: AsyncRead + Unpin + ?Sized,
    T: AsyncWrite + Unpin + ?Sized,
{
    let source = opened(source, End::A)?;
    let target = opened(target, End::B)?;
    drive(Driver::new(Direction::Forward, options), source, target, options).await
}

/// Copies from `reader` to `writer` until the end, and flushes the writer: has the arguments and result of `tokio::io::copy`, and
/// moves the bytes of sockets inside the kernel. [`relay_one_way`] has options, and gives a fuller account.
///
/// # Cancellation
/// As [`relay_one_way`].
///
/// # Errors
/// As [`relay_one_way`]; the [`Error`] is inside.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let (mut written, mut reader) = (Vec::new(), &b"from anything to anything"[..]);
/// assert_eq!(gush_net::copy(&mut reader, &mut written).await?, 25);
/// assert_eq!(written, b"from anything to anything");
/// # Ok(()) }
/// ```
pub async fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    Ok(relay_one_way(reader, writer, &RelayOptions::new()).await?.forward.bytes)
}

/// An end that a relay can be run on.
pub(crate) fn opened<E: ?Sized>(end: &mut E, name: End) -> Result<Opened<'_, E>, Error> {
    ends::open(end).map_err(|io| Error::failed("epoll_ctl", name, io))
}

/// Runs one flow until it ends.
pub(crate) async fn drive<S, T>(
    mut flow: Driver,
    mut source: Opened<'_, S>,
    mut target: Opened<'_, T>,
    options: &RelayOptions,
) -> Result<Totals, Error>
where
    S: AsyncRead + Unpin + ?Sized,
    T: AsyncWrite + Unpin + ?Sized,
{
    let mut silence = Silence::default();
    let ended = poll_fn(|cx| {
        let absent = |call, side| Failure::Call(call, side, gush::Errno::BADF.into());
        let Some(from) = source.source() else {
            return Poll::Ready(Err(absent("read", Side::Source)));
        };
        let Some(to) = target.target() else {
            return Poll::Ready(Err(absent("write", Side::Target)));
        };
        flow.begin_poll();
        // No end is passed on: as tokio's `copy` does, the caller may have more to write.
        let mut sides = Sides { source: from, target: to };
        let flowed = flow.poll(cx, &mut sides, options, PassedEnd::Not);
        if flowed.is_ready() {
            return flowed.map_ok(|()| Ended::Closed);
        }
        // The limit's own pause is no silence of the ends.
        if flow.is_throttled() {
            silence.restart();
        }
        silence
            .poll(cx, flow.activity(), options.idle, || [target.untaken_bytes(), 0])
            .map(|()| Ok(Ended::Idle))
    });
    let ended = ended.await;
    let (forward, back) = (flow.passed(), Passed::default());
    match ended {
        Ok(ended) => Ok(Totals { forward, back, ended, stuck: false }),
        Err(failure) => Err(failure.into_error(Direction::Forward).after(forward, back)),
    }
}
