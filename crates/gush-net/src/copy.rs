//! One direction.

use std::future::poll_fn;

use crate::counts::Way;
use crate::drive::Driver;
use crate::ends::{Source, Target};
use crate::error::{End, Ended, Error, Passed, Totals};
use crate::options::Options;
use crate::silence::Silence;
use crate::tap::Tap;

/// Copies from the source to the target until the source's end. The target is left open.
///
/// # Cancellation
/// If the future is dropped, bytes that had been taken and not delivered are lost;
/// [`Counts::in_flight_bytes`](crate::Counts::in_flight_bytes) says how many.
///
/// # Errors
/// Which call failed on which end, with what had been delivered; or a method asked for by name that
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
/// let totals = gush_net::copy(&mut source, &mut target, &gush_net::Options::new()).await?;
/// assert_eq!(totals.forward.bytes, 7);
///
/// let mut arrived = [0; 7];
/// server.read_exact(&mut arrived).await?;
/// # Ok(()) }
/// ```
pub async fn copy<S, T>(source: &mut S, target: &mut T, options: &Options) -> Result<Totals, Error>
where
    S: Source + ?Sized,
    T: Target + ?Sized,
{
    let source = opened(source.reader(), End::A)?;
    let target = opened(target.writer(), End::B)?;
    drive(Driver::new(Way::Forward, options), source, target, options).await
}

/// The tap of an end, if it was opened for that direction.
pub(crate) fn opened(tap: std::io::Result<Option<Tap<'_>>>, end: End) -> Result<Tap<'_>, Error> {
    let call = if end == End::A { "read" } else { "write" };
    match tap {
        Ok(Some(tap)) => Ok(tap),
        Ok(None) => Err(Error::failed(call, end, gush::Errno::BADF.into())),
        Err(io) => Err(Error::failed("epoll_ctl", end, io)),
    }
}

/// Runs one flow to its end.
pub(crate) async fn drive(
    mut flow: Driver,
    mut source: Tap<'_>,
    mut target: Tap<'_>,
    options: &Options,
) -> Result<Totals, Error> {
    let mut silence = Silence::default();
    let ended = poll_fn(|cx| {
        let flowed = flow.poll(cx, &mut source, &mut target, options, false);
        if flowed.is_ready() {
            return flowed.map_ok(|()| Ended::Closed);
        }
        if flow.is_throttled() {
            silence.restart();
        }
        silence.poll(cx, flow.activity(), options.idle).map(|()| Ok(Ended::Idle))
    });
    let ended = ended.await;
    let (forward, back) = (flow.passed(), Passed::default());
    match ended {
        Ok(ended) => Ok(Totals { forward, back, ended }),
        Err(failure) => Err(failure.into_error(Way::Forward).after(forward, back)),
    }
}
