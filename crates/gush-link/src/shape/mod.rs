//! Options that change the bytes or the ends of data of an end: each is a stream around the end's
//! conduit. Bytes then pass through memory.

mod cut;
mod lines;
mod one_of_many;
mod prefix;
mod tail;
mod unshut;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts, Layer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::address::{Opt, OptionSet};
use cut::Cut;
use lines::Lines;
use one_of_many::OneOfMany;
pub(crate) use one_of_many::WriteTurn;
use prefix::Prefix;
use tail::Tail;
use unshut::Unshut;

/// The conduit shaped by the address's options.
pub(crate) fn shaped(conduit: Conduit, options: &OptionSet) -> Conduit {
    // Datagrams have no end to be overlooked or kept back.
    let has_end = !conduit.facts().endless;
    let conduit = match has_end && conduit.reads() && options.is_on(Opt::IgnoreEof) {
        true => around(conduit, Tail::default()),
        false => conduit,
    };
    // Before a tail, an end of which there is none.
    let conduit = match options.size_bytes(Opt::ReadBytes) {
        Some(bytes) => around(conduit, Prefix::after(bytes)),
        None => conduit,
    };
    // Outside of the tail, for which an end is none.
    let conduit = match options.byte(Opt::Escape) {
        Some(byte) => around(conduit, Prefix::before(byte)),
        None => conduit,
    };
    let conduit = match (options.is_on(Opt::Crnl), options.is_on(Opt::Cr)) {
        (true, _) => around(conduit, Lines::new(lines::CRNL)),
        (false, true) => around(conduit, Lines::new(lines::CR)),
        (false, false) => conduit,
    };
    match has_end && options.is_on(Opt::ShutNone) {
        true => around(conduit, Unshut),
        false => conduit,
    }
}

/// The conduit, whose datagrams are cut where they are longer.
pub(crate) fn cut_at(most_bytes: usize, conduit: Conduit) -> Conduit {
    match conduit.reads() && conduit.facts().read_messages {
        true => around(conduit, Cut { most_bytes }),
        false => conduit,
    }
}

/// The conduit as one of the clients of a shared end uses it.
pub(crate) fn one_of_many(conduit: Conduit, turn: WriteTurn) -> Conduit {
    around(conduit, OneOfMany::with(turn))
}

/// Reads some bytes, or the end of the data: an empty datagram is none.
fn poll_read_some(
    mut conduit: Pin<&mut Conduit>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let before = buf.filled().len();
    loop {
        ready!(conduit.as_mut().poll_read(cx, buf))?;
        if buf.filled().len() > before || !conduit.facts().endless {
            return Poll::Ready(Ok(()));
        }
    }
}

/// Changes some of the calls of a stream; the others are passed on to the conduit.
trait Shape: Send + Sync + Unpin + 'static {
    fn poll_read(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        conduit.poll_read(cx, buf)
    }

    fn poll_write(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        conduit.poll_write(cx, bytes)
    }

    fn poll_flush(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        conduit.poll_flush(cx)
    }

    fn poll_shutdown(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        conduit.poll_shutdown(cx)
    }

    /// The facts of the shaped conduit, from those of the conduit.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        facts
    }
}

/// A stream around a conduit.
struct Around<S> {
    conduit: Conduit,
    shape: S,
}

impl<S: Shape> Around<S> {
    fn parts(&mut self) -> (&mut S, Pin<&mut Conduit>) {
        (&mut self.shape, Pin::new(&mut self.conduit))
    }
}

impl<S: Shape> AsyncRead for Around<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (shape, conduit) = self.parts();
        shape.poll_read(conduit, cx, buf)
    }
}

impl<S: Shape> AsyncWrite for Around<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (shape, conduit) = self.parts();
        shape.poll_write(conduit, cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (shape, conduit) = self.parts();
        shape.poll_flush(conduit, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (shape, conduit) = self.parts();
        shape.poll_shutdown(conduit, cx)
    }
}

impl<S: Shape> Layer for Around<S> {
    fn facts(&self) -> Facts<'_> {
        self.shape.facts(self.conduit.facts())
    }

    /// Bytes that nobody wants have no shape.
    fn poll_read_back(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.conduit.poll_read_back(cx, buf)
    }

    /// No shape keeps its conduit from closing.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conduit.poll_close(cx)
    }
}

fn around<S: Shape>(conduit: Conduit, shape: S) -> Conduit {
    let (reads, writes) = (conduit.reads(), conduit.writes());
    let shaped = Conduit::of_layer(Around { conduit, shape });
    match (reads, writes) {
        (true, false) => shaped.read_only(),
        (false, true) => shaped.write_only(),
        _ => shaped,
    }
}
