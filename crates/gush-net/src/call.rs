//! One call of a flow, made if the sides of the call may be ready, and why a direction failed.

use std::io;
use std::task::{Context, Poll};

use gush::flow::{Flow, Op};
use gush::{Errno, Side};

use crate::counts::Direction;
use crate::error::{End, Error};
use crate::first;
use crate::half::Half;
use crate::sides::{self, Sides};
use crate::tap::Tap;

/// Why a direction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A call of the flow, or the method asked for by name.
    Flow(gush::Error),
    /// A call of the driver.
    Call(&'static str, Side, io::Error),
    /// The source is a file that became shorter before so many bytes were sent.
    Cut(u64),
    /// The source has ended, but not properly.
    Withheld,
}

impl Failure {
    pub(crate) fn into_error(self, direction: Direction) -> Error {
        match self {
            Failure::Flow(error) => Error::of_flow(error, direction),
            Failure::Call(call, side, io) => Error::failed(call, End::of(direction, side), io),
            Failure::Cut(expected_bytes) => {
                Error::truncated(End::of(direction, Side::Source), expected_bytes)
            }
            Failure::Withheld => Error::withheld(End::of(direction, Side::Source)),
        }
    }

    /// The side that is broken.
    pub(crate) fn side(&self) -> Option<Side> {
        match self {
            // A refusal concerns the pair: neither peer is to blame.
            Failure::Flow(error) if error.is_refused() => None,
            Failure::Flow(error) => error.side(),
            Failure::Call(_, side, _) => Some(*side),
            Failure::Cut(_) | Failure::Withheld => Some(Side::Source),
        }
    }
}

/// A call of a flow, made if the sides of the call may be ready.
pub(crate) enum Attempt {
    /// The kernel's answer, or `EAGAIN` of a side that is known not to be ready.
    Made(Result<usize, Errno>),
    /// Not made: this side is to be waited for.
    NotReady(Side),
    /// Not made: more bytes have come than a short message has, so that the flow decides anew.
    Changed,
}

/// Makes a call: on a stream by its functions, on a descriptor if it may be ready.
pub(crate) fn call(
    direction: Direction,
    flow: &mut Flow,
    op: Op,
    cx: &mut Context<'_>,
    sides: &mut Sides<'_, '_>,
) -> Result<Attempt, Failure> {
    let (side, name, polled) = match (op, &mut sides.source, &mut sides.target) {
        (Op::Read(_), Half::Stream((stream, _)), _) => {
            (Side::Source, "read", sides::poll_read(stream, cx, flow.room(op)))
        }
        (Op::Write, _, Half::Stream((stream, _))) => {
            (Side::Target, "write", sides::poll_write(stream, cx, flow.pending(op)))
        }
        _ => return attempt(direction, flow, op, cx, sides),
    };
    match polled {
        Poll::Ready(Ok(bytes)) => Ok(Attempt::Made(Ok(bytes))),
        // A stream may answer this; the flow takes it for a step of 0 bytes.
        Poll::Ready(Err(io)) if io.kind() == io::ErrorKind::Interrupted => {
            Ok(Attempt::Made(Err(Errno::INTR)))
        }
        Poll::Ready(Err(io)) => Err(Failure::Call(name, side, io)),
        Poll::Pending => Ok(Attempt::NotReady(side)),
    }
}

/// Makes a call on descriptors, and clears the readiness of the side that an `EAGAIN` disproves. A
/// call whose `EAGAIN` names no side is made once both are ready, and clears neither.
fn attempt(
    direction: Direction,
    flow: &mut Flow,
    op: Op,
    cx: &mut Context<'_>,
    sides: &Sides<'_, '_>,
) -> Result<Attempt, Failure> {
    let (fds, source) = (sides.fds(), &sides.source);
    if let Op::Fill(_) = op {
        flow.expect_urgent(source.tap().is_none_or(Tap::may_be_urgent));
    }
    let was_undecided = flow.is_undecided();
    let answer = match flow.clears(op) {
        Some(Side::Source) => match op {
            Op::Read(most) => {
                let mut read = || {
                    // A first part that is copied leaves before the rest, and wakes the peer once
                    // more.
                    if was_undecided && first::may_be_long(direction) {
                        flow.expect_bytes(source.tap().map_or(0, Tap::unread_bytes));
                    }
                    match was_undecided == flow.is_undecided() {
                        true => flow.perform(op, fds),
                        false => Ok(0),
                    }
                };
                match source.tap() {
                    Some(tap) => tap.attempt_read(most, read),
                    None => read(),
                }
            }
            _ => sides.attempt(Side::Source, || flow.perform(op, fds)),
        },
        Some(Side::Target) => sides.attempt(Side::Target, || flow.perform(op, fds)),
        // EAGAIN of this call names no side, so both have to be ready before it.
        None => {
            let (from, to) = op.touches();
            for (touched, side) in [(from, Side::Source), (to, Side::Target)] {
                if touched && poll_ready(cx, side, sides)?.is_pending() {
                    return Ok(Attempt::NotReady(side));
                }
            }
            flow.perform(op, fds)
        }
    };
    let has_changed = was_undecided != flow.is_undecided();
    if let (true, Op::Read(most), Ok(bytes)) = (was_undecided, op, answer)
        && (has_changed || bytes > 0)
    {
        first::learn(direction, has_changed || bytes == most);
    }
    Ok(if has_changed { Attempt::Changed } else { Attempt::Made(answer) })
}

/// Waits for the next edge of a side, if the last attempt there answered `EAGAIN`.
pub(crate) fn poll_ready(
    cx: &mut Context<'_>,
    side: Side,
    sides: &Sides<'_, '_>,
) -> Poll<Result<(), Failure>> {
    sides.poll_ready(cx, side).map_err(|io| Failure::Call("epoll_wait", side, io))
}
