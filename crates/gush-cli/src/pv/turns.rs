//! `-l` of a file: two threads read and count its blocks, and deliver them in their order.
//!
//! Most of the time goes to the kernel's copy into memory, which two processors make in half of the time. The bytes that are
//! counted are the very bytes that are delivered: to splice the file and to count beside that would be faster still, but
//! of a file that is written to meanwhile the number would be wrong.
//!
//! A pipe gets the pages themselves, which are given away (`gush::Lent`): that spares a second copy.
//!
//! No thread waits for one that has lost its processor. Whoever has read a block leaves it to the thread that delivers, if there
//! is one. And where all that was read waits for a block that another thread still reads, that block is read once more. So two
//! threads beside busy programs are as fast as one at least (`bench/RESULTS.md`).
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

/// One for each thread, one that was read and waits, and one for the block that all wait for.
const MOST_BUFFERS: usize = 4;

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
        // Where no second thread can be had, this one does everything.
        let _ = second.spawn_scoped(scope, || turns.take_part());
        turns.take_part();
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

/// The blocks of a file, and how far they are.
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

/// Why nobody goes on: the engine is to take the rest, or a write has failed.
type End = Result<(), Halt>;

/// A block that was read.
#[derive(Debug)]
struct Block {
    number: u64,
    memory: Pages,
    /// The lines that end in it; none where it cannot be read, or not whole.
    lines: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The block to be delivered next. All before are delivered, and no byte behind them.
    next: u64,
    /// A thread delivers that block now.
    delivers: bool,
    /// The first block that no thread has begun to read.
    unread: u64,
    /// Blocks behind `next` that were read.
    read: Vec<Block>,
    free: Vec<Pages>,
    /// All there are: free, of `read`, or with a thread.
    buffers: usize,
    ended: Option<End>,
}

impl State {
    /// The block to be delivered now, which is this thread's from here on.
    fn due(&mut self) -> Option<Block> {
        if self.delivers || self.ended.is_some() {
            return None;
        }
        let at = self.read.iter().position(|block| block.number == self.next)?;
        self.delivers = true;
        Some(self.read.swap_remove(at))
    }

    fn room(&self) -> usize {
        self.free.len() + (MOST_BUFFERS - self.buffers)
    }
}

impl Turns<'_> {
    /// Reads, counts and delivers blocks, until all are delivered or nobody goes on.
    fn take_part(&self) {
        let _leaving = Leaving(self);
        let Ok(mut target) = Port::of(self.output) else { return self.end(Ok(())) };
        while let Some((number, mut memory)) = self.begin() {
            let lines = self.read_at(self.at(number), memory.as_mut_slice());
            let mut state = self.keep(Block { number, memory, lines });
            while let Some(block) = state.due() {
                drop(state);
                let (delivered, memory) = self.deliver_block(block, &mut target);
                state = self.state();
                state.delivers = false;
                match delivered {
                    Ok(()) => state.next += 1,
                    Err(ended) => drop(state.ended.get_or_insert(ended)),
                }
                match memory {
                    Some(memory) => state.free.push(memory),
                    // No memory for another block: the engine has buffers of its own.
                    None => drop(state.ended.get_or_insert(Ok(()))),
                }
                self.changed.notify_one();
            }
        }
    }

    /// The block that this thread is to read, with memory for that; none where nothing is left to be done.
    fn begin(&self) -> Option<(u64, Pages)> {
        let mut state = self.state();
        let number = loop {
            if state.ended.is_some() || state.next == self.blocks {
                return None;
            }
            // One buffer stays for the case below.
            if state.unread < self.blocks && state.room() > 1 {
                state.unread += 1;
                break state.unread - 1;
            }
            // The other thread still reads the block that all wait for. Of both, the first one counts.
            if !state.delivers && state.room() > 0 {
                break state.next;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        if let Some(memory) = state.free.pop() {
            return Some((number, memory));
        }
        state.buffers += 1;
        drop(state);
        let is_lent = self.block_bytes == HUGE_PAGE_BYTES;
        let make = if is_lent { Pages::huge } else { Pages::new };
        let memory = make(self.block_bytes).map_err(|_| self.end(Ok(()))).ok()?;
        Some((number, memory))
    }

    /// Keeps a block until it is delivered, unless another thread has read it faster.
    fn keep(&self, block: Block) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let is_late = block.number < state.next + u64::from(state.delivers);
        if is_late {
            state.free.push(block.memory);
        } else {
            state.read.push(block);
        }
        state
    }

    fn at(&self, block: u64) -> u64 {
        self.start + block * self.block_bytes as u64
    }

    /// Delivers a block. Answers also the memory for another one.
    fn deliver_block(
        &self,
        block: Block,
        target: &mut Port<'_>,
    ) -> (Result<(), End>, Option<Pages>) {
        let Block { number, memory, lines } = block;
        // The file has become shorter, or cannot be read here; or the lines have got a rate by -R.
        let Some(lines) = lines.filter(|_| self.account.rate.get().is_none()) else {
            return (Err(Ok(())), Some(memory));
        };
        let (done, delivered, left) = if self.block_bytes == HUGE_PAGE_BYTES {
            let lent = memory.lend();
            let put = |target: &mut Port<'_>, from| self.put_pages(&lent, from, target);
            let (done, delivered) = self.deliver(lent.as_slice(), lines, target, put);
            (done, delivered, lent.renew().ok())
        } else {
            let bytes = memory.as_slice();
            let write = |target: &mut Port<'_>, from: usize| target.write(&bytes[from..]);
            let (done, delivered) = self.deliver(bytes, lines, target, write);
            (done, delivered, Some(memory))
        };
        // For whoever looks at the position (pv -d), and for the engine, which goes on there.
        let moved_on = seek(self.input, SeekFrom::Start(self.at(number) + done as u64));
        let moved_on = moved_on.map(drop).map_err(|errno| Halt::by(Side::Source, errno));
        (delivered.and(moved_on).map_err(Err), left)
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
            let put = || put(target, done);
            let more = match unless_cancelled(account, PollFlags::OUT, self.output, put) {
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

    fn end(&self, ended: End) {
        self.state().ended.get_or_insert(ended);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the other thread go where this one panics: its block would never be delivered.
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
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    use gush::Rate;
    use tempfile::{NamedTempFile, TempDir};

    use super::super::seen::{Observed, Wanted};
    use super::*;

    const BLOCKS: usize = 9;

    /// Calls `test` with blocks of a file whose first has one line, the second two, and so on, and answers what was delivered.
    fn with_turns(test: impl FnOnce(&Turns<'_>)) -> (Vec<u8>, Vec<u8>) {
        let dir = TempDir::new().unwrap();
        let bytes: Vec<u8> = (0..BLOCKS)
            .flat_map(|block| {
                (0..BLOCK_BYTES).map(move |at| if at <= block { b'\n' } else { block as u8 | 64 })
            })
            .collect();
        fs::write(dir.path().join("source"), &bytes).unwrap();
        let input = Input::open(dir.path().join("source").as_os_str()).unwrap();
        let got = NamedTempFile::new_in(&dir).unwrap();
        let output = Output::File(got.reopen().unwrap());
        let wanted = Wanted { lines: true, separator: b'\n', ..Wanted::default() };
        let account = Account::new(Observed::new(wanted), true, Rate::default());
        let turns = Turns {
            account: &account,
            output: &output,
            input: &input,
            start: 0,
            blocks: BLOCKS as u64,
            block_bytes: BLOCK_BYTES,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        test(&turns);
        assert_eq!(account.observed.lines(), ends(&fs::read(got.path()).unwrap()));
        (bytes, fs::read(got.path()).unwrap())
    }

    fn ends(bytes: &[u8]) -> u64 {
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    }

    #[test]
    fn a_block_that_is_held_up_is_read_by_the_other_thread() {
        let (bytes, got) = with_turns(|turns| {
            let (number, memory) = turns.begin().unwrap();
            assert_eq!(number, 0);
            // The thread that has begun block 0 gets no processor, and the other one does not wait.
            turns.take_part();
            assert_eq!(turns.state().next, BLOCKS as u64);
            // Too late: nothing is delivered twice.
            let mut state = turns.keep(Block { number, memory, lines: Some(1) });
            assert!(state.due().is_none() && state.read.is_empty());
        });
        assert!(got == bytes);
    }

    #[test]
    fn a_block_that_is_being_delivered_is_not_kept_again() {
        with_turns(|turns| {
            let (number, memory) = turns.begin().unwrap();
            let (_, again) = turns.begin().unwrap();
            let block = turns.keep(Block { number, memory, lines: Some(1) }).due().unwrap();
            assert_eq!(block.number, 0);
            let state = turns.keep(Block { number, memory: again, lines: Some(1) });
            assert!(state.read.is_empty() && state.free.len() == 1);
        });
    }

    #[test]
    fn two_threads_deliver_every_block_once() {
        let (bytes, got) = with_turns(|turns| {
            thread::scope(|scope| {
                scope.spawn(|| turns.take_part());
                turns.take_part();
            });
            assert!(turns.state().buffers <= MOST_BUFFERS);
        });
        assert!(got == bytes);
    }

    #[test]
    fn a_thread_that_panics_holds_nobody() {
        with_turns(|turns| {
            thread::scope(|scope| {
                // This thread delivers, and never ends.
                turns.state().delivers = true;
                let (ended, end) = mpsc::channel();
                scope.spawn(move || {
                    turns.take_part();
                    ended.send(()).unwrap();
                });
                let panics = || {
                    let _leaving = Leaving(turns);
                    panic!("as the test wants");
                };
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                let in_time = end.recv_timeout(Duration::from_secs(60));
                // The thread would otherwise hold the scope, and the test, for ever.
                turns.end(Ok(()));
                assert!(in_time.is_ok());
            });
        });
    }
}
