//! By reference: `splice` through a pipe of ours, or directly where one end is a pipe, and `sendfile`.

use gush::{Errno, MethodName, Port, Side};
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::Interest;

use super::{Did, Failure, Flow, Step, Technique, judge};
use crate::options::Options;
use crate::pool::PIPES;
use crate::tap::Tap;

impl Flow {
    /// May bytes of this flow go through a pipe at all?
    pub(super) fn may_splice(&self) -> bool {
        self.techniques[0] == Technique::Adaptive
    }

    /// Fills the empty pipe, and empties it as far as the target takes it.
    pub(super) fn through_pipe(
        &mut self,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
    ) -> Step {
        let most = self.most_bytes();
        if self.pipe.is_none() {
            self.pipe = PIPES.take();
        }
        let Some(pipe) = &mut self.pipe else {
            return self.without_pipe(source, target, options);
        };
        let filled = source.attempt(Interest::READABLE, |port| {
            may_be_spliced_from(port)?;
            match pipe.fill(port, most) {
                Err(Errno::AGAIN) => nothing_or_urgent(port),
                answer => answer,
            }
        });
        match filled {
            Ok(0) => {
                self.asks = true;
                Ok(Did::Moved)
            }
            Ok(got) => {
                self.took(got, options);
                self.bulk = got >= options.short_message.worth_bytes();
                self.empty_pipe(target, options)
            }
            Err(errno) => judge("splice", Side::Source, errno),
        }
    }

    /// No pipe can be had now: through memory, unless splice was asked for by name.
    fn without_pipe(
        &mut self,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
    ) -> Step {
        if options.choice == gush::Choice::Only(MethodName::Splice) {
            let why =
                "no pipe can be had: the user's pages for pipes or the descriptors are used up";
            return Err(Failure::Refused(MethodName::Splice, why));
        }
        self.copy(source, target, options)
    }

    /// Splices out of the pipe what the target takes.
    pub(super) fn empty_pipe(&mut self, target: &mut Tap<'_>, options: &Options) -> Step {
        let Some(pipe) = &mut self.pipe else { return Ok(Did::Moved) };
        match target.attempt(Interest::WRITABLE, |port| pipe.empty_into(port, u64::MAX)) {
            // A target that takes nothing of something never will.
            Ok(0) => Ok(Did::Refused("splice", Side::Target, Errno::IO)),
            Ok(put) => {
                self.delivered(put, MethodName::Splice, options);
                Ok(Did::Moved)
            }
            Err(errno) => judge("splice", Side::Target, errno),
        }
    }

    /// One call from a pipe, or to one.
    pub(super) fn splice_direct(
        &mut self,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
    ) -> Step {
        let most = self.most_bytes();
        let mut waits = None;
        let answer = source.attempt(Interest::READABLE, |from| {
            may_be_spliced_from(from)?;
            let answer = target.attempt(Interest::WRITABLE, |to| {
                let answer = from.splice_to(to, most);
                if answer == Err(Errno::AGAIN) {
                    waits = Some(who_waits(from, to)?);
                    // Only the side that is not ready may forget that it was.
                    return if waits == Some(Waits::Target) { answer } else { Ok(0) };
                }
                answer
            });
            match (answer, waits) {
                (_, Some(Waits::Source)) => Err(Errno::AGAIN),
                (Err(Errno::AGAIN), _) => {
                    waits = Some(Waits::Target);
                    Ok(0)
                }
                (answer, _) => answer,
            }
        });
        match (waits, answer) {
            (Some(Waits::Neither), _) => {
                self.asks = true;
                Ok(Did::Moved)
            }
            (Some(Waits::Target), _) => Ok(Did::Wait(Side::Target)),
            (Some(Waits::Source), _) | (None, Err(Errno::AGAIN)) => Ok(Did::Wait(Side::Source)),
            (None, answer) => self.moved_at_once("splice", MethodName::Splice, answer, options),
        }
    }

    /// sendfile(2) from a file.
    pub(super) fn send_file(
        &mut self,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
    ) -> Step {
        let most = self.most_bytes();
        let answer = source.attempt(Interest::READABLE, |from| {
            target.attempt(Interest::WRITABLE, |to| from.send_file_to(to, most))
        });
        self.moved_at_once("sendfile", MethodName::Sendfile, answer, options)
    }

    fn moved_at_once(
        &mut self,
        call: &'static str,
        method: MethodName,
        answer: Result<usize, Errno>,
        options: &Options,
    ) -> Step {
        match answer {
            Ok(0) => {
                self.asks = true;
                Ok(Did::Moved)
            }
            Ok(moved) => {
                self.took(moved, options);
                self.delivered(moved, method, options);
                Ok(Did::Moved)
            }
            Err(errno) => judge(call, Side::Target, errno),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Source,
    Target,
    /// It was so and is not any more, or urgent data is in the way.
    Neither,
}

/// Invariant 5: what can wait is polled first; what has O_NONBLOCK cannot.
fn may_be_spliced_from(port: &Port<'_>) -> Result<(), Errno> {
    if port.is_nonblocking() || port.is_readable()? { Ok(()) } else { Err(Errno::AGAIN) }
}

/// A non-blocking TCP socket answers EAGAIN at the mark of urgent data, with bytes behind it
/// (`tcp_splice_read` of `net/ipv4/tcp.c`): 0, the question that a read must answer, is made of that.
fn nothing_or_urgent(port: &Port<'_>) -> Result<usize, Errno> {
    match port.peek(port.offset(), &mut [0]) {
        Some(Err(errno)) => Err(errno),
        Some(Ok(_)) => Ok(0),
        None => Err(Errno::AGAIN),
    }
}

/// EAGAIN of a direct splice does not say which side it means.
fn who_waits(from: &Port<'_>, to: &Port<'_>) -> Result<Waits, Errno> {
    if !is_ready(from, PollFlags::IN)? {
        return Ok(Waits::Source);
    }
    Ok(if is_ready(to, PollFlags::OUT)? { Waits::Neither } else { Waits::Target })
}

fn is_ready(port: &Port<'_>, events: PollFlags) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(port, events)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(|ready| ready > 0)
}
