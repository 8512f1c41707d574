//! `-l` of a file: two threads read and count its blocks, and deliver them in turn.
//!
//! Most of the time goes to the kernel's copy into memory, which two processors make in half the
//! time. The lines are counted in the very bytes that are delivered: to splice the file and count
//! it separately would be faster still, and wrong for a file that is written to meanwhile. A pipe
//! gets the pages themselves ([`gush::Lent`]), which saves a second copy.
//!
//! Each thread has one block, which it reads and then delivers: what is in flight stays in the
//! processors' caches, and memory that a pipe's reader has freed is used again at once.
//!
//! Only whole blocks pass here. The engine moves the rest, meets read errors and proves the end.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use gush::{Choice, Endpoint, Errno, HUGE_PAGE_BYTES, Kind, Lent, Pages, Port, Side, Unpoisoned};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{self, pread};

use super::inputs::left_bytes;
use super::moving::{MoveError, Moving, Output};
use super::rw::unless_cancelled;
use super::state::TransferState;
use crate::files::Operand;

/// Half of the second-level cache of most processors, where the bytes stay from the copy to the
/// count.
const BLOCK_BYTES: usize = 512 << 10;

/// Read and counted at a time, for the same reason.
const PIECE_BYTES: usize = 256 << 10;

/// Less is moved before a second thread has started.
const LEAST_BYTES: u64 = 8 << 20;

/// Moves the whole blocks of `input`, as far as everything goes well, and returns how many. The
/// position of the input is then after the last delivered byte, also on failure.
///
/// # Errors
/// The failed write.
pub fn pass(moving: &Moving<'_>, input: &Operand) -> Result<u64, MoveError> {
    let Some(start) = start(moving, input) else { return Ok(0) };
    let takes_pages = Endpoint::of(&moving.output).is_ok_and(|end| end.kind() == Kind::Pipe);
    // A huge page is emptied by one call, and filled anew by one fault.
    let block_bytes = if takes_pages { HUGE_PAGE_BYTES } else { BLOCK_BYTES };
    let turns = Turns {
        state: &moving.state,
        output: &moving.output,
        input,
        start,
        number: left_bytes(input).unwrap_or(0) / block_bytes as u64,
        block_bytes,
        unread: AtomicU64::new(0),
        turn: Mutex::default(),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let second = thread::Builder::new().name("gush-pv-turns".into());
        // Without a second thread, every turn is this one's.
        let second = second.spawn_scoped(scope, || turns.take_part()).ok();
        let first = turns.take_part();
        first.and(second.and_then(|second| second.join().ok()).unwrap_or(Ok(())))
    })?;
    Ok(turns.turn.lock().unpoisoned().next)
}

/// Where the first block begins; none where the bytes take another way, or are too few.
fn start(moving: &Moving<'_>, input: &Operand) -> Option<u64> {
    let options = moving.options;
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

/// The blocks of a file.
#[derive(Debug)]
struct Turns<'a> {
    state: &'a TransferState,
    output: &'a Output,
    input: &'a Operand,
    start: u64,
    number: u64,
    block_bytes: usize,
    /// The first block that no thread has begun to read.
    unread: AtomicU64,
    /// Held by the thread that delivers.
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turn {
    /// The block to be delivered next.
    next: u64,
    /// A thread has ended. Where it had begun the block `next`, no block follows.
    has_left: bool,
}

impl Turns<'_> {
    /// Reads, counts and delivers each block that the other thread does not.
    fn take_part(&self) -> Result<(), MoveError> {
        let taken = self.take_turns();
        self.turn.lock().unpoisoned().has_left = true;
        self.changed.notify_one();
        taken
    }

    fn take_turns(&self) -> Result<(), MoveError> {
        let make = if self.is_lent() { Pages::huge } else { Pages::new };
        let (Ok(mut target), Ok(mut memory)) = (Port::of(self.output), make(self.block_bytes))
        else {
            return Ok(());
        };
        while let Some(number) = self.claim() {
            let lines = self.read(self.at(number), memory.as_mut_slice());
            let mut turn = self.turn.lock().unpoisoned();
            while turn.next != number && !turn.has_left {
                turn = self.changed.wait(turn).unpoisoned();
            }
            // -R may have given the lines a rate, which is not kept here.
            let is_unlimited = self.state.rate.get().is_none();
            let Some(lines) = lines.filter(|_| turn.next == number && is_unlimited) else {
                return Ok(());
            };
            let renewed = self.deliver_block(number, memory, lines, &mut target)?;
            turn.next += 1;
            drop(turn);
            self.changed.notify_one();
            let Some(renewed) = renewed else { return Ok(()) };
            memory = renewed;
        }
        Ok(())
    }

    /// A block that no thread has begun to read.
    fn claim(&self) -> Option<u64> {
        let number = self.unread.fetch_add(1, Ordering::Relaxed);
        (number < self.number).then_some(number)
    }

    fn at(&self, block: u64) -> u64 {
        self.start + block * self.block_bytes as u64
    }

    fn is_lent(&self) -> bool {
        self.block_bytes == HUGE_PAGE_BYTES
    }

    /// Fills `memory` and counts its lines; none where a read fails or the file ends before.
    fn read(&self, at: u64, memory: &mut [u8]) -> Option<u64> {
        let (mut got, mut lines) = (0, 0);
        while got < memory.len() {
            let end = memory.len().min(got + PIECE_BYTES);
            let piece = &mut memory[got..end];
            let more = match pread(self.input, &mut *piece, at + got as u64) {
                // The end of a transfer interrupts a read that waits.
                Err(Errno::INTR) if !self.state.cancel.is_cancelled() => continue,
                more => more.ok().filter(|&more| more > 0)?,
            };
            lines += self.state.inspector.count(&piece[..more]);
            got += more;
        }
        Some(lines)
    }

    /// Delivers a block, and returns memory for another one, if there is any.
    fn deliver_block(
        &self,
        number: u64,
        memory: Pages,
        lines: u64,
        target: &mut Port<'_>,
    ) -> Result<Option<Pages>, MoveError> {
        let (done, delivered, memory) = if self.is_lent() {
            let lent = memory.lend();
            let put = |target: &mut Port<'_>, from| self.put_pages(&lent, from, target);
            let (done, delivered) = self.put(lent.as_slice(), lines, target, put);
            (done, delivered, lent.renew().ok())
        } else {
            let bytes = memory.as_slice();
            let write = |target: &mut Port<'_>, from: usize| target.write(&bytes[from..]);
            let (done, delivered) = self.put(bytes, lines, target, write);
            (done, delivered, Some(memory))
        };
        // For others that look at the position (pv -d), and for the engine, which goes on there.
        let moved_on = seek(self.input, SeekFrom::Start(self.at(number) + done as u64));
        delivered?;
        moved_on.map(|_| memory).map_err(|errno| MoveError::by(Side::Source, errno))
    }

    /// Puts the pages from the offset `from` on into the pipe; writes the bytes where that is
    /// denied.
    fn put_pages(&self, lent: &Lent, from: usize, target: &mut Port<'_>) -> io::Result<usize> {
        match lent.splice_into(self.output.as_fd(), from..self.block_bytes, false) {
            answer @ (Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::PIPE)) => answer,
            Err(_) => target.write(&lent.as_slice()[from..]),
        }
    }

    /// Delivers a block in which `lines` lines end, by `call`, which takes an offset. Returns how
    /// many bytes were delivered, and why not all.
    fn put(
        &self,
        bytes: &[u8],
        lines: u64,
        target: &mut Port<'_>,
        call: impl Fn(&mut Port<'_>, usize) -> io::Result<usize>,
    ) -> (usize, Result<(), MoveError>) {
        let (state, mut done, mut counted) = (self.state, 0, 0);
        while done < bytes.len() {
            let put = || call(target, done);
            let more = match unless_cancelled(state, PollFlags::OUT, self.output, put) {
                Ok(more) => more,
                Err(errno) => return (done, Err(MoveError::by(Side::Target, errno))),
            };
            let delivered = &bytes[done..done + more];
            done += more;
            let ended = match done == bytes.len() {
                true => lines - counted,
                false => state.inspector.count(delivered),
            };
            counted += ended;
            state.inspector.inspect_counted(delivered, ended);
            state.set_bytes(state.bytes() + more as u64);
        }
        (done, Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gush::Rate;
    use tempfile::{NamedTempFile, TempDir};

    use super::super::inspect::Inspect;
    use super::*;

    const BLOCKS: usize = 9;

    /// Calls `test` with blocks of a file whose first has one line, the second two, and so on, and
    /// asserts that the first `delivered` blocks and lines were delivered once.
    fn delivers(delivered: usize, test: impl FnOnce(&Turns<'_>)) {
        let dir = TempDir::new().unwrap();
        let bytes: Vec<u8> = (0..BLOCKS)
            .flat_map(|block| {
                (0..BLOCK_BYTES).map(move |at| if at <= block { b'\n' } else { block as u8 | 64 })
            })
            .collect();
        fs::write(dir.path().join("source"), &bytes).unwrap();
        let input = Operand::open(dir.path().join("source").as_os_str()).unwrap();
        let got = NamedTempFile::new_in(&dir).unwrap();
        let output = Output::File(got.reopen().unwrap());
        let wanted = Inspect { lines: true, separator: b'\n', ..Inspect::default() };
        let state = TransferState::new(wanted, Rate::default());
        let turns = Turns {
            state: &state,
            output: &output,
            input: &input,
            start: 0,
            number: BLOCKS as u64,
            block_bytes: BLOCK_BYTES,
            unread: AtomicU64::new(0),
            turn: Mutex::default(),
            changed: Condvar::new(),
        };
        test(&turns);
        assert_eq!(turns.turn.lock().unpoisoned().next, delivered as u64);
        assert!(fs::read(got.path()).unwrap() == bytes[..delivered * BLOCK_BYTES]);
        assert_eq!(state.inspector.lines(), (1..=delivered as u64).sum::<u64>());
    }

    #[test]
    fn two_threads_deliver_every_block_once() {
        delivers(BLOCKS, |turns| {
            thread::scope(|scope| {
                scope.spawn(|| turns.take_part().unwrap());
                turns.take_part().unwrap();
            });
        });
    }

    #[test]
    fn one_thread_delivers_every_block_where_the_other_has_left() {
        delivers(BLOCKS, |turns| {
            turns.turn.lock().unpoisoned().has_left = true;
            turns.take_part().unwrap();
        });
    }

    #[test]
    fn nothing_follows_a_block_that_was_begun_and_not_delivered() {
        delivers(0, |turns| {
            assert_eq!(turns.claim(), Some(0));
            turns.turn.lock().unpoisoned().has_left = true;
            turns.take_part().unwrap();
        });
    }
}
