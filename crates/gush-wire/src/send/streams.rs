//! The streams of a session: the first one, and those that join it while the queue is full.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::thread::{Builder, Scope};
use std::time::Duration;

use gush::Unpoisoned;

use super::Session;
use super::ahead::Ahead;
use super::queue::Behind;
use crate::error::Error;
use crate::frame::{Input, Output};
use crate::join::{self, Host};
use crate::record::{Streams, ToReceiver, ToSender, Token};

/// The way to the other machine, for more than a pair of streams.
pub trait Transport: Sync {
    /// Can opening a pair of streams ask the user? Then none is opened before the first one
    /// answers.
    fn may_ask(&self) -> bool {
        true
    }

    /// Opens another pair of streams: from the other side, and to it.
    ///
    /// # Errors
    /// When it cannot be opened; the copy continues with those that it has.
    fn open(&self, _shows_errors: bool) -> Result<(File, File), Error> {
        Err(Error::Local("this transport has one stream".into()))
    }

    /// Ends all streams but the first: everything is answered.
    fn release(&self) {}

    /// Is told why the session fails, before [`end`](Self::end).
    fn fails(&self, _why: Error) {}

    /// Ends all streams after a failure; a thread may be blocked in one.
    fn end(&self) {}
}

/// No stream can be added.
impl Transport for () {}

/// If files have waited for this long, the first stream is slower than the walk.
const BEHIND: Duration = Duration::from_millis(100);

/// A stream to the other side, until it is closed.
pub(super) struct Stream {
    output: Mutex<Option<Output>>,
    is_first: bool,
}

impl Stream {
    pub fn first(output: Output) -> Self {
        Self { output: Mutex::new(Some(output)), is_first: true }
    }

    fn further(output: Output) -> Self {
        Self { is_first: false, ..Self::first(output) }
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Output) -> Result<T, Error>) -> Result<T, Error> {
        let mut output = self.output.lock().unpoisoned();
        let done = output.as_mut().map_or(Err(Error::Ended), act);
        done.map_err(|error| if self.is_first { error } else { error.further() })
    }

    /// Adds a record. `false` if it is too long.
    pub fn record(&self, record: &ToReceiver) -> Result<bool, Error> {
        self.with(|output| output.record(record))
    }

    pub fn flush(&self) -> Result<(), Error> {
        self.with(Output::flush)
    }

    /// Sends a record on a stream that is another thread's, which may be waiting.
    pub fn send(&self, record: &ToReceiver) -> Result<(), Error> {
        self.with(|output| {
            output.record(record)?;
            output.flush()
        })
    }

    /// Closes the stream, unless a thread writes to it.
    pub fn close_if_idle(&self) {
        if let Ok(mut output) = self.output.try_lock() {
            *output = None;
        }
    }
}

/// Adds streams when they are needed, until everything is sent.
pub(super) fn add<'scope>(
    scope: &'scope Scope<'scope, '_>,
    session: &'scope Session<'_>,
    streams: Streams,
) -> Result<(), Error> {
    let (most, is_asked) = (streams.most(), streams.is_asked());
    if most == 1 || !(is_asked || falls_behind(session)) {
        return Ok(());
    }
    if session.is_served {
        return invite(scope, session);
    }
    let Some(token) = session.invitation() else { return Ok(()) };
    for _ in 1..most {
        let joins = move || session.ends_with(join(session, token, is_asked));
        // A thread that cannot be had is a stream less.
        if Builder::new().spawn_scoped(scope, joins).is_err() {
            break;
        }
    }
    Ok(())
}

/// Waits until the first stream is slower than the walk, or others are open. `false` at the end.
fn falls_behind(session: &Session<'_>) -> bool {
    // Twice in a row: a queue is filled at the start in any case.
    let mut times_behind = 0;
    while times_behind < 2 && !session.ahead.is_some_and(Ahead::is_used) {
        // Of what the receiver may have, it is not known what is sent.
        match session.queue.is_behind(BEHIND / 2, !session.asks) {
            Some(Behind::Much) => return true,
            Some(Behind::Now) => times_behind += 1,
            Some(Behind::Not) => times_behind = 0,
            None => return false,
        }
    }
    true
}

/// Lets the receiver open streams, until the session ends.
fn invite<'scope>(
    scope: &'scope Scope<'scope, '_>,
    session: &'scope Session<'_>,
) -> Result<(), Error> {
    // Without a socket the session goes on with one stream.
    let Ok((host, door)) = Host::listen() else { return Ok(()) };
    let mut state = session.lock();
    if state.is_ended {
        return Ok(());
    }
    state.host = Some(host);
    drop(state);
    session.queue.invite(door.token);
    door.accept_all(|mut input, mut output| {
        let works = move || {
            let welcomed = join::welcome(&mut output, 0).and_then(|()| input.record());
            // The receiver goes on without a stream on which the answer did not arrive.
            if let Ok(ToSender::Joined { number }) = welcomed {
                session.ends_with(work(session, (input, output), number));
            }
        };
        let _ = Builder::new().spawn_scoped(scope, works);
    });
    Ok(())
}

/// Opens a stream and works for it. A stream that cannot be opened is done without.
fn join(session: &Session<'_>, token: Token, is_asked: bool) -> Result<(), Error> {
    let ahead = session.ahead.and_then(Ahead::take);
    let joined = match ahead.map(|streams| join::join(streams, token)) {
        // The first login can be what lets the others in, as with a shared connection of ssh.
        None | Some(Err(Error::Io { .. } | Error::Silent | Error::Ended)) => {
            session.transport.open(is_asked).and_then(|streams| join::join(streams, token))
        }
        Some(joined) => joined,
    };
    match joined {
        Ok((streams, number)) => work(session, streams, number),
        Err(error) => {
            let state = &mut *session.lock();
            if is_asked && !state.is_finishing && !state.is_ended {
                state.events.warns(&stream_less(session.target, &error));
            }
            Ok(())
        }
    }
}

/// The warning of a stream that cannot be had.
pub(crate) fn stream_less(target: &Path, error: &Error) -> gush_tree::Error {
    let text = format!("warning: the copy goes on with a stream less: {error}");
    gush_tree::Error::reported(target, text)
}

/// Works for a stream. The other side may write to it as long as it is open.
fn work(
    session: &Session<'_>,
    (_input, mut output): (Input, Output),
    number: u32,
) -> Result<(), Error> {
    // Without the first stream nothing is sent: the thread of that one says why.
    if session.first.send(&ToReceiver::Uses { number }).is_err() {
        return Ok(());
    }
    if session.compresses {
        output.compress()?;
    }
    let stream = Stream::further(output);
    session.work(&stream)?;
    // Where it does not arrive, the receiver has all or says what is lost.
    let _ = stream.send(&ToReceiver::Close);
    Ok(())
}
