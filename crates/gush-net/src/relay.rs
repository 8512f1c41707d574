//! A relay between two ends.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gush::{Rate, Side};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::call::Failure;
use crate::carry::{PipeEnds, RelayState};
use crate::conduit::Conduit;
use crate::counts::Direction;
use crate::drive::Driver;
use crate::ends::{self, BothWays, Ends, OneWay};
use crate::error::{End, Error, Totals};
use crate::half::{Half, Halves};
use crate::options::RelayOptions;
use crate::sides::Opened;
use crate::silence::Silence;
use crate::tap::Tap;

mod poll;

use poll::Watches;

/// Relays between `a` and `b` until both have sent their last byte. Takes and returns what
/// `tokio::io::copy_bidirectional` does, and moves the bytes of sockets inside the kernel.
///
/// After an error in one direction, what the other direction has received by then is still
/// delivered as far as the target takes it at once; tokio's function delivers nothing more.
/// [`Relay::run`] waits for such a target, has options, and returns a longer account.
///
/// # Cancellation
/// If the future is dropped, bytes that were taken and not delivered are lost. A [`Relay`] keeps
/// them.
///
/// # Errors
/// The operating system's error, as from tokio's function, with its
/// [`raw_os_error`](io::Error::raw_os_error). [`Relay::run`] also reports the call and the end that
/// failed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use gush_net::copy_bidirectional;
/// use tokio::io::AsyncWriteExt;
///
/// let (mut client, mut a) = tokio::net::UnixStream::pair()?;
/// let (mut b, mut server) = tokio::io::duplex(64);
/// client.write_all(b"there").await?;
/// client.shutdown().await?;
/// server.write_all(b"and back").await?;
/// server.shutdown().await?;
/// assert_eq!(copy_bidirectional(&mut a, &mut b).await?, (5, 8));
/// # Ok(()) }
/// ```
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut relay = Relay::new(&RelayOptions::new());
    relay.waits_after_failure = false;
    let ends = BothWays { a: opened(a, End::A)?, b: opened(b, End::B)? };
    let totals = relay.drive(ends).await?;
    Ok((totals.forward.bytes, totals.back.bytes))
}

/// Copies from `reader` to `writer` until the end, and flushes the writer. Takes and returns what
/// `tokio::io::copy` does, and moves the bytes of sockets inside the kernel. [`Relay::copy`] has
/// options, and returns a longer account.
///
/// # Cancellation
/// As [`copy_bidirectional`].
///
/// # Errors
/// As [`copy_bidirectional`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let (mut written, mut reader) = (Vec::new(), &b"from anything to anything"[..]);
/// assert_eq!(gush_net::copy(&mut reader, &mut written).await?, 25);
/// assert_eq!(written, b"from anything to anything");
/// # Ok(()) }
/// ```
pub async fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    Ok(Relay::new(&RelayOptions::new()).copy(reader, writer).await?.forward.bytes)
}

/// A relay with options, which owns the bytes in flight.
///
/// When the future of one of its functions is dropped, nothing is lost: call the same function
/// again with the same ends, and it goes on from there. So it does after a time limit, and after a
/// failure, unless that was final: then it fails again.
///
/// After a call that returns [`EndReason::Closed`](crate::EndReason::Closed) the relay begins anew,
/// with the same or other ends: a server sends one file after the other on a connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::UnixStream;
///
/// let (mut client, mut a) = UnixStream::pair()?;
/// let (mut b, mut server) = UnixStream::pair()?;
/// let mut relay = gush_net::Relay::new(&gush_net::RelayOptions::new());
/// client.write_all(b"before").await?;
/// let cancelled =
///     tokio::time::timeout(Duration::from_millis(20), relay.run(&mut a, &mut b)).await;
/// assert!(cancelled.is_err());
///
/// client.write_all(b" and after").await?;
/// drop(client);
/// server.shutdown().await?;
/// relay.run(&mut a, &mut b).await?;
/// let mut all = String::new();
/// server.read_to_string(&mut all).await?;
/// assert_eq!(all, "before and after");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Relay {
    options: RelayOptions,
    /// Forward and back.
    drivers: [Driver; 2],
    /// Under a time limit, from the first poll on.
    silence: Option<Box<Silence>>,
    /// How many directions have ended.
    ended_directions: usize,
    failed: Option<Box<(Direction, Failure)>>,
    /// Has a target some time for its last bytes after a failure? That takes a timer, which not
    /// every runtime has.
    waits_after_failure: bool,
    /// Goes on from the state of another process, whose silence counts.
    is_carried: bool,
}

/// Opens an end, or fails as the call on it that registers it with epoll.
fn opened<E: ?Sized>(end: &mut E, name: End) -> Result<Opened<'_, E>, Error> {
    ends::open(end).map_err(|io| Error::failed("epoll_ctl", name, io))
}

/// A file as an end, at an offset.
fn file_at(file: &File, at: u64, name: End) -> Result<Opened<'_, Conduit>, Error> {
    let tap = Tap::file(file.as_fd(), at).map_err(|io| Error::failed("fstat", name, io))?;
    Ok(Halves::Joint(Half::Fd(tap)))
}

impl Relay {
    /// A relay that has moved nothing yet.
    #[must_use]
    pub fn new(options: &RelayOptions) -> Self {
        Self {
            options: options.clone(),
            drivers: Direction::ALL.map(|direction| {
                Driver::new(direction, options.limit.as_ref().map(Rate::separate))
            }),
            silence: None,
            ended_directions: 0,
            failed: None,
            waits_after_failure: true,
            is_carried: false,
        }
    }

    /// The state of the relay, so that another process can go on with it ([`Relay::carry_on`]); for
    /// each direction with the pipe of bytes in flight. `None` if a part of the state cannot move:
    /// after a failure, for example. Call this method only between two runs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io::{Read, Write};
    /// use std::time::Duration;
    /// use std::os::unix::net::UnixStream;
    /// use gush_net::{Conduit, Direction, Relay, RelayOptions};
    ///
    /// let (mut client, near) = UnixStream::pair()?;
    /// let (far, mut server) = UnixStream::pair()?;
    /// let (mut a, mut b) = (Conduit::new(near.into())?, Conduit::new(far.into())?);
    /// let options = RelayOptions::new();
    /// let mut relay = Relay::new(&options);
    /// client.write_all(b"before")?;
    /// assert!(gush_net::within(Duration::from_millis(20), relay.run(&mut a, &mut b)).await.is_err());
    ///
    /// // These, and the descriptors, go to another process.
    /// let (state, pipes) = relay.state().expect("it moves");
    /// assert!(pipes.iter().all(Option::is_none), "nothing is in flight");
    /// let copy = |end: &Conduit| -> std::io::Result<Conduit> {
    ///     let parts = end.parts().expect("they are descriptors");
    ///     let copied = parts.into_iter().map(|(part, fd)| Ok((part, fd.try_clone_to_owned()?)));
    ///     Conduit::of_parts(copied.collect::<std::io::Result<_>>()?)
    /// };
    /// let (mut a, mut b) = (copy(&a)?, copy(&b)?);
    /// let mut relay = Relay::carry_on(&options, state, [None, None], [&a, &b])?;
    ///
    /// client.write_all(b" and after")?;
    /// drop(client);
    /// server.shutdown(std::net::Shutdown::Write)?;
    /// let totals = relay.run(&mut a, &mut b).await?;
    /// assert_eq!(totals.forward.bytes, 16);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn state(&self) -> Option<(RelayState, [PipeEnds<BorrowedFd<'_>>; 2])> {
        let [forward, back] = &self.drivers;
        let ((forward, forward_pipe), (back, back_pipe)) = forward.state().zip(back.state())?;
        let (directions, quiet) = (
            [forward, back],
            self.silence.as_ref().map_or(Duration::ZERO, |silence| silence.lasts()),
        );
        let state = RelayState { directions, quiet };
        self.failed.is_none().then_some((state, [forward_pipe, back_pipe]))
    }

    /// A relay between the ends of another process, which goes on from its `state`. No byte moves
    /// before [`Relay::run`]. A rate limit begins anew.
    ///
    /// # Errors
    /// `InvalidData` if the pipes do not hold the bytes that the state says; errors of looking at
    /// them.
    pub fn carry_on(
        options: &RelayOptions,
        state: RelayState,
        pipes: [PipeEnds<OwnedFd>; 2],
        ends: [&Conduit; 2],
    ) -> io::Result<Self> {
        let mut relay = Self::new(options);
        let RelayState { directions, quiet } = state;
        for ((direction, mut state), pipe) in Direction::ALL.into_iter().zip(directions).zip(pipes)
        {
            let source = ends[direction as usize];
            let source = source.read_fd().zip(source.port(Side::Source));
            let flow = state.flow(direction, ends, options, pipe)?;
            let driver = relay.driver(direction);
            driver.carry_on(&state, flow, source);
            let (taken_bytes, delivered_bytes) = (driver.taken_bytes(), state.delivered_bytes);
            options.counts.take(direction, taken_bytes);
            options.counts.deliver(direction, delivered_bytes);
        }
        relay.ended_directions = relay.drivers.iter().filter(|driver| driver.is_done()).count();
        let activity = relay.drivers.iter().map(Driver::activity).sum();
        relay.silence = (!quiet.is_zero()).then(|| Box::new(Silence::after(activity, quiet)));
        relay.is_carried = true;
        Ok(relay)
    }

    /// Relays between `a` and `b` until both have sent their last byte, passing on each end of data
    /// once everything before the end is delivered.
    ///
    /// A direction that an end does not have (of a file opened for reading only, say) is left out.
    /// After a failure of one direction, bytes that the other's source has received by then are
    /// still delivered, unless the target there makes no progress for a second.
    ///
    /// # Errors
    /// Which call failed on which end, with the bytes that had gone each way; or a method asked for
    /// by name that cannot serve these ends.
    ///
    /// # Panics
    /// After a failure, or with a limit of time or rate, if the runtime has no timers
    /// ([`enable_time`](tokio::runtime::Builder::enable_time)). [`copy_bidirectional`] needs none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{EndReason, Relay, RelayOptions};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use tokio::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let mut client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (mut a, _) = listener.accept().await?;
    /// let mut server = TcpStream::connect(listener.local_addr()?).await?;
    /// let (mut b, _) = listener.accept().await?;
    ///
    /// let relay = tokio::spawn(async move {
    ///     Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await
    /// });
    /// client.write_all(b"question").await?;
    /// client.shutdown().await?;
    /// let mut question = String::new();
    /// server.read_to_string(&mut question).await?;
    /// server.write_all(b"answer").await?;
    /// drop(server);
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer).await?;
    /// assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
    /// assert_eq!(relay.await??.ended, EndReason::Closed);
    /// # Ok(()) }
    /// ```
    pub async fn run<A, B>(&mut self, a: &mut A, b: &mut B) -> Result<Totals, Error>
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        self.waits_after_failure = true;
        // Awaited in the same statement, the ends would stay in the future a second time.
        let relayed = self.drive(BothWays { a: opened(a, End::A)?, b: opened(b, End::B)? });
        relayed.await
    }

    /// Copies from the source to the target until the source's end, as the forward direction. The
    /// target is left open.
    ///
    /// A target that keeps bytes back is flushed at the end, and whenever the source has nothing.
    /// After a failure of the source the flush is begun, and not waited for; `tokio::io::copy`
    /// begins none.
    ///
    /// # Errors
    /// As [`Relay::run`]; `EBADF` if one of the ends was not opened for its direction.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Relay, RelayOptions};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// let (mut client, near) = tokio::net::UnixStream::pair()?;
    /// let (far, mut server) = tokio::net::UnixStream::pair()?;
    /// client.write_all(b"one way").await?;
    /// client.shutdown().await?;
    ///
    /// let ((mut source, _), (_unused, mut target)) = (near.into_split(), far.into_split());
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// assert_eq!(relay.copy(&mut source, &mut target).await?.forward.bytes, 7);
    ///
    /// let mut arrived = [0; 7];
    /// server.read_exact(&mut arrived).await?;
    /// # Ok(()) }
    /// ```
    pub async fn copy<S, T>(&mut self, source: &mut S, target: &mut T) -> Result<Totals, Error>
    where
        S: AsyncRead + Unpin + ?Sized,
        T: AsyncWrite + Unpin + ?Sized,
    {
        self.copy_between(opened(source, End::A)?, opened(target, End::B)?, None)?.await
    }

    fn copy_between<'a, S, T>(
        &mut self,
        source: Opened<'a, S>,
        target: Opened<'a, T>,
        length_bytes: Option<u64>,
    ) -> Result<impl Future<Output = Result<Totals, Error>>, Error>
    where
        S: AsyncRead + Unpin + ?Sized,
        T: AsyncWrite + Unpin + ?Sized,
    {
        for (there, call, end) in [
            (source.get(Side::Source).is_some(), "read", End::A),
            (target.get(Side::Target).is_some(), "write", End::B),
        ] {
            if !there {
                return Err(Error::failed(call, end, gush::Errno::BADF.into()));
            }
        }
        self.driver(Direction::Forward).expect_length(length_bytes);
        self.waits_after_failure = false;
        Ok(self.drive(OneWay { source, target }))
    }

    /// Sends a part of a file, or all (`..`), inside the kernel where possible. The file's own
    /// position is neither used nor changed; the target is left open.
    ///
    /// Pages of the file that are not in memory are read by the calling thread. Unless
    /// [`RelayOptions::isolated`] is set, a write to the file before the peer has received the
    /// bytes shows in the bytes received.
    ///
    /// # Errors
    /// As [`Relay::copy`]; and an error that [`Error::is_truncated`] if the file is shorter than
    /// the range, or was cut while it was sent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io::Write;
    /// use gush_net::{Relay, RelayOptions};
    /// use tokio::io::AsyncReadExt;
    /// let mut file = tempfile::tempfile()?;
    /// file.write_all(b"header, body")?;
    /// let (mut near, mut far) = tokio::net::UnixStream::pair()?;
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// assert_eq!(relay.send_file(&file, 8.., &mut near).await?.forward.bytes, 4);
    /// drop(near);
    /// let mut arrived = String::new();
    /// far.read_to_string(&mut arrived).await?;
    /// assert_eq!(arrived, "body");
    /// # Ok(()) }
    /// ```
    pub async fn send_file<T>(
        &mut self,
        file: &File,
        range: impl RangeBounds<u64> + Send,
        target: &mut T,
    ) -> Result<Totals, Error>
    where
        T: AsyncWrite + Unpin + ?Sized,
    {
        let begin = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => Some(at.saturating_add(1)),
            Bound::Excluded(&at) => Some(at),
            Bound::Unbounded => None,
        };
        let length_bytes = end.map(|end| end.saturating_sub(begin));
        let (source, target) = (file_at(file, begin, End::A)?, opened(target, End::B)?);
        self.copy_between(source, target, length_bytes)?.await
    }

    /// Receives into a file from `offset` (in bytes) on, until the source's end. The file's own
    /// position is neither used nor changed, and bytes after the last one received are kept.
    ///
    /// # Errors
    /// As [`Relay::copy`]. A file opened with O_APPEND gets the bytes at its end, not at the offset
    /// (pwrite(2), "BUGS").
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io::Read;
    /// use gush_net::{Relay, RelayOptions};
    /// use tokio::io::AsyncWriteExt;
    /// let (mut near, mut far) = tokio::net::UnixStream::pair()?;
    /// near.write_all(b"upload").await?;
    /// drop(near);
    /// let mut file = tempfile::tempfile()?;
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// assert_eq!(relay.recv_file(&mut far, &file, 0).await?.forward.bytes, 6);
    /// let mut stored = String::new();
    /// file.read_to_string(&mut stored)?;
    /// assert_eq!(stored, "upload");
    /// # Ok(()) }
    /// ```
    pub async fn recv_file<S>(
        &mut self,
        source: &mut S,
        file: &File,
        offset: u64,
    ) -> Result<Totals, Error>
    where
        S: AsyncRead + Unpin + ?Sized,
    {
        self.copy_between(opened(source, End::A)?, file_at(file, offset, End::B)?, None)?.await
    }

    /// Not `async`, which would keep the ends twice in the future of each relay.
    fn drive<'a>(
        &mut self,
        mut ends: impl Ends<'a>,
    ) -> impl Future<Output = Result<Totals, Error>> {
        // The time between two runs is not silence of the ends.
        if !std::mem::take(&mut self.is_carried) {
            self.silence = None;
        }
        self.drivers.iter_mut().for_each(Driver::restart);
        let mut watches = Watches::default();
        poll_fn(move |cx| self.poll(cx, &mut ends, &mut watches))
    }

    /// Gives up one direction without passing on an end: for a target known to read no more.
    pub fn abandon(&mut self, direction: Direction) {
        self.driver(direction).abandon();
    }

    /// Ends one direction as if its source had ended: the bytes taken so far are delivered, and the
    /// end is passed on. For a source known to be gone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{RelayOptions, Relay, Direction};
    /// use tokio::io::AsyncReadExt;
    /// let (_silent, mut a) = tokio::net::UnixStream::pair()?;
    /// let (mut b, mut server) = tokio::io::duplex(64);
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// relay.end(Direction::Forward);
    /// let relayed = tokio::spawn(async move { relay.run(&mut a, &mut b).await });
    /// assert_eq!(server.read(&mut [0; 8]).await?, 0);
    /// drop(server);
    /// relayed.await??;
    /// # Ok(()) }
    /// ```
    pub fn end(&mut self, direction: Direction) {
        self.driver(direction).end();
    }

    /// Passes on the end of one direction only if `proof` resolves to true; else the relay fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use gush_net::{RelayOptions, Relay, Direction};
    /// let (mut a, client) = tokio::net::UnixStream::pair()?;
    /// let (mut b, _server) = tokio::net::UnixStream::pair()?;
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// relay.verify_eof(Direction::Forward, async { false }); // such as a program that exits with 1
    /// drop(client);
    /// assert!(relay.run(&mut a, &mut b).await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn verify_eof(
        &mut self,
        direction: Direction,
        proof: impl Future<Output = bool> + Send + 'static,
    ) {
        self.driver(direction).verify_eof(proof);
    }

    fn driver(&mut self, direction: Direction) -> &mut Driver {
        &mut self.drivers[direction as usize]
    }
}
