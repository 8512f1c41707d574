//! Fast output into somebody's pipe: the bytes stay the same in the reader's hands.
//!
//! | technique | how | copies |
//! |---|---|---|
//! | [`Technique::Fresh`] | huge pages are filled, lent by vmsplice, and given away: the next fill gets new ones | none |
//! | [`Technique::Socket`] | through a Unix socket, spliced on in slots of 32 KiB | one |
//! | [`Technique::Write`] | `write` | one |
//!
//! A huge page is lent in pieces of 512 KiB, so that the reader takes one piece while the next is
//! filled. After the last piece the whole page is given away (MADV_DONTNEED): at once if the reader
//! has taken everything, because the page then comes back to this processor's free list while still
//! in the cache, else with the next commit.

use std::fmt;
use std::io::{self as std_io, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::{self, Errno};

use super::collector::Collector;
use super::socket::{FAT_SLOT_BYTES, Fattener};
use super::technique::lending_into;
use super::{Buffer, Technique, USUAL_BYTES, asked_bytes, grow};
use crate::endpoint::{Endpoint, Kind};
use crate::errno::errno_name;
use crate::kernel::Vmsplice;
use crate::pages::{HUGE_PAGE_BYTES, Pages, Strip};
use crate::port::Side;
use crate::progress::Control;
use crate::sys::{self, Call};
use crate::wait::{self, Wait, Waiter};

/// A smaller commit is written: giving a huge page away would cost more, and let a reader who
/// holds small pieces hold 2 MiB with each.
const LEAST_LENT_BYTES: usize = 256 << 10;
/// Fewer bytes are collected, or written: a socket pays for two calls.
const LEAST_SOCKET_BYTES: usize = 64 << 10;
/// The buffer of a technique that copies.
const COPIED_BYTES: usize = 256 << 10;
/// The piece of a huge page lent at a time: the reader takes one while the next is filled, and is
/// soon done with the last.
const LENT_BYTES: usize = 512 << 10;

/// How long a reader that splices takes for a full pipe of lent pages, and more.
const LOOK: Duration = Duration::from_micros(20);
/// If the reader never empties the pipe, looking costs at most a few hundredths of the time.
const PAGES_BETWEEN_LOOKS: u32 = 16;

/// Writes into a pipe (or anything else, by `write`) so that the bytes arrive unchanged: the reader
/// may read them, splice them anywhere, tee them, or hold them for an hour.
///
/// The [`Write`] of this type copies once, through the socket if there is one. Small pieces are
/// collected up to 64 KiB, or, from a caller that writes bulk without a pause, up to 512 KiB, which
/// are lent. [`Writer::buffer`] and [`Writer::commit`] avoid the copy. Dropping a writer does not
/// flush: call [`Write::flush`], which can fail.
///
/// The pipe grows as the crate's page [describes](crate#what-it-does-to-your-descriptors).
///
/// ```
/// use std::io::{Read, Write};
/// let (mut reader, pipe) = std::io::pipe()?;
/// let mut writer = gush::pipe::Writer::new(pipe)?;
/// writer.write_all(b"hello")?;
/// writer.flush()?;
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<P: AsFd> {
    pipe: P,
    technique: Technique,
    waiter: Waiter,
    socket: Option<Fattener>,
    /// Memory with room for another buffer.
    spare: Option<Strip>,
    /// Lent memory, perhaps still in the pipe, renewed by the next commit.
    given_late: Option<Strip>,
    /// A reader that was slow is not waited for so many times.
    pages_until_look: u32,
    /// Small pieces collected by `write`.
    collected: Collector,
    /// The call that failed with bytes under way: later bytes would be taken for those lost.
    cut_by: Option<Call>,
    asked: Option<Asked>,
}

/// Who is asked during a wait whether to go on.
struct Asked(Box<dyn FnMut() -> Control + Send>);

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

/// The failure of a [`Writer`], with the pipe.
///
/// ```
/// use gush::pipe::{Technique, Writer};
/// let file = tempfile::tempfile()?;
/// let refused = Writer::with(&file, Technique::Fresh).unwrap_err();
/// assert_eq!(refused.errno, gush::Errno::INVAL);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WriterError<P> {
    /// The pipe, or the other descriptor that was to be written to.
    pub pipe: P,
    /// The call that failed, or whose earlier failure had cut the stream.
    pub call: Call,
    /// The kernel's answer, or `EIO` where the stream was cut before.
    pub errno: Errno,
}

impl<P> fmt::Display for WriterError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pipe cannot be written: {}: {}", self.call, errno_name(self.errno))
    }
}

impl<P: fmt::Debug> std::error::Error for WriterError<P> {}

impl<P> From<WriterError<P>> for std_io::Error {
    fn from(error: WriterError<P>) -> Self {
        error.errno.into()
    }
}

/// The call that failed, with its answer.
type Failed = (Call, Errno);

fn by(call: Call) -> impl Fn(Errno) -> Failed {
    move |errno| (call, errno)
}

fn errno((_, errno): Failed) -> Errno {
    errno
}

/// Looks at the target of a writer, which must be open for writing.
fn look(pipe: BorrowedFd<'_>) -> Result<Endpoint<'_>, Failed> {
    Endpoint::look_as(pipe, Side::Target).map_err(|fault| (fault.call, fault.errno))
}

impl<P: AsFd> Writer<P> {
    /// A writer by the best technique allowed here.
    ///
    /// # Errors
    /// With the pipe inside ([`WriterError`]): `EBADF` for a descriptor not open for writing;
    /// `ENOMEM`.
    ///
    /// ```
    /// let (reading_end, _pipe) = std::io::pipe()?;
    /// let refused = gush::pipe::Writer::new(&reading_end).unwrap_err();
    /// assert_eq!((refused.call, refused.errno), (gush::Call::Write, gush::Errno::BADF));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(pipe: P) -> Result<Self, WriterError<P>> {
        // By cached answers: a refused vmsplice would cost the first bytes a detour.
        let technique = match look(pipe.as_fd()) {
            Ok(target) => Technique::of(&target),
            Err((call, errno)) => return Err(WriterError { pipe, call, errno }),
        };
        Self::with(pipe, technique)
            // No huge page or no descriptor for a socket: bytes can still be written.
            .or_else(|refused| Self::with(refused.pipe, Technique::Write))
    }

    /// A writer by this technique and no other.
    ///
    /// # Errors
    /// With the pipe inside ([`WriterError`]): `EBADF` as from [`Writer::new`]; `EINVAL` if the
    /// technique needs a pipe; the error of vmsplice, socketpair or mmap.
    pub fn with(pipe: P, technique: Technique) -> Result<Self, WriterError<P>> {
        match Self::prepare(pipe.as_fd(), technique) {
            Ok((socket, spare)) => Ok(Self {
                pipe,
                technique,
                waiter: Waiter::new(Wait::Block),
                socket,
                spare: Some(Strip::new(spare)),
                given_late: None,
                pages_until_look: 0,
                collected: Collector::default(),
                cut_by: None,
                asked: None,
            }),
            Err((call, errno)) => Err(WriterError { pipe, call, errno }),
        }
    }

    fn prepare(
        pipe: BorrowedFd<'_>,
        technique: Technique,
    ) -> Result<(Option<Fattener>, Pages), Failed> {
        let target = look(pipe)?;
        if target.kind() == Kind::Pipe {
            // Grown once: later F_SETPIPE_SZ would have to move the slots in use.
            grow(pipe, asked_bytes(None, USUAL_BYTES)).map_err(by(Call::SetPipeSize))?;
        } else if technique != Technique::Write {
            return Err((Call::GetPipeSize, Errno::INVAL));
        }
        let copied = || Pages::new(COPIED_BYTES).map_err(by(Call::Mmap));
        match technique {
            Technique::Fresh => match lending_into(&target) {
                Vmsplice::Absent(errno) => Err((Call::Vmsplice, errno)),
                // The socket is for small commits, and is done without where there is none.
                _ => {
                    let pages = Pages::huge(HUGE_PAGE_BYTES).map_err(by(Call::Mmap))?;
                    Ok((Fattener::new().ok(), pages))
                }
            },
            Technique::Socket => Ok((Some(Fattener::new()?), copied()?)),
            Technique::Write => Ok((None, copied()?)),
        }
    }

    /// How to wait while the pipe is full.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waiter = Waiter::new(wait);
        self
    }

    /// Asks `ask` whether to go on when the pipe is full, and every 50 ms of the wait.
    ///
    /// After [`Control::Stop`] the write, flush or commit fails with `EINTR`. How many of its bytes
    /// arrived is unknown: the stream is cut, and later calls fail with `EIO`. [`Write::write_all`]
    /// retries after `EINTR`, and so fails with `EIO`: call [`Write::write`] in a loop to see the
    /// stop.
    ///
    /// ```
    /// use gush::{Control, Errno};
    /// let (_reader, pipe) = std::io::pipe()?;
    /// let mut writer = gush::pipe::Writer::new(pipe)?.while_waiting(|| Control::Stop);
    /// let stopped = loop {
    ///     let buffer = writer.buffer()?;
    ///     let len = buffer.len();
    ///     if let Err(errno) = writer.commit(buffer, len) {
    ///         break errno;
    ///     }
    /// };
    /// assert_eq!(stopped, Errno::INTR);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn while_waiting(mut self, ask: impl FnMut() -> Control + Send + 'static) -> Self {
        self.asked = Some(Asked(Box::new(ask)));
        self
    }

    /// The technique in use; [`Technique::Fresh`] and [`Technique::Socket`] end if denied later.
    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// The call whose failure has cut the stream: later calls of the writer fail with `EIO`.
    ///
    /// ```
    /// use std::io::Write;
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let mut writer = gush::pipe::Writer::new(full)?;
    /// writer.write_all(b"small pieces are collected")?;
    /// assert_eq!(writer.flush().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    /// assert_eq!(writer.cut_by(), Some(gush::Call::Write));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cut_by(&self) -> Option<Call> {
        self.cut_by
    }

    /// The pipe.
    pub fn get_ref(&self) -> &P {
        &self.pipe
    }

    /// Sends the pieces collected by `write`, and gives the pipe back.
    ///
    /// # Errors
    /// With the pipe inside and the last answer: the collected pieces have not all arrived.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// let (mut reader, pipe) = std::io::pipe()?;
    /// let mut writer = gush::pipe::Writer::new(pipe)?;
    /// writer.write_all(b"by the writer, ")?;
    /// let mut pipe = writer.into_inner()?;
    /// pipe.write_all(b"and by the pipe itself")?;
    /// drop(pipe);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "by the writer, and by the pipe itself");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_inner(mut self) -> Result<P, WriterError<P>> {
        let sent = self.send_collected();
        match sent {
            Ok(()) => Ok(self.pipe),
            Err((call, errno)) => Err(WriterError { pipe: self.pipe, call, errno }),
        }
    }

    /// Memory to fill in place: [`Writer::commit`] sends the first bytes. The content is undefined.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn buffer(&mut self) -> io::Result<Buffer> {
        let (huge, len_bytes) = match self.technique {
            Technique::Fresh => (true, LENT_BYTES),
            Technique::Socket | Technique::Write => (false, COPIED_BYTES),
        };
        let strip = match self.spare.take() {
            Some(strip) => strip,
            None if huge => Strip::new(Pages::huge(HUGE_PAGE_BYTES)?),
            None => Strip::new(Pages::new(len_bytes)?),
        };
        Ok(Buffer::of(strip, len_bytes))
    }

    /// Sends the first `len_bytes` of a filled buffer, after the pieces collected by `write`.
    ///
    /// # Errors
    /// `EINVAL` if the buffer is smaller; `EPIPE` without a reader; else that of vmsplice or write.
    /// How many bytes arrived is unknown: the stream is cut, and later calls fail with `EIO`.
    ///
    /// ```
    /// use std::io::Read;
    /// let (mut reader, pipe) = std::io::pipe()?;
    /// let mut writer = gush::pipe::Writer::new(pipe)?;
    /// let mut buffer = writer.buffer()?;
    /// buffer[..5].copy_from_slice(b"in it");
    /// writer.commit(buffer, 5)?;
    /// let mut text = [0; 5];
    /// reader.read_exact(&mut text)?;
    /// assert_eq!(&text, b"in it");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn commit(&mut self, buffer: Buffer, len_bytes: usize) -> io::Result<()> {
        if len_bytes > buffer.len() {
            return Err(Errno::INVAL);
        }
        let sent = self.send_collected().and_then(|()| self.send(buffer, len_bytes));
        sent.map_err(errno)
    }

    fn send(&mut self, buffer: Buffer, len_bytes: usize) -> Result<(), Failed> {
        // The technique may have changed meanwhile, and any memory can be copied from.
        if self.technique == Technique::Fresh && len_bytes >= LEAST_LENT_BYTES {
            let mut strip = buffer.strip;
            let range = strip.lend(len_bytes);
            self.unless_cut(|writer| writer.lend_all(&strip, range))?;
            // Less than a piece is left: it goes with the page, cheaper than a small lending.
            if strip.rest().len() < LENT_BYTES {
                self.give_away(strip);
                return Ok(());
            }
            self.spare = Some(strip);
        } else {
            self.copy_out(&buffer[..len_bytes])?;
            self.spare = Some(buffer.strip);
        }
        Ok(())
    }

    /// Sends bytes by one copy, which leaves their memory free at once.
    fn copy_out(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        // Two calls and a copy by socket, one call and a copy by write: only large pieces gain.
        let by_socket =
            bytes.len() >= LEAST_SOCKET_BYTES && self.socket.as_ref().is_some_and(Fattener::is_own);
        self.unless_cut(|writer| match by_socket {
            true => writer.pass_through_socket(bytes),
            false => writer.write_all_of(bytes),
        })
    }

    /// Sends something, unless bytes before it are missing; a failure leaves such a gap.
    fn unless_cut(
        &mut self,
        send: impl FnOnce(&mut Self) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        if let Some(call) = self.cut_by {
            return Err((call, Errno::IO));
        }
        send(self).inspect_err(|&(call, _)| {
            self.cut_by = Some(call);
            // Without room nothing more is collected.
            self.collected = Collector::default();
        })
    }

    /// Gives lent memory away: at once if the reader is done already, with the next page if not.
    ///
    /// The page goes to the free list of the processor that drops it last. If that is ours, the
    /// next fill gets it while still cached; if not, filling other memory hides the wait.
    fn give_away(&mut self, lent: Strip) {
        let earlier = self.given_late.take();
        // The bytes have arrived: the next `buffer` reports a lack of memory.
        if self.reader_is_done() {
            self.spare = lent.renew().ok();
        } else {
            self.spare = earlier.and_then(|strip| strip.renew().ok());
            self.given_late = Some(lent);
        }
    }

    /// Is the pipe empty, now or (to one who spins anyway) within a moment?
    fn reader_is_done(&mut self) -> bool {
        // A reader that was not done lately is hardly done now, and a look costs a call.
        if self.pages_until_look > 0 {
            self.pages_until_look -= 1;
            return false;
        }
        // A writer that sleeps for room asks once.
        let patience = if self.waiter.way() == Wait::Block { Duration::ZERO } else { LOOK };
        let start = Instant::now();
        loop {
            // Empty only means that the reader *took* the bytes; soundness rests on `renew`.
            if sys::pipe::unread_bytes(self.pipe.as_fd()) == Ok(0) {
                return true;
            }
            if start.elapsed() >= patience {
                self.pages_until_look = PAGES_BETWEEN_LOOKS;
                return false;
            }
            std::hint::spin_loop();
        }
    }

    fn lend_all(&mut self, strip: &Strip, mut rest: Range<usize>) -> Result<(), Failed> {
        while !rest.is_empty() {
            match strip.splice_into(self.pipe.as_fd(), rest.clone()) {
                Ok(put) => rest.start += put,
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(Errno::INTR) => {}
                // Denied after all (a later filter, or /dev/stdout opened a FIFO): the rest can be
                // written.
                Err(errno) if is_denial(errno) => {
                    let has_socket = self.socket.is_some();
                    self.technique = if has_socket { Technique::Socket } else { Technique::Write };
                    return self.write_all_of(&strip.lent()[rest]);
                }
                Err(errno) => return Err((Call::Vmsplice, errno)),
            }
        }
        Ok(())
    }

    fn pass_through_socket(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let mut taken = 0;
        while taken < bytes.len() || socket.held_bytes() > 0 {
            taken += socket.take(&bytes[taken..]).map_err(by(Call::Send))?;
            match socket.pass_on(self.pipe.as_fd()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait_for_room(&mut self.waiter, self.pipe.as_fd(), &mut self.asked)?;
                }
                Err(errno) if is_denial(errno) => {
                    self.give_up_socket()?;
                    return self.write_all_of(&bytes[taken..]);
                }
                Err(errno) => return Err((Call::Splice, errno)),
            }
        }
        Ok(())
    }

    /// Writes the bytes in the socket, which splice(2) passes on no more.
    fn give_up_socket(&mut self) -> Result<(), Failed> {
        let Some(mut socket) = self.socket.take() else { return Ok(()) };
        if self.technique == Technique::Socket {
            self.technique = Technique::Write;
        }
        let mut held = vec![0; FAT_SLOT_BYTES];
        while socket.held_bytes() > 0 {
            match socket.take_back(&mut held) {
                Ok(back) => self.write_all_of(&held[..back])?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err((Call::Read, errno)),
            }
        }
        Ok(())
    }

    fn write_all_of(&mut self, mut bytes: &[u8]) -> Result<(), Failed> {
        while !bytes.is_empty() {
            match super::write_now(self.pipe.as_fd(), bytes) {
                Ok(put) => bytes = &bytes[put..],
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err((Call::Write, errno)),
            }
        }
        Ok(())
    }

    fn wait_for_room(&mut self) -> Result<(), Failed> {
        wait_for_room(&mut self.waiter, self.pipe.as_fd(), &mut self.asked)
    }

    fn send_collected(&mut self) -> Result<(), Failed> {
        let Some((buffer, len_bytes)) = self.collected.take() else {
            return self.unless_cut(|_| Ok(()));
        };
        // The buffer of pieces that are copied is smaller than any other.
        if buffer.len() > LEAST_SOCKET_BYTES {
            return self.send(buffer, len_bytes);
        }
        self.copy_out(&buffer[..len_bytes])?;
        if !self.lends_pieces() {
            self.collected.begin(buffer);
        }
        Ok(())
    }

    /// Bulk is collected where it can be lent.
    fn lends_pieces(&self) -> bool {
        self.technique == Technique::Fresh && self.collected.is_fast()
    }

    /// Takes memory for the next pieces.
    fn begin_collecting(&mut self) -> io::Result<()> {
        let lent = if self.lends_pieces() { self.buffer().ok() } else { None };
        let buffer = match lent {
            Some(buffer) => buffer,
            None => Buffer::of(Strip::new(Pages::new(LEAST_SOCKET_BYTES)?), LEAST_SOCKET_BYTES),
        };
        self.collected.begin(buffer);
        Ok(())
    }

    /// Collects a piece that leaves room for more: nearly all `write` calls with small pieces end
    /// here. `false`, and nothing is done, where the piece needs a system call: then it is for
    /// `write`. For callers that prepare for a call that may wait.
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// let (_reader, pipe) = std::io::pipe()?;
    /// let mut writer = gush::pipe::Writer::new(pipe)?;
    /// assert!(!writer.collect(b"there is no memory for it yet"));
    /// writer.write_all(b"there is now")?;
    /// assert!(writer.collect(b", for more"));
    /// assert!(!writer.collect(&[0; 1 << 20]));
    /// assert_eq!(writer.collected(), b"there is now, for more");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn collect(&mut self, bytes: &[u8]) -> bool {
        self.collected.push(bytes)
    }

    /// The pieces that [`write`](Write::write) has collected and not sent.
    #[must_use]
    pub fn collected(&self) -> &[u8] {
        self.collected.bytes()
    }

    /// Sends a large piece, or as much as fills the collected ones, and these.
    #[cold]
    fn write_some(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        if self.cut_by.is_some() {
            return Err(Errno::IO.into());
        }
        if self.collected().is_empty() && bytes.len() >= LEAST_SOCKET_BYTES {
            let len = bytes.len().min(COPIED_BYTES);
            self.copy_out(&bytes[..len]).map_err(errno)?;
            return Ok(len);
        }
        if !self.collected.has_buffer() && self.begin_collecting().is_err() {
            // None is collected, so the order holds.
            self.copy_out(bytes).map_err(errno)?;
            return Ok(bytes.len());
        }
        let (len, is_full) = self.collected.fill(bytes);
        if is_full {
            // First in, first out: pieces of `write` came before this buffer.
            self.send_collected().map_err(errno)?;
        }
        Ok(len)
    }

    /// As `write_all` of std, so also after a signal.
    #[cold]
    fn write_rest(&mut self, mut bytes: &[u8]) -> std_io::Result<()> {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == std_io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Is the call itself denied, by a filter, or missing?
fn is_denial(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Waits for room, a slice at most where somebody is asked.
fn wait_for_room(
    waiter: &mut Waiter,
    pipe: BorrowedFd<'_>,
    asked: &mut Option<Asked>,
) -> Result<(), Failed> {
    if let Some(Asked(ask)) = asked
        && ask() == Control::Stop
    {
        return Err((Call::Poll, Errno::INTR));
    }
    let longest = wait::longest(asked.is_some());
    waiter.for_side(pipe, Side::Target, longest).map(drop).map_err(by(Call::Poll))
}

impl<P: AsFd> Write for Writer<P> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        if self.collect(bytes) { Ok(bytes.len()) } else { self.write_some(bytes) }
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> std_io::Result<()> {
        if self.collect(bytes) { Ok(()) } else { self.write_rest(bytes) }
    }

    fn flush(&mut self) -> std_io::Result<()> {
        Ok(self.send_collected().map_err(errno)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const TECHNIQUES: [Technique; 3] = [Technique::Fresh, Technique::Socket, Technique::Write];

    #[test]
    fn pieces_of_every_size_arrive_in_order_by_every_technique() {
        for technique in TECHNIQUES {
            let (mut reader, pipe) = std::io::pipe().expect("pipe");
            let got = std::thread::spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).map(|_| got)
            });
            let mut writer = match Writer::with(pipe, technique) {
                Ok(writer) => writer,
                Err(WriterError { errno, .. }) => {
                    gush_test::skipped(&format!("{technique:?}: {errno}"));
                    continue;
                }
            };
            let mut expected = Vec::new();
            for round in 0_u32..40 {
                let len = [1, 100, 65_536, 300_000, 2 << 20][round as usize % 5];
                let bytes: Vec<u8> = (0..len).map(|at: u32| (at * 31 + round) as u8).collect();
                if round % 3 == 0 {
                    let mut buffer = writer.buffer().expect("buffer");
                    let len = bytes.len().min(buffer.len());
                    buffer[..len].copy_from_slice(&bytes[..len]);
                    writer.commit(buffer, len).expect("commit");
                    expected.extend_from_slice(&bytes[..len]);
                } else {
                    writer.write_all(&bytes).expect("write");
                    expected.extend_from_slice(&bytes);
                }
            }
            writer.flush().expect("flush");
            drop(writer);
            let got = got.join().expect("reader").expect("read");
            assert!(got == expected, "{technique:?}");
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error() {
        for technique in TECHNIQUES {
            let (reader, pipe) = std::io::pipe().expect("pipe");
            let Ok(mut writer) = Writer::with(pipe, technique) else { continue };
            drop(reader);
            let buffer = writer.buffer().expect("buffer");
            let len = buffer.len();
            assert_eq!(writer.commit(buffer, len), Err(Errno::PIPE), "{technique:?}");
        }
    }

    /// Commits whole buffers until a commit fails.
    fn commit_sevens(writer: &mut Writer<impl AsFd>) -> Errno {
        loop {
            let mut buffer = writer.buffer().expect("buffer");
            buffer.fill(7);
            let len = buffer.len();
            if let Err(errno) = writer.commit(buffer, len) {
                break errno;
            }
        }
    }

    #[test]
    fn a_stop_ends_a_wait_for_room_with_every_technique() {
        for technique in TECHNIQUES {
            let (mut reader, pipe) = std::io::pipe().expect("pipe");
            let Ok(writer) = Writer::with(pipe, technique) else { continue };
            // The first answer lets the wait go on, though nobody reads.
            let mut asked = 0;
            let mut writer = writer.while_waiting(move || {
                asked += 1;
                if asked < 2 { Control::Continue } else { Control::Stop }
            });
            assert_eq!(commit_sevens(&mut writer), Errno::INTR, "{technique:?}");
            drop(writer);
            let mut got = Vec::new();
            reader.read_to_end(&mut got).expect("read");
            assert!(!got.is_empty() && got.iter().all(|&byte| byte == 7), "{technique:?}");
        }
    }

    #[test]
    fn nothing_follows_a_gap_in_the_stream() {
        for technique in TECHNIQUES {
            let (mut reader, pipe) = std::io::pipe().expect("pipe");
            let Ok(writer) = Writer::with(pipe, technique) else { continue };
            // Stopped once; later waits may go on.
            let mut has_stopped = false;
            let mut writer =
                writer.while_waiting(move || match std::mem::replace(&mut has_stopped, true) {
                    false => Control::Stop,
                    true => Control::Continue,
                });
            // Collected, so that there is room for a piece that is to be refused.
            writer.write_all(&[7]).expect("write");
            assert_eq!(commit_sevens(&mut writer), Errno::INTR, "{technique:?}");
            let got = std::thread::spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).map(|_| got)
            });
            let io_error = Some(Errno::IO.raw_os_error());
            let written = writer.write(b"after the gap").map_err(|error| error.raw_os_error());
            assert_eq!(written, Err(io_error), "{technique:?}");
            let written = writer.write_all(b"after the gap").map_err(|error| error.raw_os_error());
            assert_eq!(written, Err(io_error), "{technique:?}");
            let flushed = writer.flush().map_err(|error| error.raw_os_error());
            assert_eq!(flushed, Err(io_error), "{technique:?}");
            for is_large in [false, true] {
                let buffer = writer.buffer().expect("buffer");
                let len = if is_large { buffer.len() } else { 100 };
                assert_eq!(writer.commit(buffer, len), Err(Errno::IO), "{technique:?}, {len}");
            }
            assert_eq!(writer.into_inner().map(drop).unwrap_err().errno, Errno::IO);
            let got = got.join().expect("reader").expect("read");
            assert!(!got.is_empty() && got.iter().all(|&byte| byte == 7), "{technique:?}");
        }
    }

    #[test]
    fn a_write_after_pieces_that_fill_the_buffer_takes_bytes() {
        let file = tempfile::tempfile().expect("file");
        let mut writer = Writer::new(&file).expect("writer");
        for len in [10, LEAST_SOCKET_BYTES - 10, 1] {
            assert_eq!(writer.write(&vec![7; len]).expect("write"), len);
        }
        writer.flush().expect("flush");
        assert_eq!(file.metadata().expect("stat").len(), LEAST_SOCKET_BYTES as u64 + 1);
    }

    #[test]
    fn small_pieces_in_bulk_are_lent_and_arrive_in_order() {
        let (mut reader, pipe) = std::io::pipe().expect("pipe");
        let mut writer = match Writer::with(pipe, Technique::Fresh) {
            Ok(writer) => writer,
            Err(WriterError { errno, .. }) => return gush_test::skipped(&errno.to_string()),
        };
        let got = std::thread::spawn(move || {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).map(|_| got)
        });
        let mut expected = Vec::new();
        let mut lent_buffers = 0;
        // A busy machine may take the processor away between any two pieces.
        let start = Instant::now();
        while lent_buffers < 4 && start.elapsed() < Duration::from_secs(60) {
            for piece in 0..100_000_u32 {
                let bytes = piece.to_le_bytes();
                writer.write_all(&bytes).expect("write");
                expected.extend_from_slice(&bytes);
            }
            lent_buffers += u32::from(writer.collected().len() > LEAST_SOCKET_BYTES);
            // Few pieces in a buffer to be lent, and a buffer of the caller's between them.
            if lent_buffers % 2 == 1 {
                writer.flush().expect("flush");
                writer.write_all(b"few").expect("write");
                expected.extend_from_slice(b"few");
                let mut buffer = writer.buffer().expect("buffer");
                buffer[..4].copy_from_slice(b"own,");
                writer.commit(buffer, 4).expect("commit");
                expected.extend_from_slice(b"own,");
            }
        }
        writer.flush().expect("flush");
        drop(writer);
        let got = got.join().expect("reader").expect("read");
        assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
        assert_eq!(lent_buffers, 4);
    }

    #[test]
    fn pieces_with_pauses_are_not_held_back_for_larger_buffers() {
        let (mut reader, pipe) = std::io::pipe().expect("pipe");
        let mut writer = Writer::new(pipe).expect("writer");
        let got = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        let piece = [7; 1000];
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(5));
            for _ in 0..66 {
                writer.write_all(&piece).expect("write");
                assert!(writer.collected().len() < LEAST_SOCKET_BYTES);
            }
        }
        writer.flush().expect("flush");
        drop(writer);
        assert_eq!(got.join().expect("reader").expect("read"), 40 * 66 * piece.len());
    }

    #[cfg(feature = "faults")]
    #[test]
    fn pieces_without_memory_to_collect_them_arrive_at_once() {
        use crate::faults::{Injection, Plan};
        let (reader, pipe) = std::io::pipe().expect("pipe");
        let mut writer = Writer::new(pipe).expect("writer");
        let guard = Plan::new(|call, _| match call {
            Call::Mmap => Injection::Fail(Errno::NOMEM),
            _ => Injection::None,
        })
        .install();
        writer.write_all(b"no memory").expect("write");
        assert_eq!(sys::pipe::unread_bytes(reader.as_fd()), Ok(9));
        drop(guard);
        writer.write_all(b", memory").expect("write");
        assert_eq!((writer.collected(), writer.cut_by()), (&b", memory"[..], None));
    }

    #[test]
    fn what_is_no_pipe_is_written() {
        let file = tempfile::tempfile().expect("file");
        let mut writer = Writer::new(&file).expect("writer");
        assert_eq!(writer.technique(), Technique::Write);
        writer.write_all(&[7; 100_000]).expect("write");
        writer.flush().expect("flush");
        assert_eq!(file.metadata().expect("stat").len(), 100_000);
    }
}
