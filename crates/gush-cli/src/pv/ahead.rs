//! `-l` of a file: a second thread reads and counts blocks ahead of the thread that delivers them.
//!
//! Most of the time goes to the kernel's copy into memory, which two processors make in half the
//! time. The lines are counted in the very bytes that are delivered: to splice the file and count
//! it separately would be faster still, and wrong for a file that is written to meanwhile. A pipe
//! gets the pages themselves ([`gush::Lent`]), which saves a second copy.
//!
//! The other thread may have lost its processor: a block that it has begun is waited for no longer
//! than a read takes, and then read once more.
//!
//! Only whole blocks pass here. The engine moves the rest, meets read errors and proves the end.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gush::{Choice, Endpoint, Errno, HUGE_PAGE_BYTES, Kind, Lent, Pages, Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{self, pread};

use super::inputs::{Input, left_bytes};
use super::moving::{MoveError, Moving, Output};
use super::rw::unless_cancelled;
use super::state::TransferState;

/// Half of the second-level cache of most processors, where the bytes stay from the copy to the
/// count.
const BLOCK_BYTES: usize = 512 << 10;

/// Read and counted at a time, for the same reason.
const PIECE_BYTES: usize = 256 << 10;

/// How long a block that the other thread reads is waited for: as long as two slow reads.
const LONGEST_WAIT: Duration = Duration::from_millis(2);

/// Less is moved before a second thread has started.
const LEAST_BYTES: u64 = 8 << 20;

/// Moves the whole blocks of `input`, as far as everything goes well, and returns how many. The
/// position of the input is then after the last delivered byte, also on failure.
///
/// # Errors
/// The failed write.
pub fn pass(moving: &Moving<'_>, input: &Input) -> Result<u64, MoveError> {
    let Some(start) = start(moving, input) else { return Ok(0) };
    let takes_pages = Endpoint::of(&moving.output).is_ok_and(|end| end.kind() == Kind::Pipe);
    // A huge page is emptied by one call, and filled anew by one fault.
    let block_bytes = if takes_pages { HUGE_PAGE_BYTES } else { BLOCK_BYTES };
    let blocks = Blocks {
        state: &moving.state,
        output: &moving.output,
        input,
        start,
        number: left_bytes(input).unwrap_or(0) / block_bytes as u64,
        block_bytes,
        unread: AtomicU64::new(0),
        free: Mutex::default(),
    };
    thread::scope(|scope| {
        let (sender, ahead) = sync_channel(1);
        let second = thread::Builder::new().name("gush-pv-ahead".into());
        // Without a second thread, this one reads everything.
        let _ = second.spawn_scoped(scope, || blocks.read_ahead(sender));
        blocks.deliver(&ahead)
    })
}

/// Where the first block begins; none where the bytes take another way, or are too few.
fn start(moving: &Moving<'_>, input: &Input) -> Option<u64> {
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
struct Blocks<'a> {
    state: &'a TransferState,
    output: &'a Output,
    input: &'a Input,
    start: u64,
    number: u64,
    block_bytes: usize,
    /// The first block that no thread has begun to read.
    unread: AtomicU64,
    free: Mutex<Vec<Pages>>,
}

/// A block that was read.
#[derive(Debug)]
struct Block {
    number: u64,
    memory: Pages,
    /// The lines that end in it.
    lines: u64,
}

impl Blocks<'_> {
    /// Reads until nothing is left, a read fails, or the delivering thread has ended.
    fn read_ahead(&self, sender: SyncSender<Block>) {
        while let Some(block) = self.claim().and_then(|number| self.read(number)) {
            if sender.send(block).is_err() {
                return;
            }
        }
    }

    /// Delivers all blocks in order, and returns how many.
    fn deliver(&self, ahead: &Receiver<Block>) -> Result<u64, MoveError> {
        let Ok(mut target) = Port::of(self.output) else { return Ok(0) };
        let mut ready: Vec<Block> = Vec::new();
        for next in 0..self.number {
            let block = loop {
                ready.extend(ahead.try_iter());
                while let Some(delayed) = ready.iter().position(|block| block.number < next) {
                    self.recycle(ready.swap_remove(delayed).memory);
                }
                if let Some(at) = ready.iter().position(|block| block.number == next) {
                    break ready.swap_remove(at);
                }
                let other = if ready.is_empty() { self.claim() } else { None };
                let arrived = match other {
                    Some(_) => None,
                    None => ahead.recv_timeout(LONGEST_WAIT).ok(),
                };
                let read = || self.read(other.unwrap_or(next));
                let Some(block) = arrived.or_else(read) else { return Ok(next) };
                ready.push(block);
            };
            // -R may have given the lines a rate, which is not kept here.
            if self.state.rate.get().is_some() {
                return Ok(next);
            }
            self.deliver_block(block, &mut target)?;
        }
        Ok(self.number)
    }

    /// A block that no thread has begun to read.
    fn claim(&self) -> Option<u64> {
        let number = self.unread.fetch_add(1, Ordering::Relaxed);
        (number < self.number).then_some(number)
    }

    fn at(&self, block: u64) -> u64 {
        self.start + block * self.block_bytes as u64
    }

    /// Reads a block and counts its lines; none where a read fails or the file ends before.
    fn read(&self, number: u64) -> Option<Block> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let make = if self.block_bytes == HUGE_PAGE_BYTES { Pages::huge } else { Pages::new };
        let mut memory = free.map_or_else(|| make(self.block_bytes), Ok).ok()?;
        let (mut got, mut lines) = (0, 0);
        while got < self.block_bytes {
            let end = self.block_bytes.min(got + PIECE_BYTES);
            let piece = &mut memory.as_mut_slice()[got..end];
            let more = match pread(self.input, &mut *piece, self.at(number) + got as u64) {
                // The end of a transfer interrupts a read that waits.
                Err(Errno::INTR) if !self.state.cancel.is_cancelled() => continue,
                more => more.ok().filter(|&more| more > 0)?,
            };
            lines += self.state.inspector.count(&piece[..more]);
            got += more;
        }
        Some(Block { number, memory, lines })
    }

    fn recycle(&self, memory: Pages) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    fn deliver_block(&self, block: Block, target: &mut Port<'_>) -> Result<(), MoveError> {
        let Block { number, memory, lines } = block;
        let (done, delivered) = if self.block_bytes == HUGE_PAGE_BYTES {
            let lent = memory.lend();
            let put = |target: &mut Port<'_>, from| self.put_pages(&lent, from, target);
            let delivered = self.put(lent.as_slice(), lines, target, put);
            lent.renew().into_iter().for_each(|memory| self.recycle(memory));
            delivered
        } else {
            let bytes = memory.as_slice();
            let write = |target: &mut Port<'_>, from: usize| target.write(&bytes[from..]);
            let delivered = self.put(bytes, lines, target, write);
            self.recycle(memory);
            delivered
        };
        // For others that layout at the position (pv -d), and for the engine, which goes on there.
        let moved_on = seek(self.input, SeekFrom::Start(self.at(number) + done as u64));
        delivered.and(moved_on.map(drop).map_err(|errno| MoveError::by(Side::Source, errno)))
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

    use super::super::inspect::{Inspect, Inspector};
    use super::*;

    const BLOCKS: usize = 9;

    /// Calls `test` with blocks of a file whose first has one line, the second two, and so on, and
    /// asserts that every byte and line was delivered once.
    fn delivers_all_by(test: impl FnOnce(&Blocks<'_>) -> Result<u64, MoveError>) {
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
        let wanted = Inspect { lines: true, separator: b'\n', ..Inspect::default() };
        let state = TransferState::new(Inspector::new(wanted), true, Rate::default());
        let blocks = Blocks {
            state: &state,
            output: &output,
            input: &input,
            start: 0,
            number: BLOCKS as u64,
            block_bytes: BLOCK_BYTES,
            unread: AtomicU64::new(0),
            free: Mutex::default(),
        };
        assert_eq!(test(&blocks).unwrap(), BLOCKS as u64);
        assert!(fs::read(got.path()).unwrap() == bytes);
        assert_eq!(state.inspector.lines(), (1..=BLOCKS as u64).sum::<u64>());
    }

    #[test]
    fn a_block_that_is_held_up_is_read_by_the_delivering_thread() {
        delivers_all_by(|blocks| {
            // The thread that has begun blocks 0 and 1 gets no processor.
            assert_eq!((blocks.claim(), blocks.claim()), (Some(0), Some(1)));
            let (_sender, ahead) = sync_channel(1);
            blocks.deliver(&ahead)
        });
    }

    #[test]
    fn a_block_that_comes_late_or_twice_is_delivered_once() {
        delivers_all_by(|blocks| {
            let (sender, ahead) = sync_channel(9);
            for number in [3, 0, 0, 3, 1] {
                sender.send(blocks.read(number).unwrap()).unwrap();
            }
            blocks.deliver(&ahead)
        });
    }

    #[test]
    fn two_threads_deliver_every_block_once() {
        delivers_all_by(|blocks| {
            thread::scope(|scope| {
                let (sender, ahead) = sync_channel(1);
                scope.spawn(|| blocks.read_ahead(sender));
                let delivered = blocks.deliver(&ahead);
                let free = blocks.free.lock().unwrap().len();
                assert!(free <= 5, "{free} buffers");
                delivered
            })
        });
    }
}
