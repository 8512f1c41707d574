//! Copies one source to several targets: the blocking driver of a fan, or of a backlog.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::access;
use crate::cancel::Cancel;
use crate::endpoint::{Endpoint, Kind};
use crate::error::Error;
use crate::fault::Fault;
use crate::flow::{
    Backlog, Fan, FanFds, FanNext, Interest, Moved, NUMBERS, PortState, Shelf, Spread, Terms, Who,
    count_targets,
};
use crate::method::{MethodName, Refusal};
use crate::mover::Choice;
use crate::pages::Pages;
use crate::pipe::{self, Pool};
use crate::port::Side;
use crate::progress::Control;
use crate::report::leaves_file;
use crate::sys::{self, Call};
use crate::wait::{self, Wait, Waiter};

mod report;
mod stalls;

pub use report::{Loss, TeeReport, TeeTarget};
use stalls::Stalls;

type OnLoss<'a> = &'a mut (dyn FnMut(&Loss) -> Control + Send);

/// Copies a source to several targets: each gets every byte, in order, by reference where tee(2)
/// and splice(2) can, else from one buffer.
///
/// A failed target is left out, unless [`Tee::on_loss`] says otherwise. The slowest target holds
/// the others back by at most one buffer or pipe, and no more is kept in memory, unless
/// [`Tee::backlog_bytes`] is given.
///
/// The process should ignore SIGPIPE, as Rust's programs do: else a lost reader ends it.
///
/// ```
/// use std::io::Write;
///
/// let (source, mut feeder) = std::io::pipe()?;
/// let (left, right) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
/// feeder.write_all(b"to both")?;
/// drop(feeder);
///
/// let report = gush::Tee::new(&source).to(left.as_file()).to(right.as_file()).run()?;
/// assert!(report.is_complete);
/// assert_eq!(report.targets.iter().map(|to| to.delivered_bytes).collect::<Vec<_>>(), [7, 7]);
/// assert_eq!(std::fs::read(left.path())?, std::fs::read(right.path())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tee<'a> {
    source: BorrowedFd<'a>,
    targets: Vec<BorrowedFd<'a>>,
    terms: Terms,
    pipe_bytes: Option<usize>,
    sees_hang_ups: bool,
    most_stall: Option<Duration>,
    backlog_bytes: Option<usize>,
    on_loss: Option<OnLoss<'a>>,
    cancel: Option<&'a Cancel>,
    account: MethodAccount,
}

/// By which methods bytes moved, and which were refused.
#[derive(Default)]
struct MethodAccount {
    methods: Vec<(MethodName, u64)>,
    refusals: Vec<Refusal>,
}

impl MethodAccount {
    fn add(&mut self, moved: Moved) {
        if let Some(method) = moved.method.filter(|_| moved.delivered_bytes > 0) {
            match self.methods.iter_mut().find(|(name, _)| *name == method) {
                Some((_, bytes)) => *bytes += moved.delivered_bytes,
                None => self.methods.push((method, moved.delivered_bytes)),
            }
        }
        // Each lane is refused by itself.
        self.refusals
            .extend(moved.refusal.map(|why| *why).filter(|why| !self.refusals.contains(why)));
    }
}

impl fmt::Debug for Tee<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, targets, .. } = self;
        f.debug_struct("Tee").field("source", source).field("targets", targets).finish()
    }
}

impl<'a> Tee<'a> {
    /// From a source, read at the descriptor's position.
    #[must_use]
    pub fn new(source: &'a impl AsFd) -> Self {
        Self {
            source: source.as_fd(),
            targets: Vec::new(),
            // A call that holds the thread would hold back every target.
            terms: Terms { never_held: true, ..Terms::default() },
            pipe_bytes: None,
            sees_hang_ups: false,
            most_stall: None,
            backlog_bytes: None,
            on_loss: None,
            cancel: None,
            account: MethodAccount::default(),
        }
    }

    /// One more target, written at the descriptor's position.
    #[must_use]
    pub fn to(mut self, target: &'a impl AsFd) -> Self {
        self.targets.push(target.as_fd());
        self
    }

    /// The method, as [`Mover::method`](crate::Mover::method) takes it.
    #[must_use]
    pub fn method(mut self, choice: Choice) -> Self {
        self.terms.choice = choice;
        self
    }

    /// Excludes methods by which later writes to a source file show in what was already sent, as
    /// [`Mover::isolated`](crate::Mover::isolated) does.
    #[must_use]
    pub fn isolated(mut self, yes: bool) -> Self {
        self.terms.isolated = yes;
        self
    }

    /// Takes so many bytes at most.
    ///
    /// ```
    /// let (source, target) = (std::fs::File::open("/dev/zero")?, std::io::pipe()?);
    /// let report = gush::Tee::new(&source).to(&target.1).length_bytes(4096).run()?;
    /// assert_eq!((report.taken_bytes, report.is_complete), (4096, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn length_bytes(mut self, bytes: u64) -> Self {
        self.terms.length_bytes = Some(bytes);
        self
    }

    /// The size of the buffer through which bytes go that pass through memory; at most
    /// [`Tuning::MOST_BUFFER_BYTES`](crate::Tuning::MOST_BUFFER_BYTES) is used.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.terms.buffer_bytes = bytes;
        self
    }

    /// Other terms of the flow; the default has `never_held` set.
    #[cfg(feature = "unstable-flow")]
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Makes the pipes of both sides as large as this or as permitted, for good; 1 leaves them as
    /// they are. The default is 1 MiB, or a sixteenth of the user's memory for pipes if that is
    /// less.
    #[must_use]
    pub fn pipe_bytes(mut self, bytes: usize) -> Self {
        self.pipe_bytes = Some(bytes);
        self
    }

    /// Loses a pipe or stream as soon as its reader has gone, also while the source idles. Without
    /// this the next byte sent there finds out.
    ///
    /// ```
    /// let (idle, _feeder) = std::io::pipe()?;
    /// let (reader, target) = std::io::pipe()?;
    /// drop(reader);
    /// let report = gush::Tee::new(&idle).to(&target).sees_hang_ups().run()?;
    /// assert!(report.targets[0].failure.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sees_hang_ups(mut self) -> Self {
        self.sees_hang_ups = true;
        self
    }

    /// Loses a target that holds others back for so long without taking a byte, with `ETIMEDOUT`.
    /// If all remaining targets lack room, none holds back others. A reader that empties a socket's
    /// or pipe's buffer counts as taking bytes.
    ///
    /// ```
    /// use std::time::Duration;
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let ((_stuck, slow), whole) = (std::io::pipe()?, tempfile::NamedTempFile::new()?);
    /// let tee = gush::Tee::new(&zeros).to(&slow).to(whole.as_file()).length_bytes(4 << 20);
    /// let report = tee.most_stall(Duration::from_millis(10)).run()?;
    /// assert!(report.targets[0].failure.is_some());
    /// assert_eq!(report.targets[1].delivered_bytes, 4 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn most_stall(mut self, duration: Duration) -> Self {
        self.most_stall = Some(duration);
        self
    }

    /// Lets a slow target lag by so many bytes and one buffer, kept in memory. All bytes then pass
    /// through memory: methods by reference are refused, and so are datagrams between two sockets.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// let (zeros, whole) = (std::fs::File::open("/dev/zero")?, tempfile::NamedTempFile::new()?);
    /// let (mut late, slow) = std::io::pipe()?;
    /// std::thread::scope(|scope| {
    ///     let tee = gush::Tee::new(&zeros).to(&slow).to(whole.as_file()).length_bytes(4 << 20);
    ///     let copied = scope.spawn(|| tee.backlog_bytes(4 << 20).run());
    ///     // Nobody reads from the pipe, and the file gets everything.
    ///     while whole.as_file().metadata()?.len() < 4 << 20 {
    ///         std::thread::yield_now();
    ///     }
    ///     late.read_exact(&mut vec![0; 4 << 20])?;
    ///     assert!(copied.join().unwrap().unwrap().is_complete);
    ///     std::io::Result::Ok(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn backlog_bytes(mut self, bytes: usize) -> Self {
        self.backlog_bytes = Some(bytes).filter(|&bytes| bytes > 0);
        self
    }

    /// Called for each failed target; says whether the others go on. After [`Control::Stop`]
    /// nothing more is taken, and the bytes in flight are delivered to the others.
    #[must_use]
    pub fn on_loss(mut self, on_loss: &'a mut (dyn FnMut(&Loss) -> Control + Send)) -> Self {
        self.on_loss = Some(on_loss);
        self
    }

    /// May be ended from another thread, as by [`Mover::cancelled_by`](crate::Mover::cancelled_by).
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Copies until the source ends, no target is left, or somebody cancels.
    ///
    /// `Ok` with [`TeeReport::is_complete`] means that every target that did not fail has the whole
    /// source; [`TeeReport::failed`] names the others.
    ///
    /// # Errors
    /// The source's failure: every remaining target has [`Error::delivered_bytes`]. A refused named
    /// method. Cancelling: the counts are the slowest target's.
    pub fn run(mut self) -> Result<TeeReport, Error> {
        let targets = std::mem::take(&mut self.targets);
        count_targets(targets.len()).map_err(Error::refused)?;
        let Prepared { source, source_at, targets: states, unwritable } = self.prepare(&targets)?;
        let mut leave = states.iter().map(|to| leaves_file(source.kind(), to.kind()));
        let leaves_file = leave.any(|leaves| leaves);
        let report = match self.backlog_bytes {
            None => {
                let fan = Fan::between(source, &states, &self.terms).map_err(Error::refused)?;
                self.drive(fan, &targets, unwritable, source_at)
            }
            Some(bytes) => {
                let (call, side) = (Call::Mmap, Side::Source);
                let ring = Pages::new(bytes)
                    .map_err(|errno| Error::failed(Fault { call, side, errno }))?;
                let backlog = Backlog::between(source, &states, &self.terms, ring, bytes);
                self.drive(backlog.map_err(Error::refused)?, &targets, unwritable, source_at)
            }
        };
        report.map(|report| TeeReport { leaves_file, ..report })
    }

    fn drive(
        mut self,
        mut fan: impl Spread,
        targets: &[BorrowedFd<'a>],
        unwritable: Vec<(u16, Fault)>,
        source_at: Option<u64>,
    ) -> Result<TeeReport, Error> {
        let outcome = self.pump(&mut fan, targets, unwritable);
        let put_back = self.put_back(&fan, source_at);
        let taken_bytes = *put_back.as_ref().unwrap_or(&fan.taken_bytes());
        match outcome.and_then(|is_complete| put_back.map(|_| is_complete)) {
            Ok(is_complete) => Ok(account_of(&fan, taken_bytes, is_complete, self.account)),
            Err(error) => {
                // The slowest of the living: all of them have at least that much.
                let slowest = numbers(&fan).filter(|&target| fan.is_live(target));
                let slowest = slowest.map(|target| fan.delivered_bytes(target)).min();
                let delivered_bytes = slowest.unwrap_or(taken_bytes);
                Err(error.after(delivered_bytes, taken_bytes - delivered_bytes))
            }
        }
    }

    /// Drives the fan; answers whether the source was copied to the end.
    fn pump(
        &mut self,
        fan: &mut impl Spread,
        targets: &[BorrowedFd<'a>],
        mut unwritable: Vec<(u16, Fault)>,
    ) -> Result<bool, Error> {
        let mut shelf = Shelf::new(Pool::shared().clone());
        // Two programs at a pipe wait for each other often; a look saves each a wake-up.
        let mut waiter = Waiter::new(Wait::Auto);
        let fds = FanFds { source: self.source, targets };
        let mut stalls = Stalls::new(self.most_stall, targets.len());
        let mut may_take_bytes = u64::MAX;
        // At 0 nothing more is taken: the fan is throttled once nothing is in flight, and a wait is
        // for a target alone.
        loop {
            if self.is_cancelled() {
                may_take_bytes = 0;
            }
            match fan.next(may_take_bytes, &mut shelf) {
                FanNext::Do(op) => {
                    let answer = fan.perform(op, fds);
                    self.account.add(fan.learn(op, answer));
                    // As write(2) would fail: once there is something to be written.
                    if fan.taken_bytes() > 0 {
                        unwritable.drain(..).for_each(|(target, fault)| fan.fail(target, fault));
                    }
                }
                // Bytes in flight for a stuck target must not hold the end (invariant 7).
                FanNext::Wait if self.is_cancelled() => return Err(Error::cancelled()),
                FanNext::Wait => {
                    // An idle tee keeps neither pipe nor buffer from others.
                    fan.rest(&mut shelf);
                    self.wait(fan, fds, &mut waiter, &mut stalls).map_err(Error::failed)?;
                }
                FanNext::Lost(target) => {
                    if self.lost(fan, target) == Control::Stop {
                        may_take_bytes = 0;
                    }
                }
                FanNext::Throttled if self.is_cancelled() => return Err(Error::cancelled()),
                FanNext::Throttled | FanNext::Deserted => return Ok(false),
                FanNext::Ended(_) => return Ok(true),
                FanNext::Failed(failure) => return Err((*failure).into()),
            }
        }
    }

    /// A file still has the bytes that no target got: its position is set after the last that one
    /// has. Returns how many bytes were taken for good.
    fn put_back(&self, fan: &impl Spread, source_at: Option<u64>) -> Result<u64, Error> {
        let taken_bytes = fan.taken_bytes();
        let delivered_bytes = numbers(fan).map(|target| fan.delivered_bytes(target)).max();
        let Some((at, delivered_bytes)) = source_at.zip(delivered_bytes) else {
            return Ok(taken_bytes);
        };
        if delivered_bytes < taken_bytes {
            let (call, side) = (Call::Lseek, Side::Source);
            sys::file::seek(self.source, SeekFrom::Start(at + delivered_bytes))
                .map_err(|errno| Error::failed(Fault { call, side, errno }))?;
        }
        Ok(delivered_bytes)
    }

    /// Looks at both sides, and enlarges their pipes.
    fn prepare(&self, targets: &[BorrowedFd<'a>]) -> Result<Prepared, Error> {
        let failed = |(call, errno), side| Error::failed(Fault { call, side, errno });
        let look = |fd: BorrowedFd<'a>, side| -> Result<_, Error> {
            let endpoint = Endpoint::look(fd).map_err(|why| failed(why, side))?;
            if endpoint.kind() == Kind::Pipe {
                // A pipe that stays small is slower, and nothing else.
                let _ = pipe::grow(fd, pipe::asked_bytes(self.pipe_bytes, pipe::USUAL_BYTES));
            }
            Ok(endpoint)
        };
        let source = look(self.source, Side::Source)?;
        access::check(&source, Side::Source).map_err(Error::failed)?;
        let mut unwritable = Vec::new();
        let mut states = Vec::with_capacity(targets.len());
        for (number, &fd) in NUMBERS.zip(targets) {
            let target = look(fd, Side::Target)?;
            match access::check(&target, Side::Target) {
                Err(why) => unwritable.push((number, why)),
                // What is written would be read again, for ever where the target appends.
                Ok(()) if source.is_same_content(&target) => return Err(Error::same_file()),
                Ok(()) => {}
            }
            // Looked at after its pipe was grown, whose capacity it knows.
            states.push(PortState::of_endpoint(&target, None));
        }
        let source_at = source.position().filter(|_| source.has_offsets());
        let source = PortState::of_endpoint(&source, None);
        Ok(Prepared { source, source_at, targets: states, unwritable })
    }

    fn lost(&mut self, fan: &impl Spread, target: u16) -> Control {
        let (Some(failure), Some(on_loss)) = (fan.failure(target), &mut self.on_loss) else {
            return Control::Continue;
        };
        on_loss(&Loss {
            target: target.into(),
            delivered_bytes: fan.delivered_bytes(target),
            failure: failure.clone(),
        })
    }

    /// Waits for any side named by the fan, and wakes each side with an event.
    fn wait(
        &self,
        fan: &mut impl Spread,
        fds: FanFds<'_>,
        waiter: &mut Waiter,
        stalls: &mut Stalls,
    ) -> Result<(), Fault> {
        let (mut sides, mut polled) = (Vec::new(), Vec::new());
        fan.waits(&mut |who, interest| {
            let events = match interest {
                Interest::Readable => PollFlags::IN,
                Interest::Writable => PollFlags::OUT,
                Interest::HangUp if !self.sees_hang_ups => return,
                Interest::HangUp => PollFlags::empty(),
            };
            let fd = match who {
                Who::Source => fds.source,
                Who::Target(target) => {
                    if interest == Interest::Writable && fan.is_held_by(target) {
                        stalls.waits(target);
                    } else {
                        // A target that waits for the source, or for another, holds nobody back.
                        stalls.goes_on(target);
                    }
                    fds.targets[usize::from(target)]
                }
            };
            sides.push(who);
            polled.push(PollFd::from_borrowed_fd(fd, events));
        });
        // The sooner of the two: the canceller is asked, or a stall has lasted long enough.
        let slice = wait::longest(self.cancel.is_some()).into_iter().chain(stalls.left()).min();
        let began = Instant::now();
        waiter.for_any(&mut polled, slice).map_err(|errno| Fault {
            call: Call::Poll,
            side: Side::Source,
            errno,
        })?;
        let late = slice.and_then(|slice| began.elapsed().checked_sub(slice));
        stalls.leave_out(late.unwrap_or_default());
        for (who, fd) in sides.into_iter().zip(&polled) {
            if !fd.revents().is_empty() {
                fan.wake(who);
                if let Who::Target(target) = who {
                    stalls.goes_on(target);
                }
            }
        }
        let live = numbers(fan).filter(|&target| fan.is_live(target)).count();
        // Where all stall nobody holds the others back: they may share one stopped terminal.
        let holds_back = stalls.stalled() < live;
        let untaken = |target| crate::socket::untaken_bytes(&fds.targets[usize::from(target)]);
        stalls.over(untaken, &mut |target| {
            if holds_back {
                let (call, side) = (Call::Poll, Side::Target);
                fan.fail(target, Fault { call, side, errno: Errno::TIMEDOUT });
            }
        });
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::is_cancelled)
    }
}

/// The facts about the two sides before the first byte.
struct Prepared {
    source: PortState,
    /// The source's position, if a file.
    source_at: Option<u64>,
    targets: Vec<PortState>,
    /// Targets that are not open for writing: lost with the first byte.
    unwritable: Vec<(u16, Fault)>,
}

fn account_of(
    fan: &impl Spread,
    taken_bytes: u64,
    is_complete: bool,
    account: MethodAccount,
) -> TeeReport {
    let target = |at| TeeTarget {
        delivered_bytes: fan.delivered_bytes(at),
        failure: fan.failure(at).cloned(),
    };
    let targets = numbers(fan).map(target).collect();
    let MethodAccount { methods, refusals } = account;
    TeeReport { taken_bytes, targets, is_complete, methods, refusals, leaves_file: false }
}

fn numbers(fan: &impl Spread) -> impl Iterator<Item = u16> + '_ {
    NUMBERS.take(fan.targets())
}
