//! Reading the bytes that arrive at the far end of a stream.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::Dice;

/// How a reader knows that nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A read of 0.
    Closed,
    /// The sender is done, and for so many milliseconds nothing came.
    Idle(i64),
}

/// A thread that reads the arriving bytes.
#[derive(Debug)]
pub struct Drainer {
    reader: JoinHandle<Vec<u8>>,
    sender_done: Arc<AtomicBool>,
}

impl Drainer {
    /// Reads `fd` in pieces of random sizes, or `whole` messages.
    pub fn start(fd: OwnedFd, ending: Ending, whole: bool, seed: u64, dawdle: bool) -> Self {
        let sender_done = Arc::new(AtomicBool::new(false));
        let done = sender_done.clone();
        let reader = thread::spawn(move || {
            let mut dice = Dice::new(seed);
            let mut got = Vec::new();
            let mut buf = vec![0; 100_000];
            loop {
                // Asked before the wait: bytes sent just before the end are still waited for.
                let was_done = done.load(Ordering::Acquire);
                if let Ending::Idle(milliseconds) = ending
                    && !is_readable(&fd, milliseconds)
                {
                    if was_done && is_backlog_empty() && !is_readable(&fd, 0) {
                        return got;
                    }
                    continue;
                }
                if dawdle && dice.below(6) == 0 {
                    thread::sleep(Duration::from_micros(200 * dice.below(10) as u64));
                }
                // A datagram that does not fit is cut, so datagrams get the whole buffer.
                let sizes = if whole { &[100_000][..] } else { &[1, 100, 4096, 5000, 65_536] };
                let len = dice.pick(sizes);
                match rustix::io::read(&fd, &mut buf[..len]) {
                    Ok(0) if ending == Ending::Closed => return got,
                    Ok(len) => got.extend_from_slice(&buf[..len]),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => return got,
                }
            }
        });
        Self { reader, sender_done }
    }

    /// All bytes that arrived; to be called when the sending descriptor is closed.
    pub fn finish(self) -> Vec<u8> {
        self.sender_done.store(true, Ordering::Release);
        self.reader.join().expect("the reader")
    }
}

/// Has the kernel delivered all packets of the loopback device? On a busy machine a packet waits
/// for ksoftirqd longer than any silence: softnet_seq_show of net/core/net-procfs.c prints the
/// length of each processor's queue in column 12.
fn is_backlog_empty() -> bool {
    let Ok(queues) = std::fs::read_to_string("/proc/net/softnet_stat") else {
        thread::sleep(Duration::from_millis(50));
        return true;
    };
    queues.lines().all(|queue| {
        let length = queue.split_whitespace().nth(11);
        length.is_none_or(|length| length.bytes().all(|digit| digit == b'0'))
    })
}

pub fn is_readable(fd: &OwnedFd, milliseconds: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
}
