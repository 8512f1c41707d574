//! `-l` of a file: two threads read and count blocks in turn, and deliver them in their order.
//!
//! Most of the time goes to the kernel's copy into memory, which two processors make in half of the time. The bytes that are
//! counted are the very bytes that are delivered: to splice the file and to count beside that would be faster still, but
//! of a file that is written to meanwhile the number would be wrong.
//!
//! A pipe gets the pages themselves, which are given away (`gush::Lent`): that spares a second copy.
//!
//! Only whole blocks pass here. The engine moves the rest, meets the errors of reading, and proves the end.

use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use gush::{Choice, Endpoint, Errno, HUGE_PAGE_BYTES, Kind, Lent, Pages, Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{self, pread};

use super::account::Account;
use super::hand::unless_cancelled;
use super::inputs::{Input, left_bytes};
use super::moving::{Halt, Moving, Output};

/// Half of the second-level cache of most processors, where the bytes stay from the copy to the count.
const BLOCK_BYTES: usize = 512 << 10;

/// Read and counted at a time, for the same reason.
const PIECE_BYTES: usize = 256 << 10;

/// Less is moved before a second thread has begun.
const LEAST_BYTES: u64 = 8 << 20;

/// Moves the whole blocks of `input`, as far as everything goes well, and answers how many. Behind the last byte that was
/// delivered stands the position of the input then, also after a failure.
///
/// # Errors
/// The failed write.
pub fn pass(moving: &Moving<'_>, input: &Input) -> Result<u64, Halt> {
    let Some(start) = start(moving, input) else { return Ok(0) };
    let takes_pages = Endpoint::of(&moving.output).is_ok_and(|end| end.kind() == Kind::Pipe);
    // A huge page is emptied by one call, and filled anew by one fault.
    let block_bytes = if takes_pages { HUGE_PAGE_BYTES } else { BLOCK_BYTES };
    let blocks = left_bytes(input).unwrap_or(0) / block_bytes as u64;
    let turns = Turns {
        account: &moving.account,
        output: &moving.output,
        input,
        start,
        blocks,
        block_bytes,
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let second = thread::Builder::new().name("gush-pv-turns".into());
        let second = second.spawn_scoped(scope, || turns.take(1, 2));
        // Alone, this thread has every turn.
        turns.take(0, if second.is_ok() { 2 } else { 1 });
    });
    let State { next, ended, .. } =
        turns.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Some(Err(halt)) => Err(halt),
        Some(Ok(())) | None => Ok(next),
    }
}

/// Where the first block begins; none where the bytes are to go another way, or are too few.
fn start(moving: &Moving<'_>, input: &Input) -> Option<u64> {
    let options = moving.options;
    // Whoever asks for a way of moving has that one.
    let is_plain =
        options.choice() == Choice::Auto && !(options.sparse || options.sync || options.direct_io);
    let is_file = |end: &Endpoint<'_>| end.kind() == Kind::File;
    let start = Endpoint::of(input).ok().filter(is_file)?.position()?;
    // A block would be one datagram.
    let is_stream = Endpoint::of(&moving.output).is_ok_and(|end| end.kind() != Kind::Datagram);
    let has_second = || thread::available_parallelism().is_ok_and(|number| number.get() > 1);
    let serves = is_plain && is_stream && left_bytes(input)? >= LEAST_BYTES && has_second();
    serves.then_some(start)
}

/// The blocks of a file, and whose turn it is to deliver one.
#[derive(Debug)]
struct Turns<'a> {
    account: &'a Account,
    output: &'a Output,
    input: &'a Input,
    start: u64,
    blocks: u64,
    block_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The block to be delivered next. All before are delivered, and no byte behind them.
    next: u64,
    /// Nobody goes on: a write has failed, or the engine is to take the rest.
    ended: Option<Result<(), Halt>>,
}

impl Turns<'_> {
    /// Reads, counts and delivers every block that is `stride` blocks behind the one before, beginning with `first`.
    fn take(&self, first: u64, stride: usize) {
        let _leaving = Leaving(self);
        let lends = self.block_bytes == HUGE_PAGE_BYTES;
        let memory =
            if lends { Pages::huge(self.block_bytes) } else { Pages::new(self.block_bytes) };
        let (Ok(mut memory), Ok(mut target)) = (memory, Port::of(self.output)) else {
            return self.end(Ok(()));
        };
        for block in (first..self.blocks).step_by(stride) {
            let at = self.start + block * self.block_bytes as u64;
            // Ahead of the turn, beside the other thread's count or write.
            let lines = self.read_at(at, memory.as_mut_slice());
            if !self.awaits_turn(block) {
                return;
            }
            // The file has become shorter, or cannot be read here; or the lines have got a rate by -R.
            let Some(lines) = lines.filter(|_| self.account.throttle.get().is_none()) else {
                return self.end(Ok(()));
            };
            let (done, delivered, left) = match lends {
                false => {
                    let bytes = memory.as_slice();
                    let write = |target: &mut Port<'_>, from: usize| target.write(&bytes[from..]);
                    let (done, delivered) = self.deliver(bytes, lines, &mut target, write);
                    (done, delivered, Some(memory))
                }
                true => {
                    let lent = memory.lend();
                    let put = |target: &mut Port<'_>, from| self.put_pages(&lent, from, target);
                    let (done, delivered) = self.deliver(lent.as_slice(), lines, &mut target, put);
                    (done, delivered, lent.renew().ok())
                }
            };
            // For whoever looks at the position (pv -d), and for the engine, which goes on there.
            let moved_on = seek(self.input, SeekFrom::Start(at + done as u64));
            let moved_on = moved_on.map(drop).map_err(|errno| Halt::by(Side::Source, errno));
            match delivered.and(moved_on) {
                Ok(()) => self.pass_on(),
                Err(halt) => return self.end(Err(halt)),
            }
            memory = match left {
                Some(left) => left,
                // No memory for another block: the engine has buffers of its own.
                None => return self.end(Ok(())),
            };
        }
    }

    /// Fills the buffer from the file, and counts the lines; none where that fails or the file ends before.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> Option<u64> {
        let (mut got, mut lines) = (0, 0);
        while got < buffer.len() {
            let end = buffer.len().min(got + PIECE_BYTES);
            let more = match pread(self.input, &mut buffer[got..end], at + got as u64) {
                // The end of a transfer interrupts a read that waits.
                Err(Errno::INTR) if !self.account.cancel.is_cancelled() => continue,
                more => more.ok().filter(|&more| more > 0)?,
            };
            lines += self.account.observed.count(&buffer[got..got + more]);
            got += more;
        }
        Some(lines)
    }

    /// Puts the pages behind `from` into the pipe; writes the bytes where that is denied.
    fn put_pages(&self, lent: &Lent, from: usize, target: &mut Port<'_>) -> io::Result<usize> {
        match lent.splice_into(self.output.as_fd(), from..self.block_bytes, false) {
            answer @ (Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::PIPE)) => answer,
            Err(_) => target.write(&lent.as_slice()[from..]),
        }
    }

    /// Delivers a block in which so many lines end, by `put`, which takes an offset. Answers how many bytes were delivered,
    /// and whether those are all.
    fn deliver(
        &self,
        bytes: &[u8],
        lines: u64,
        target: &mut Port<'_>,
        put: impl Fn(&mut Port<'_>, usize) -> io::Result<usize>,
    ) -> (usize, Result<(), Halt>) {
        let (account, mut done, mut counted) = (self.account, 0, 0);
        while done < bytes.len() {
            let put = |target: &mut Port<'_>| put(target, done);
            let more = match unless_cancelled(account, target, PollFlags::OUT, self.output, put) {
                Ok(more) => more,
                Err(errno) => return (done, Err(Halt::by(Side::Target, errno))),
            };
            let delivered = &bytes[done..done + more];
            done += more;
            let ended = match done == bytes.len() {
                true => lines - counted,
                false => account.observed.count(delivered),
            };
            counted += ended;
            account.observed.show_counted(delivered, ended);
            account.set_bytes(account.bytes() + more as u64);
        }
        (done, Ok(()))
    }

    /// Waits until all blocks before this one are delivered; no where nobody goes on.
    fn awaits_turn(&self, block: u64) -> bool {
        let is_early = |state: &mut State| state.next != block && state.ended.is_none();
        let state = self.changed.wait_while(self.state(), is_early);
        state.unwrap_or_else(PoisonError::into_inner).ended.is_none()
    }

    fn pass_on(&self) {
        self.state().next += 1;
        self.changed.notify_one();
    }

    fn end(&self, ended: Result<(), Halt>) {
        self.state().ended.get_or_insert(ended);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the other thread go where this one panics: nobody would have the turn.
struct Leaving<'a>(&'a Turns<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    use gush::Throttle;
    use tempfile::NamedTempFile;

    use super::super::seen::{Observed, Wanted};
    use super::*;

    #[test]
    fn a_thread_that_panics_holds_nobody() {
        let source = NamedTempFile::new().unwrap();
        source.as_file().set_len(2 * BLOCK_BYTES as u64).unwrap();
        let input = Input::open(source.path().as_os_str()).unwrap();
        let output = Output::File(File::options().write(true).open("/dev/null").unwrap());
        let account = Account::new(Observed::new(Wanted::default()), true, Throttle::new(None));
        let turns = Turns {
            account: &account,
            output: &output,
            input: &input,
            start: 0,
            blocks: 2,
            block_bytes: BLOCK_BYTES,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            let (ended, end) = mpsc::channel();
            let turns = &turns;
            scope.spawn(move || {
                turns.take(1, 2);
                ended.send(()).unwrap();
            });
            // A stride of 0 is none, and the block before is never delivered.
            assert!(catch_unwind(AssertUnwindSafe(|| turns.take(0, 0))).is_err());
            let in_time = end.recv_timeout(Duration::from_secs(60));
            // The thread would otherwise hold the scope, and the test, for ever.
            turns.end(Ok(()));
            assert!(in_time.is_ok());
        });
        assert_eq!(turns.state().next, 0);
    }
}
