//! `ignoreeof`: an end of data is none; more may come, as at the end of a log.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gush_net::{Conduit, Facts};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Shape;

/// How often the conduit is read again after an end: no event reports that a file grows.
const LOOK: Duration = Duration::from_millis(200);

/// The conduit's data does not end.
#[derive(Default)]
pub(super) struct Tail {
    /// Until the next look.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Shape for Tail {
    /// A read that skips an end may not meet the conduit's error either.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { endless: true, misses_errors: true, ..facts }
    }

    fn poll_read(
        &mut self,
        mut conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            ready!(conduit.as_mut().poll_read(cx, buf))?;
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            self.pause = Some(Box::pin(sleep(LOOK)));
        }
    }
}
