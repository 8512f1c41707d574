//! The next call of a fan, and making the call.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

use super::super::{Fds, Op};
use super::Fan;
use crate::sys;

/// One call, to be made by the driver's hand ([`Fan::perform`]) under the driver's gate.
///
/// Targets are counted from 0, other numbers are bytes: the most for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanOp {
    /// A call on the source, into the intake's buffer or pipe; or [`Op::Spill`], from the pipe to
    /// the buffer.
    Intake(Op),
    /// [`Op::Write`] to a target, or a call on the lane's own pipe: [`Op::Empty`],
    /// [`Op::Spill`], [`Op::Ready`] of the target.
    Lane(u16, Op),
    /// The intake's pipe to a target pipe or the lane's own, by tee(2): the bytes stay for the
    /// others.
    Tee(u16),
    /// The same by splice(2), for the last lane that needs the bytes.
    Move(u16, usize),
    /// poll(2) of a target with nothing to take: `EPIPE` if its reader has gone.
    Look(u16),
}

/// The descriptors, lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct FanFds<'fd> {
    /// Where the bytes come from.
    pub source: BorrowedFd<'fd>,
    /// Where they go, in the order of the fan's states.
    pub targets: &'fd [BorrowedFd<'fd>],
}

/// poll(2) of a target: `EPIPE` if its reader has gone.
///
/// # Errors
/// Also that of poll(2).
pub(in crate::flow) fn look(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // No event is requested: POLLERR and POLLHUP are always reported, and mean that the reader has
    // left.
    if sys::pipe::is_ready(fd, PollFlags::empty())? { Err(Errno::PIPE) } else { Ok(0) }
}

impl Fan {
    /// Makes the call named by [`Fan::next`]. Every system call of a fan is made here.
    ///
    /// Pass the answer to [`Fan::learn`]. The kernel sends SIGPIPE where a pipe has no reader; to
    /// survive a lost target a program ignores the signal, as Rust's programs do.
    ///
    /// # Errors
    /// The kernel's answer; `EAGAIN` where a side cannot go on; `EBADF` for a side in memory.
    pub fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize> {
        let fd_of = |target: u16| fds.targets.get(usize::from(target)).copied().ok_or(Errno::BADF);
        let fds_of = |target| fd_of(target).map(|to| Fds { source: fds.source, target: to });
        match op {
            // Nothing of the intake's concerns a target.
            FanOp::Intake(op) => {
                self.intake.perform(op, Fds { source: fds.source, target: fds.source })
            }
            FanOp::Lane(target, op) if self.is_common(target, op) => {
                let fds = fds_of(target)?;
                self.with_common(target, |outlet| outlet.perform(op, fds))
            }
            FanOp::Lane(target, op) => {
                self.lanes[usize::from(target)].outlet.perform(op, fds_of(target)?)
            }
            FanOp::Tee(target) => {
                let Some(pipe) = &self.intake.held.pipe else { return Err(Errno::NOMEM) };
                // All that is there: a shorter tee could not be continued.
                let most = usize::try_from(pipe.held_bytes()).unwrap_or(usize::MAX);
                let to = self.entrance(target, fd_of(target)?);
                sys::pipe::tee(pipe.read_end(), to, most, SpliceFlags::NONBLOCK)
            }
            FanOp::Move(target, most) => {
                let Some(pipe) = &self.intake.held.pipe else { return Err(Errno::NOMEM) };
                let to = self.entrance(target, fd_of(target)?);
                let flags = SpliceFlags::NONBLOCK;
                sys::pipe::splice(pipe.read_end(), None, to, None, most, flags)
            }
            FanOp::Look(target) => look(fd_of(target)?),
        }
    }

    /// The pipe by which a lane gets the content of the intake's pipe.
    fn entrance<'a>(&'a self, target: u16, fd: BorrowedFd<'a>) -> BorrowedFd<'a> {
        // A target that is no pipe cannot be teed to, so its lane has one of its own.
        self.lane(target).outlet.held.pipe.as_ref().map_or(fd, |pipe| pipe.write_end())
    }
}
