//! Options that change the bytes or the ends of data of an end: one layer around the end's conduit.
//! Bytes then pass through memory.

mod lines;
mod one_of_many;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gush_net::{Conduit, Facts, Layer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::address::{Opt, OptionSet};
use lines::Lines;
use one_of_many::OneOfMany;
pub(crate) use one_of_many::WriteTurn;

/// How often the conduit is read again after an end: no event reports that a file grows.
const LOOK: Duration = Duration::from_millis(200);

/// What is done with the bytes and the ends of data: by default nothing. The bytes that are read
/// pass the stages in the order of the fields.
#[derive(Default)]
struct Shape {
    /// `-b` with `--graceful`: what a datagram has beyond the size is dropped, as recv(2) drops it
    /// for socat.
    most_bytes: Option<usize>,
    /// `ignoreeof`: an end of data is none; more may come, as at the end of a log.
    ignores_end: bool,
    /// Until the next look after an end.
    pause: Option<Pin<Box<Sleep>>>,
    /// `readbytes=`: the data ends once none is left, with what follows unread.
    left_bytes: Option<u64>,
    /// `escape=`, only with `left_bytes`: the data ends before this byte, for terminals that pass
    /// every key on.
    escape: Option<u8>,
    /// `crnl` and `cr`.
    lines: Option<Lines>,
    /// `shared`; never with `lines`.
    one_of_many: Option<OneOfMany>,
    /// `shut-none`, `shared`: the end of the other side's data is not passed on; the conduit is
    /// closed with the connection.
    keeps_open: bool,
}

/// The conduit shaped by the address's options.
pub(crate) fn shaped(conduit: Conduit, options: &OptionSet) -> Conduit {
    // Datagrams have no end to be overlooked or kept back.
    let facts = conduit.facts();
    let (has_end, takes_end) = (!facts.endless, !facts.endless && !facts.write_empty);
    let escape = options.byte(Opt::Escape);
    let shape = Shape {
        ignores_end: has_end && conduit.reads() && options.is_on(Opt::IgnoreEof),
        left_bytes: options.size_bytes(Opt::ReadBytes).or(escape.map(|_| u64::MAX)),
        escape,
        lines: match (options.is_on(Opt::Crnl), options.is_on(Opt::Cr)) {
            (true, _) => Some(Lines::new(lines::CRNL)),
            (false, true) => Some(Lines::new(lines::CR)),
            (false, false) => None,
        },
        keeps_open: takes_end && options.is_on(Opt::ShutNone),
        ..Shape::default()
    };
    let changes_bytes = shape.left_bytes.is_some() || shape.lines.is_some();
    match changes_bytes || shape.ignores_end || shape.keeps_open {
        true => around(conduit, shape),
        // A conduit with descriptors moves bytes without memory.
        false => conduit,
    }
}

/// The conduit, whose datagrams are cut where they are longer.
pub(crate) fn cut_at(most_bytes: usize, conduit: Conduit) -> Conduit {
    match conduit.reads() && conduit.facts().read_messages {
        true => around(conduit, Shape { most_bytes: Some(most_bytes), ..Shape::default() }),
        false => conduit,
    }
}

/// The conduit as one of the clients of a shared end uses it.
pub(crate) fn one_of_many(conduit: Conduit, turn: WriteTurn) -> Conduit {
    let one_of_many = Some(OneOfMany::with(turn));
    around(conduit, Shape { one_of_many, keeps_open: true, ..Shape::default() })
}

fn around(conduit: Conduit, shape: Shape) -> Conduit {
    let (reads, writes) = (conduit.reads(), conduit.writes());
    let shaped = Conduit::of_layer(Shaped { conduit, shape });
    match (reads, writes) {
        (true, false) => shaped.read_only(),
        (false, true) => shaped.write_only(),
        _ => shaped,
    }
}

impl Shape {
    /// Shapes what was read, in place. How many bytes are kept?
    fn keep(&mut self, read: &mut [u8]) -> usize {
        let mut bytes = read.len().min(self.most_bytes.unwrap_or(usize::MAX));
        if let Some(left_bytes) = &mut self.left_bytes {
            bytes = bytes.min(usize::try_from(*left_bytes).unwrap_or(usize::MAX));
            *left_bytes -= bytes as u64;
            let position = |escape| read[..bytes].iter().position(|&byte| byte == escape);
            if let Some(at) = self.escape.and_then(position) {
                (bytes, *left_bytes) = (at, 0);
            }
        }
        self.lines.as_ref().map_or(bytes, |lines| lines.keep(&mut read[..bytes]))
    }
}

/// A stream around a conduit.
struct Shaped {
    conduit: Conduit,
    shape: Shape,
}

impl Shaped {
    /// Writes everything that is converted.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.shape.lines {
            Some(lines) => lines.poll_drain(&mut self.conduit, cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncRead for Shaped {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { conduit, shape } = self.get_mut();
        loop {
            let room = match shape.left_bytes {
                // What a datagram has beyond the end is dropped with it.
                Some(left_bytes) if left_bytes == 0 || !conduit.facts().read_messages => {
                    buf.remaining().min(usize::try_from(left_bytes).unwrap_or(usize::MAX))
                }
                _ => buf.remaining(),
            };
            if room == 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(pause) = &mut shape.pause {
                ready!(pause.as_mut().poll(cx));
                shape.pause = None;
            }
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            ready!(Pin::new(&mut *conduit).poll_read(cx, &mut part))?;
            if !part.filled().is_empty() {
                let bytes = shape.keep(part.filled_mut());
                buf.advance(bytes);
                // No byte would be the end of the data.
                if bytes > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else if shape.ignores_end {
                shape.pause = Some(Box::pin(sleep(LOOK)));
            } else if shape.left_bytes.is_none() || !conduit.facts().endless {
                // An empty datagram, or the end.
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Shaped {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { conduit, shape } = self.get_mut();
        match (&mut shape.lines, &mut shape.one_of_many) {
            (Some(lines), _) => lines.poll_write(conduit, cx, bytes),
            (None, Some(one)) => one.poll_write(conduit, cx, bytes),
            (None, None) => Pin::new(conduit).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.conduit).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shape.keeps_open {
            return self.poll_flush(cx);
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.conduit).poll_shutdown(cx)
    }
}

impl Layer for Shaped {
    fn facts(&self) -> Facts<'_> {
        let mut facts = self.conduit.facts();
        if self.shape.ignores_end {
            // A read that skips an end may not meet the conduit's error either.
            (facts.endless, facts.misses_errors) = (true, true);
        }
        if self.shape.left_bytes.is_some() {
            // The data ends by itself, whatever the peer does.
            (facts.endless, facts.hears_peer) = (false, false);
        }
        if self.shape.one_of_many.is_some() {
            // Neither waited for nor reset, nor drained at the end of one client.
            (facts.socket, facts.connected) = (None, false);
        }
        // A program that is sent no end may read on until the conduit is closed.
        facts.hangs_up &= !self.shape.keeps_open;
        facts
    }

    /// Discarded bytes are not shaped.
    fn poll_read_back(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.conduit.poll_read_back(cx, buf)
    }

    /// Closing never waits for a stage.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conduit.poll_close(cx)
    }
}
