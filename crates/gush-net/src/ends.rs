//! The two ends of a relay, each one of tokio's streams or their halves, a conduit, or another
//! stream.

use std::io;

use gush::Side;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::counts::Direction;
use crate::half::{Half, Halves};
use crate::sides::{Opened, Sides, Stream, View};
use crate::sys::{self, known};
use crate::tap::Tap;

/// Opens an end: by the descriptor, if the type is known to have one, and else as a stream.
pub(crate) fn open<E: ?Sized>(end: &mut E) -> io::Result<Opened<'_, E>> {
    macro_rules! by_descriptor {
        ($end:expr => $($tap:path: $($known:ident)+;)+) => {{
            let end = $end;
            $($(
                let end = match known::<E, sys::$known>(end) {
                    Ok(stream) => return Ok(Halves::Joint(Half::Fd($tap(stream.as_ref())))),
                    Err(end) => end,
                };
            )+)+
            end
        }};
    }
    // The commonest first: each question costs a comparison of type ids for every relay.
    let end = match known::<E, sys::Tcp>(end) {
        Ok(stream) => return Ok(Halves::Joint(Half::Fd(Tap::tcp(stream)))),
        Err(end) => end,
    };
    let end = match known::<E, sys::Unix>(end) {
        Ok(stream) => return Ok(Halves::Joint(Half::Fd(Tap::unix(stream)))),
        Err(end) => end,
    };
    let end = by_descriptor! { end =>
        Tap::tcp: TcpOwnedRead TcpOwnedWrite TcpRead TcpWrite;
        Tap::unix: UnixOwnedRead UnixOwnedWrite UnixRead UnixWrite;
    };
    match sys::conduit(end) {
        Ok(conduit) => conduit.opened(),
        Err(end) => Ok(Halves::Joint(Half::Stream(Stream::Any(end)))),
    }
}

/// The two ends of a running relay.
pub(crate) trait Ends<'a> {
    /// The source and the target of a direction, if both are there.
    fn sides(&mut self, direction: Direction) -> Option<Sides<'_, 'a>>;
    /// One side of a direction, if it is there.
    fn view(&self, direction: Direction, side: Side) -> Option<View<'_, 'a>>;
    /// Is the end of a source passed on?
    fn passes_ends(&self) -> bool;
}

/// Both ends are read and written, as far as they can be.
pub(crate) struct BothWays<'a, A: ?Sized, B: ?Sized> {
    pub(crate) a: Opened<'a, A>,
    pub(crate) b: Opened<'a, B>,
}

impl<'a, A, B> Ends<'a> for BothWays<'a, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    fn sides(&mut self, direction: Direction) -> Option<Sides<'_, 'a>> {
        let (source, target) = match direction {
            Direction::Forward => self.a.source().zip(self.b.target()),
            Direction::Back => self.b.source().zip(self.a.target()),
        }?;
        Some(Sides { source, target })
    }

    fn view(&self, direction: Direction, side: Side) -> Option<View<'_, 'a>> {
        match (direction, side) {
            (Direction::Forward, Side::Source) | (Direction::Back, Side::Target) => {
                self.a.view(side)
            }
            (Direction::Back, Side::Source) | (Direction::Forward, Side::Target) => {
                self.b.view(side)
            }
        }
    }

    fn passes_ends(&self) -> bool {
        true
    }
}

/// A copy: the forward direction alone. As by tokio's `copy`, the target is left open, since the
/// caller may have more to write.
pub(crate) struct OneWay<'a, S: ?Sized, T: ?Sized> {
    pub(crate) source: Opened<'a, S>,
    pub(crate) target: Opened<'a, T>,
}

impl<'a, S, T> Ends<'a> for OneWay<'a, S, T>
where
    S: AsyncRead + Unpin + ?Sized,
    T: AsyncWrite + Unpin + ?Sized,
{
    fn sides(&mut self, direction: Direction) -> Option<Sides<'_, 'a>> {
        if direction == Direction::Back {
            return None;
        }
        let (source, target) = self.source.source().zip(self.target.target())?;
        Some(Sides { source, target })
    }

    fn view(&self, direction: Direction, side: Side) -> Option<View<'_, 'a>> {
        match (direction, side) {
            (Direction::Forward, Side::Source) => self.source.view(side),
            (Direction::Forward, Side::Target) => self.target.view(side),
            (Direction::Back, _) => None,
        }
    }

    fn passes_ends(&self) -> bool {
        false
    }
}
