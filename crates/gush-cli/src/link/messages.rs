//! Messages to standard error, written by a separate thread, so that no thread with clients waits
//! for a reader.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use gush::Unpoisoned;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::console::MessageSink;

/// Text beyond this is dropped, unless nothing else waits.
const CAPACITY_BYTES: usize = 1 << 20;

/// The largest write: PIPE_BUF (pipe(7)), which is atomic and shows that a slow reader still reads.
const PIECE_BYTES: usize = 4096;

/// How long the end of the program waits for a reader that reads nothing.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A queue of texts, shared by its clones.
#[derive(Debug, Clone, Default)]
pub struct Messages(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The prefix of the queue's own messages.
    prefix: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    texts: VecDeque<Vec<u8>>,
    /// Of `texts`, and of the text that is being written.
    waiting_bytes: usize,
    /// All that was ever written or discarded.
    done_bytes: u64,
    /// Texts dropped since the last one that found room.
    dropped: u64,
}

/// Waits, when dropped, for the texts of a [`Messages`] to be written.
#[derive(Debug)]
pub struct Writing(Messages);

impl Messages {
    /// Messages of the command `name`.
    pub fn of(name: &str) -> Self {
        Self(Arc::new(Shared { prefix: name.replace(' ', ": "), ..Shared::default() }))
    }

    /// Starts the thread that writes to `target`.
    ///
    /// # Errors
    /// `EAGAIN` when no thread can be started.
    pub fn write_to(&self, target: impl AsFd + Send + 'static) -> io::Result<Writing> {
        let messages = self.clone();
        let write = move || messages.write_for_ever(&target);
        thread::Builder::new().name("gush-stderr".into()).spawn(write)?;
        Ok(Writing(self.clone()))
    }

    /// Queues `text` once there is room. Returns false if there is none and the reader reads
    /// nothing for `timeout`.
    pub fn push(&self, text: &[u8], timeout: Duration) -> bool {
        let mut state = self.0.state.lock().unpoisoned();
        while !state.has_room(text.len()) {
            let done_bytes = state.done_bytes;
            let is_stuck =
                |state: &mut State| !state.has_room(text.len()) && state.done_bytes == done_bytes;
            // From the last byte that was read: a slow reader is not a dead one.
            let waited = self.0.changed.wait_timeout_while(state, timeout, is_stuck);
            let (next, waited) = waited.unpoisoned();
            if waited.timed_out() {
                return false;
            }
            state = next;
        }
        state.note_dropped(&self.0.prefix);
        state.push(text.to_vec());
        self.0.changed.notify_all();
        true
    }

    /// Waits for all to be written, as long as a reader reads.
    pub fn wait_while_read(&self) {
        let mut state = self.last_state();
        while state.waiting_bytes > 0 {
            let done_bytes = state.done_bytes;
            let is_stuck =
                |state: &mut State| state.waiting_bytes > 0 && state.done_bytes == done_bytes;
            let waited = self.0.changed.wait_timeout_while(state, EXIT_TIMEOUT, is_stuck);
            let (next, timeout) = waited.unpoisoned();
            if timeout.timed_out() {
                return;
            }
            state = next;
        }
    }

    /// Waits for all to be written, for a second at most.
    pub fn wait_a_second(&self) {
        let state = self.last_state();
        let is_waiting = |state: &mut State| state.waiting_bytes > 0;
        drop(self.0.changed.wait_timeout_while(state, EXIT_TIMEOUT, is_waiting));
    }

    fn last_state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock().unpoisoned();
        state.note_dropped(&self.0.prefix);
        self.0.changed.notify_all();
        state
    }

    fn write_for_ever(&self, target: &impl AsFd) {
        loop {
            let text = self.next();
            // In pieces, so that waiting threads see progress.
            for piece in text.chunks(PIECE_BYTES) {
                // There is nowhere to report an error of standard error.
                let _ = write_whole(target, piece);
                let mut state = self.0.state.lock().unpoisoned();
                state.waiting_bytes -= piece.len();
                state.done_bytes += piece.len() as u64;
                self.0.changed.notify_all();
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut state = self.0.state.lock().unpoisoned();
        loop {
            if let Some(text) = state.texts.pop_front() {
                return text;
            }
            state = self.0.changed.wait(state).unpoisoned();
        }
    }
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        // An empty queue takes a text of any length.
        self.waiting_bytes == 0 || self.waiting_bytes + bytes <= CAPACITY_BYTES
    }

    fn push(&mut self, text: Vec<u8>) {
        self.waiting_bytes += text.len();
        self.texts.push_back(text);
    }

    fn note_dropped(&mut self, prefix: &str) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let note =
                format!("{prefix}: warning: {dropped} lines were dropped: they were not read\n");
            self.push(note.into_bytes());
        }
    }
}

impl MessageSink for Messages {
    /// A line that finds no room is dropped and counted.
    fn say(&self, line: &[u8]) {
        if !self.push(line, Duration::ZERO) {
            self.0.state.lock().unpoisoned().dropped += 1;
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.wait_while_read();
    }
}

/// Writes all `bytes`, even if another process has set O_NONBLOCK.
fn write_whole(target: &impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(target, bytes) {
            // As in the engine: the target would return 0 again.
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(target, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            },
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    #[test]
    fn lines_that_are_read_come_whole_and_in_order() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let messages = Messages::default();
        let _writing = messages.write_to(writer).expect("a thread");
        let read = thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map(|line| line.expect("a line"));
            lines.take(3000).collect::<Vec<_>>()
        });
        let line = |at: usize| format!("{at} {}", "x".repeat(at % 9000));
        for at in 0..3000 {
            assert!(messages.push(format!("{}\n", line(at)).as_bytes(), Duration::MAX));
        }
        for (at, read) in read.join().expect("no panic").into_iter().enumerate() {
            assert!(read == line(at), "line {at}: {read}");
        }
    }

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_in_their_place() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let messages = Messages::of("gush tee");
        let long = "x".repeat(10_000);
        for at in 0..200 {
            messages.say(format!("{at} {long}\n").as_bytes());
        }
        let _writing = messages.write_to(writer).expect("a thread");
        let mut lines = BufReader::new(reader).lines().map(|line| line.expect("a line"));
        let dropped = messages.0.state.lock().unpoisoned().dropped;
        assert!((1..=99).contains(&dropped), "{dropped} of 200");
        let mut read = 0;
        while read < 50 {
            assert_eq!(lines.next(), Some(format!("{read} {long}")));
            read += 1;
        }
        assert!(messages.push(b"last\n", Duration::MAX));
        while read < 200 - dropped {
            assert_eq!(lines.next(), Some(format!("{read} {long}")));
            read += 1;
        }
        let note = format!("gush: tee: warning: {dropped} lines were dropped: they were not read");
        assert_eq!(lines.next(), Some(note));
        assert_eq!(lines.next().as_deref(), Some("last"));
    }

    #[test]
    fn a_text_larger_than_the_room_has_the_room_for_itself() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let messages = Messages::default();
        let large = vec![b'x'; 2 * CAPACITY_BYTES];
        assert!(messages.push(&large, Duration::ZERO));
        assert!(!messages.push(b"x", Duration::ZERO));
        let _writing = messages.write_to(writer).expect("a thread");
        let mut both = vec![0; 2 * large.len()];
        let pushed = thread::spawn(move || messages.push(&large, Duration::MAX));
        { reader }.read_exact(&mut both).expect("both texts");
        assert!(pushed.join().expect("no panic"));
    }
}
